"""A video read in another process: the same shots, the same errors, and no process is left behind."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pipelines.errors import DatasetError, VideoError
from pipelines.video.reader import VideoReader
from pipelines.video.shots import ReaderSettings, VideoProcess
from tests import videos
from tests.running import alive


@pytest.fixture
def reading(tmp_path: Path) -> VideoProcess:
    """Return a process that reads a video with more shots than may wait: it still runs when the first one was taken."""
    cuts = range(20, 2000, 20)
    path = videos.write_video(tmp_path / "long.mp4", videos.images(2000, cuts, 48, 32))
    cut_list = tmp_path / "cuts.txt"
    cut_list.write_text("\n".join(map(str, cuts)))
    return VideoProcess(path, ReaderSettings(shots=cut_list))


def pid(process: VideoProcess) -> int:
    return process._child.process.pid


@pytest.mark.real_child
def test_shots_from_the_child_process_equal_those_of_the_reader(video: Path) -> None:
    reader = VideoReader(video, ReaderSettings())
    expected = list(reader)
    with VideoProcess(video, ReaderSettings()) as process:
        received = list(process)
    assert len(received) == len(expected)
    for one, two in zip(expected, received, strict=True):
        assert replace(one, keyframes=()) == replace(two, keyframes=())
        np.testing.assert_array_equal(np.stack(one.keyframes), np.stack(two.keyframes))
    assert process.facts == reader.facts
    assert process.warnings == reader.warnings == []


def test_settings_reach_the_child_and_progress_and_warnings_the_parent(tmp_path: Path) -> None:
    whole = videos.write_video(tmp_path / "whole.mkv", videos.images(120))
    video, shot_list = videos.truncated(whole, tmp_path / "cut.mkv", 0.6), tmp_path / "shots.txt"
    shot_list.write_text("40\n")
    progress: list[float] = []
    settings = ReaderSettings(shots=shot_list, keyframes=2, lines=48)
    with VideoProcess(video, settings, lambda done, total: progress.append(done)) as process:
        shots = list(process)
    assert [shot.end_frame for shot in shots] == [40, process.facts.frames]
    assert np.stack(shots[0].keyframes).shape == (2, 48, 80, 3)
    assert progress[-1] == process.facts.duration
    assert any("ends early" in warning for warning in process.warnings)


def test_errors_of_the_reader_are_raised_with_their_type(video: Path, tmp_path: Path) -> None:
    for path, settings, error in (
        (tmp_path / "gone.mp4", ReaderSettings(), VideoError),
        (video, ReaderSettings(shots=tmp_path / "gone.txt"), DatasetError),
    ):
        with pytest.raises(error) as caught, VideoProcess(path, settings) as process:
            list(process)
        assert type(caught.value) is error
        assert "\n" not in str(caught.value)


@pytest.mark.real_child
def test_a_killed_child_process_is_an_error_and_not_a_hang(reading: VideoProcess) -> None:
    with reading as process:
        shots = iter(process)
        next(shots)
        os.kill(pid(process), signal.SIGKILL)
        with pytest.raises(VideoError, match=r"\.mp4: the process that read it died \(signal 9\)"):
            list(shots)


@pytest.mark.real_child
def test_a_video_that_is_not_read_to_its_end_leaves_no_process(video: Path, reading: VideoProcess) -> None:
    interrupted = VideoProcess(video, ReaderSettings())
    with pytest.raises(KeyboardInterrupt), interrupted:
        raise KeyboardInterrupt
    with reading:
        next(iter(reading))
        assert alive(pid(reading))
    assert not alive(pid(interrupted))
    assert not alive(pid(reading))
