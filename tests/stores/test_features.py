"""Feature stores: content is read back unchanged in the rows of an index, and damage is refused."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pipelines.errors import StoreError
from pipelines.stores.features import (
    feature_file,
    features_of,
    find_features,
    is_current,
    open_features,
    shots_checksum,
    write_features,
)
from pipelines.stores.index import Index
from tests.small_index import pictured, video, written
from tests.small_stores import damaged, forge, put_features, refusal

LENGTHS = {"a": 4, "b": 1, "c": 3}


def features(dtype: Any = np.float16, shots: int = 30, size: int = 6) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(shots, size)).astype(dtype)


def indexed(folder: Path) -> Index:
    return written(folder / "index.h5", *(video(name, shots) for name, shots in LENGTHS.items()))


# One file per video


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_written_features_are_read_back_in_their_type(tmp_path: Path, dtype: Any) -> None:
    color = np.random.default_rng(1).dirichlet(np.ones(4), size=30).astype(np.float32)
    path = write_features(tmp_path, "vgg19 of «x»", "a", features(dtype), shots=2**32 - 1, color=color)
    stored = open_features(path)
    assert (stored.video_id, stored.encoder, stored.shots) == ("a", "vgg19 of «x»", 2**32 - 1)
    assert stored.features.dtype == dtype
    np.testing.assert_array_equal(stored.features, features(dtype))
    np.testing.assert_array_equal(stored.color, color)
    write_features(tmp_path, "x", "a", features(dtype))
    assert (open_features(path).shots, open_features(path).color) == (None, None)


def test_a_file_has_the_name_of_its_video_or_a_similar_one_if_no_file_can_have_it(tmp_path: Path) -> None:
    names = ["tt0120338", "Ä video", "bbc/01", "bbc_01", "../01", ".h", "", "a" * 400]
    paths = [write_features(tmp_path, "x", name, features()) for name in names]
    assert len(set(paths)) == len(names)
    assert all(path.parent == tmp_path for path in paths)
    assert paths[0].name == "tt0120338.h5"
    assert paths[2].name.startswith("bbc_01-")
    assert [open_features(path).video_id for path in paths] == names


def test_features_are_memory_mapped_and_changes_are_not_written(tmp_path: Path) -> None:
    path = write_features(tmp_path, "x", "a", features())
    before = path.read_bytes()
    stored = open_features(path)
    assert isinstance(stored.features.base, np.memmap)
    stored.features[:] = 0
    assert path.read_bytes() == before


def test_truncated_and_changed_files_are_refused_or_read_unchanged(tmp_path: Path) -> None:
    path = write_features(tmp_path, "x", "a", features(size=40), color=np.full((30, 4), 0.25, np.float32))
    good = open_features(path)
    for case, content in damaged(path.read_bytes(), flips=220, cuts=80, seed=1):
        path.unlink()  # the good arrays are mapped from the first file
        path.write_bytes(content)
        try:
            stored = open_features(path)
        except StoreError:
            continue
        assert not case.startswith("cut")
        assert (stored.video_id, stored.encoder, stored.shots) == (good.video_id, good.encoder, good.shots)
        np.testing.assert_array_equal(stored.features, good.features, case)
        np.testing.assert_array_equal(stored.color, good.color, case)


FORGERIES: dict[str, tuple[dict[str, Any], str]] = {
    "no features": ({"features": None}, "features"),
    "whole numbers": ({"features": np.zeros((30, 6), np.int16)}, "contiguous floats"),
    "a row": ({"features": np.zeros(30, np.float16)}, "contiguous floats"),
    "no shots": ({"features": np.zeros((0, 6), np.float16)}, "contiguous floats"),
    "other features": ({"features": np.zeros((30, 6), np.float16)}, "its features do not fit their checksum"),
    "other color": ({"color": np.ones((30, 4), np.float32)}, "its color does not fit its checksum"),
    "no checksum": ({"@crc32": None}, "checksum"),
    "shots that are no number": ({"@shots": "all"}, ""),
    "an encoder that is no text": ({"@encoder": 5}, "not a text"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_contradictory_content_is_not_read(tmp_path: Path, name: str) -> None:
    changes, words = FORGERIES[name]
    good = write_features(tmp_path, "x", "a", features(), color=np.full((30, 4), 0.25, np.float32))
    forge(good, tmp_path / "forged.h5", changes)
    refusal(lambda: open_features(tmp_path / "forged.h5"), tmp_path / "forged.h5", words)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_features_that_are_not_finite_are_refused(tmp_path: Path, value: float) -> None:
    values = np.array([[1, value]], np.float32)
    refusal(lambda: write_features(tmp_path, "x", "a", values), tmp_path / "a.h5", "features of a are not all finite")
    assert not list(tmp_path.iterdir())


# The features of an index


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_features_are_read_in_the_rows_of_an_index_in_their_stored_type(tmp_path: Path, dtype: Any) -> None:
    index, rng = indexed(tmp_path), np.random.default_rng(0)
    videos = {name: rng.normal(size=(shots, 3)).astype(dtype) for name, shots in LENGTHS.items()}
    put_features(tmp_path / "x", "x", {**videos, "of another index": features(dtype, size=3)})
    stored = features_of(index, [tmp_path / "x"])
    everything = np.concatenate(list(videos.values()))
    assert (stored.encoder, len(stored.features), stored.features.width) == ("x", 8, 3)
    np.testing.assert_array_equal(stored.features[index.span(2)], videos["c"])
    np.testing.assert_array_equal(stored.features[slice(1, 3)], videos["a"][1:3])
    for rows in (np.array([], np.int64), np.array([7, 0, 0, 4, 3]), rng.integers(0, 8, (5, 2, 4))):
        gathered = stored.features[rows]
        assert gathered.dtype == dtype
        np.testing.assert_array_equal(gathered, everything[rows])


def test_videos_may_be_in_several_stores_and_the_last_one_counts(tmp_path: Path) -> None:
    index = indexed(tmp_path)
    videos = {name: np.full((shots, 3), number, np.float16) for number, (name, shots) in enumerate(LENGTHS.items())}
    some = put_features(tmp_path / "some", "x", {name: videos[name] for name in "ac"})
    rest = put_features(tmp_path / "rest", "y", {"b": videos["b"], "c": videos["c"] + 5})
    stored = features_of(index, [some, rest])
    assert stored.encoder == "x + y"
    assert stored.features[np.arange(8)][:, 0].tolist() == [0, 0, 0, 0, 1, 7, 7, 7]
    used = features_of(index, [some], [0, 2])
    assert used.features[np.array([0, 7])][:, 0].tolist() == [0, 2]


def test_color_is_read_with_zeros_where_unknown(tmp_path: Path) -> None:
    index = indexed(tmp_path)
    videos = {name: np.ones((shots, 3), np.float32) for name, shots in LENGTHS.items()}
    put_features(tmp_path / "x", "x", videos)
    assert features_of(index, [tmp_path / "x"]).color is None
    color = np.full((4, 2), 0.5, np.float32)
    put_features(tmp_path / "x", "x", videos, color={"a": color})
    hues = features_of(index, [tmp_path / "x"]).color
    assert hues is not None
    np.testing.assert_array_equal(hues[index.span(0)], color)
    np.testing.assert_array_equal(hues[np.arange(8)], np.vstack([color, np.zeros((4, 2))]))


MISFITS = {
    "a file": (lambda store: (shutil.rmtree(store), store.touch()), ["no such folder of features"]),
    "no folder": (lambda store: store.rename(store.with_name("y")), ["no such folder of features", "bassl encode"]),
    "a missing video": (
        lambda store: feature_file(store, "b").unlink(),
        ["has no features of b, which is in", "index.h5"],
    ),
    "a damaged file": (lambda store: os.truncate(feature_file(store, "b"), 500), ["b.h5", "cut short", "delete it"]),
    "another width": (lambda store: write_features(store, "x", "b", features(shots=1, size=4)), ["different widths"]),
    "color of another width": (
        lambda store: put_features(
            store,
            "x",
            {"a": features(shots=4, size=3), "b": features(shots=1, size=3)},
            color={"a": np.ones((4, 2)), "b": np.ones((1, 3))},
        ),
        ["color of different widths"],
    ),
    "another encoder": (
        lambda store: write_features(store, "y", "b", features(shots=1, size=3)),
        ["b.h5", "features of y", "of x"],
    ),
    "another number of shots": (
        lambda store: write_features(store, "x", "b", features(shots=2, size=3)),
        ["b.h5", "has 2 shots of b, but", "has 1"],
    ),
}


@pytest.mark.parametrize("name", MISFITS)
def test_stores_that_do_not_fit_the_index_are_refused(tmp_path: Path, name: str) -> None:
    change, words = MISFITS[name]
    store = tmp_path / "x"
    put_features(store, "x", {name: features(shots=shots, size=3) for name, shots in LENGTHS.items()})
    index = indexed(tmp_path)
    features_of(index, [store])
    change(store)
    refusal(lambda: features_of(index, [store]), store, *words)


def test_features_of_other_shots_are_refused_and_not_current(tmp_path: Path) -> None:
    index = written(tmp_path / "index.h5", pictured("a", tmp_path))
    checksum, store = shots_checksum(index, 0), tmp_path / "x"
    path = feature_file(store, "a")
    assert not is_current(path, "x", checksum)
    for shots in (checksum, None):  # None: nobody knows, as for features computed elsewhere
        write_features(store, "x", "a", features(shots=4), shots=shots)
        assert len(features_of(index, [store]).features) == 4
        assert is_current(path, "x", checksum)
    write_features(store, "x", "a", features(shots=4), shots=checksum ^ 1)
    assert not is_current(path, "x", checksum)
    refusal(lambda: features_of(index, [store]), path, "features of a are of other shots or keyframes", "encode")
    bare = written(tmp_path / "bare.h5", video("a"))
    assert len(features_of(bare, [store]).features) == 4
    refusal(lambda: is_current(path, "y", checksum), path, "has features of x, not of y", "delete this file")


def test_the_checksum_depends_on_shots_and_keyframes_and_without_these_on_times(tmp_path: Path) -> None:
    one = pictured("a", tmp_path)
    assert one.jpeg_crc32 is not None
    others = [
        replace(one, frames=one.frames + 1),
        replace(one, jpeg_crc32=one.jpeg_crc32 + np.uint32(1)),
        pictured("a", tmp_path, shots=3),
    ]
    checksums = [shots_checksum(written(tmp_path / "index.h5", each), 0) for each in (one, *others)]
    assert len(set(checksums)) == len(checksums)
    renamed = written(tmp_path / "index.h5", video("0"), replace(one, video_id="b", label=one.label + 1))
    assert shots_checksum(renamed, 1) == checksums[0]
    bare = video("a")
    slower = replace(bare, seconds=bare.seconds * 2)
    assert shots_checksum(written(tmp_path / "1.h5", bare), 0) != shots_checksum(written(tmp_path / "2.h5", slower), 0)


def test_rows_of_other_videos_are_not_read(tmp_path: Path) -> None:
    index = indexed(tmp_path)
    store = put_features(tmp_path / "x", "x", {"a": features(shots=4)})
    rows = features_of(index, [store], [0]).features
    for row in (-1, 4, 8):
        with pytest.raises(KeyError):
            rows[np.array([0, row])]


# Which stores belong to an index


def put_zeros(store: Path, *videos: str) -> Path:
    return put_features(store, store.name, {name: np.zeros((4, 2), np.float32) for name in videos})


def test_features_are_searched_in_the_index_first_and_then_in_the_folder(tmp_path: Path) -> None:
    store, folder = tmp_path / "own", tmp_path / "features"
    index = written(tmp_path / "index.h5", video("a"), video("b"), features={"vgg": store})
    assert find_features(index, "vgg", folder) == ()
    put_zeros(folder / "vgg", "a")
    assert find_features(index, "vgg", folder) == ()
    assert find_features(index, "vgg", folder, [0]) == (folder / "vgg",)
    put_zeros(folder / "vgg", "b")
    assert find_features(index, "vgg", folder) == (folder / "vgg",)
    put_zeros(store, "a")
    assert find_features(index, "vgg", folder) == (store,)
    assert find_features(index, "other", folder) == ()


def test_features_in_several_stores_are_used_if_together_complete_and_refused_if_two_have_one_video(
    tmp_path: Path,
) -> None:
    one, two = put_zeros(tmp_path / "one", "a", "c"), put_zeros(tmp_path / "two", "b", "c")
    stores = {"one": one, "two": two}
    apart = written(tmp_path / "index.h5", video("a"), video("b"), features=stores)
    assert find_features(apart, "two + one", tmp_path) == (two, one)
    assert find_features(apart, "one + three", tmp_path) == ()
    twice = written(tmp_path / "index.h5", video("a"), video("c"), features=stores)
    refusal(lambda: find_features(twice, "one + two", tmp_path), twice.path, "several encoders", "`features`", one, two)
    assert find_features(twice, "one", tmp_path) == (one,)
