"""Which packets a copied clip has, decided from the times of the packets alone."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

import pytest

from pipelines.video.copying import ClipRange, FramePacket, clips_at, clips_of_frame, plan_clips

RATE = 10


def packets(order: Sequence[int], keys: Collection[int], sound_delay: float = 0.0) -> list[FramePacket]:
    """Return packets of frames at ten a second, numbered as they are shown, in the order in which they are stored."""
    return [FramePacket(n / RATE, n in keys, n / RATE - sound_delay) for n in order]


def numbers_of(clip: ClipRange, frames: Sequence[FramePacket]) -> list[int]:
    """Return the numbers of a clip's frames in the order in which they are shown."""
    return sorted(round(f.time * RATE) for i, f in enumerate(frames) if clips_of_frame([clip], i, f.time))


IN_ORDER = packets(range(30), (0, 10, 20))
# I0 P3 B1 B2 P6 B4 B5, then a new group: no frame depends on one of another group.
CLOSED = packets([0, 3, 1, 2, 6, 4, 5, 7, 10, 8, 9, 13, 11, 12], (0, 7))
# The frames 5 and 6, shown before the key frame 7 but stored after it, depend on the group before as well.
OPEN = packets([0, 3, 1, 2, 4, 7, 5, 6, 10, 8, 9], (0, 7))


@pytest.mark.parametrize(
    ("frames", "span", "clip", "late"),
    [
        pytest.param(IN_ORDER, (1.0, 2.0), range(10, 20), 0, id="a scene at a key frame has only its frames"),
        pytest.param(IN_ORDER, (1.5, 2.5), range(10, 25), 0, id="else from the key frame before"),
        pytest.param(IN_ORDER, (0.999, 2.0), range(10, 20), 0, id="a millisecond is rounding by the container"),
        pytest.param(IN_ORDER, (0.99, 2.0), range(20), 0, id="ten milliseconds are not"),
        pytest.param(IN_ORDER, (1.5, 9.0), range(10, 30), 0, id="the last scene goes on to the end of the file"),
        pytest.param(IN_ORDER[5:], (0.7, 1.0), range(5, 10), 0, id="without a key frame before: from the beginning"),
        pytest.param(CLOSED, (0.0, 0.5), range(7), 0.2, id="a reference frame shown later, and all before it"),
        pytest.param(CLOSED, (0.0, 0.7), range(7), 0, id="a scene that ends with its group has no frame more"),
        pytest.param(CLOSED, (0.7, 1.2), range(7, 14), 0.2, id="a closed group has all frames after its key frame"),
        pytest.param(OPEN, (0.8, 9.0), range(7, 11), 0, id="frames of an open group before its key frame are left out"),
        pytest.param(OPEN, (0.0, 0.6), range(8), 0.2, id="the key frame that the last frames of a scene depend on"),
    ],
)
def test_a_clip_has_the_frames_of_its_scene_and_those_that_they_depend_on(
    frames: list[FramePacket], span: tuple[float, float], clip: range, late: float
) -> None:
    (planned,) = plan_clips(frames, [span], RATE)
    assert numbers_of(planned, frames) == list(clip)
    assert planned.start == clip.start / RATE
    assert planned.late == pytest.approx(late)


def test_frames_before_the_first_that_can_be_decoded_are_in_the_first_clip() -> None:
    frames = packets(range(-3, 20), (0, 10))
    first, second = plan_clips(frames, [(0.0, 1.0), (1.0, 2.0)], RATE)
    assert numbers_of(first, frames) == list(range(-3, 10))
    assert numbers_of(second, frames) == list(range(10, 20))


def test_a_clip_begins_at_the_last_key_frame_from_which_its_first_frame_is_decoded() -> None:
    ready = {4: 0.6, 8: math.inf}  # seconds, of packets that were tried
    frames = [frame._replace(ready=ready.get(i)) for i, frame in enumerate(packets(range(12), {0, 4, 8}))]
    firsts = [clip.first for clip in plan_clips(frames, [(0.0, 0.5), (0.5, 0.7), (0.7, 0.9), (0.9, 1.2)], RATE)]
    assert firsts == [0, 0, 4, 4]


def test_a_packet_is_in_all_clips_that_overlap_and_in_none_in_a_gap() -> None:
    clips = plan_clips(IN_ORDER, [(0.0, 1.0), (0.5, 1.0), (2.0, 3.0)], RATE)
    assert [clips_of_frame(clips, n, n / RATE) for n in (5, 15, 25)] == [[0, 1], [], [2]]
    assert [list(clips_at(clips, n / RATE)) for n in (5, 15, 25)] == [[0, 1], [], [2]]


def test_sound_is_in_a_clip_from_its_first_frame_up_to_the_end_of_its_scene() -> None:
    clips = plan_clips(IN_ORDER, [(0.5, 1.5), (1.5, 2.5)], RATE)
    assert [list(clips_at(clips, time)) for time in (0.0, 0.99, 1.0, 1.49, 1.5, 2.49, 2.5)] == [
        *([0], [0], [0, 1], [0, 1], [1], [1], [])
    ]


def test_sound_begins_when_the_first_frame_is_decoded_where_all_tracks_begin_at_zero() -> None:
    frames = packets(range(30), (0, 10, 20), sound_delay=0.2)
    clips = plan_clips(frames, [(0.0, 1.0), (1.0, 2.0)], RATE)
    assert [list(clips_at(clips, time)) for time in (0.7, 0.8, 1.0)] == [[0], [0, 1], [1]]
