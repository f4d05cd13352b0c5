"""The clock turns timestamps into times from the first frame: strictly increasing, whatever the timestamps."""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given, strategies as st

from pipelines.video.containers import ForwardJumps
from pipelines.video.decoding import FrameClock

# 25 frames per second, in ticks of a microsecond.
FRAME = 40_000
TICK = Fraction(1, 1_000_000)
SECOND = 1_000_000


def times(timestamps: Iterable[int | None], duration: int = FRAME) -> list[float]:
    """Return times of frames in ticks."""
    frame_clock = FrameClock(TICK, FRAME / SECOND)
    return [round(frame_clock.advance(timestamp, duration) * SECOND) for timestamp in timestamps]


def regular(start: int, frames: int) -> list[int]:
    return [start + i * FRAME for i in range(frames)]


TIMES = {
    "a first frame after 0": (regular(7 * SECOND, 4), regular(0, 4)),
    "a first frame before 0": (regular(-FRAME, 4), regular(0, 4)),
    "a variable rate": ([5, 6, 1000, 10 * SECOND], [0, 1, 995, 10 * SECOND - 5]),
    "no timestamps": ([None] * 4, regular(0, 4)),
    "no timestamp at first": ([None, 50, 90], [0, FRAME, FRAME + 40_000]),
    "no timestamp in the middle": ([7, FRAME + 7, None, 9 * FRAME + 7], [0, FRAME, 2 * FRAME, 9 * FRAME]),
    "repeated timestamps": ([0, 0, 2 * FRAME, 2 * FRAME, 4 * FRAME], regular(0, 5)),
    "one small step back": ([0, FRAME, FRAME // 2, 3 * FRAME], regular(0, 4)),
    "joined recordings": (regular(90 * SECOND, 30) + regular(5, 30), regular(0, 60)),
    "several frames out of order": (
        [*regular(3 * SECOND, 30), 2 * SECOND, SECOND, 0, *regular(3 * SECOND + 33 * FRAME, 30)],
        regular(0, 63),
    ),
    "joined recordings, and a frame out of order": (
        regular(9 * SECOND, 30) + regular(2 * SECOND, 30) + [0] + regular(2 * SECOND + 31 * FRAME, 9),
        regular(0, 70),
    ),
}


@pytest.mark.parametrize("kind", TIMES)
def test_times_follow_timestamps_if_these_are_usable_and_the_rate_otherwise(kind: str) -> None:
    timestamps, expected = TIMES[kind]
    assert times(timestamps) == expected


@pytest.mark.parametrize(
    ("duration", "length"),
    [(FRAME, FRAME), (3, 3), (60 * SECOND, 60 * SECOND), (0, FRAME), (-1, FRAME), (2**40, FRAME)],
)
def test_a_frame_lasts_for_its_duration_or_the_nominal_one_if_that_is_implausible(duration: int, length: int) -> None:
    frame_clock = FrameClock(TICK, FRAME / SECOND)
    assert frame_clock.end == 0.0
    frame_clock.advance(8, FRAME)
    frame_clock.advance(FRAME + 8, duration)
    assert frame_clock.end == pytest.approx((FRAME + length) / SECOND)
    assert frame_clock.advance(None, FRAME) == pytest.approx((FRAME + length) / SECOND)


TIMESTAMPS = st.lists(st.none() | st.integers(-(10**7), 10**7) | st.sampled_from(regular(0, 100)), max_size=60)


@given(TIMESTAMPS, st.sampled_from([FRAME, 0, -5, 1, 2**40]))
def test_times_begin_at_zero_and_increase_strictly(timestamps: Sequence[int | None], duration: int) -> None:
    frame_clock = FrameClock(TICK, FRAME / SECOND)
    previous = -1.0
    for timestamp in timestamps:
        time = frame_clock.advance(timestamp, duration)
        assert time > previous
        assert frame_clock.end > time
        assert previous >= 0 or time == 0
        previous = time


@given(TIMESTAMPS, st.integers(-(10**9), 10**9))
def test_the_first_timestamp_does_not_matter(timestamps: Sequence[int | None], start: int) -> None:
    assert times(timestamps) == times(None if stamp is None else stamp + start for stamp in timestamps)


@given(st.integers(1, 59), st.integers(0, 10 * SECOND))
def test_a_single_early_timestamp_does_not_change_the_time_of_any_frame(wrong: int, early: int) -> None:
    timestamps = regular(20 * SECOND, 60)
    timestamps[wrong] -= FRAME + early
    assert times(timestamps) == regular(0, 60)


# --- forward jumps --------------------------------------------------------------------------------------------------


def shifts(packets: Iterable[tuple[int, float]], longest: float = 10.0) -> tuple[list[float], list[float]]:
    """Return seconds to subtract from packets of a second each, (stream, timestamp), and the lengths of the jumps."""
    lengths: list[float] = []
    jumps = ForwardJumps(longest, lengths)
    return [jumps.shift(stream, stamp, 1.0) for stream, stamp in packets], lengths


JUMPS = {
    "none": ([(0, 0), (0, 1), (0, 2)], [0, 0, 0], []),
    "a gap that is not a jump": ([(0, 0), (0, 11), (0, 12)], [0, 0, 0], []),
    "one jump": ([(0, 0), (0, 101), (0, 102)], [0, 100, 100], [100]),
    "two jumps": ([(0, 0), (0, 101), (0, 302), (0, 303)], [0, 100, 300, 300], [100, 200]),
    "a step back after a jump": ([(0, 0), (0, 101), (0, 3)], [0, 100, 100], [100]),
    "two streams": ([(0, 0), (1, 0.5), (0, 101), (1, 101.5)], [0, 0, 100, 100], [100]),
    "a stream that lags": ([(0, 0), (1, 0), (0, 101), (1, 1), (1, 102)], [0, 0, 100, 0, 100], [100]),
}


@pytest.mark.parametrize("kind", JUMPS)
def test_a_jump_is_subtracted_from_all_streams_from_then_on(kind: str) -> None:
    packets, expected, lengths = JUMPS[kind]
    assert shifts(packets) == (expected, lengths)
    assert shifts(packets, longest=400.0) == ([0] * len(packets), [])  # the longest gap of another format


@given(st.lists(st.tuples(st.integers(0, 1), st.floats(0, 200)), max_size=40))
def test_after_shifting_no_gap_is_longer_than_allowed(steps: list[tuple[int, float]]) -> None:
    stamps = [sum(step for _, step in steps[: i + 1]) for i in range(len(steps))]
    packets = [(stream, stamp) for (stream, _), stamp in zip(steps, stamps, strict=True)]
    shifted = [(stream, at - shift) for (stream, at), shift in zip(packets, shifts(packets)[0], strict=True)]
    for stream in (0, 1):
        for before, after in pairwise(stamp for of, stamp in shifted if of == stream):
            assert after - before <= 11.0 + 1e-6
