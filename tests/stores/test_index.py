"""The sequence index: windows of row numbers, reproducible files, and damage is refused."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from pipelines.errors import StoreError
from pipelines.stores.index import NO_LABEL, Index, IndexedVideo, joined, read_index, save_index, window_rows
from tests.small_index import pictured, video, written
from tests.small_stores import damaged, forge, refusal

Edge = Literal["shift", "clip"]


# Windows


def slow_window(lengths: list[int], row: int, neighbors: int, edge: Edge) -> list[int]:
    """Return the rows of a window, one at a time."""
    first = 0
    for length in lengths:
        if row < first + length:
            break
        first += length
    inside = list(range(first, first + length))
    center = row
    if edge == "shift" and length >= 2 * neighbors + 1:
        while center - neighbors < first:
            center += 1
        while center + neighbors > first + length - 1:
            center -= 1
    return [
        inside[min(max(place - first, 0), length - 1)] for place in range(center - neighbors, center + neighbors + 1)
    ]


@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=6),
    neighbors=st.integers(1, 16),
    edge=st.sampled_from(["shift", "clip"]),
    data=st.data(),
)
@settings(max_examples=300)
def test_windows_equal_those_of_a_plain_loop(
    lengths: list[int], neighbors: int, edge: Edge, data: st.DataObject
) -> None:
    first_row = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    rows = np.array(data.draw(st.lists(st.integers(0, sum(lengths) - 1), max_size=8)), np.int64)
    windows = window_rows(first_row, rows, neighbors, edge)
    assert windows.shape == (len(rows), 2 * neighbors + 1)
    assert windows.dtype == np.int64
    assert windows.tolist() == [slow_window(lengths, row, neighbors, edge) for row in rows.tolist()]
    of_video = np.searchsorted(first_row, windows, side="right")
    assert (of_video == of_video[:, :1]).all()
    assert (windows == rows[:, None]).any(axis=1).all()  # the center is always there


def test_windows_at_the_edge_of_a_video_are_clipped() -> None:
    first_row = np.array([0, 7, 9])
    rows = np.array([0, 3, 6, 8])
    assert window_rows(first_row, rows, 2, "shift").tolist() == [
        [0, 1, 2, 3, 4],
        [1, 2, 3, 4, 5],
        [2, 3, 4, 5, 6],
        [7, 7, 8, 8, 8],  # shorter than a window
    ]
    assert window_rows(first_row, rows, 2, "clip").tolist() == [
        [0, 0, 0, 1, 2],
        [1, 2, 3, 4, 5],
        [4, 5, 6, 6, 6],
        [7, 7, 8, 8, 8],
    ]


@pytest.mark.parametrize("row", [-1, 9, 2**40])
def test_rows_outside_the_index_are_refused(row: int) -> None:
    with pytest.raises(IndexError, match="0 to 8"):
        window_rows(np.array([0, 7, 9]), np.array([0, row]), 2, "clip")


# Rows and labels


@pytest.fixture
def labeled(tmp_path: Path) -> Callable[[Literal["end", "ignore"]], Index]:
    videos = (
        video("a", 4, label=np.array([0, 1, -1, 0], np.int8), split="train"),
        video("b", 3, label=np.full(3, NO_LABEL, np.int8), split="train"),
        video("c", 2, label=np.array([-1, 0], np.int8), split="test"),
        video("d", 2, label=np.array([1, 0], np.int8)),
    )
    return lambda doubtful: written(tmp_path / f"{doubtful}.h5", *videos, doubtful=doubtful)


def test_rows_can_be_selected_by_split(labeled: Callable[[str], Index]) -> None:
    index = labeled("end")
    assert index.rows_of().tolist() == list(range(11))
    assert index.rows_of(["train"]).tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert index.rows_of(["test", "train"]).tolist() == list(range(9))
    assert index.rows_of(["val"]).tolist() == []
    assert index.rows_of([""]).tolist() == [9, 10]
    assert index.video_of(np.array([[0, 3], [4, 10]])).tolist() == [[0, 0], [1, 3]]


def test_a_doubtful_end_counts_or_is_ignored(labeled: Callable[[str], Index]) -> None:
    index = labeled("end")
    rows = index.rows_of(labeled=True)
    assert rows.tolist() == [0, 1, 2, 3, 7, 8, 9, 10]
    assert index.targets(rows).tolist() == [0, 1, 1, 0, 1, 0, 1, 0]
    index = labeled("ignore")
    rows = index.rows_of(labeled=True)
    assert rows.tolist() == [0, 1, 3, 8, 9, 10]
    assert index.targets(rows).tolist() == [0, 1, 0, 0, 1, 0]
    assert index.rows_of(["train"], labeled=True).tolist() == [0, 1, 3]


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


def test_an_index_without_keyframes_is_written_and_read(tmp_path: Path) -> None:
    index = written(tmp_path / "index.h5")
    assert index.keyframes == 0
    assert index.jpeg.shape == (4, 1)
    assert index.jpeg_crc32.shape == (4, 0)


def test_the_same_videos_give_the_same_bytes(tmp_path: Path) -> None:
    videos = [pictured(name, tmp_path) for name in "cab"]
    written(tmp_path / "one.h5", *videos, features={"f": tmp_path / "f.h5"})
    written(tmp_path / "other.h5", *videos[::-1], features={"f": tmp_path / "f.h5"})
    assert (tmp_path / "one.h5").read_bytes() == (tmp_path / "other.h5").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.h5", "other.h5"]


def test_index_and_stores_can_be_moved_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = Path("data")
    (tmp_path / "here" / data / "keyframes").mkdir(parents=True)
    (tmp_path / "here" / data / "keyframes" / "a.h5").touch()
    monkeypatch.chdir(tmp_path / "here")
    written(data / "index.h5", pictured("a", data / "keyframes"), features={"f": data / "features" / "f.h5"})
    monkeypatch.chdir("/")
    shutil.move(tmp_path / "here", tmp_path / "there")
    index = read_index(tmp_path / "there" / "data" / "index.h5")
    assert index.keyframe_sources[0] is not None
    assert index.keyframe_sources[0].exists()
    assert index.features["f"] == tmp_path / "there" / "data" / "features" / "f.h5"


def test_an_index_behind_a_link_finds_its_keyframes(tmp_path: Path) -> None:
    one = pictured("a", tmp_path / "data" / "keyframes")
    written(tmp_path / "data" / "index.h5", one)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "index.h5").symlink_to(tmp_path / "data" / "index.h5")
    assert read_index(tmp_path / "elsewhere" / "index.h5").keyframe_sources == (one.keyframe_source,)


# What cannot be an index


UNFIT_VIDEOS: dict[str, tuple[Callable[[Path], list[IndexedVideo]], tuple[str, ...]]] = {
    "none": (lambda folder: [], ("at least one video",)),
    "one id twice": (
        lambda folder: [video("a", source="x/a.h5"), video("b"), video("a", source="y/a.h5")],
        ("'a'", "x/a.h5", "y/a.h5"),
    ),
    "different numbers of keyframes": (
        lambda folder: [pictured("a", folder, images=1), pictured("b", folder, images=3), video("c")],
        ("1 (a.txt), 3 (b.txt)",),
    ),
}


@pytest.mark.parametrize("name", UNFIT_VIDEOS)
def test_videos_that_cannot_be_one_index_are_refused(tmp_path: Path, name: str) -> None:
    videos, words = UNFIT_VIDEOS[name]
    refusal(lambda: save_index(joined(tmp_path / "i.h5", videos(tmp_path), {})), "i.h5", *words)
    assert not list(tmp_path.iterdir())


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
    "another schema": ({"@schema": "bassl.keyframes"}, "is version 3 of bassl.keyframes, not version 3 of bassl.index"),
    "a later version": ({"@schema_version": 9}, "is version 9 of bassl.index"),
    "no labels": ({"shots/label": None}, "shots/label"),
    "labels of another type": ({"shots/label": np.zeros(8)}, "float64"),
    "too few labels": ({"shots/label": np.zeros(3, np.int8)}, ""),
    "an id without split": (
        {"videos/texts": texts('{"id": ["a"], "split": [], "source": [""], "keyframes": [""]}')},
        "",
    ),
    "no ids": ({"videos/texts": texts("{}")}, ""),
    "texts that are no JSON": ({"videos/texts": texts("{")}, ""),
    "a group in the place of a table": ({"videos/texts": None, "videos/texts/x": [1]}, "videos/texts"),
    "rows that start late": ({"videos/first_row": np.array([1, 4, 8])}, "follow"),
    "rows that end early": ({"videos/first_row": np.array([0, 4, 7])}, "follow"),
    "rows that end late": ({"videos/first_row": np.array([0, 4, 9])}, "follow"),
    "rows that fall": ({"videos/first_row": np.array([0, 9, 8])}, "follow"),
    "an empty video": ({"videos/first_row": np.array([0, 8, 8])}, "follow"),
    "times of fewer shots": ({"shots/seconds": np.zeros((7, 2))}, "different lengths"),
    "no meaning of doubts": ({"@doubtful": np.zeros(3)}, "doubtful"),
    "no settings": ({"@settings": None}, ""),
    "settings that are a list": ({"@settings": "[]"}, "settings"),
    "settings that are no JSON": ({"@settings": "{"}, ""),
    "settings that are a number": ({"@settings": 3}, ""),
    "features that are nowhere": ({"@features": '{"f": 3}'}, ""),
    "nothing": (
        {
            "videos/texts": texts('{"id": [], "split": [], "source": [], "keyframes": []}'),
            "videos/first_row": np.zeros(1, int),
            "shots/frames": np.zeros((0, 2), int),
            "shots/seconds": np.zeros((0, 2)),
            "shots/label": np.zeros(0, np.int8),
            "shots/jpeg": np.zeros((0, 3), int),
            "shots/jpeg_crc32": np.zeros((0, 2), np.uint32),
        },
        "",
    ),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_contradictory_content_is_not_read(tmp_path: Path, name: str) -> None:
    changes, message = FORGERIES[name]
    written(tmp_path / "good.h5", pictured("a", tmp_path), pictured("b", tmp_path))
    assert read_index(forge(tmp_path / "good.h5", tmp_path / "copy.h5", {})).video_ids == ("a", "b")
    forge(tmp_path / "good.h5", tmp_path / "forged.h5", changes)
    refusal(lambda: read_index(tmp_path / "forged.h5"), tmp_path / "forged.h5", message)


def test_the_rows_and_times_of_a_video(tmp_path: Path) -> None:
    timeless = replace(video("b", 2), seconds=np.full((2, 2), np.nan))
    index = written(tmp_path / "index.h5", video("a", 3), timeless, video("c", 1))
    assert [index.span(v) for v in range(3)] == [slice(0, 3), slice(3, 5), slice(5, 6)]
    assert index.rows([2, 0]).tolist() == [5, 0, 1, 2]
    assert len(index.rows([])) == 0
    assert np.array_equal(index.times(0, 50.0), [[0, 1], [1, 2], [2, 3]])
    assert index.times(1) is None
    assert np.array_equal(index.times(1, 5.0), [[0, 2], [2, 4]])
    assert index.shot_seconds(0, 50.0).tolist() == [1, 1, 1]
    assert index.shot_seconds(1, 5.0).tolist() == [2, 2]
    half_timed = replace(video("a", 2), seconds=np.array([[0.0, 1.0], [np.nan, np.nan]]))
    index = written(tmp_path / "index.h5", half_timed)
    assert index.times(0) is None
    assert np.array_equal(index.times(0, 5.0), [[0, 2], [2, 4]])
