"""Child processes that run one task each and send length-prefixed messages back over a pipe.

For tasks that may crash (a codec) or that must not share the global interpreter lock with the caller. The task is one
line of JSON on the child's stdin. Each message on its stdout is the length of a JSON header (4 bytes, little-endian),
the header, and as many raw bytes as the header's ``bytes`` says. The parent keeps the child's stdin open; the child
watches it and exits when the parent does.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import struct
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any, Protocol

import pipelines.errors
from pipelines.errors import BasslError, first_line

_HEAD_LENGTH = struct.Struct("<I")

# For children that decode: idle BLAS threads of NumPy spin, and memory freed after each frame is allocated again at
# once.
_ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": str(64 * 2**20),
    "MALLOC_TRIM_THRESHOLD_": str(64 * 2**20),
}


def cores() -> int:
    """Number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def limit_threads_and_memory() -> None:
    """Limit the BLAS threads and the free memory of a process that runs beside decoding processes.

    By default glibc keeps what is freed, up to 32 MB at a time, and a process that makes large arrays grows with time.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when NumPy is imported
    with suppress(OSError, AttributeError):  # another C library
        library = ctypes.CDLL(None)
        library.mallopt(-3, 2**22)  # M_MMAP_THRESHOLD: return arrays of 4 MB or more
        library.mallopt(-1, 2**22)  # M_TRIM_THRESHOLD: keep at most 4 MB free


def collect_garbage_less() -> None:
    """Look for cyclic garbage less often: imports make many objects and no garbage, and take a tenth less time."""
    gc.set_threshold(20_000, 20, 50)


class Send(Protocol):
    """Sends a message from the child: its kind, its JSON fields, and raw bytes."""

    def __call__(self, message: str, head: dict[str, Any], payload: Iterable[memoryview] = ()) -> None: ...


Work = Callable[[dict[str, Any], Send], None]
"""What a child runs: a function at the top level of a module, called with a task and what sends messages."""

# Processes that were started before their task was known, by their work.
_ahead: dict[str, subprocess.Popen[bytes]] = {}


def start_ahead(work: str) -> None:
    """Start the process of the next :class:`Child` for ``work``, so that its imports are done before the task is known.

    Without a task it ends when this process does, or by :func:`end_ahead`.
    """
    _ahead[work] = _start(work)


def end_ahead() -> None:
    """End the processes that were started ahead and not used."""
    while _ahead:
        _end(_ahead.popitem()[1])


def _start(work: str) -> subprocess.Popen[bytes]:
    # The child imports the package from where this process did, installed or not.
    home = str(Path(pipelines.errors.__file__).parent.parent)
    path = os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH")]))
    return subprocess.Popen(
        # -P: modules called `pipelines` or `json` in the current folder are not imported
        [sys.executable, "-P", "-c", f"import pipelines.processes as c; c.serve({work!r}, {[*map(str, sys.path)]!r})"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | _ENVIRONMENT | {"PYTHONPATH": path},
        process_group=0,  # Ctrl-C reaches the parent only, which ends its children
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(OSError):  # unwritten data is not needed any more
                pipe.close()


class Child:
    """A running child process.

    Attributes:
        process: for its pid and exit code.
    """

    def __init__(self, work: Work | str, task: dict[str, Any]) -> None:
        """Run ``work(task, send)`` in a process of its own; ``work`` may be ``module:function``, not imported here."""
        name = work if isinstance(work, str) else f"{work.__module__}:{work.__name__}"
        self.process = _ahead.pop(name) if name in _ahead else _start(name)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._stdout = self.process.stdout
        with suppress(BrokenPipeError):  # if it died at once, receive() returns None
            self.process.stdin.write(json.dumps(task).encode() + b"\n")
            self.process.stdin.flush()

    def receive(self) -> tuple[str, dict[str, Any], bytes] | None:
        """The next message as (kind, fields, raw bytes); None when the child has ended, normally or not.

        Raises:
            BasslError: raised in the child, with its type; UnexpectedError for any other exception there.
        """
        length = self._stdout.read(_HEAD_LENGTH.size)
        if len(length) < _HEAD_LENGTH.size:
            return None
        encoded = self._stdout.read(_HEAD_LENGTH.unpack(length)[0])
        try:
            head = json.loads(encoded)
        except ValueError:  # it died in the middle of a message
            return None
        size = head.pop("bytes")
        payload = self._stdout.read(size)
        if len(payload) < size:
            return None
        message = head.pop("message")
        if message == "error":
            raise getattr(pipelines.errors, head["kind"])(head["text"])
        return message, head, payload

    def how_it_ended(self) -> str:
        """Wait for the end, and describe it: ``signal 9`` or ``exit code 1``."""
        code = self.process.wait()
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def kill(self) -> None:
        """Kill the process, if it still runs, and close its pipes."""
        _end(self.process)


def serve(name: str, path: list[str]) -> None:
    """Entry point of the child: read the task, run it, and send back its exception; a bug as one line, too. ``path`` is
    where the parent finds modules, which a program may have changed."""
    # Output that libraries print must not mix with the messages: stdout becomes stderr.
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    collect_garbage_less()
    sys.path += [place for place in path if place and place not in sys.path]

    def send(message: str, head: dict[str, Any], payload: Iterable[memoryview] = ()) -> None:
        parts = list(payload)
        encoded = json.dumps({"message": message, "bytes": sum(part.nbytes for part in parts)} | head).encode()
        try:
            channel.write(_HEAD_LENGTH.pack(len(encoded)) + encoded)
            for part in parts:
                channel.write(part)
            channel.flush()
        except BrokenPipeError:  # the parent has closed the pipe
            os._exit(1)

    try:
        module, _, function = name.partition(":")
        work: Work = getattr(import_module(module), function)
        line = sys.stdin.buffer.readline()
        if not line:  # the parent has ended, or has nothing to do
            return
        Thread(target=_end_with_parent, daemon=True).start()
        work(json.loads(line), send)
    except BasslError as error:
        send("error", {"kind": type(error).__name__, "text": str(error)})
    except Exception as error:
        at = traceback.extract_tb(error.__traceback__)[-1]
        text = f"unexpected {type(error).__name__} in {Path(at.filename).name}, line {at.lineno}: {first_line(error)}"
        send("error", {"kind": "UnexpectedError", "text": text})
    finally:
        channel.close()


def _end_with_parent() -> None:
    while os.read(0, 4096):  # not sys.stdin, which could then not be closed at exit
        pass
    os._exit(1)
