"""Stopping a training run between two steps on SIGTERM or SIGINT (Ctrl-C)."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_last = [signal.SIGTERM.value]  # the signal that stopped a run in this process


def stopped_code() -> int:
    """Exit code of a run that was stopped: 128 + the signal, as in a shell."""
    return 128 + _last[0]


@contextmanager
def stop_signals(pass_on: Callable[[int], None] = lambda number: None) -> Iterator[list[int]]:
    """A list that is empty until SIGTERM or SIGINT arrives; a second signal ends the process as usual. ``pass_on`` is
    called with the first one.

    It stays empty outside the main thread, where Python delivers no signals.
    """
    received: list[int] = []
    before: dict[signal.Signals, Any] = {}

    def receive(number: int, frame: object) -> None:
        received.append(number)
        _last[0] = number
        pass_on(number)
        if "LOCAL_RANK" not in os.environ:  # torchrun forwards what a terminal has sent to all processes already
            signal.signal(number, before[signal.Signals(number)])

    try:
        for number in (signal.SIGTERM, signal.SIGINT):
            before[number] = signal.signal(number, receive)
    except ValueError:  # not in the main thread
        yield received
        return
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
