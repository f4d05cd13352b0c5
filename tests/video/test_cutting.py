"""Which packets a copied clip has, decided from the times of the packets alone."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pytest

from pipelines.video.clips import ClipRange
from pipelines.video.copying import FramePackets, plan_clips

RATE = 10


def packets(order: Sequence[int], keys: Collection[int]) -> FramePackets:
    """Return packets of frames at ten a second, numbered as they are shown, in the order in which they are stored."""
    numbers = np.array(order)
    times = numbers / RATE
    return FramePackets(times, np.isin(numbers, list(keys)), numbers, 0.0, float(times.max()), 0.5 / RATE)


def numbers_of(clip: ClipRange, frames: FramePackets) -> list[int]:
    """Return the numbers of a clip's frames in the order in which they are shown."""
    return sorted(n for n in frames.pts[clip.first : clip.last + 1].tolist() if n / RATE >= clip.start)


IN_ORDER = packets(range(30), (0, 10, 20))
# I0 P3 B1 B2 P6 B4 B5, then a new group: no frame depends on one of another group.
CLOSED = packets([0, 3, 1, 2, 6, 4, 5, 7, 10, 8, 9, 13, 11, 12], (0, 7))
# The frames 5 and 6, shown before the key frame 7 but stored after it, depend on the group before as well.
OPEN = packets([0, 3, 1, 2, 4, 7, 5, 6, 10, 8, 9], (0, 7))


@pytest.mark.parametrize(
    ("frames", "span", "clip"),
    [
        pytest.param(IN_ORDER, (1.0, 2.0), range(10, 20), id="a scene at a key frame has only its frames"),
        pytest.param(IN_ORDER, (1.5, 2.5), range(10, 25), id="else from the key frame before"),
        pytest.param(IN_ORDER, (0.97, 2.0), range(10, 20), id="less than half a frame is rounding by the container"),
        pytest.param(IN_ORDER, (0.93, 2.0), range(20), id="more is not"),
        pytest.param(IN_ORDER, (1.0, 2.03), range(10, 20), id="also at the end of the scene"),
        pytest.param(IN_ORDER, (1.0, 2.07), range(10, 21), id="where more is a frame"),
        pytest.param(IN_ORDER, (1.5, 9.0), range(10, 30), id="the last scene goes on to the end of the file"),
        pytest.param(packets(range(5, 30), (10, 20)), (0.7, 1.0), range(5, 10), id="without a key frame before: all"),
        pytest.param(CLOSED, (0.0, 0.5), range(7), id="a reference frame shown later, and all before it"),
        pytest.param(CLOSED, (0.0, 0.7), range(7), id="a scene that ends with its group has no frame more"),
        pytest.param(CLOSED, (0.7, 1.2), range(7, 14), id="a closed group has all frames after its key frame"),
        pytest.param(OPEN, (0.8, 9.0), range(7, 11), id="frames of an open group before its key frame are left out"),
        pytest.param(OPEN, (0.0, 0.6), range(8), id="the key frame that the last frames of a scene depend on"),
        pytest.param(
            packets(range(-3, 20), (0, 10)), (0.0, 1.0), range(-3, 10), id="frames before the first decodable"
        ),
    ],
)
def test_a_clip_has_the_frames_of_its_scene_and_those_that_they_depend_on(
    frames: FramePackets, span: tuple[float, float], clip: range
) -> None:
    (planned,) = plan_clips(frames, [span])
    assert numbers_of(planned, frames) == list(clip)
    assert planned.start == clip.start / RATE


def test_a_clip_begins_as_many_key_frames_earlier_as_its_first_frame_needs() -> None:
    assert [plan_clips(IN_ORDER, [(2.5, 3.0)], back)[0].first for back in (0, 1, 2, 3)] == [20, 10, 0, 0]


@pytest.mark.parametrize("frames", [IN_ORDER, CLOSED, OPEN])
@pytest.mark.parametrize("span", [(0.0, 0.5), (0.8, 9.0)])
def test_packets_are_decoded_one_after_the_other_and_never_after_they_are_shown(
    frames: FramePackets, span: tuple[float, float]
) -> None:
    (clip,) = plan_clips(frames, [span])
    shown = frames.pts[clip.first : clip.last + 1]
    kept = shown >= shown[0]
    decoded = np.asarray(clip.dts)[kept]
    assert (decoded <= shown[kept]).all()
    assert (np.diff(decoded) == 1).all()  # without a gap, also where frames were left out
