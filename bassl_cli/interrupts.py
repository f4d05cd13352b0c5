"""Ctrl-C and SIGTERM: first they end the process, then they raise exceptions, but never in the middle of an import."""

from __future__ import annotations

import os
import signal
import sys
import time
from _thread import start_new_thread
from contextlib import suppress
from threading import main_thread
from types import FrameType

_is_pending = False  # whether a signal waits for the end of an import


def exit_on_sigint() -> None:
    """Let SIGINT end the process in one line, unless it is ignored, as in a background job of a shell script."""
    if signal.getsignal(signal.SIGINT) in (signal.default_int_handler, raise_outside_imports):
        signal.signal(signal.SIGINT, _end)


def raise_on_sigint() -> None:
    """Let SIGINT raise KeyboardInterrupt, which commands handle."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, raise_outside_imports)


def raise_outside_imports(number: int, frame: FrameType | None) -> None:
    """Handle SIGINT by KeyboardInterrupt and SIGTERM by SystemExit, so that clean-up code runs; during an import, as
    soon as it has ended. A second signal before that ends the process at once.

    In an import an exception could be lost (in a callback of ``importlib``), become an ImportError (in a compiled
    module), or change the exit code (``python -m`` ends by the signal if dataclasses' ``exec`` was interrupted)."""
    global _is_pending
    if _is_pending:
        _end(number, frame)
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            with suppress(RuntimeError):  # there may be too little memory for a thread
                start_new_thread(_raise_soon, (number,))
                _is_pending = True
                return
        frame = frame.f_back
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)


def _raise_soon(number: int) -> None:
    """Send the signal again, to the handler that is there by then. A timer would do so by a signal of its own, which
    ends the process with another exit code if Python has removed the handlers because the command is done."""
    global _is_pending
    time.sleep(0.01)
    _is_pending = False
    if sys.platform == "win32":
        signal.raise_signal(number)
    else:
        signal.pthread_kill(main_thread().ident or 0, number)  # interrupts what the main thread waits for


def is_interrupt(error: BaseException | None) -> bool:
    """Return whether an exception is KeyboardInterrupt, or was raised while one was handled, as torch may do."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__context__
    return False


def _end(number: int, frame: FrameType | None) -> None:
    if number == signal.SIGINT:
        os.write(2, b"bassl: interrupted\n")
    os._exit(128 + number)
