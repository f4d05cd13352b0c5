"""Starting processes with torchrun, within the process of the test."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed.elastic.multiprocessing.api import SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.elastic.rendezvous import RendezvousConnectionError

from pipelines.errors import BasslError, BasslWarning
from pipelines.training import launching
from pipelines.training.distributed import process_group
from pipelines.training.jobs import LAUNCHED, LOST_PEER, Machines
from pipelines.training.launching import check_gpus, errors_to_launcher, launch
from tests.running import ENVIRONMENT, free_port
from tests.small_stores import refusal


def test_an_error_of_training_processes_is_raised_once_and_leaves_the_caller_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    (temporary := tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))

    def state() -> tuple[dict[str, str], list[object]]:
        return dict(os.environ), [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)]

    before = state()
    command = ["finetune", "--index", str(tmp_path / "gone.h5"), "--init", "none"]
    refusal(lambda: launch(Machines(gpus=0, processes=2), command), "gone.h5", error=BasslError)
    assert state() == before
    assert not list(temporary.iterdir())


def test_the_error_that_ended_a_job_is_shown_not_the_error_of_a_process_that_lost_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = {}
    ends = (LOST_PEER, "LostPeerError: another process ended"), (2, "BasslError: a batch of 32"), (-signal.SIGTERM, "")
    for rank, (code, message) in enumerate(ends):
        file = tmp_path / f"{rank}.json"
        if message:
            file.write_text(json.dumps({"message": {"message": message, "extraInfo": {"timestamp": "7"}}}))
        failures[rank] = ProcessFailure(rank, 1, code, str(file))

    def fail(arguments: object) -> None:
        raise ChildFailedError("bassl", failures)

    monkeypatch.setattr("torch.distributed.run.run", fail)
    with pytest.raises(BasslError, match=r"^a batch of 32$"):
        launch(Machines(gpus=0, processes=3), ["pretrain"])


def test_an_error_of_a_process_is_recorded_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "error.json"
    monkeypatch.setenv("BASSL_LAUNCHED", "1")
    monkeypatch.setenv("LOCAL_RANK", "1")

    def stop(*arguments: object) -> None:
        raise SystemExit(143)

    def end(record: Callable[..., None]) -> int | str | None:
        monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(file))
        monkeypatch.setattr("torch.distributed.elastic.multiprocessing.errors.error_handler.json.dump", record)
        before = signal.signal(signal.SIGTERM, stop)
        try:
            with pytest.raises(SystemExit) as ended, errors_to_launcher():
                raise BasslError("a batch of 32")
        finally:
            signal.signal(signal.SIGTERM, before)
        return ended.value.code

    write = json.dump
    assert end(stop) == 143  # a stop that waited for the end of an import comes while the error is written
    assert not file.exists()

    def write_while_torchrun_ends_the_process(*arguments: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        write(*arguments)

    assert end(write_while_torchrun_ends_the_process) == 2
    assert json.loads(file.read_text())["message"]["message"] == "BasslError: a batch of 32"


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
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    reason = r"ended or cannot be reached \(Gloo connectFullMesh failed with .*\); continue"
    with pytest.raises(BasslError, match=reason), process_group("cpu"):
        pass


@pytest.mark.slow
def test_a_program_started_by_torchrun_may_call_several_stages(tmp_path: Path) -> None:
    (tmp_path / "stages.py").write_text(
        "from pipelines.training.distributed import process_group\n"
        "from pipelines.training.jobs import gather\n"
        "for stage in (1, 2):\n"
        "    with process_group('cpu') as process:\n"
        "        ranks = gather(process, process.rank)\n"
        "        if process.is_first: print(stage, ranks)\n"
    )
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = ENVIRONMENT | {"OMP_NUM_THREADS": "1"}
    ran = subprocess.run(
        [*torchrun, "stages.py"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert (ran.returncode, ran.stdout) == (0, "1 [0, 1]\n2 [0, 1]\n"), ran.stderr


@pytest.mark.parametrize("endpoint", ["host:abc", "host:99999999", "a b:1", ":29500", "[::1]:x", "unknown.invalid"])
@pytest.mark.parametrize("node_rank", [0, None])
def test_an_invalid_address_or_unknown_host_gives_a_one_line_error(
    endpoint: str, node_rank: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launching, "_HOST_SECONDS", 0)
    monkeypatch.setattr("torch.distributed.run.run", lambda arguments: pytest.fail("torchrun waits for the host"))
    machines = Machines(gpus=0, nodes=2, node_rank=node_rank, rdzv_endpoint=endpoint)
    words = "no such host; name the first" if endpoint.startswith("unknown") else ""
    refusal(lambda: launch(machines, ["finetune"]), f"`rdzv_endpoint` {endpoint}: {words}", error=BasslError)


def test_a_host_is_waited_for_until_it_resolves(monkeypatch: pytest.MonkeyPatch) -> None:
    answers, seconds, started = [False, False, True], [], []
    monkeypatch.setattr(launching, "_resolves", lambda host: answers.pop(0))
    monkeypatch.setattr(time, "sleep", seconds.append)
    monkeypatch.setattr("torch.distributed.run.run", lambda arguments: started.append(arguments.rdzv_endpoint))
    machines = Machines(gpus=0, nodes=2, node_rank=1, rdzv_endpoint="first")
    with pytest.warns(BasslWarning, match="^`rdzv_endpoint` first: no such host yet; waiting$"):
        assert launch(machines, ["finetune"]) == 0
    assert (started, seconds) == (["first:29500"], [1, 1])


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
    ("here", "gpus", "nodes", "words"),
    [
        (0, 16, 1, "2 machines with 8 GPUs each: bassl pretrain --gpus 16 --nodes 2"),
        (4, 12, 1, "3 machines with 4 GPUs each: bassl pretrain --gpus 12 --nodes 3"),
        (0, 3, 1, "run on 1 machine with 3 GPUs; or train here on the CPU"),  # not the same command again
        (0, 16, 2, "run on 2 machines with 8 GPUs each; or train here on the CPU"),
        (4, 6, 1, "2 machines with 3 GPUs each: bassl pretrain --gpus 6 --nodes 2"),
    ],
)
def test_too_many_gpus_are_refused_with_a_valid_command(
    monkeypatch: pytest.MonkeyPatch, here: int, gpus: int, nodes: int, words: str
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: here)
    with pytest.raises(BasslError, match=words):
        check_gpus(Machines(gpus=gpus, nodes=nodes, rdzv_endpoint="a:1"), "bassl pretrain")


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
from pipelines.training import launching
from pipelines.training.distributed import process_group
from pipelines.training.launching import errors_to_launcher

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
        ended = subprocess.run(torchrun, env=ENVIRONMENT, capture_output=True, text=True)
        assert ended.returncode == 0, ended.stderr
