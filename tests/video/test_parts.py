"""Parts of a video: the frames, shots and keyframes between two times equal the whole video's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from pipelines.errors import VideoError
from pipelines.video.decoding import VideoDecoder
from pipelines.video.reader import VideoReader
from pipelines.video.shots import KeyframedShot, ReaderSettings
from tests import videos
from tests.videos import CUTS, FRAMES, GROUPS

SMALL = {"width": 64, "height": 48}
# Videos whose containers and codecs differ in their times and in the frames at which a decoder can begin.
KINDS = {
    "mp4, B-frames": ("video.mp4", {"options": GROUPS}),
    "mkv, B-frames": ("video.mkv", {"options": GROUPS}),
    "transport stream": ("video.ts", {"options": GROUPS}),
    "open groups of pictures": ("video.mkv", {"options": GROUPS | {"x264-params": "scenecut=0:open-gop=1"}}),
    "only the first is a keyframe": ("video.mp4", {"options": GROUPS | {"g": "1000"}}),
    "every frame is a keyframe": ("video.mov", {"codec": "mjpeg", "pixel_format": "yuvj420p"}),
    "MPEG-4": ("video.avi", {"codec": "mpeg4"}),
    "no times": ("video.h264", {"options": GROUPS, "container_format": "h264"}),
    "variable rate": ("video.mkv", {"options": GROUPS, "times": [i * 0.04 + (i > 50) * 0.7 for i in range(FRAMES)]}),
}


@pytest.fixture(scope="module", params=KINDS)
def video(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    name, options = KINDS[request.param]
    return videos.write_video(
        tmp_path_factory.mktemp("parts") / name, videos.images(FRAMES, CUTS, **SMALL), rate=25, **options
    )


def frames(path: Path, *part: float | None, threads: int = 1) -> list[tuple[int, float, int]]:
    with VideoDecoder(path, threads, *part) as video:
        return list(video.frames(lambda frame: videos.number_of(frame.to_ndarray(format="rgb24"))))


def test_frames_of_a_part_keep_their_numbers_and_times(video: Path) -> None:
    whole = frames(video)
    assert [number for _, _, number in whole] == list(range(FRAMES))
    for start, end in ((None, 1.3), (0.04, 0.5), (2.01, 3.0), (2.4, None), (4.7, 100.0), (1.999, 2.161)):
        expected = [frame for frame in whole if (start or 0) <= frame[1] < (end or 1000)]
        assert frames(video, start, end) == expected
        assert frames(video, start, end, threads=3) == expected


def test_the_facts_of_a_part_are_those_of_its_end(video: Path) -> None:
    with VideoDecoder(video, 1, 1.0, 2.0) as part:
        (*_, (last, _, _)) = part.frames()
        assert (part.facts.frames, part.warnings) == (last + 1, [])
        assert 1.96 < part.facts.duration < 2.8


@pytest.mark.parametrize(
    ("kind", "most"), [("mp4, B-frames", 60), ("mkv, B-frames", 60), ("every frame is a keyframe", 40)]
)
def test_frames_before_the_part_are_not_decoded(kind: str, most: int, tmp_path: Path) -> None:
    name, options = KINDS[kind]
    path = videos.write_video(tmp_path / name, videos.images(FRAMES, CUTS, **SMALL), rate=25, **options)
    decoded: list[int] = []
    with VideoDecoder(path, 1, 4.0) as video:
        for index, _, _ in video.frames(lambda frame: decoded.append(0)):
            assert index >= 100
    assert 20 <= len(decoded) < most


def test_a_part_after_the_end_is_an_error(video: Path) -> None:
    with pytest.raises(VideoError, match=r"has no frame after 60 s; the one before it ends at [45]\.\d+ s"):
        frames(video, 60.0)


def test_parts_of_joined_recordings_have_the_times_of_the_whole_video(tmp_path: Path) -> None:
    one = videos.write_video(tmp_path / "a.ts", videos.images(60, **SMALL), rate=25, options=GROUPS)
    both = videos.joined([one, one], tmp_path / "both.ts")
    whole = frames(both)
    assert frames(both, 3.0, 4.0) == [frame for frame in whole if 3.0 <= frame[1] < 4.0]


def shots_of(path: Path, **options: object) -> list[KeyframedShot]:
    return list(VideoReader(path, ReaderSettings(threads=1, lines=48, **options)))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def cut_video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    cuts = (30, 70, 100, 140, 171)
    path = tmp_path_factory.mktemp("parts") / "video.mp4"
    return videos.write_video(path, videos.images(200, cuts, **SMALL), rate=25, options=GROUPS)


@pytest.mark.parametrize("detector", ["transitions", "adaptive", "content", "list"])
@settings(max_examples=8)
@given(data=st.data())
def test_shots_within_a_part_equal_those_of_the_video(cut_video: Path, detector: str, data: st.DataObject) -> None:
    """The first and the last shot are cut by the part; shots shorter than the minimum at its bounds may merge."""
    options: dict[str, object] = {"detector": detector}
    if detector == "list":
        options = {"shots": cut_video.with_suffix(".txt")}
        cut_video.with_suffix(".txt").write_text("30\n70\n100\n140\n171\n")
    whole = shots_of(cut_video, **options)
    start = data.draw(st.integers(0, 120))
    end = data.draw(st.integers(start + 20, 200))
    part = shots_of(cut_video, start=start / 25, end=end / 25, **options)
    assert (part[0].start_frame, part[-1].end_frame) == (start, end)
    least = 15
    expected = {
        (shot.start_frame, shot.end_frame): shot
        for shot in whole
        if start + least < shot.start_frame and shot.end_frame < end - least
    }
    shots = {(shot.start_frame, shot.end_frame): shot for shot in part}
    assert expected.keys() <= shots.keys()
    for place, shot in expected.items():
        same = shots[place]
        assert (same.start, same.end, same.keyframe_indices) == (shot.start, shot.end, shot.keyframe_indices)
        assert all(np.array_equal(a, b) for a, b in zip(same.keyframes, shot.keyframes, strict=True))
        assert [videos.number_of(image) for image in same.keyframes] == list(same.keyframe_indices)
