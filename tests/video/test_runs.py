"""Several decoders give exactly the frames of one; decoding ahead is bounded, and threads end."""

import threading
import time
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from av.video.frame import VideoFrame

from pipelines.video import runs
from pipelines.video.decoding import VideoDecoder
from pipelines.video.reader import VideoReader
from pipelines.video.runs import ParallelDecoder
from pipelines.video.shots import ReaderSettings
from tests import videos
from tests.running import soon

X264 = {"preset": "veryfast", "crf": "20", "bf": "2", "g": "30"}
X265 = {"preset": "ultrafast", "x265-params": "keyint=30:min-keyint=30:bframes=3:log-level=none:open-gop="}
VP9 = {"g": "30", "deadline": "realtime", "cpu-used": "8", "auto-alt-ref": "1", "lag-in-frames": "12"}

# name of the file: (codec, its options, whether a decoder can restart in the middle)
KINDS: dict[str, tuple[str, dict[str, str], bool]] = {
    "closed.mp4": ("libx264", X264, True),
    "variable.mkv": ("libx264", X264, True),
    "closed.ts": ("libx264", X264, True),
    "closed.avi": ("libx264", X264, True),
    "closed.h264": ("libx264", X264, True),
    "interlaced.ts": ("libx264", X264 | {"flags": "+ildct+ilme", "x264-params": "interlaced=1"}, True),
    "open.mkv": ("libx264", X264 | {"x264-params": "open-gop=1"}, False),
    "refreshed.mp4": ("libx264", X264 | {"intra-refresh": "1"}, False),
    "closed hevc.mp4": ("libx265", X265 | {"x265-params": X265["x265-params"] + "0"}, True),
    "open hevc.mkv": ("libx265", X265 | {"x265-params": X265["x265-params"] + "1"}, False),
    "vp9.webm": ("libvpx-vp9", VP9, True),
    "mpeg2.ts": ("mpeg2video", {"g": "15", "bf": "2"}, False),
    "every frame.avi": ("mjpeg", {}, False),
}
# At the seams (30, 60), beside them, and with seams inside of shots.
CUTS = (30, 59, 89)
RANGES = ("start_frame", "end_frame", "start", "end", "keyframe_indices")


@pytest.fixture
def decoded_runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list with an entry for each run that is decoded."""
    runs: list[int] = []
    decode = ParallelDecoder._decode
    monkeypatch.setattr(ParallelDecoder, "_decode", lambda self, *run: runs.append(1) or decode(self, *run))
    return runs


def read_all(path: Path, threads: int) -> tuple[list[object], object, list[str]]:
    """Return shots with their keyframes, facts and warnings."""
    reader = VideoReader(path, ReaderSettings(threads=threads, lines=64))
    shots = [
        (*(getattr(shot, name) for name in RANGES), *(image.tobytes() for image in shot.keyframes)) for shot in reader
    ]
    return shots, reader.facts, reader.warnings


@pytest.mark.parametrize("name", KINDS)
def test_the_number_of_threads_does_not_change_the_frames(tmp_path: Path, name: str, decoded_runs: list[int]) -> None:
    codec, options, splits = KINDS[name]
    pixels = "yuvj420p" if codec == "mjpeg" else "yuv420p"
    times = [i / 24 if i < 40 else 40 / 24 + (i - 40) / 7 for i in range(130)] if name == "variable.mkv" else None
    images = videos.images(130, CUTS)
    video = videos.write_video(tmp_path / name, images, 24, codec, pixels, times=times, options=options)
    one = read_all(video, 1)
    assert [shot[:2] for shot in one[0]] == [(0, 30), (30, 59), (59, 89), (89, 130)]  # type: ignore[index]
    assert decoded_runs == []
    for threads in (2, 3):
        assert read_all(video, threads) == one
        assert (len(decoded_runs) > 2) == splits
        decoded_runs.clear()


def test_threads_do_not_change_frames_of_joined_recordings_with_another_size(
    tmp_path: Path, decoded_runs: list[int]
) -> None:
    parts = [
        videos.write_video(tmp_path / "a.ts", videos.images(70, seed=1), options=X264),
        videos.write_video(tmp_path / "b.ts", videos.images(70, seed=2, width=320, height=128), options=X264),
    ]
    video = videos.joined(parts, tmp_path / "both.ts")
    assert read_all(video, 3) == read_all(video, 1)
    assert len(decoded_runs) > 2


@pytest.mark.parametrize("name", ["closed.mp4", "closed.ts"])
def test_a_damaged_video_that_threads_may_read_differently_has_a_warning(tmp_path: Path, name: str) -> None:
    codec, options, _ = KINDS[name]
    whole = videos.write_video(tmp_path / name, videos.images(130, CUTS, 320, 192), codec=codec, options=options)
    content = whole.read_bytes()
    for seed in range(4):
        broken = bytearray(content)
        for place in np.random.default_rng(seed).integers(len(content) // 4, len(content) * 3 // 4, 1 + 3 * seed):
            broken[place] ^= 255
        video = tmp_path / f"damaged {name}"
        video.write_bytes(broken)
        one, several = read_all(video, 1), read_all(video, 3)
        assert one == several or several[2]


@pytest.mark.parametrize("longest", ["_LONGEST_RUN", "_LARGEST_RUN"])
def test_a_run_that_is_too_long_to_read_ahead_is_decoded_as_it_is_read(
    tmp_path: Path, longest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    video = videos.write_video(tmp_path / "video.mp4", videos.images(130, CUTS), options=X264)
    one = read_all(video, 1)
    monkeypatch.setattr(runs, longest, 10)
    assert read_all(video, 3) == one


# --- the threads ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return videos.write_video(
        tmp_path_factory.mktemp("runs") / "video.mp4", videos.images(600, width=32, height=32), options=X264
    )


def test_the_first_frame_is_read_before_any_other(video: Path) -> None:
    decoded: list[int] = []

    def note(frame: VideoFrame) -> None:
        if not decoded:
            time.sleep(0.2)  # other threads would be done by then
        decoded.append(frame.pts or 0)

    with VideoDecoder(video, 4) as opened:
        list(opened.frames(note))
    assert decoded[0] == min(decoded)
    assert len(decoded) == len(set(decoded)) == 600


def test_the_number_of_frames_decoded_ahead_is_limited(video: Path) -> None:
    decoded: list[VideoFrame] = []
    with VideoDecoder(video, 2) as opened:
        frames = opened.frames(decoded.append, queue_limit=32)
        list(islice(frames, 5))
        assert soon(lambda: len(decoded) > 60)
        time.sleep(0.5)
        # 32 of each of four runs, and the batches in progress.
        assert len(decoded) <= 4 * 32 + 3 * opened.batch_size
        assert sum(1 for _ in frames) == 595


def threads_of_runs() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if "_decode_runs" in thread.name]


def test_abandoned_reading_ends_its_threads(video: Path) -> None:
    before = threads_of_runs()
    with VideoDecoder(video, 3) as opened:
        list(islice(opened.frames(queue_limit=16), 40))
        assert threads_of_runs() != before
    assert threads_of_runs() == before


def test_an_error_in_a_decoding_thread_is_raised(video: Path) -> None:
    decoded: list[VideoFrame] = []

    def fail(frame: VideoFrame) -> None:
        decoded.append(frame)
        if len(decoded) > 100:
            raise ZeroDivisionError("a bug")

    before = threads_of_runs()
    with VideoDecoder(video, 3) as opened, pytest.raises(ZeroDivisionError, match="a bug"):
        list(opened.frames(fail))
    assert threads_of_runs() == before
