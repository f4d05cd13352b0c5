"""BBC, OVSD, feature files and folders of any format: read as labeled shots, or refused by name."""

import json
import pickle
import re
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.datasets.sources import (
    is_bbc,
    is_ovsd,
    read_bbc,
    read_ovsd,
    read_scenes_of_folder,
    read_scenes_of_video,
    read_shot_feature_folder,
    read_shot_features,
)
from pipelines.errors import DatasetError
from pipelines.stores.index import ASSUMED_FRAME_RATE
from tests.datasets.annotation_files import BBC_SHOTS, OVSD_SHOTS, put_bbc, put_npz, put_ovsd, scenes_json
from tests.datasets.movienet_files import put_labels, put_shots
from tests.running import PUBLISHED
from tests.small_stores import refusal

CSV = "start,end\n0,10\n10,30\n"


SHOTS = "0 9\n10 19\n20 29\n"


def bbc(root: Path) -> Path:
    return put_bbc(root, SHOTS, "0,2,3", annotator=1) / "annotations"


def ovsd(root: Path) -> Path:
    root.mkdir()
    return put_ovsd(root, "0 19\n20 29\n", SHOTS)


def movienet(root: Path) -> Path:
    put_shots(root, "tt0000001", [(0, 9), (10, 19), (20, 29)])
    put_labels(root, [0, 1], "tt0000001")
    return root


def npz(folder: Path, name: str, **changes: Any) -> Path:
    return put_npz(folder, name, shots=np.array([[0, 10], [10, 20], [20, 30]]), **changes)


@pytest.mark.parametrize(
    ("put", "name"),
    [
        (bbc, "bbc_01"),
        (ovsd, "02"),
        (movienet, "tt0000001"),
        (lambda root: npz(root / "deep", "clip", frame_rate=np.array(12.5)), "clip"),
    ],
    ids=["bbc", "ovsd", "movienet", "npz"],
)
def test_a_folder_is_read_in_each_format(tmp_path: Path, put: Any, name: str) -> None:
    put(tmp_path / "root")
    records, problems = read_scenes_of_folder(tmp_path / "root", annotator=1)
    assert (list(records), problems) == ([name], [])
    record = records[name]
    assert record.scene_end.tolist() == [0, 1, 0]
    assert record.shots.tolist() == [[0, 10], [10, 20], [20, 30]]
    if name == "clip":
        assert record.shots_seconds.tolist() == [[0.0, 0.8], [0.8, 1.6], [1.6, 2.4]]


def test_a_file_that_is_damaged_or_has_a_video_again_is_named_and_affects_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CSV)
    (tmp_path / "a-Scenes.csv").write_text(CSV)
    (tmp_path / "b.csv").write_text("nothing of the kind\n")
    (tmp_path / "c.json").write_text("{")
    (tmp_path / "d.json").write_text(json.dumps(scenes_json(path="d.mp4")))
    (tmp_path / "d.chapters.xml").write_text("not looked at beside a scenes.json")
    records, problems = read_scenes_of_folder(tmp_path)
    assert list(records) == ["a", "d"]
    assert [Path(re.split("[:,]", problem)[0]).name for problem in problems] == ["c.json", "a.csv", "b.csv"]
    assert "a-Scenes.csv" in problems[1]


def test_a_damaged_video_of_movienet_affects_no_other_video(tmp_path: Path) -> None:
    root = movienet(tmp_path)
    put_shots(root, "tt0000002", [(0, 9)])
    damaged = put_labels(root, [], "tt0000002")
    damaged.write_text("no label\n")
    records, (problem,) = read_scenes_of_folder(root)
    assert list(records) == ["tt0000001"]
    assert str(damaged) in problem


