"""One pass over a video: its shots, which cover it, with exactly the frames at 1/4, 1/2 and 3/4 of each."""

import csv
import subprocess
import sys
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from pipelines.datasets.synthetic import SyntheticVideo
from pipelines.errors import DatasetError, VideoError
from pipelines.scenes import Transition
from pipelines.settings import DETECTOR_NAMES
from pipelines.video import reader as reader_module
from pipelines.video.images import RGBImage, YUVImage
from pipelines.video.reader import FrameBuffer, VideoReader, keyframe_indices
from pipelines.video.shots import Boundary, KeyframedShot, ReaderSettings
from tests import videos
from tests.running import PUBLISHED
from tests.videos import CUTS

BIG_BUCK_BUNNY = PUBLISHED / "video" / "big_buck_bunny_252p.mp4"


def read(path: Path, **options: object) -> list[KeyframedShot]:
    shots = list(VideoReader(path, ReaderSettings(**options)))
    assert_they_cover_the_video(shots)
    return shots


def assert_they_cover_the_video(shots: list[KeyframedShot]) -> None:
    assert [shot.index for shot in shots] == list(range(len(shots)))
    assert (shots[0].start_frame, shots[0].start) == (0, 0.0)
    for earlier, later in pairwise(shots):
        assert (earlier.end_frame, earlier.end) == (later.start_frame, later.start)
    for shot in shots:
        assert shot.start_frame < shot.end_frame
        assert shot.start < shot.end
        assert all(shot.start_frame <= index < shot.end_frame for index in shot.keyframe_indices)


def cuts_of(shots: list[KeyframedShot]) -> list[int]:
    return [shot.start_frame for shot in shots[1:]]


# --- shots and keyframes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["slides.mp4", "slides.mkv"])  # in Matroska, with 25 frames per second on average
def test_every_image_of_a_slideshow_of_one_frame_each_is_a_shot_of_its_length(tmp_path: Path, name: str) -> None:
    slides = list(videos.images(4, (1, 2, 3), numbered=False))
    shots = read(videos.write_slideshow(tmp_path / name, slides, [3, 1, 5, 25]))
    assert [(shot.start, shot.end) for shot in shots] == [(0.0, 3.0), (3.0, 4.0), (4.0, 9.0), (9.0, 34.0)]


