"""Keyframes read ahead of training."""

from __future__ import annotations

import threading

import pytest

from pipelines.errors import StoreError
from pipelines.training.keyframe_windows import read_ahead


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_values_come_in_the_order_of_items_a_few_are_read_ahead_and_an_error_is_raised_in_its_place(
    threads: int,
) -> None:
    started: list[int] = []

    def read(item: int) -> tuple[int, bool]:
        started.append(item)
        if item == 30:
            raise StoreError("a.h5: is damaged")
        return item, threading.current_thread() is threading.main_thread()

    values = read_ahead(read, range(100), threads=threads, ahead=4)
    assert next(values) == (0, not threads)
    assert len(started) <= 6
    assert [next(values)[0] for _ in range(29)] == list(range(1, 30))
    with pytest.raises(StoreError, match=r"^a\.h5: is damaged$"):
        next(values)
    assert len(started) <= 36


def test_reading_ends_if_no_more_values_are_wanted() -> None:
    before = threading.active_count()
    values = read_ahead(str, range(100), threads=2, ahead=4)
    assert next(values) == "0"
    values.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before
