import re
from pathlib import Path

import numpy as np
import pytest

from pipelines.datasets.bbc import is_bbc, read_bbc, read_bbc_file
from pipelines.errors import DatasetError
from tests.datasets.annotation_files import BBC_SHOTS as SHOTS, put_bbc
from tests.running import PUBLISHED
from tests.small_stores import refusal


def test_first_shots_of_bbc_scenes_are_converted_to_last_shots(tmp_path: Path) -> None:
    put_bbc(tmp_path, SHOTS, "0,1,3,4")
    [video] = read_bbc(tmp_path)
    assert video.video_id == "bbc_01"
    assert video.shots.tolist() == [[0, 10], [10, 20], [25, 40], [40, 50]]
    assert video.scene_end.tolist() == [1, 0, 1, 0]
    assert video.frame_rate == 25.0


def test_a_frame_in_two_shots_belongs_to_the_later_one(tmp_path: Path) -> None:
    put_bbc(tmp_path, "0 9\n9 19\n20 29\n", "0,3")
    [video] = read_bbc(tmp_path)
    assert video.shots.tolist() == [[0, 9], [9, 20], [20, 30]]


def test_the_labels_of_another_annotator_can_be_read(tmp_path: Path) -> None:
    put_bbc(tmp_path, SHOTS, "0,1,4")
    put_bbc(tmp_path, SHOTS, "0,2,4", annotator=3)
    [video] = read_bbc(tmp_path, annotator=3)
    assert video.scene_end.tolist() == [0, 1, 0, 0]
    with pytest.raises(DatasetError, match="annotator_4: has no lists of scenes"):
        read_bbc(tmp_path, annotator=4)


def test_the_annotations_folder_itself_is_accepted_and_ids_are_sorted(tmp_path: Path) -> None:
    for name in ("bbc_02", "bbc_10", "bbc_01"):
        put_bbc(tmp_path, SHOTS, "0,4", name)
    (tmp_path / "annotations" / "shots" / "._bbc_01.txt").write_bytes(b"\0\1\2")
    assert [video.video_id for video in read_bbc(tmp_path / "annotations")] == ["bbc_01", "bbc_02", "bbc_10"]


def test_a_bbc_folder_is_recognized(tmp_path: Path) -> None:
    assert not is_bbc(tmp_path)
    assert not is_bbc(tmp_path / "missing")
    put_bbc(tmp_path, SHOTS, "0,4")
    assert is_bbc(tmp_path)
    assert is_bbc(tmp_path / "annotations")


@pytest.mark.parametrize(
    ("shots", "scenes", "message"),
    [
        (SHOTS, "", "'' is not the number of a shot"),
        (SHOTS, "0,1,,4", "'' is not the number of a shot"),
        (SHOTS, "0,1,x,4", "'x' is not the number of a shot"),
        (SHOTS, "1,4", "begins with shot 1, not with shot 0"),
        (SHOTS, "0,2,1,4", "has shot 1 after shot 2"),
        (SHOTS, "0,1,1,4", "has shot 1 after shot 1"),
        (SHOTS, "0,1,3", r"ends with 3, but .*shots.bbc_01.txt has 4 shots"),
        (SHOTS, "0,1,5", r"ends with 5, but .*shots.bbc_01.txt has 4 shots"),
        ("", "0,4", "shots.bbc_01.txt: lists no shots"),
        ("0 9\n10\n", "0,2", "bbc_01.txt, line 2: '10' is not the first and last frame of a shot"),
        ("0 9\n10 19 20\n", "0,2", "line 2"),
        ("0 9\n\n8 19\n", "0,2", "line 3: shot 1, from 8 to 20, starts before the end of shot 0 at 10"),
        ("0 9\n19 10\n", "0,2", "line 2: shot from frame 19 to frame 10 is impossible"),
        ("-5 9\n", "0,1", "line 1: shot from frame -5"),
        ("0 99999999999\n", "0,1", "line 1: a number that large is not a frame number"),
        ("0 9\n9 9\n9 20\n", "0,3", "line 2: shot 1, from 9 to 9, is empty"),
        ("0 nan\n", "0,1", "line 1: 'nan' is not a frame number"),
    ],
)
def test_a_damaged_file_gives_one_line_that_names_it(tmp_path: Path, shots: str, scenes: str, message: str) -> None:
    put_bbc(tmp_path, shots, scenes)
    told = refusal(lambda: read_bbc(tmp_path), "bbc_01.txt", error=DatasetError)
    assert re.search(message, told), told


def test_a_shot_list_without_a_scene_list_is_refused_and_vice_versa(tmp_path: Path) -> None:
    for name in ("bbc_01", "bbc_02"):
        put_bbc(tmp_path, SHOTS, "0,4", name)
    folder = tmp_path / "annotations"
    (folder / "scenes/annotator_0/bbc_02.txt").unlink()
    words = "shots/bbc_02.txt: has no file of the same name in", "annotator_0"
    refusal(lambda: read_bbc(tmp_path), *words, error=DatasetError)
    (folder / "shots/bbc_02.txt").unlink()
    (folder / "shots/bbc_01.txt").rename(folder / "shots/bbc_03.txt")
    refusal(lambda: read_bbc(tmp_path), "bbc_03", error=DatasetError)
    refusal(lambda: read_bbc(tmp_path / "elsewhere"), "has no shot lists", error=DatasetError)
    missing = Path("/annotator_0/bbc_01.txt")
    refusal(lambda: read_bbc_file(missing), "/shots/bbc_01.txt: no such file", error=DatasetError)


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the real annotation files are not here")
def test_the_published_label_files_are_read() -> None:
    assert is_bbc(PUBLISHED / "annotations" / "bbc")
    videos = read_bbc(PUBLISHED / "annotations" / "bbc")
    assert len(videos) == 11
    assert sum(video.number_of_shots or 0 for video in videos) == 4855
    assert sum(int(video.scene_end.sum()) for video in videos if video.scene_end is not None) == 557
    for video in videos:
        features = np.load(PUBLISHED / "features" / "bbc" / f"{video.video_id[-2:]}.npz")
        assert np.array_equal(video.scene_end, features["scene_end"])  # type: ignore[arg-type]
        # The shot lists of episodes 10 and 11 share three frames between neighbors, which the .npz files keep.
        assert np.abs(video.shots - features["shots"]).sum() == {"bbc_10": 2, "bbc_11": 1}.get(video.video_id, 0)
