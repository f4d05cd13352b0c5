import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.datasets.sources import read_scenes_of_folder, read_scenes_of_video
from pipelines.errors import DatasetError
from tests.datasets.annotation_files import put_bbc, put_npz, put_ovsd
from tests.datasets.movienet_files import put_labels, put_shots
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


def test_a_damaged_file_affects_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CSV)
    (tmp_path / "b.csv").write_text("nothing of the kind\n")
    (tmp_path / "c.json").write_text("{")
    records, problems = read_scenes_of_folder(tmp_path)
    assert list(records) == ["a"]
    assert [Path(re.split("[:,]", problem)[0]).name for problem in problems] == ["c.json", "b.csv"]


def test_a_damaged_video_of_movienet_affects_no_other_video(tmp_path: Path) -> None:
    root = movienet(tmp_path)
    put_shots(root, "tt0000002", [(0, 9)])
    damaged = put_labels(root, [], "tt0000002")
    damaged.write_text("no label\n")
    records, (problem,) = read_scenes_of_folder(root)
    assert list(records) == ["tt0000001"]
    assert str(damaged) in problem


def test_two_files_of_one_video_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(CSV)
    (tmp_path / "a-Scenes.csv").write_text(CSV)
    records, (problem,) = read_scenes_of_folder(tmp_path)
    assert list(records) == ["a"]
    assert "a.csv" in problem
    assert "a-Scenes.csv" in problem


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
