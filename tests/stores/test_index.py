"""The sequence index: windows of row numbers, reproducible files, and damage is refused."""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from pipelines.errors import StoreError
from pipelines.stores.index import NO_LABEL, joined, read_index, save_index, window_rows
from tests.small_index import pictured, video, written
from tests.small_stores import damaged, forge, refusal

Edge = Literal["shift", "clip"]


# Windows


def slow_window(first: int, last: int, row: int, neighbors: int, edge: Edge) -> list[int]:
    """Return the rows of a window in a video with the rows ``first`` to ``last``, one at a time."""
    center = row
    if edge == "shift" and last - first >= 2 * neighbors:
        while center - neighbors < first:
            center += 1
        while center + neighbors > last:
            center -= 1
    return [min(max(place, first), last) for place in range(center - neighbors, center + neighbors + 1)]


@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    neighbors=st.integers(1, 16),
    edge=st.sampled_from(["shift", "clip"]),
)
@settings(max_examples=200)
def test_windows_equal_those_of_a_plain_loop(lengths: list[int], neighbors: int, edge: Edge) -> None:
    first_row = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    windows = window_rows(first_row, np.arange(sum(lengths)), neighbors, edge)
    assert windows.dtype == np.int64
    assert windows.tolist() == [
        slow_window(first, end - 1, row, neighbors, edge)
        for first, end in pairwise(first_row.tolist())
        for row in range(first, end)
    ]
    assert window_rows(first_row, np.zeros(0, np.int64), neighbors, edge).shape == (0, 2 * neighbors + 1)


@pytest.mark.parametrize("row", [-1, 9, 2**40])
def test_rows_outside_the_index_are_refused(row: int) -> None:
    with pytest.raises(IndexError, match="0 to 8"):
        window_rows(np.array([0, 7, 9]), np.array([0, row]), 2, "clip")


# Rows and labels


def test_rows_are_selected_by_split_and_label_and_a_doubtful_end_counts_or_is_ignored(tmp_path: Path) -> None:
    videos = (
        video("a", 4, label=np.array([0, 1, -1, 0], np.int8), split="train"),
        video("b", 3, label=np.full(3, NO_LABEL, np.int8), split="train"),
        video("c", 2, label=np.array([-1, 0], np.int8), split="test"),
        video("d", 2, label=np.array([1, 0], np.int8)),
    )
    index = written(tmp_path / "index.h5", *videos, doubtful="end")
    assert [index.span(v) for v in range(4)] == [slice(0, 4), slice(4, 7), slice(7, 9), slice(9, 11)]
    assert index.rows([2, 0]).tolist() == [7, 8, 0, 1, 2, 3]
    assert index.rows_of(["test", "train"]).tolist() == list(range(9))
    assert [index.rows_of([split]).tolist() for split in ("val", "")] == [[], [9, 10]]
    assert index.video_of(np.array([[0, 3], [4, 10]])).tolist() == [[0, 0], [1, 3]]
    rows = index.rows_of(labeled=True)
    assert rows.tolist() == [0, 1, 2, 3, 7, 8, 9, 10]
    assert index.targets(rows).tolist() == [0, 1, 1, 0, 1, 0, 1, 0]
    index = written(tmp_path / "index.h5", *videos, doubtful="ignore")
    assert index.rows_of(labeled=True).tolist() == [0, 1, 3, 8, 9, 10]
    assert index.rows_of(["train"], labeled=True).tolist() == [0, 1, 3]


@pytest.mark.parametrize("unknown", [[0, 1], [1]])
def test_times_of_a_video_in_which_some_are_unknown_follow_from_the_frame_rate(
    tmp_path: Path, unknown: list[int]
) -> None:
    timed, timeless = video("a", 3), video("b", 2)
    timeless.seconds[unknown] = np.nan
    index = written(tmp_path / "index.h5", timed, timeless)
    assert np.array_equal(index.times(0, 50.0), [[0, 1], [1, 2], [2, 3]])
    assert index.times(1) is None
    assert np.array_equal(index.times(1, 5.0), [[0, 2], [2, 4]])
    assert index.shot_seconds(1, 5.0).tolist() == [2, 2]


# Files


