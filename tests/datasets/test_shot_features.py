"""Feature files are read whole, or refused with one line that names the file and the fault."""

import pickle
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.datasets.sources import read_shot_feature_folder, read_shot_features
from pipelines.errors import DatasetError
from pipelines.stores.index import ASSUMED_FRAME_RATE
from tests.datasets.annotation_files import put_npz
from tests.small_stores import refusal

SHOTS = np.array([[0, 10], [10, 25], [30, 31]])


def fault(path: Path) -> str:
    return refusal(lambda: read_shot_features(path), path, error=DatasetError)


def test_a_valid_feature_file_is_read_unchanged(tmp_path: Path) -> None:
    path = put_npz(tmp_path / "bbc", "07")
    video = read_shot_features(path)
    assert video.video_id == "bbc/07"
    assert video.features.dtype == np.float32
    np.testing.assert_array_equal(video.features, np.load(path)["features"])
    np.testing.assert_array_equal(video.shots, SHOTS)
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


def test_a_frame_in_two_shots_is_assigned_to_the_later_one(tmp_path: Path) -> None:
    video = read_shot_features(put_npz(tmp_path, shots=np.array([[0, 10], [9, 25], [24, 31]])))
    np.testing.assert_array_equal(video.shots, [[0, 9], [9, 24], [24, 31]])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"features": None}, "array 'features' is missing"),
        ({"shots": None}, "array 'shots' is missing"),
        ({"features": np.zeros(3, np.float32)}, "floating point (N, D)"),
        ({"features": np.zeros((3, 0), np.float32)}, "floating point (N, D)"),
        ({"features": np.full((3, 4), np.nan, np.float32)}, "features of shot 0 are not all finite"),
        ({"features": np.array([[0.0], [1e300], [0.0]], np.float64)}, "features of shot 1 are not all finite"),
        ({"shots": SHOTS.astype(np.float64)}, "shots must be int64 (3, 2), not float64"),
        ({"shots": np.array([[0, 10], [12, 11], [30, 31]])}, "shot 1, from 12 to 11, is empty or ends before"),
        ({"shots": np.array([[9, 10], [9, 25], [30, 31]])}, "shot 0, from 9 to 9, is empty"),
        ({"scene_end": np.zeros(4, np.uint8)}, "scene_end must be uint8 (3,), not uint8 (4,)"),
        ({"scene_end": np.array([0, 2, 0], np.uint8)}, "scene_end of shot 1 is 2"),
        ({"color": np.ones((2, 5))}, "color must be floating point of the shape (3, H)"),
        ({"color": np.full((3, 5), np.nan)}, "color must be histograms"),
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
    for content in (b"features\n", b"", pickle.dumps({"shots": SHOTS}), bare.getvalue()):
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


def test_an_array_of_objects_is_never_unpickled(tmp_path: Path) -> None:
    assert "cannot be read" in fault(put_npz(tmp_path, features=np.array([[None] * 4] * 3, dtype=object)))


def test_a_folder_is_read_recursively_in_order(tmp_path: Path) -> None:
    for name in ("ovsd/02", "bbc/10", "bbc/09"):
        put_npz(tmp_path, name)
    (tmp_path / "titles.json").write_text("{}")
    assert [video.video_id for video in read_shot_feature_folder(tmp_path)] == ["bbc/09", "bbc/10", "ovsd/02"]


def test_a_folder_without_usable_feature_files_is_refused(tmp_path: Path) -> None:
    refusal(lambda: read_shot_feature_folder(tmp_path / "none"), "contains no .npz file", error=DatasetError)
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
