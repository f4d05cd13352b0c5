"""A thread of the test process in place of a child process: it need not import the decoder anew for each video."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from importlib import import_module
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any

from pipelines.errors import BasslError, first_line
from pipelines.processes import Child, Work

_LONGEST_END = 10.0  # seconds after which work that was killed, and sends nothing, is left alone


class Killed(BaseException):
    """Raised in the work when it sends a message after it was killed."""


class ChildThread(Child):
    """Stand-in for a child process that ends, when it is killed, with the next message that it sends."""

    def __init__(self, work: Work | str, task: Any) -> None:
        self.process: Any = self
        self._messages: SimpleQueue[tuple[str, Any, bytes] | None] = SimpleQueue()
        self._killed = Event()
        self._thread = Thread(target=self._run, args=(work, pickle.dumps(task)), daemon=True)
        self._thread.start()

    def receive(self) -> tuple[str, Any, bytes] | None:
        message = self._messages.get()
        if message is not None and message[0] == "error":
            raise message[1]
        return message

    def wait(self) -> int:
        return -9 if self._killed.is_set() else 0

    def kill(self) -> None:
        self._killed.set()
        self._messages.put(None)
        self._thread.join(_LONGEST_END)

    terminate = kill

    def _run(self, work: Work | str, task: bytes) -> None:
        if isinstance(work, str):
            module, _, function = work.partition(":")
            work = getattr(import_module(module), function)
        try:
            work(pickle.loads(task), self._send)
        except Killed:
            pass
        except BasslError as error:
            self._messages.put(("error", error, b""))
        except Exception as error:
            self._messages.put(("bug", f"unexpected {type(error).__name__}: {first_line(error)}", b""))
        self._messages.put(None)

    def _send(self, kind: str, content: Any = None, payload: Iterable[memoryview] = ()) -> None:
        if self._killed.is_set():
            raise Killed
        self._messages.put((kind, pickle.loads(pickle.dumps(content)), b"".join(payload)))