def test_a_written_store_is_read_back(tmp_path: Path) -> None:
    one = pictured("b", tmp_path / "stores", label=np.array([0, -1, NO_LABEL, 0], np.int8), split="val")
    other = video("a", 3, seconds=np.full((3, 2), np.nan), source=b"caf\xe9.txt".decode(errors="surrogateescape"))
    folder = video("Übung 映画", 2, keyframe_source=tmp_path / "240P_frames" / "ü", keyframes=2)
    features = {"vgg": tmp_path / "features" / "vgg.h5"}
    settings = {"split": [0.5, 0.5], "seed": 3}
    save_index(joined(tmp_path / "index.h5", [one, folder, other], settings, doubtful="ignore", features=features))
    index = read_index(tmp_path / "index.h5")
    assert index.path == tmp_path / "index.h5"
    assert index.video_ids == ("a", "b", "Übung 映画")
    assert index.splits == ("", "val", "")
    assert index.sources == ("caf\udce9.txt", "b.txt", "Übung 映画.txt")
    assert list(index.keyframe_sources) == [None, one.keyframe_source, folder.keyframe_source]
    assert index.first_row.tolist() == [0, 3, 7, 9]
    np.testing.assert_array_equal(index.frames, np.concatenate([other.frames, one.frames, folder.frames]))
    np.testing.assert_array_equal(index.seconds, np.concatenate([other.seconds, one.seconds, folder.seconds]))
    assert index.label.tolist() == [0, 0, 0, 0, -1, NO_LABEL, 0, 0, 0]
    assert index.keyframes == 2
    np.testing.assert_array_equal(index.jpeg[3:7], one.jpeg)
    np.testing.assert_array_equal(index.jpeg_crc32[3:7], one.jpeg_crc32)
    assert not index.jpeg[:3].any()
    assert not index.jpeg[7:].any()
    assert index.features == features
    assert index.doubtful == "ignore"
    assert index.settings == settings


def test_index_and_stores_can_be_moved_together_and_an_index_be_linked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = Path("data")
    (tmp_path / "here" / data).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    written(data / "index.h5", pictured("a", data / "keyframes"), features={"f": data / "features" / "f.h5"})
    monkeypatch.chdir("/")
    home = shutil.move(tmp_path / "here", tmp_path / "there") / "data"
    (tmp_path / "index.h5").symlink_to(home / "index.h5")
    for path in (home / "index.h5", tmp_path / "index.h5"):
        index = read_index(path)
        assert index.keyframe_sources == (home / "keyframes" / "a.h5",)
        assert index.features == {"f": home / "features" / "f.h5"}


# Damage


def test_truncated_and_changed_files_are_refused_or_read_unchanged(tmp_path: Path) -> None:
    path = tmp_path / "index.h5"
    written(path, *(pictured(name, tmp_path, 30, label=np.eye(1, 30, 3, dtype=np.int8)[0]) for name in "ab"))
    good = read_index(path)
    for case, content in damaged(path.read_bytes(), flips=220, cuts=80):
        path.write_bytes(content)
        try:
            index = read_index(path)
        except StoreError:
            continue
        assert not case.startswith("cut")
        for name in ("frames", "seconds", "label", "jpeg", "jpeg_crc32", "first_row", "video_ids", "splits"):
            np.testing.assert_array_equal(getattr(index, name), getattr(good, name), case)


def test_a_missing_index_is_refused(tmp_path: Path) -> None:
    refusal(lambda: read_index(tmp_path / "i.h5"), tmp_path / "i.h5", "no such file; run `bassl build-index`")
    refusal(lambda: read_index(tmp_path), tmp_path)


def texts(content: str) -> NDArray[np.uint8]:
    return np.frombuffer(content.encode(), np.uint8)


FORGERIES: dict[str, tuple[dict[str, Any], str]] = {
    "labels of another type": ({"shots/label": np.zeros(8)}, "float64"),
    "too few labels": ({"shots/label": np.zeros(3, np.int8)}, "different lengths"),
    "an id without split": (
        {"videos/texts": texts('{"id": ["a"], "split": [], "source": [""], "keyframes": [""]}')},
        "different lengths",
    ),
    "no ids": ({"videos/texts": texts("{}")}, "damaged"),
    "texts that are no JSON": ({"videos/texts": texts("{")}, "damaged"),
    "rows that start late": ({"videos/first_row": np.array([1, 4, 8])}, "follow"),
    "rows that end early": ({"videos/first_row": np.array([0, 4, 7])}, "follow"),
    "rows that fall": ({"videos/first_row": np.array([0, 9, 8])}, "follow"),
    "an empty video": ({"videos/first_row": np.array([0, 8, 8])}, "follow"),
    "no meaning of doubts": ({"@doubtful": np.zeros(3)}, "doubtful"),
    "settings that are a list": ({"@settings": "[]"}, "settings"),
    "features that are nowhere": ({"@features": '{"f": 3}'}, "damaged"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_contradictory_content_is_not_read(tmp_path: Path, name: str) -> None:
    changes, message = FORGERIES[name]
    written(tmp_path / "good.h5", pictured("a", tmp_path), pictured("b", tmp_path))
    assert read_index(forge(tmp_path / "good.h5", tmp_path / "copy.h5", {})).video_ids == ("a", "b")
    forge(tmp_path / "good.h5", tmp_path / "forged.h5", changes)
    refusal(lambda: read_index(tmp_path / "forged.h5"), tmp_path / "forged.h5", message)
