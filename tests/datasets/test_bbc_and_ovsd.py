"""BBC Planet Earth and OVSD: lists of frames become labeled shots, and damaged lists are refused."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.datasets.sources import is_bbc, is_ovsd, read_bbc, read_ovsd
from pipelines.errors import DatasetError
from tests.datasets.annotation_files import BBC_SHOTS, OVSD_SHOTS, put_bbc, put_ovsd
from tests.running import PUBLISHED
from tests.small_stores import refusal


def test_first_shots_of_bbc_scenes_are_converted_to_last_shots(tmp_path: Path) -> None:
    put_bbc(tmp_path, BBC_SHOTS, "0,1,3,4")
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
    put_bbc(tmp_path, BBC_SHOTS, "0,1,4")
    put_bbc(tmp_path, BBC_SHOTS, "0,2,4", annotator=3)
    [video] = read_bbc(tmp_path, annotator=3)
    assert video.scene_end.tolist() == [0, 1, 0, 0]
    with pytest.raises(DatasetError, match="in only one of shots and annotator_4"):
        read_bbc(tmp_path, annotator=4)


def test_a_scene_ends_with_the_shot_that_ends_nearest(tmp_path: Path) -> None:
    put_ovsd(tmp_path, "0\t110\n111\t270\n271\t399")  # as in the real files, no line end at the end
    [video] = read_ovsd(tmp_path)
    assert video.video_id == "02"
    assert video.shots.tolist() == [[0, 100], [100, 200], [201, 300], [300, 400]]
    assert video.scene_end.tolist() == [1, 0, 1, 0]
    assert video.scenes_frames.tolist() == [[0, 111], [111, 271], [271, 400]]
    assert video.frame_rate is None


def test_each_scene_end_has_its_own_shot_and_scenes_may_have_gaps_or_share_a_frame(tmp_path: Path) -> None:
    put_ovsd(tmp_path, "0 99\n100 120\n121 399\n")
    assert read_ovsd(tmp_path)[0].scene_end.tolist() == [1, 1, 0, 0]
    put_ovsd(tmp_path, "0 99\n99 150\n201 399\n")
    assert read_ovsd(tmp_path)[0].scenes_frames.tolist() == [[0, 99], [99, 151], [201, 400]]


def test_scenes_without_shots_label_the_time_line(tmp_path: Path) -> None:
    put_ovsd(tmp_path, "0 99\r\n100 399\r\n", shots=None)
    [video] = read_ovsd(tmp_path)
    assert (video.shots, video.scene_end, video.number_of_shots) == (None, None, None)
    assert video.scenes_frames.tolist() == [[0, 100], [100, 400]]


def test_folders_of_bbc_and_ovsd_are_recognized_and_ids_are_sorted(tmp_path: Path) -> None:
    for name in ("bbc_02", "bbc_10", "bbc_01"):
        put_bbc(tmp_path / "bbc", BBC_SHOTS, "0,4", name)
    (tmp_path / "bbc" / "annotations" / "shots" / "._bbc_01.txt").write_bytes(b"\0\1\2")
    put_ovsd(tmp_path, "0 399")
    folders = {tmp_path: is_ovsd, tmp_path / "bbc": is_bbc, tmp_path / "bbc" / "annotations": is_bbc}
    for folder in (*folders, tmp_path / "missing", tmp_path / "02_scenes.txt"):
        assert [is_one for is_one in (is_bbc, is_ovsd) if is_one(folder)] == [*filter(None, [folders.get(folder)])]
    assert [video.video_id for video in read_bbc(tmp_path / "bbc" / "annotations")] == ["bbc_01", "bbc_02", "bbc_10"]


BBC_FAULTS = [  # shots, scenes and the message
    (BBC_SHOTS, "", "'' is not the number of a shot"),
    (BBC_SHOTS, "1,4", "lists from 1 to 4, not from 0 to the 4 shots of"),
    (BBC_SHOTS, "0,2,1,4", "in order"),
    (BBC_SHOTS, "0,1,3", r"lists from 0 to 3, not from 0 to the 4 shots of .*shots.bbc_01.txt"),
    ("", "0,4", "shots.bbc_01.txt: lists no shots"),
    ("0 9\n10\n", "0,2", "bbc_01.txt, line 2: '10' is not the first and last frame of a shot"),
    ("0 9\n\n8 19\n", "0,2", "line 3: shot 1, from 8 to 20, starts before the end of shot 0 at 10"),
    ("0 9\n19 10\n", "0,2", "line 2: shot 1, from 19 to 11, is empty or ends before it starts"),
    ("0 99999999999\n", "0,1", "line 1: '99999999999' is not a frame number"),
]
OVSD_FAULTS = [  # scenes, shots and the message
    ("", OVSD_SHOTS, "02_scenes.txt: lists no scenes"),
    ("0 399", "", "02_shots.txt: lists no shots"),
    ("0 99\n90 399\n", OVSD_SHOTS, "02_scenes.txt, line 2: scene 1, from 90 to 400, starts before the end of scene 0"),
    ("0 99\n100 299\n", OVSD_SHOTS, r"02_scenes.txt: ends at frame 300, but .*02_shots.txt at 400; one of them"),
    ("50 399\n", OVSD_SHOTS, r"02_scenes.txt: begins at frame 50, but .*02_shots.txt at 0; one of them is cut"),
    ("0 399\n", "0,399\n", "02_shots.txt, line 1: '0,399' is not the first and last frame of a shot"),
]


@pytest.mark.parametrize(
    ("put", "read", "first", "second", "message"),
    [*((put_bbc, read_bbc, *fault) for fault in BBC_FAULTS), *((put_ovsd, read_ovsd, *fault) for fault in OVSD_FAULTS)],
)
def test_a_damaged_file_gives_one_line_that_names_it(
    tmp_path: Path, put: Any, read: Any, first: str, second: str, message: str
) -> None:
    put(tmp_path, first, second)
    told = refusal(lambda: read(tmp_path), "bbc_01.txt" if read is read_bbc else "02_", error=DatasetError)
    assert re.search(message, told), told


def test_a_shot_list_without_a_scene_list_is_refused_and_vice_versa(tmp_path: Path) -> None:
    put_ovsd(tmp_path, "0 399")
    (tmp_path / "03_shots.txt").write_text(OVSD_SHOTS)
    refusal(lambda: read_ovsd(tmp_path), "03_shots.txt: has no 03_scenes.txt", error=DatasetError)
    for lacks in ("scenes/annotator_0", "shots"):
        folder = tmp_path / lacks
        for name in ("bbc_01", "bbc_02"):
            put_bbc(folder, BBC_SHOTS, "0,4", name)
        (folder / "annotations" / lacks / "bbc_02.txt").unlink()
        words = "has bbc_02.txt in only one of shots and annotator_0"
        refusal(lambda folder=folder: read_bbc(folder), words, error=DatasetError)


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the real annotation files are not here")
@pytest.mark.parametrize(("name", "number", "shots", "scene_ends"), [("bbc", 11, 4855, 557), ("ovsd", 14, 2960, 259)])
def test_the_published_label_files_are_read(name: str, number: int, shots: int, scene_ends: int) -> None:
    folder = PUBLISHED / "annotations" / name
    assert (is_bbc(folder), is_ovsd(folder)) == (name == "bbc", name == "ovsd")
    videos = read_bbc(folder) if name == "bbc" else read_ovsd(folder)
    assert len(videos) == number
    assert sum(video.number_of_shots or 0 for video in videos) == shots
    assert sum(int(video.scene_end.sum()) for video in videos if video.scene_end is not None) == scene_ends
    for video in videos:
        features = np.load(PUBLISHED / "features" / name / f"{video.video_id[-2:]}.npz")
        assert np.array_equal(video.scene_end, features["scene_end"])  # type: ignore[arg-type]
        # The shot lists of episodes 10 and 11 share three frames between neighbors, which the .npz files keep.
        assert np.abs(video.shots - features["shots"]).sum() == {"bbc_10": 2, "bbc_11": 1}.get(video.video_id, 0)