def test_files_of_no_supported_format_are_refused(tmp_path: Path) -> None:
    for name in ("notes.txt", "notes.docx"):
        (tmp_path / name).write_text("hello")
    refusal(lambda: read_scenes_of_folder(tmp_path), "contains nothing in a supported format", error=DatasetError)
    for path, words in (
        (tmp_path / "notes.txt", "notes.txt: has no chapters"),
        (tmp_path / "notes.docx", "notes.docx: unsupported format"),
        (tmp_path / "missing.json", "no such file"),
    ):
        refusal(lambda path=path: read_scenes_of_video(path), words, error=DatasetError)


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
    features = read_shot_features(put_npz(tmp_path, shots=np.array([[0, 10], [9, 20], [20, 30]])))
    assert video.shots.tolist() == features.shots.tolist() == [[0, 9], [9, 20], [20, 30]]


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
    (BBC_SHOTS, "0,1,3", r"lists from 0 to 3, not from 0 to the 4 shots of .*shots.bbc_01.txt"),
    ("", "0,4", "shots.bbc_01.txt: lists no shots"),
    ("0 9\n10\n", "0,2", "bbc_01.txt, line 2: '10' is not the first and last frame of a shot"),
    ("0 9\n\n8 19\n", "0,2", "line 3: shot 1, from 8 to 20, starts before the end of shot 0 at 10"),
    ("0 9\n19 10\n", "0,2", "line 2: shot 1, from 19 to 11, is empty or ends before it starts"),
]
OVSD_FAULTS = [  # scenes, shots and the message
    ("", OVSD_SHOTS, "02_scenes.txt: lists no scenes"),
    ("0 99\n90 399\n", OVSD_SHOTS, "02_scenes.txt, line 2: scene 1, from 90 to 400, starts before the end of scene 0"),
    ("0 99\n100 299\n", OVSD_SHOTS, r"02_scenes.txt: ends at frame 300, but .*02_shots.txt at 400; one of them"),
    ("50 399\n", OVSD_SHOTS, r"02_scenes.txt: begins at frame 50, but .*02_shots.txt at 0; one of them is cut"),
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


def fault(path: Path) -> str:
    return refusal(lambda: read_shot_features(path), path, error=DatasetError)


def test_a_valid_feature_file_is_read_unchanged(tmp_path: Path) -> None:
    path = put_npz(tmp_path / "bbc", "07")
    video = read_shot_features(path)
    assert video.video_id == "bbc/07"
    assert video.features.dtype == np.float32
    np.testing.assert_array_equal(video.features, np.load(path)["features"])
    np.testing.assert_array_equal(video.shots, [[0, 10], [10, 25], [30, 31]])
    np.testing.assert_array_equal(video.scene_end, [0, 1, 0])
    np.testing.assert_array_equal(video.seconds, np.array([10, 15, 1]) / ASSUMED_FRAME_RATE)


def test_color_and_frame_rate_are_read_if_a_file_has_them(tmp_path: Path) -> None:
    plain = read_shot_features(put_npz(tmp_path, "plain"))
    assert plain.color is None
    assert plain.frame_rate is None
    np.testing.assert_allclose(plain.seconds, np.array([10, 15, 1]) / 25)
    counts = np.array([[1, 3], [2, 2], [0, 8]], np.float16)
    video = read_shot_features(put_npz(tmp_path, color=counts, frame_rate=np.array(50)))
    np.testing.assert_allclose(video.color, [[0.25, 0.75], [0.5, 0.5], [0, 1]])
    np.testing.assert_allclose(video.seconds, np.array([10, 15, 1]) / 50)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"features": None}, "array 'features' is missing"),
        ({"features": np.array([[None] * 4] * 3, dtype=object)}, "cannot be read"),  # never unpickled
        ({"shots": None}, "array 'shots' is missing"),
        ({"features": np.zeros(3, np.float32)}, "floating point (N, D)"),
        ({"features": np.full((3, 4), np.nan, np.float32)}, "features of shot 0 are not all finite"),
        ({"features": np.array([[0.0], [1e300], [0.0]], np.float64)}, "features of shot 1 are not all finite"),
        ({"shots": np.zeros((3, 2))}, "shots must be int64 (3, 2), not float64"),
        ({"shots": np.array([[0, 10], [12, 11], [30, 31]])}, "shot 1, from 12 to 11, is empty or ends before"),
        ({"shots": np.array([[9, 10], [9, 25], [30, 31]])}, "shot 0, from 9 to 9, is empty"),
        ({"scene_end": np.zeros(4, np.uint8)}, "scene_end must be uint8 (3,), not uint8 (4,)"),
        ({"scene_end": np.array([0, 2, 0], np.uint8)}, "scene_end of shot 1 is 2"),
        ({"color": np.ones((2, 5))}, "color must be floating point of the shape (3, H)"),
        ({"color": np.eye(3, 5) - 0.1}, "color must be histograms"),
        ({"frame_rate": np.array(0.0)}, "frame_rate must be one number"),
    ],
)
def test_arrays_that_contradict_the_layout_are_refused(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    assert words in fault(put_npz(tmp_path, **changes))


def test_a_file_that_is_not_an_npz_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.npz"
    bare = BytesIO()
    np.save(bare, np.zeros((3, 4)))
    for content in (b"features\n", b"", pickle.dumps({"shots": [[0, 10]]}), bare.getvalue()):
        path.write_bytes(content)
        assert "not an .npz file" in fault(path)
    assert "no such file" in fault(tmp_path / "none.npz")
    assert "is not a file" in fault(tmp_path)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = put_npz(tmp_path, features=np.random.default_rng(0).normal(size=(3, 400)).astype(np.float32))
    content = path.read_bytes()
    for share in (0.1, 0.5, 0.9, 0.99):
        path.write_bytes(content[: int(len(content) * share)])
        fault(path)
    path.write_bytes(content[:1000] + bytes(100) + content[1100:])
    assert "cannot be read" in fault(path)


def test_a_folder_is_read_recursively_in_order(tmp_path: Path) -> None:
    for name in ("ovsd/02", "bbc/10", "bbc/09"):
        put_npz(tmp_path, name)
    (tmp_path / "titles.json").write_text("{}")
    assert [video.video_id for video in read_shot_feature_folder(tmp_path)] == ["bbc/09", "bbc/10", "ovsd/02"]


def test_a_folder_without_usable_feature_files_is_refused(tmp_path: Path) -> None:
    refusal(lambda: read_shot_feature_folder(tmp_path), "contains no .npz file", error=DatasetError)
    put_npz(tmp_path, "a/bbc/01")
    put_npz(tmp_path, "b/bbc/01")
    refusal(lambda: read_shot_feature_folder(tmp_path), "same video id", error=DatasetError)


def test_an_array_that_claims_a_huge_size_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = put_npz(tmp_path)
    with zipfile.ZipFile(path, "w") as archive, archive.open("features.npy", "w") as member:
        header = {"descr": "<f4", "fortran_order": False, "shape": (10**12, 1000)}
        np.lib.format.write_array_header_1_0(member, header)  # type: ignore[no-untyped-call]
    assert "cannot be read" in fault(path)
    content = bytearray(put_npz(tmp_path).read_bytes())
    at = content.rfind(b"features.npy") - 46  # its entry in the directory of the archive
    content[at + 24 : at + 28] = (2**31).to_bytes(4, "little")
    path.write_bytes(content)
    assert "larger than 1 GiB" in fault(path)
