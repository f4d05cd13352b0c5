"""Ctrl-C and SIGTERM: first they end the process, then they raise exceptions, but never in the middle of an import."""

from __future__ import annotations

import os
import signal
import sys
import time
from _thread import start_new_thread
from types import FrameType

_pending = 0  # the signal that waits for the end of an import, or 0
_retry_signal = getattr(signal, "SIGALRM", None)  # the signal to try again


def exit_on_sigint() -> None:
    """Let SIGINT end the process in one line, unless it is ignored, as in a background job of a shell script."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
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
    global _pending
    if number == _retry_signal:
        number = _pending
    elif _pending:
        _end(number, frame)
    _pending = 0
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            _pending = number
            if sys.platform == "win32":
                start_new_thread(_raise_soon, (number,))
            else:
                signal.signal(signal.SIGALRM, raise_outside_imports)
                signal.setitimer(signal.ITIMER_REAL, 0.01)
            return
        frame = frame.f_back
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    raise SystemExit(128 + number)


def _raise_soon(number: int) -> None:
    global _pending
    time.sleep(0.01)
    _pending = 0
    signal.raise_signal(number)


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
