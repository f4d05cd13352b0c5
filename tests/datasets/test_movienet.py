import json
from pathlib import Path

import numpy as np
import pytest

from pipelines.datasets import KeyframeFolder
from pipelines.datasets.movienet import is_movienet, read_movienet, read_movienet_splits
from pipelines.errors import DatasetError
from tests.datasets.movienet_files import SHOTS, VIDEO, put, put_keyframes, put_labels, put_list, put_shots, put_split
from tests.small_stores import refusal


def labels_of(root: Path) -> list[int]:
    [video] = read_movienet(root)
    assert video.scene_end.dtype == np.int8
    return [int(label) for label in video.scene_end]


def test_all_files_of_a_movienet_video_are_read(tmp_path: Path) -> None:
    put_shots(tmp_path)
    put_labels(tmp_path, [0, 1, -1, 0])
    put_split(tmp_path, val=[VIDEO], train=["tt0000001"])
    put_list(tmp_path, "val", [0, 1, 1, 0, 0])
    put_list(tmp_path, "trainvaltest", [0, 1, 1, 0, 0])
    put_list(tmp_path, "pretrain", [None] * 5)
    folder = put_keyframes(tmp_path)
    [video] = read_movienet(tmp_path)
    assert video.video_id == VIDEO
    assert video.shots.tolist() == [[first, last + 1] for first, last in SHOTS]
    assert video.scene_end.tolist() == [0, 1, -1, 0, 0]
    assert video.split == "val"
    assert video.frame_rate == 24.0
    assert video.keyframes == KeyframeFolder(folder, shots=5, images=3)
    assert read_movienet_splits(tmp_path) == {VIDEO: "val", "tt0000001": "train"}


@pytest.mark.parametrize(
    ("labels", "first", "expected"),
    [
        ([1, 0, 0, 1], 0, [1, 0, 0, 1, 0]),  # as in 316 of the 318 videos
        ([1, 0, 0, 1, 1], 0, [1, 0, 0, 1, 0]),  # as many labels as shots: the video's end is no scene end
        ([1, 0, 1], 0, [1, 0, 1, 0, 0]),  # two fewer
        ([0, 0, 1], 1, [0, 0, 0, 1, 0]),  # numbered from shot 1
    ],
)
def test_unlabeled_shots_at_the_edges_count_as_inside_a_scene(
    tmp_path: Path, labels: list[int], first: int, expected: list[int]
) -> None:
    put_shots(tmp_path / "shots")
    put_keyframes(tmp_path / "keyframes")  # without a shot list, shots are counted by keyframes
    for root in (tmp_path / "shots", tmp_path / "keyframes"):
        put_labels(root, labels, first=first)
        assert labels_of(root) == expected


def test_videos_with_only_keyframes_are_read_without_labels(tmp_path: Path) -> None:
    put_keyframes(tmp_path, "tt2", 3)
    put_keyframes(tmp_path, "tt1", 2, images=1)
    first, second = read_movienet(tmp_path)
    assert [(video.video_id, video.number_of_shots) for video in (first, second)] == [("tt1", 2), ("tt2", 3)]
    assert first.scene_end is first.shots is first.split is None


def test_annotation_lists_of_the_release_are_enough(tmp_path: Path) -> None:
    put_list(tmp_path, "train", [0, 1, 0], "tt3")
    put_list(tmp_path, "test", [0, -1], "tt1", num_shot=3)
    put_list(tmp_path, "pretrain", [0, 0], "tt2")
    one, two, three = read_movienet(tmp_path)
    assert [video.split for video in (one, two, three)] == ["test", "pretrain", "train"]
    assert one.scene_end.tolist() == [0, -1, 0]
    assert two.number_of_shots == 2


@pytest.mark.parametrize("with_shot_list", [True, False])
@pytest.mark.parametrize("listed", [5, 4])
@pytest.mark.parametrize("num_shot", [5, 4])
def test_num_shot_may_be_the_count_or_the_last_index_with_or_without_the_last_shot(
    tmp_path: Path, num_shot: int, listed: int, with_shot_list: bool
) -> None:
    if with_shot_list:
        put_shots(tmp_path)
    labels = [0, 1, 0, 1, 0]
    put_list(tmp_path, "train", labels[:listed], num_shot=num_shot)
    put_list(tmp_path, "trainvaltest", labels[:listed], num_shot=num_shot)
    put_list(tmp_path, "pretrain", [None] * 5, num_shot=num_shot)
    assert labels_of(tmp_path) == labels


def test_videos_of_an_unlabeled_list_count_only_if_they_have_other_files(tmp_path: Path) -> None:
    path = put_list(tmp_path, "pretrain", [None, None], "tt2")
    path.write_text(path.read_text() + path.read_text().replace("tt2", "tt1"))
    put_keyframes(tmp_path, "tt2", 2)
    [video] = read_movienet(tmp_path)
    assert (video.video_id, video.split, video.scene_end) == ("tt2", "pretrain", None)


