"""KeyframeReader gives the right JPEGs, and refuses damaged stores."""

from __future__ import annotations

import os
from pathlib import Path

import cv2
import numpy as np
import pytest

from pipelines.datasets.movienet import KeyframeReader
from pipelines.errors import DatasetError
from pipelines.stages.build_index import build_index
from pipelines.stores.index import joined, read_index, save_index
from tests.datasets.movienet_files import put_keyframes, put_labels, put_shots
from tests.small_index import video
from tests.small_stores import jpeg, put_store, read_all, refusal

LENGTHS = {"a": 12, "b": 3, "c": 9}
"""Shots of the videos; the seeds of their keyframes are 0, 1, 2."""
VIDEOS = [range(12), range(12, 15), range(15, 24)]
"""Their rows."""


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """Three stores and an index of them, with some labels."""
    for seed, (name, shots) in enumerate(LENGTHS.items()):
        put_store(tmp_path / "stores" / f"{name}.h5", shots, seed=seed)
    labels = tmp_path / "labels"
    labels.mkdir()
    (labels / "a.csv").write_text("start,end\n0,4\n4,24\n")
    path = tmp_path / "index.h5"
    build_index([tmp_path / "stores"], output=path, labels=(labels,))
    return path


def number_of(row: int) -> tuple[int, int]:
    """The seed and the shot of a row."""
    starts = np.cumsum([0, *LENGTHS.values()])
    seed = int(np.searchsorted(starts, row, side="right")) - 1
    return seed, row - int(starts[seed])


def jpegs_of(row: int) -> list[bytes]:
    return [jpeg(*number_of(row), k) for k in range(3)]


# What is read


def test_all_keyframes_of_all_videos_are_read(index: Path) -> None:
    reader = KeyframeReader(index)
    for rows in VIDEOS:
        assert read_all(reader, rows) == [jpegs_of(row) for row in rows]


def test_a_clipped_window_repeats_its_edge_rows(index: Path) -> None:
    rows = [12, 12, 12, 13, 14]
    assert read_all(KeyframeReader(index), rows) == [jpegs_of(row) for row in rows]


def test_selected_keyframes_of_rows_with_gaps_are_read(index: Path) -> None:
    rows, images = np.array([1, 4, 9]), np.array([[2, 0], [1, 1], [0, 2]])
    found = KeyframeReader(index).read(rows, images)
    assert found == [
        [jpegs_of(row)[k] for k in numbers] for row, numbers in zip(rows.tolist(), images.tolist(), strict=True)
    ]


def test_a_keyframe_is_decoded_as_opencv_decodes_it(index: Path) -> None:
    content = jpegs_of(9)[1]
    expected = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_COLOR)[..., ::-1]
    np.testing.assert_array_equal(KeyframeReader(index).decoded(9, content), expected)


# Folders of JPEG files


@pytest.fixture
def movienet(tmp_path: Path) -> Path:
    root = tmp_path / "movienet"
    for seed, name in enumerate(("tt01", "tt02")):
        put_shots(root, name)
        put_labels(root, [0, 1, -1, 0], name)
        put_keyframes(root, name, 5, seed=seed)
    build_index([root], output=tmp_path / "movienet.h5")
    return tmp_path / "movienet.h5"


def test_keyframes_in_folders_of_jpeg_files_are_read_in_place(movienet: Path) -> None:
    assert read_all(KeyframeReader(movienet), [7, 8, 9]) == [[jpeg(1, shot, k) for k in range(3)] for shot in (2, 3, 4)]


def test_one_index_may_have_stores_and_folders(movienet: Path, tmp_path: Path) -> None:
    store = put_store(tmp_path / "zz.h5", 4, seed=9)
    reader = KeyframeReader(build_index([tmp_path / "movienet", store], output=tmp_path / "both.h5").index)
    assert read_all(reader, [1]) == [[jpeg(0, 1, k) for k in range(3)]]
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


def test_a_jpeg_that_cannot_be_decoded_is_named(movienet: Path) -> None:
    folder = movienet.parent / "movienet" / "240P_frames" / "tt02"
    (folder / "shot_0002_img_1.jpg").write_bytes(b"\xff\xd8 nothing \xff\xd9")
    reader = KeyframeReader(movienet)
    [[_, content, _]] = read_all(reader, [7])
    refusal(lambda: reader.decoded(7, content), folder, "shot 2", "not a JPEG that can be decoded")


# Damage


def test_a_store_that_changed_after_the_index_is_refused(index: Path, tmp_path: Path) -> None:
    store = tmp_path / "stores" / "c.h5"
    opened = read_index(index)
    for shots in (LENGTHS["c"], 1):
        put_store(store, shots, seed=5)
        reader = KeyframeReader(opened)
        refusal(lambda reader=reader: read_all(reader, [22]), store, "made again", "`bassl build-index")


def test_a_truncated_or_missing_store_is_refused(index: Path, tmp_path: Path) -> None:
    store = tmp_path / "stores" / "c.h5"
    opened = read_index(index)
    os.truncate(store, int(opened.jpeg[-1, -1]) - 1)
    reader = KeyframeReader(opened)
    read_all(reader, [16, 17, 18])
    refusal(lambda: read_all(reader, [22, 23]), store, "is cut short", "build-index")
    (tmp_path / "stores" / "b.h5").unlink()
    refusal(lambda: read_all(reader, [13]), tmp_path / "stores" / "b.h5", "cannot be read (no such file or directory)")


def test_a_changed_byte_is_detected(index: Path, tmp_path: Path) -> None:
    store = tmp_path / "stores" / "c.h5"
    opened = read_index(index)
    content = bytearray(store.read_bytes())
    content[int(opened.jpeg[15 + 4, 1])] ^= 1  # the first byte of keyframe 1 of shot 4
    store.write_bytes(content)
    reader = KeyframeReader(opened)
    refusal(lambda: read_all(reader, [19, 20]), f"{store}: shot 4 ", "is damaged", "`bassl extract-keyframes`")
    read_all(reader, [20, 21])


def test_a_store_with_invalid_jpegs_is_refused(tmp_path: Path) -> None:
    store = put_store(tmp_path / "a.h5", 2, 1, jpegs=[[jpeg(0)], [b"noise"]])
    reader = KeyframeReader(build_index([store], output=tmp_path / "i.h5").index)
    assert read_all(reader, [1]) == [[b"noise"]]
    refusal(lambda: reader.decoded(1, b"noise"), f"{store}: shot 1", "not a JPEG that can be decoded")


def test_a_video_without_keyframes_is_refused(tmp_path: Path) -> None:
    save_index(joined(tmp_path / "none.h5", [video("a")], {}))
    reader = KeyframeReader(tmp_path / "none.h5")
    refusal(lambda: reader.read(np.array([0]), np.array([[0]])), tmp_path / "none.h5", "no keyframes")
