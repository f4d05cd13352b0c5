"""Ctrl-C while the program starts: one line, where Python would show the traceback of an import."""

from __future__ import annotations

import os
import signal


def exit_on_sigint() -> None:
    """Let SIGINT end the process in one line, unless it is ignored, as in a background job of a shell script."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _end)


def restore_sigint() -> None:
    """Let SIGINT raise KeyboardInterrupt again, which commands handle."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(number: int, frame: object) -> None:
    os.write(2, b"bassl: interrupted\n")
    os._exit(130)
