"""Starting processes with torchrun, within the process of the test."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.elastic.rendezvous import RendezvousConnectionError

from pipelines.errors import BasslError
from pipelines.training import LAUNCHED, LOST_PEER, Machines, distributed
from pipelines.training.distributed import check_gpus, errors_to_launcher, launch, process_group
from tests.running import ENVIRONMENT, free_port
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


def test_an_error_of_a_process_is_recorded_whole_while_torchrun_ends_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
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
            raise BasslError("a batch of 32")
    finally:
        signal.signal(signal.SIGTERM, before)
    assert ended.value.code == 2
    assert ProcessFailure(1, 1, 2, str(file)).message == "a batch of 32"


def test_what_torchrun_logs_of_a_stop_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def stop(arguments: object) -> None:
        agent = logging.getLogger("torch.distributed.elastic.agent.server.api")
        agent.setLevel(logging.WARNING)  # as torch does
        agent.warning("Received 15 death signal, shutting down workers")
        raise SignalException("stopped", signal.SIGTERM)

    monkeypatch.setattr("torch.distributed.run.run", stop)
    above = logging.getLogger("torch.distributed")
    monkeypatch.setattr(above, "handlers", [logging.StreamHandler()])
    assert launch(Machines(gpus=0, processes=2), ["pretrain"]) == 143
    assert capfd.readouterr().err == ""


def test_a_process_whose_peer_ends_while_they_meet_says_so_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **named: object) -> None:
        raise RuntimeError("Gloo connectFullMesh failed with [pair.cc:561] Connection closed by peer [127.0.0.1]:36042")

    monkeypatch.setattr("torch.distributed.init_process_group", refuse)
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setenv(LAUNCHED, str(os.getppid()))
    reason = r"ended or cannot be reached \(Gloo connectFullMesh failed with .*\); continue"
    with pytest.raises(BasslError, match=reason), process_group("cpu"):
        pass


def test_variables_of_another_launcher_do_not_make_a_process_one_of_several(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WORLD_SIZE", "RANK", "LOCAL_RANK", "MASTER_PORT"):
        monkeypatch.setenv(name, "7")
    monkeypatch.setenv("MASTER_ADDR", "localhost")
    with process_group("cpu") as process:
        assert (process.rank, process.world_size) == (0, 1)


@pytest.mark.parametrize("endpoint", ["host:abc", "host:99999999", "host"])
@pytest.mark.parametrize("node_rank", [0, None])
def test_an_invalid_address_gives_a_one_line_error(endpoint: str, node_rank: int | None) -> None:
    machines = Machines(gpus=0, nodes=2, node_rank=node_rank, rdzv_endpoint=endpoint)
    refusal(lambda: launch(machines, ["finetune"]), f"did not meet at {endpoint}", error=BasslError)


def test_machines_that_do_not_meet_give_a_one_line_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def give_up(arguments: object) -> None:
        raise RendezvousConnectionError("The connection to the C10d store has failed.\nSee inner exception")

    monkeypatch.setattr("torch.distributed.run.run", give_up)
    with pytest.raises(BasslError, match=r"^the processes did not meet at 127\.0\.0\.1:9 \(.*has failed\.\)$"):
        launch(Machines(gpus=0, nodes=2, rdzv_endpoint="127.0.0.1:9"), ["finetune"])


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"gpus": 3, "nodes": 2, "rdzv_endpoint": "a:1"}, "3 GPUs cannot be shared equally by 2 machines"),
        ({"gpus": 4, "nodes": 2}, "`rdzv_endpoint=HOST:PORT`"),
        ({"gpus": 4, "nodes": 2, "rdzv_endpoint": ""}, "`rdzv_endpoint=HOST:PORT`"),
        ({"gpus": 4, "nodes": 2, "rdzv_endpoint": "a:1", "node_rank": 2}, "`node_rank=0` to 1"),
        ({"processes": 2}, "add `gpus=0`"),
        ({"gpus": -1}, "not negative"),
    ],
)
def test_impossible_machine_settings_are_refused(settings: dict[str, int | str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Machines(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("available", "gpus", "nodes", "words"),
    [(0, 16, 2, "has 0 GPUs, but the job needs 8; use `gpus=0` for the CPU"), (4, 6, 1, "`gpus=4`, or more machines")],
)
def test_too_many_gpus_are_refused(
    monkeypatch: pytest.MonkeyPatch, available: int, gpus: int, nodes: int, words: str
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: available)
    with pytest.raises(BasslError, match=words):
        check_gpus(Machines(gpus=gpus, nodes=nodes, rdzv_endpoint="a:1"))


ENDING_JOB = """
import atexit, torch, torch.distributed as dist
from bassl_cli import app
from bassl_cli.__main__ import main

def train():
    dist.init_process_group("gloo")
    atexit.register(dist.destroy_process_group)
    network = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
    network(torch.randn(2, 4)).sum().backward()
    for handle in [dist.all_reduce(torch.ones(300_000), async_op=True) for _ in range(30)]:
        handle.wait()
    raise SystemExit(0)

app.main = train
main()
"""


LOST_JOB = """
import os, time, torch.distributed as dist
from bassl_cli import app
from bassl_cli.__main__ import main
from pipelines.training.distributed import errors_to_launcher, process_group

def train():
    dist.destroy_process_group = lambda: time.sleep(1000)  # as NCCL waits for processes that are lost
    with errors_to_launcher(), process_group("cpu") as process:
        if process.rank:
            os._exit(7)
        raise RuntimeError("Connection closed by peer")

app.main = train
main()
"""


def test_a_process_that_lost_another_leaves_without_destroying_its_group(tmp_path: Path) -> None:
    script = tmp_path / "lost.py"
    script.write_text(LOST_JOB, encoding="utf-8")
    places = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "WORLD_SIZE": "2",
        LAUNCHED: str(os.getpid()),
        "TORCHELASTIC_ERROR_FILE": str(tmp_path / "error.json"),
    }
    processes = [
        subprocess.Popen([sys.executable, script], env=ENVIRONMENT | places | {"RANK": rank, "LOCAL_RANK": rank})
        for rank in "01"
    ]
    assert [process.wait(timeout=60) for process in processes] == [LOST_PEER, 7]


@pytest.mark.slow  # starts torch ten times
def test_a_process_of_a_job_ends_cleanly_while_gloo_still_frees_its_tensors(tmp_path: Path) -> None:
    script = tmp_path / "ending.py"
    script.write_text(ENDING_JOB, encoding="utf-8")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(script)]
    for _ in range(5):  # Python's own end aborts about one in three
        ended = subprocess.run(torchrun, env={**ENVIRONMENT, LAUNCHED: "1"}, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
