"""Speed of a training loop, and the share of time spent waiting for data."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TypeVar

T = TypeVar("T")


class Throughput:
    """Measures from its creation or the last :meth:`reset`."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Start measuring again."""
        self._since, self._waited, self.steps = time.perf_counter(), 0.0, 0

    def next_of(self, batches: Iterator[T]) -> T:
        """The next batch; the time to get it counts as waiting."""
        start = time.perf_counter()
        batch = next(batches)
        self._waited += time.perf_counter() - start
        self.steps += 1
        return batch

    def measure(self, items: float) -> tuple[float, float]:
        """Items per second, with this number of items per step, and the share of time spent waiting."""
        seconds = time.perf_counter() - self._since
        return self.steps * items / seconds, self._waited / seconds
