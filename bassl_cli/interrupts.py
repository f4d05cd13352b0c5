"""Ctrl-C: one line while the program starts, then KeyboardInterrupt, but never in the middle of an import."""

from __future__ import annotations

import os
import signal
from types import FrameType


def exit_on_sigint() -> None:
    """Let SIGINT end the process in one line, unless it is ignored, as in a background job of a shell script."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def raise_on_sigint() -> None:
    """Let SIGINT raise KeyboardInterrupt, which commands handle; during an import, as soon as it has ended. A second
    SIGINT before that ends the process at once.

    Within an import it could be lost (in a callback of ``importlib``), become an ImportError (in a compiled module), or
    change the exit code (``python -m`` ends by the signal if ``exec`` was interrupted, as dataclasses use it).
    """
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, _raise_outside_imports)
        signal.signal(signal.SIGALRM, _raise_outside_imports)


def is_interrupt(error: BaseException | None) -> bool:
    """Whether an exception is KeyboardInterrupt, or was raised while one was handled, as torch may do where a call is
    interrupted."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__context__
    return False


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, b"bassl: interrupted\n")
    os._exit(130)


def _raise_outside_imports(number: int, frame: FrameType | None) -> None:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            if number == signal.SIGINT and signal.getitimer(signal.ITIMER_REAL)[0] > 0:
                _end(number, frame)
            signal.setitimer(signal.ITIMER_REAL, 0.01)  # try again
            return
        frame = frame.f_back
    raise KeyboardInterrupt
