"""Workers that read keyframes ahead of training."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch

from pipelines.training.keyframe_windows import read_ahead
from tests.running import ENVIRONMENT, alive, posix, soon

READER = """
import os
import signal
import torch
from pipelines.training.keyframe_windows import read_ahead


class Workers(torch.utils.data.Dataset):
    def __getitem__(self, item):
        return os.getpid()


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: None)
    for worker in read_ahead(Workers(), lambda: range(20), workers=1, device=torch.device("cpu"), ahead=2):
        print(worker, flush=True)
        input()
"""


def start_reader(folder: Path) -> subprocess.Popen[str]:
    """Start a process that prints the process of a data worker for each of twenty items, after a line on its stdin."""
    script = folder / "reader.py"
    script.write_text(READER)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen([sys.executable, script], env=environment, start_new_session=True, **pipes)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_training_gets_its_data_after_a_signal_to_all_processes_of_the_job(number: int, tmp_path: Path) -> None:
    """As from a terminal, torchrun or a scheduler: training ends its step, for which it needs the data."""
    with start_reader(tmp_path) as training:
        worker = training.stdout.readline()
        os.killpg(training.pid, number)
        read, errors = training.communicate("\n" * 20)
    assert (read, training.returncode) == (worker * 19, 0), errors


def test_data_workers_end_when_the_training_process_is_killed(tmp_path: Path) -> None:
    with start_reader(tmp_path) as training:
        worker = int(training.stdout.readline())
        training.send_signal(signal.SIGKILL)
    try:
        assert soon(lambda: not alive(worker))
    finally:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)


def test_more_workers_than_cores_are_no_warning(
    monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0})
    data: list[int] = [10, 20, 30]
    read = read_ahead(data, lambda: [2, 0, 1], workers=2, device=torch.device("cpu"), ahead=2)  # type: ignore[arg-type]
    assert list(read) == [30, 10, 20]
    assert [str(one.message) for one in recwarn.list] == []


SMALL = """
import resource
import torch
from pipelines.training.keyframe_windows import read_ahead


class Images(torch.utils.data.Dataset):
    def __getitem__(self, item):
        return torch.full((item, 2), 3, dtype=torch.uint8)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, 2**16))  # of a file in shared memory too
    for images in read_ahead(Images(), lambda: [7, 200_000, 9, -1], workers=1, device=torch.device("cpu"), ahead=2):
        print(images.sum().item(), flush=True)
"""


@posix
def test_images_without_room_in_shared_memory_are_sent_another_way_and_an_error_ends_the_workers(
    tmp_path: Path,
) -> None:
    (tmp_path / "reader.py").write_text(SMALL)
    run = subprocess.run(
        [sys.executable, tmp_path / "reader.py"], env=ENVIRONMENT, capture_output=True, text=True, timeout=60
    )
    assert (run.stdout.split(), run.returncode) == (["42", "1200000", "54"], 1), run.stderr
