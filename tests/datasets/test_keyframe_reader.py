"""KeyframeReader gives the right JPEGs, and refuses damaged stores."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from pipelines.datasets.movienet import KeyframeReader
from pipelines.errors import DatasetError
from pipelines.stages.build_index import build_index
from pipelines.stores.index import joined, read_index, save_index
from tests.datasets.movienet_files import put_keyframes, put_labels, put_shots
from tests.small_index import video
from tests.small_stores import jpeg, put_indexed_stores, put_store, read_all, refusal

LENGTHS = {"a": 12, "b": 3, "c": 9}
"""Shots of the videos; the seeds of their keyframes are 0, 1, 2."""
VIDEOS = [range(12), range(12, 15), range(15, 24)]
"""Their rows."""


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """Three stores and an index of them."""
    return put_indexed_stores(tmp_path, LENGTHS)


def jpegs_of(row: int) -> list[bytes]:
    (seed,) = (seed for seed, rows in enumerate(VIDEOS) if row in rows)
    return [jpeg(seed, row - VIDEOS[seed].start, k) for k in range(3)]


def test_all_keyframes_of_all_videos_are_read(index: Path) -> None:
    reader = KeyframeReader(index)
    for rows in VIDEOS:
        assert read_all(reader, rows) == [jpegs_of(row) for row in rows]


def test_selected_keyframes_of_rows_that_repeat_and_have_gaps_are_read(index: Path) -> None:
    rows, images = np.array([1, 1, 4, 9]), np.array([[2, 0], [1, 0], [1, 1], [0, 2]])
    expected = [[jpegs_of(row)[k] for k in numbers] for row, numbers in zip(rows, images, strict=True)]
    assert KeyframeReader(index).read(rows, images) == expected


@pytest.fixture
def movienet(tmp_path: Path) -> Path:
    root = tmp_path / "movienet"
    for seed, name in enumerate(("tt01", "tt02")):
        put_shots(root, name)
        put_labels(root, [0, 1, -1, 0], name)
        put_keyframes(root, name, 5, seed=seed)
    build_index([root], output=tmp_path / "movienet.h5")
    return tmp_path / "movienet.h5"


def test_one_index_may_have_stores_and_folders_of_jpeg_files(movienet: Path, tmp_path: Path) -> None:
    store = put_store(tmp_path / "zz.h5", 4, seed=9)
    with (tmp_path / "movienet" / "240P_frames" / "tt01" / "shot_0001_img_2.jpg").open("ab") as file:
        file.write(bytes(100))  # some programs leave bytes after the end of a JPEG
    reader = KeyframeReader(build_index([tmp_path / "movienet", store], output=tmp_path / "both.h5").index)
    assert read_all(reader, [1]) == [[jpeg(0, 1, 0), jpeg(0, 1, 1), jpeg(0, 1, 2) + bytes(100)]]
    assert read_all(reader, [7, 8]) == [[jpeg(1, shot, k) for k in range(3)] for shot in (2, 3)]
    assert read_all(reader, [11]) == [[jpeg(9, 1, k) for k in range(3)]]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "no such file"),
        (b"", "is not a JPEG"),
        (b"\x89PNG\r\n\x1a\n", "is not a JPEG"),
        (jpeg(1)[: len(jpeg(1)) // 2], "truncated JPEG"),
    ],
)
def test_a_file_that_is_not_a_jpeg_is_named(movienet: Path, content: bytes | None, words: str) -> None:
    bad = movienet.parent / "movienet" / "240P_frames" / "tt02" / "shot_0002_img_1.jpg"
    bad.unlink()
    if content is not None:
        bad.write_bytes(content)
    reader = KeyframeReader(movienet)
    read_all(reader, [5, 6])
    refusal(lambda: read_all(reader, [6, 7]), bad, words, error=DatasetError)


def test_a_jpeg_that_cannot_be_decoded_is_named_by_its_shot(movienet: Path, index: Path, tmp_path: Path) -> None:
    folder, store = movienet.parent / "movienet" / "240P_frames" / "tt02", tmp_path / "stores" / "b.h5"
    for name, row, place in ((movienet, 7, f"{folder}: shot 2"), (index, 13, f"{store}: shot 1")):
        reader = KeyframeReader(name)
        refusal(lambda r=reader, row=row: r.decoded(row, b"noise"), place, "not a JPEG that can be decoded")


def shorten(store: Path, first: int) -> None:
    os.truncate(store, first + 100)


def change_a_byte(store: Path, first: int) -> None:
    content = bytearray(store.read_bytes())
    content[first] ^= 1
    store.write_bytes(content)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (shorten, "is cut short"),
        (change_a_byte, ": shot 4 "),
        (lambda store, _: store.unlink(), "cannot be read (no such file or directory)"),
        (lambda store, _: put_store(store, LENGTHS["c"], seed=5), "made again"),
        (lambda store, _: put_store(store, 1, seed=5), "made again"),
    ],
    ids=["cut short", "changed byte", "missing", "made again", "made again with fewer shots"],
)
def test_a_store_that_is_damaged_or_changed_after_the_index_is_refused(
    index: Path, tmp_path: Path, damage: Callable[[Path, int], object], words: str
) -> None:
    store, opened = tmp_path / "stores" / "c.h5", read_index(index)
    damage(store, int(opened.jpeg[15 + 4, 1]))  # where keyframe 1 of shot 4 begins
    reader = KeyframeReader(opened)
    refusal(lambda: read_all(reader, [19, 20]), store, words)
    if damage in (shorten, change_a_byte):
        read_all(reader, [16, 17, 18])


def test_a_video_without_keyframes_is_refused(tmp_path: Path) -> None:
    save_index(joined(tmp_path / "none.h5", [video("a")], {}))
    reader = KeyframeReader(tmp_path / "none.h5")
    refusal(lambda: reader.read(np.array([0]), np.array([[0]])), tmp_path / "none.h5", "no keyframes")
