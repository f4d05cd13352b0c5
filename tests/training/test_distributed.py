"""Starting processes with torchrun, within the process of the test."""

from __future__ import annotations

import json
import os
import signal
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.elastic.rendezvous import RendezvousConnectionError

from pipelines.errors import BasslError
from pipelines.training import LAUNCHED, LOST_PEER, Machines, distributed
from pipelines.training.distributed import LostPeerError, check_gpus, errors_to_launcher, launch, process_group
from tests.small_stores import refusal


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was before `launch`, which leaves its own in a process that is to end then."""
    monkeypatch.setenv(LAUNCHED, "")
    monkeypatch.delenv(LAUNCHED)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def test_the_error_that_ended_a_job_is_shown_not_the_error_of_a_process_that_lost_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = {}
    ends = (LOST_PEER, "another process ended"), (2, "a batch of 32"), (-signal.SIGTERM, "")
    for rank, (code, message) in enumerate(ends):
        file = tmp_path / f"{rank}.json"
        if message:
            file.write_text(json.dumps({"message": message, "timestamp": 7}))
        failures[rank] = ProcessFailure(rank, 1, code, str(file))

    def fail(arguments: object) -> None:
        raise ChildFailedError("bassl", failures)

    monkeypatch.setattr("torch.distributed.run.run", fail)
    with pytest.raises(BasslError, match=r"^a batch of 32$"):
        launch(Machines(gpus=0, processes=3), ["pretrain"])


def test_variables_of_another_launcher_do_not_make_a_process_one_of_several(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_PORT"):
        monkeypatch.setenv(name, "7")
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    with process_group("cpu") as process:
        assert (process.rank, process.world_size) == (0, 1)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"gpus": 3, "nodes": 2, "rdzv_endpoint": "a:1"}, "3 GPUs cannot be shared equally by 2 machines"),
        ({"gpus": 4, "nodes": 2}, "`rdzv_endpoint=HOST:PORT`"),
        ({"gpus": 4, "nodes": 2, "rdzv_endpoint": "a:1", "node_rank": 2}, "`node_rank=0` to 1"),
        ({"processes": 2}, "add `gpus=0`"),
        ({"gpus": -1}, "not negative"),
    ],
)
def test_impossible_machine_settings_are_refused(settings: dict[str, int | str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Machines(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("here", "gpus", "nodes", "words"),
    [
        (0, 16, 1, "has 0 GPUs, but the job needs 16; use `gpus=0` for the CPU, or run this on 2 machines"),
        (4, 12, 1, r"has 4 GPUs, .* 3 machines, .*: bassl pretrain --nodes 3 --node-rank 0 --rdzv-endpoint F"),
        (0, 16, 2, "needs 8; use `gpus=0` for the CPU$"),  # not the same command again
    ],
)
def test_too_many_gpus_are_refused_with_a_command_for_more_machines(
    monkeypatch: pytest.MonkeyPatch, here: int, gpus: int, nodes: int, words: str
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: here)
    with pytest.raises(BasslError, match=words):
        check_gpus(Machines(gpus=gpus, nodes=nodes, rdzv_endpoint="a:1"), "bassl pretrain")


def test_processes_that_do_not_meet_give_a_one_line_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def meet(endpoint: str) -> None:
        launch(Machines(gpus=0, nodes=2, node_rank=0, rdzv_endpoint=endpoint), ["finetune"])

    def give_up(arguments: object) -> None:
        raise RendezvousConnectionError("The connection to the C10d store has failed.\nSee inner exception")

    refusal(lambda: meet("host:abc"), "did not meet at host:abc", error=BasslError)
    monkeypatch.setattr("torch.distributed.run.run", give_up)
    refusal(lambda: meet("127.0.0.1:9"), "did not meet at 127.0.0.1:9 (", "has failed.)", error=BasslError)


# In a process


@pytest.mark.parametrize(("error", "code"), [(BasslError, 2), (LostPeerError, LOST_PEER)])
def test_an_error_of_a_process_is_recorded_whole_while_torchrun_ends_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BasslError], code: int
) -> None:
    file = tmp_path / "error.json"
    for name, value in ((LAUNCHED, "1"), ("RANK", "1"), ("TORCHELASTIC_ERROR_FILE", str(file))):
        monkeypatch.setenv(name, value)
    write = distributed.write_atomically

    def write_while_torchrun_ends_the_process(*arguments: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        write(*arguments)

    monkeypatch.setattr(distributed, "write_atomically", write_while_torchrun_ends_the_process)
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit) as ended, warnings.catch_warnings(), errors_to_launcher():
            raise error("a batch of 32")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended.value.code == code
    assert ProcessFailure(1, 1, code, str(file)).message == "a batch of 32"


@pytest.mark.parametrize("has_met", [False, True])
def test_a_process_that_lost_its_peer_says_so_in_one_line_and_does_not_wait_for_it_at_its_end(
    monkeypatch: pytest.MonkeyPatch, has_met: bool
) -> None:
    def lose(*_: object, **__: object) -> None:
        raise RuntimeError("Gloo connectFullMesh failed with [pair.cc:561] Connection closed by peer [127.0.0.1]:36042")

    at_end: list[object] = []
    exits = SimpleNamespace(register=at_end.append, unregister=lambda function: at_end.clear())
    monkeypatch.setattr(distributed, "atexit", exits)
    monkeypatch.setattr(dist, "init_process_group", (lambda *_, **__: None) if has_met else lose)
    for name in ("get_rank", "get_world_size"):
        monkeypatch.setattr(dist, name, lambda: 1)
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv(LAUNCHED, str(os.getppid()))
    reason = r"ended or cannot be reached \(Gloo connectFullMesh failed with .*\); continue"
    with pytest.raises(LostPeerError, match=reason), process_group("cpu"):
        lose()
    assert not at_end
