"""Scene lists for tests of exports, and independent readers of timecodes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

from hypothesis import strategies as st

from pipelines.outputs.exports import FORMATS
from pipelines.scenes import SceneData, Shot, VideoFacts, group_shots

VIDEO_23 = Fraction(24000, 1001)
NTSC = Fraction(30000, 1001)
RATES = (VIDEO_23, Fraction(24), Fraction(25), NTSC, Fraction(30), Fraction(50), Fraction(60000, 1001), Fraction(60))


def scene_list(
    lengths: Sequence[int],
    ends: Sequence[int] | None = None,
    rate: Fraction | float = Fraction(25),
    times: Sequence[float] | None = None,
    path: str = "/videos/video.mp4",
) -> SceneData:
    """Shots of so many frames; ``ends``: those that end scenes, None: each; ``times``: of each frame and the end."""
    starts = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
    at = [round(float(frame / rate), 6) if times is None else times[frame] for frame in starts]
    shots = tuple(
        Shot(i, starts[i], starts[i + 1], at[i], at[i + 1], round(0.1 + i % 9 / 10, 3)) for i in range(len(lengths))
    )
    facts = VideoFacts(path, 640, 360, at[-1], starts[-1], float(rate))
    return SceneData(facts, {"bassl": "0.1.0"}, shots, group_shots(shots, range(len(shots)) if ends is None else ends))


def named(scenes: SceneData, *names: str) -> SceneData:
    given = tuple(replace(scene, name=name) for scene, name in zip(scenes.scenes, names, strict=True))
    return replace(scenes, scenes=given)


@st.composite
def steady_videos(draw: st.DrawFn) -> tuple[SceneData, Fraction]:
    """Videos of a constant rate, some of them hours long, but less than 23: then labels begin again."""
    rate = draw(st.sampled_from(RATES))
    lengths = draw(st.lists(st.integers(1, 3000) | st.integers(100_000, 130_000), min_size=1, max_size=12))
    ends = sorted({*draw(st.lists(st.integers(0, len(lengths) - 1))), len(lengths) - 1})
    return scene_list(lengths, ends, rate), rate


@st.composite
def unsteady_videos(draw: st.DrawFn) -> SceneData:
    """Videos in which each frame is shown for another time."""
    lengths = draw(st.lists(st.integers(1, 40), min_size=2, max_size=8))
    steps = draw(st.lists(st.integers(4, 400), min_size=sum(lengths), max_size=sum(lengths)))
    times = [0.0]
    for step in steps:
        times.append(round(times[-1] + step / 1000, 6))
    ends = sorted({*draw(st.lists(st.integers(0, len(lengths) - 1))), len(lengths) - 1})
    return scene_list(lengths, ends, sum(lengths) / times[-1], times)


def content(scenes: SceneData, name: str, shots: bool = False) -> str:
    """The text of an export."""
    return FORMATS[name].content(scenes, shots).text


def warnings_of(scenes: SceneData, name: str) -> tuple[str, ...]:
    """What an export warns of."""
    return FORMATS[name].content(scenes).warnings


def edl_frame(label: str, rate: Fraction) -> int:
    """The frame that a label of an EDL names; refuses labels that cannot be."""
    match = re.fullmatch(r"(\d\d):([0-5]\d):([0-5]\d)([:;])(\d\d)", label)
    assert match is not None, label
    hour, minute, second, frame = (int(match[group]) for group in (1, 2, 3, 5))
    base = round(rate)
    assert frame < base
    total = ((hour * 60 + minute) * 60 + second) * base + frame
    if match[4] == ";":
        skipped = {30: 2, 60: 4}[base]
        assert not (second == 0 and frame < skipped and minute % 10), f"{label} does not exist"
        # Nine minutes of ten skip labels.
        total -= skipped * (9 * (6 * hour + minute // 10) + minute % 10)
    return total
