"""Processes that tests start: whether they run, and waiting for what they do."""

from __future__ import annotations

import os
import shlex
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

HOME = Path(__file__).parents[1]
PUBLISHED = HOME.parent / "shared" / "data"
"""Annotations and features of BBC and OVSD, and a video, where they lie beside the checkout."""
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(HOME), "OMP_NUM_THREADS": "1"}
"""In which a process imports this checkout, whatever its working folder, and leaves the other cores to other tests."""


def put_programs(folder: Path) -> dict[str, str]:
    """Make the commands ``bassl`` and ``python`` of this checkout in a folder; returns an environment that has them."""
    folder.mkdir()
    for name, arguments in (("bassl", "-m bassl_cli"), ("python", "")):
        (folder / name).write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {arguments} "$@"\n')
        (folder / name).chmod(0o755)
    return {**ENVIRONMENT, "PATH": os.pathsep.join((str(folder.resolve()), os.environ["PATH"]))}


def leftover(path: Path) -> Path:
    """The name of a temporary file of a path that a killed process could have left."""
    return path.with_name(f".{path.name}.{os.urandom(8).hex()}.partial")


posix = pytest.mark.skipif(sys.platform == "win32", reason="needs links, named pipes or signals, which Windows lacks")
linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc, which only Linux has")


def free_port() -> int:
    """A port of this machine that nothing listens on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
    return port


def alive(pid: int) -> bool:
    """Whether a process runs (one that has ended and waits to be collected does not)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def soon(holds: Callable[[], bool], seconds: float = 30.0) -> bool:
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def has_lines(log: Path, lines: int) -> Callable[[], bool]:
    """Whether a log has at least so many lines by now, the one with its columns included."""
    return lambda: log.exists() and log.read_text().count("\n") >= lines


def children_of(pid: int) -> set[int]:
    """The processes that a process started and that still run."""
    found: set[int] = set()
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found.update(map(int, task.read_text().split()))
    return found
