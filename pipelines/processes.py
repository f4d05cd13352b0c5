"""Child processes that do one task each and report in messages.

A task that may crash (a codec) or that must not share Python's lock with its caller runs in a child, which gets the
task as a line of JSON on its stdin. Messages come back on its stdout: the length of a JSON head, the head, and as many
raw bytes as the head's ``bytes`` says. The child ends when its parent does: it watches its stdin, which stays open
until then.
"""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from threading import Thread
from typing import Any, Protocol

import pipelines.errors
from pipelines.errors import BasslError

_HEAD_LENGTH = struct.Struct("<I")

# For children that decode: threads of NumPy's BLAS spin while they wait for work, and memory that is given back after
# each picture is only asked for again.
_ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": str(64 * 2**20),
    "MALLOC_TRIM_THRESHOLD_": str(64 * 2**20),
}


def cores() -> int:
    """Processor cores that this process may use: what work is shared out over."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Send(Protocol):
    """How a child reports: the kind of message, its fields, and raw bytes that go with it."""

    def __call__(self, message: str, head: dict[str, Any], payload: Iterable[memoryview] = ()) -> None: ...


class Child:
    """A running child process.

    Attributes:
        process: to ask for its pid or exit code.
    """

    def __init__(self, work: Callable[[dict[str, Any], Send], None], task: dict[str, Any]) -> None:
        """Start ``work(task, send)``, a function at the top level of a module, in a process of its own."""
        # The child finds the package where this process found it, installed or not.
        home = str(Path(pipelines.errors.__file__).parent.parent)
        path = os.pathsep.join(filter(None, [home, os.environ.get("PYTHONPATH")]))
        program = f"import pipelines.processes as c; c.serve({work.__module__!r}, {work.__name__!r})"
        self.process = subprocess.Popen(
            # -P: what is called `pipelines` or `json` in the user's current folder is not taken for the real one
            [sys.executable, "-P", "-c", program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | _ENVIRONMENT | {"PYTHONPATH": path},
            process_group=0,  # an interrupt from the keyboard is for the parent alone, which ends its children
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._stdout = self.process.stdout
        with suppress(BrokenPipeError):  # if it died at once, receive() tells
            self.process.stdin.write(json.dumps(task).encode() + b"\n")
            self.process.stdin.flush()

    def receive(self) -> tuple[str, dict[str, Any], bytes] | None:
        """The next message as (kind, fields, raw bytes); None when the child has ended, in whatever way.

        Raises:
            BasslError: what was raised in the child, of the same type.
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
        """``signal 9`` or ``exit code 1``; waits for the end."""
        code = self.process.wait()
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def kill(self) -> None:
        """End it now; does nothing to one that has ended."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with suppress(OSError):  # what was not written yet is of no use to anyone
                    pipe.close()


def serve(module: str, function: str) -> None:
    """The child's side: read the task, do it, and report a :class:`BasslError`; anything else is a traceback."""
    line = sys.stdin.buffer.readline()
    if not line:  # the parent has ended already
        return
    Thread(target=_end_with_parent, daemon=True).start()
    # What a library prints must not get between the messages.
    channel = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    work: Callable[[dict[str, Any], Send], None] = getattr(import_module(module), function)

    def send(message: str, head: dict[str, Any], payload: Iterable[memoryview] = ()) -> None:
        parts = list(payload)
        encoded = json.dumps({"message": message, "bytes": sum(part.nbytes for part in parts)} | head).encode()
        try:
            channel.write(_HEAD_LENGTH.pack(len(encoded)) + encoded)
            for part in parts:
                channel.write(part)
            channel.flush()
        except BrokenPipeError:  # nobody listens any more
            os._exit(1)

    try:
        work(json.loads(line), send)
    except BasslError as error:
        send("error", {"kind": type(error).__name__, "text": str(error)})


def _end_with_parent() -> None:
    while os.read(0, 4096):  # not through sys.stdin, which could then not be closed when this process ends
        pass
    os._exit(1)