def test_a_movienet_folder_is_recognized(tmp_path: Path) -> None:
    assert not is_movienet(tmp_path)
    assert not is_movienet(tmp_path / "missing")
    put_list(tmp_path, "pretrain", [None])
    assert is_movienet(tmp_path)
    with pytest.raises(DatasetError, match="name MovieNet's folder"):
        read_movienet(tmp_path / "missing")
    (tmp_path / "empty" / "240P_frames").mkdir(parents=True)
    with pytest.raises(DatasetError, match="no video's keyframes"):
        read_movienet(tmp_path / "empty")


def fault_of(root: Path) -> str:
    return refusal(lambda: read_movienet(root), error=DatasetError)


def test_a_keyframe_that_is_missing_or_has_an_unexpected_name_is_named(tmp_path: Path) -> None:
    folder = put_keyframes(tmp_path)
    (folder / "Thumbs.db").touch()
    (folder / ".shot_0000_img_0.jpg").touch()
    assert len(read_movienet(tmp_path)) == 1
    (folder / "shot_00003_img_0.jpg").touch()
    assert "shot_00003_img_0.jpg: is not named like a keyframe" in fault_of(tmp_path)
    (folder / "shot_00003_img_0.jpg").rename(folder / "shot_999999999_img_0.jpg")
    assert "lacks shot_0005_img_0.jpg" in fault_of(tmp_path)
    (folder / "shot_999999999_img_0.jpg").unlink()
    (folder / "shot_0003_img_1.jpg").unlink()
    assert fault_of(tmp_path).startswith(f"{folder}: lacks shot_0003_img_1.jpg, keyframe 1 of shot 3")


LABEL_FILE, SHOT_FILE = f"scene318/label318/{VIDEO}.txt", f"scene318/shot_movie318/{VIDEO}.txt"
SPLIT_FILE, LIST_FILE = "scene318/meta/split318.json", "anno/anno.train.ndjson"


def listed(**change: object) -> str:
    """A list of three shots, the last changed."""
    lines = [{"video_id": VIDEO, "shot_id": f"{i:04d}", "num_shot": 3, "boundary_label": i % 2} for i in range(3)]
    return "\n".join(json.dumps(line) for line in (*lines[:2], lines[2] | change))


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        (LABEL_FILE, "", "has 0 labels"),
        (LABEL_FILE, "0000 0\n0001 1\n", "has 2 labels of tt0047396, from shot 0 to 1, but"),
        (LABEL_FILE, "0000 0\n0001 1\n0002 0\n0003 1\n0004 0\n0005 1\n", "from shot 0 to 5, but"),
        (LABEL_FILE, "0000 0\n0001 2\n", "line 2: 2 is not a label"),
        (LABEL_FILE, "-001 0\n", "has a shot -1"),
        (LABEL_FILE, "0000 0\n0001 1\n0001 0\n", "line 3: has a shot 1, which does not exist or was listed already"),
        (SHOT_FILE, "0 48 12 24 36\n40 329 119\n", "line 2: shot 1, from 40 to 330, starts before the end of shot 0"),
        (SPLIT_FILE, '{"train": ["a", "b"], "val": [], "test": ["c", "b"]}', "lists the video 'b' in train and again"),
        (LIST_FILE, listed(shot_id="0001"), "line 3: has a shot 1, which does not exist or was listed already"),
        (LIST_FILE, listed(boundary_label=None), "line 1: has labels of only some shots"),
        (LIST_FILE, listed(boundary_label=0.5), "line 3: 0.5 is not a label"),
        (LIST_FILE, listed().replace('"num_shot": 3', '"num_shot": 7'), f"has 3 of the 7 shots of '{VIDEO}'"),
    ],
)
def test_a_damaged_file_is_refused_and_named(tmp_path: Path, file: str, text: str, message: str) -> None:
    if file != LIST_FILE:
        put_shots(tmp_path)
    path = put(tmp_path / file, text)
    refusal(lambda: read_movienet(tmp_path), path, message, error=DatasetError)


def test_files_that_lack_their_shots_or_keyframes_or_contradict_others_are_refused(tmp_path: Path) -> None:
    put_labels(tmp_path / "labels", [0, 1])
    assert "has neither a shot list nor keyframes" in fault_of(tmp_path / "labels")
    put_keyframes(tmp_path / "none", shots=0)
    assert f"{VIDEO}: has no keyframes" in fault_of(tmp_path / "none")
    put_shots(tmp_path / "fewer")
    put_keyframes(tmp_path / "fewer", shots=4)
    assert "has keyframes of 4 shots" in fault_of(tmp_path / "fewer")
    put_shots(tmp_path / "lists")
    put_list(tmp_path / "lists", "train", [0, 1])
    assert f"lists 2 shots of {VIDEO}, but" in fault_of(tmp_path / "lists")
