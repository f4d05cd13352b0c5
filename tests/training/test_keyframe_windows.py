"""Workers that read keyframes ahead of training."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from pipelines.training.keyframe_windows import read_ahead
from tests.running import alive, soon

READER = """
import os
import torch
from pipelines.training.keyframe_windows import read_ahead


class Workers(torch.utils.data.Dataset):
    def __getitem__(self, item):
        return os.getpid()


if __name__ == "__main__":
    for worker in read_ahead(Workers(), lambda: iter(int, 1), workers=1, device=torch.device("cpu"), ahead=2):
        print(worker, flush=True)
        input()
"""


def test_data_workers_end_when_the_training_process_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "reader.py"
    script.write_text(READER)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [sys.executable, script], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as training:
        assert training.stdout is not None
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
