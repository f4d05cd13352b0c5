"""A Dask cluster on this machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.running import ENVIRONMENT, soon


class Cluster:
    """A Dask scheduler and workers, one process each, on this machine."""

    def __init__(self, folder: Path, workers: int) -> None:
        pytest.importorskip("distributed")
        self.folder = folder
        self.address = ""
        file = folder / "scheduler.json"
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file))
        self.workers = [
            self._start("worker", "--scheduler-file", str(file), "--nthreads", "1", "--no-nanny", "--name", f"w{i}")
            for i in range(workers)
        ]
        from distributed import Client

        assert soon(lambda: file.exists() and file.stat().st_size > 0)
        with Client(scheduler_file=str(file)) as client:
            client.wait_for_workers(workers)
            self.address = client.scheduler.address

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        log = (self.folder / "dask.log").open("ab")
        return subprocess.Popen(
            [sys.executable, "-m", "dask", *arguments, "--no-dashboard"],
            cwd=self.folder,
            env=ENVIRONMENT,
            stdout=log,
            stderr=log,
        )

    def close(self) -> None:
        for process in (*self.workers, self.scheduler):
            process.kill()
            process.wait()
