import re
from pathlib import Path

import numpy as np
import pytest

from pipelines.datasets.ovsd import is_ovsd, read_ovsd
from pipelines.errors import DatasetError
from tests.datasets.annotation_files import OVSD_SHOTS as SHOTS, put_ovsd
from tests.running import PUBLISHED
from tests.small_stores import refusal


def test_a_scene_ends_with_the_shot_that_ends_nearest(tmp_path: Path) -> None:
    put_ovsd(tmp_path, "0\t110\n111\t270\n271\t399")  # as in the real files, no line end at the end
    [video] = read_ovsd(tmp_path)
    assert video.video_id == "02"
    assert video.shots.tolist() == [[0, 100], [100, 200], [201, 300], [300, 400]]
    assert video.scene_end.tolist() == [1, 0, 1, 0]
    assert video.scenes_frames.tolist() == [[0, 111], [111, 271], [271, 400]]
    assert video.frame_rate is None


def test_each_scene_end_has_its_own_shot(tmp_path: Path) -> None:
    put_ovsd(tmp_path, "0 99\n100 120\n121 399\n")
    [video] = read_ovsd(tmp_path)
    assert video.scene_end.tolist() == [1, 1, 0, 0]


def test_ovsd_scenes_may_have_gaps_and_share_a_frame(tmp_path: Path) -> None:
    put_ovsd(tmp_path, "0 99\n99 150\n201 399\n")
    [video] = read_ovsd(tmp_path)
    assert video.scenes_frames.tolist() == [[0, 99], [99, 151], [201, 400]]


def test_scenes_without_shots_label_the_time_line(tmp_path: Path) -> None:
    put_ovsd(tmp_path, "0 99\r\n100 399\r\n", shots=None)
    [video] = read_ovsd(tmp_path)
    assert video.shots is None
    assert video.scene_end is None
    assert video.number_of_shots is None
    assert video.scenes_frames.tolist() == [[0, 100], [100, 400]]


def test_an_ovsd_folder_is_recognized(tmp_path: Path) -> None:
    assert not is_ovsd(tmp_path)
    assert not is_ovsd(tmp_path / "missing")
    put_ovsd(tmp_path, "0 399")
    assert is_ovsd(tmp_path)
    assert not is_ovsd(tmp_path / "02_scenes.txt")


@pytest.mark.parametrize(
    ("scenes", "shots", "message"),
    [
        ("", SHOTS, "02_scenes.txt: lists no scenes"),
        ("0 399", "", "02_shots.txt: lists no shots"),
        ("0 99\n90 399\n", SHOTS, "02_scenes.txt, line 2: scene 1, from 90 to 400, starts before the end of scene 0"),
        ("0 99\n100 299\n", SHOTS, r"02_scenes.txt: ends at frame 300, but .*02_shots.txt at 400; one of them is cut"),
        ("0 99\n100 999\n", SHOTS, r"02_scenes.txt: ends at frame 1000, but .*02_shots.txt at 400; one of them is cut"),
        ("50 399\n", SHOTS, r"02_scenes.txt: begins at frame 50, but .*02_shots.txt at 0; one of them is cut"),
        ("0 9\n10 19\n20 399\n", "0 9\n10 399", r"has 3 scenes, but .*02_shots.txt only 2 shots"),
        ("0 399\n", "0,399\n", "02_shots.txt, line 1: '0,399' is not the first and last frame of a shot"),
    ],
)
def test_a_damaged_file_gives_one_line_that_names_it(tmp_path: Path, scenes: str, shots: str, message: str) -> None:
    put_ovsd(tmp_path, scenes, shots)
    told = refusal(lambda: read_ovsd(tmp_path), error=DatasetError)
    assert re.search(message, told), told


def test_missing_ovsd_files_are_refused(tmp_path: Path) -> None:
    refusal(lambda: read_ovsd(tmp_path), "has no files", error=DatasetError)
    put_ovsd(tmp_path, "0 399")
    (tmp_path / "03_shots.txt").write_text(SHOTS)
    refusal(lambda: read_ovsd(tmp_path), "03_shots.txt: has no 03_scenes.txt", error=DatasetError)


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the real annotation files are not here")
def test_the_published_label_files_are_read() -> None:
    assert is_ovsd(PUBLISHED / "annotations" / "ovsd")
    videos = read_ovsd(PUBLISHED / "annotations" / "ovsd")
    assert len(videos) == 14
    assert sum(video.number_of_shots or 0 for video in videos) == 2960
    assert sum(int(video.scene_end.sum()) for video in videos if video.scene_end is not None) == 259
    for video in videos:
        features = np.load(PUBLISHED / "features" / "ovsd" / f"{video.video_id}.npz")
        assert np.array_equal(video.scene_end, features["scene_end"])  # type: ignore[arg-type]
        assert np.array_equal(video.shots, features["shots"])  # type: ignore[arg-type]