def test_a_video_becomes_its_shots_with_their_times(video: Path) -> None:
    reader = VideoReader(video, ReaderSettings())
    shots = list(reader)
    assert_they_cover_the_video(shots)
    assert cuts_of(shots) == list(CUTS)
    assert [shot.end for shot in shots] == pytest.approx([30 / 24, 61 / 24, 90 / 24, 5.0])
    assert reader.facts.frames == shots[-1].end_frame == 120
    assert reader.facts.duration == shots[-1].end
    assert reader.warnings == []


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_any_number_of_keyframes_is_evenly_spaced(video: Path, count: int) -> None:
    for shot in read(video, keyframes=count):
        start, length = shot.start_frame, shot.end_frame - shot.start_frame
        expected = tuple(start + length * k // (count + 1) for k in range(1, count + 1))
        assert shot.keyframe_indices == tuple(map(videos.number_of, shot.keyframes)) == expected


@given(st.integers(0, 10**6), st.integers(1, 10**6), st.integers(1, 9))
def test_keyframes_are_in_the_shot_and_in_order(start: int, length: int, count: int) -> None:
    indices = keyframe_indices(start, start + length, count)
    assert len(indices) == count
    assert indices == sorted(indices)
    assert start <= indices[0]
    assert indices[-1] < start + length


def test_keyframes_are_limited_in_height_and_not_enlarged(tmp_path: Path, video: Path) -> None:
    large = videos.write_video(tmp_path / "large.mp4", videos.images(20, width=640, height=480))
    assert read(large)[0].keyframes[0].shape == (240, 320, 3)
    assert read(large, lines=100)[0].keyframes[0].shape == (100, 133, 3)
    assert read(video)[0].keyframes[0].shape == (96, 160, 3)
    narrow = videos.write_video(tmp_path / "narrow.mkv", videos.images(2, width=2, height=600))
    assert read(narrow)[0].keyframes[0].shape == (240, 1, 3)  # never without a pixel


class Scripted:
    """Detector that reports a script at some frames, and the rest at the end."""

    side = 96

    def __init__(self, lag: int, reports: dict[int, list[Boundary]]) -> None:
        self.lag, self._reports = lag, reports

    def prepare(self, images: RGBImage) -> list[None]:
        return [None] * len(images)

    def push(self, index: int, prepared: None) -> list[Boundary]:
        return self._reports.pop(index, [])

    def finish(self, frames: int) -> list[Boundary]:
        return [boundary for index in sorted(self._reports) for boundary in self._reports[index]]


def read_scripted(video: Path, lag: int, reports: dict[int, list[Boundary]]) -> list[KeyframedShot]:
    """Return the shots that follow from what a detector reports at some frames."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader_module, "make_detector", lambda *arguments, **options: Scripted(lag, reports))
        return read(video)


@pytest.mark.parametrize("lag", [0, 1, 60])
def test_cuts_reported_late_do_not_change_keyframes(video: Path, lag: int) -> None:
    cuts = (20, 21, 23, 60, 118)
    shots = read_scripted(video, lag, {cut + lag: [Boundary.at(cut)] for cut in cuts})
    assert cuts_of(shots) == list(cuts)
    for shot in shots:
        assert list(shot.keyframe_indices) == keyframe_indices(shot.start_frame, shot.end_frame, 3)
        assert tuple(map(videos.number_of, shot.keyframes)) == shot.keyframe_indices


def test_impossible_and_duplicate_cuts_are_ignored(video: Path) -> None:
    reports = {60: [*map(Boundary.at, (0, 50, 50, 40))], 1000: [*map(Boundary.at, (50, 120, 127))]}
    assert cuts_of(read_scripted(video, 60, reports)) == [50]


def test_keyframes_are_outside_transitions_and_boundaries_in_their_middle(video: Path) -> None:
    first, second, last = read_scripted(video, 60, {100: [Boundary("dissolve", 40, 60), Boundary("cut", 90, 90)]})
    assert (first.end_frame, second.end_frame) == (50, 90)
    assert first.keyframe_indices == (10, 20, 30)
    assert second.keyframe_indices == (67, 75, 82)
    assert first.transition == Transition("dissolve", 40, 60, pytest.approx(40 / 24), pytest.approx(60 / 24))
    assert second.transition == Transition("cut", 90, 90, pytest.approx(90 / 24), pytest.approx(90 / 24))
    assert last.transition is None


def test_a_shot_list_replaces_the_detector(video: Path, tmp_path: Path) -> None:
    shot_list = tmp_path / "shots.txt"
    shot_list.write_text("7\n50\n")
    assert cuts_of(read(video, shots=shot_list)) == [7, 50]
    shot_list.write_text("7\n500\n")
    with pytest.raises(DatasetError, match=r"shots\.txt: lists frame 500, but the video has 120"):
        read(video, shots=shot_list)


# --- the same cuts as PySceneDetect ---------------------------------------------------------------------


def cuts_of_scenedetect(path: Path, folder: Path) -> list[int]:
    arguments = ["-i", str(path), "-b", "opencv", "-o", str(folder), "-q", "detect-adaptive"]
    arguments += ["list-scenes", "--skip-cuts", "-f", "scenes.csv"]
    subprocess.run([sys.executable, "-m", "scenedetect", *arguments], check=True, capture_output=True)
    with (folder / "scenes.csv").open() as file:
        return [int(row["Start Frame"]) - 1 for row in csv.DictReader(file)][1:]


def test_cuts_equal_those_of_the_scenedetect_command(
    synthetic_video: tuple[Path, SyntheticVideo], tmp_path: Path
) -> None:
    path, video = synthetic_video
    cuts = cuts_of(read(path, detector="adaptive"))
    assert cuts == cuts_of_scenedetect(path, tmp_path)
    inside = [range(start, end) for start, end in video.dissolves]
    hard = [shot.start_frame for shot in video.shots[1:] if not any(shot.start_frame in mix for mix in inside)]
    assert set(hard) <= set(cuts)


@pytest.mark.slow
@pytest.mark.skipif(not BIG_BUCK_BUNNY.exists(), reason="the video big_buck_bunny_252p.mp4 is not on this machine")
def test_cuts_of_a_real_video_equal_those_of_the_scenedetect_command(tmp_path: Path) -> None:
    assert cuts_of(read(BIG_BUCK_BUNNY, detector="adaptive")) == cuts_of_scenedetect(BIG_BUCK_BUNNY, tmp_path)


# --- videos of all kinds ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("frames", [1, 2, 3, 40])
def test_a_video_without_cuts_is_one_shot_of_any_length(tmp_path: Path, frames: int) -> None:
    (shot,) = read(videos.write_video(tmp_path / "one.mp4", videos.images(frames)))
    assert (shot.start_frame, shot.end_frame, len(shot.keyframes)) == (0, frames, 3)
    assert tuple(map(videos.number_of, shot.keyframes)) == shot.keyframe_indices


@pytest.mark.parametrize(
    ("size", "pixel_format"),
    [((1, 1), "bgr0"), ((2, 2), "yuv420p"), ((17, 13), "yuv420p"), ((101, 51), "bgr0"), ((1200, 4), "yuv420p")],
)
def test_tiny_and_odd_sizes_are_read(tmp_path: Path, size: tuple[int, int], pixel_format: str) -> None:
    width, height = size
    images = videos.images(60, (30,), width, height, seed=1, numbered=False)
    path = videos.write_video(tmp_path / "odd.mkv", images, codec="ffv1", pixel_format=pixel_format)
    shots = read(path)
    assert cuts_of(shots) == [30]
    assert shots[0].keyframes[0].shape == (height, width, 3)
    if size == (2, 2):
        for detector in {*DETECTOR_NAMES} - {"transnetv2"}:
            read(path, detector=detector)


@pytest.mark.parametrize("mirrored", [False, True])
@pytest.mark.parametrize("quarter_turns", [0, 1, 2, 3])
def test_keyframes_are_upright_and_have_the_colors_of_ffmpeg(
    video: Path, tmp_path: Path, quarter_turns: int, mirrored: bool
) -> None:
    stored = [image[:, ::-1] if mirrored else image for image in videos.decoded(video)]
    reader = VideoReader(videos.rotated(video, tmp_path / "turned.mp4", quarter_turns, mirrored), ReaderSettings())
    shots = list(reader)
    for shot in shots:
        for index, keyframe in zip(shot.keyframe_indices, shot.keyframes, strict=True):
            assert keyframe.shape == (reader.facts.height, reader.facts.width, 3)
            difference = keyframe.astype(float) - np.rot90(stored[index], -quarter_turns)
            assert np.abs(difference).mean() < 4  # at edges only


def test_keyframes_have_square_pixels(video: Path, tmp_path: Path) -> None:
    wide = videos.write_video(tmp_path / "wide.mkv", videos.images(30), pixel_aspect=Fraction(2))
    assert read(wide)[0].keyframes[0].shape == (96, 320, 3)
    images = videos.images(2, width=720, height=576)
    widescreen = videos.write_video(tmp_path / "pal.mkv", images, pixel_aspect=Fraction(64, 45))
    assert read(widescreen)[0].keyframes[0].shape == (240, 427, 3)
    turned = videos.write_video(tmp_path / "wide.mp4", videos.images(30), pixel_aspect=Fraction(2))
    assert read(videos.rotated(turned, tmp_path / "turned.mp4", 1))[0].keyframes[0].shape == (160, 48, 3)


def test_a_gif_is_read_as_a_video(tmp_path: Path) -> None:
    path = videos.write_video(tmp_path / "video.gif", videos.images(60, (30,)), 25, "gif", "rgb8")
    assert cuts_of(read(path)) == [30]


def test_keyframes_of_a_video_that_changes_its_size_have_one_size(tmp_path: Path) -> None:
    parts = [
        videos.write_video(tmp_path / "a.h264", videos.images(40, seed=1)),
        videos.write_video(tmp_path / "b.h264", videos.images(40, seed=2, width=320, height=128)),
    ]
    shots = read(videos.joined(parts, tmp_path / "both.h264"))
    assert cuts_of(shots) == [40]
    assert {keyframe.shape for shot in shots for keyframe in shot.keyframes} == {(96, 160, 3)}


# --- memory ---------------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(
    frames=st.integers(1, 4000),
    recent=st.integers(1, 40),
    capacity=st.integers(100, 400),
    shares=st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=8),
)
def test_a_long_shot_stays_within_the_memory_budget_with_keyframes_near_their_places(
    frames: int, recent: int, capacity: int, shares: list[float]
) -> None:
    image = YUVImage(np.zeros((4, 4), np.uint8), *[np.zeros((2, 2), np.uint8)] * 2, np.eye(3, 4, dtype=np.float32))
    buffer = FrameBuffer(recent=recent, budget=capacity * 24)
    most = 0
    for index in range(frames):
        buffer.add(index, image)
        most = max(most, len(buffer._images))
    assert most <= capacity + 1 + recent
    for share in shares:
        index = int(share * frames)
        nearest, _ = buffer.nearest(index, 0, frames)
        assert 0 <= nearest < frames
        assert abs(nearest - index) <= (0 if frames <= capacity else frames / 100)


def test_keyframes_of_a_shot_beyond_the_budget_are_real_frames_and_those_of_the_next_one_are_exact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "_HELD_BYTES", 100 * 48 * 32 * 3 // 2)
    path = videos.write_video(tmp_path / "long.mp4", videos.images(490, (400,), width=48, height=32))
    shots = read(path, detector="adaptive")  # which reports cuts soon
    assert all(tuple(map(videos.number_of, shot.keyframes)) == shot.keyframe_indices for shot in shots)
    assert shots[0].keyframe_indices == pytest.approx(keyframe_indices(0, 400, 3), abs=4)
    assert list(shots[1].keyframe_indices) == keyframe_indices(400, 490, 3)


def test_a_video_with_more_shots_than_a_result_may_have_is_refused_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader_module, "MOST_SHOTS", 3)
    slides = list(videos.images(4, (1, 2, 3), numbered=False))
    video = videos.write_slideshow(tmp_path / "slides.mp4", slides, [3, 1, 5, 25])
    with pytest.raises(
        VideoError, match=r"slides.mp4: has more than 3 shots; read a part of it with `start` and `end`"
    ):
        read(video)
