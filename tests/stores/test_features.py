"""Feature stores: content is read back unchanged, and damage is refused."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from pipelines.stores.features import (
    SCHEMA,
    VERSION,
    colour_of,
    features_of,
    open_features,
    read_shot_checksums,
    shot_checksums,
    write_features,
)
from pipelines.stores.hdf5 import create_store
from tests.small_index import pictured, video, written
from tests.small_stores import damaged, forge, refusal

LENGTHS = {"a": 4, "b": 1, "c": 3}


def features(dtype: Any = np.float16, size: int = 6) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=(shots, size)).astype(dtype) for name, shots in (("b/2", 5), ("Ä", 1), ("b/1", 30))}


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_written_store_is_read_back(tmp_path: Path, dtype: Any) -> None:
    given = features(dtype)
    write_features(tmp_path / "f.h5", "vgg19 of «x»", given)
    found = open_features(tmp_path / "f.h5")
    assert found.encoder == "vgg19 of «x»"
    assert list(found.videos) == sorted(given)
    for name, values in given.items():
        assert found.videos[name].dtype == dtype
        np.testing.assert_array_equal(found.videos[name], values)


def test_colour_is_read_for_the_videos_that_have_it_and_old_stores_have_none(tmp_path: Path) -> None:
    given = features()
    colour = np.random.default_rng(1).dirichlet(np.ones(4), size=30).astype(np.float32)
    write_features(tmp_path / "f.h5", "x", given, colour={"b/1": colour})
    found = open_features(tmp_path / "f.h5").colour
    assert list(found) == ["b/1"]
    np.testing.assert_array_equal(found["b/1"], colour)
    write_features(tmp_path / "old.h5", "x", given)
    assert open_features(tmp_path / "old.h5").colour == {}


def test_colour_of_different_widths_is_refused(tmp_path: Path) -> None:
    colour = {"b/1": np.full((30, 4), 0.25, np.float32), "Ä": np.full((1, 2), 0.5, np.float32)}
    refusal(lambda: write_features(tmp_path / "f.h5", "x", features(), colour=colour), "colour", "[2, 4]")
    assert not (tmp_path / "f.h5").exists()


def test_colour_of_other_shots_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="another number of shots"):
        write_features(tmp_path / "f.h5", "x", features(), colour={"b/1": np.ones((3, 4), np.float32)})
    assert not (tmp_path / "f.h5").exists()


@pytest.mark.parametrize("damage", ["value", "rows"])
def test_damaged_colour_is_refused(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "f.h5"
    write_features(path, "x", features(), colour={"b/1": np.full((30, 4), 0.25, np.float32)})
    with h5py.File(path, "r+") as file:
        if damage == "value":
            file["colour"][3, 1] = 0.5
        else:
            values = file["colour"][:-1]
            del file["colour"]
            file["colour"] = values
    refusal(lambda: open_features(path), path, "is damaged", "colour")


def test_colour_is_read_in_the_rows_of_an_index_with_zeros_where_unknown(tmp_path: Path) -> None:
    index = written(tmp_path / "index.h5", *(video(name, shots) for name, shots in LENGTHS.items()))
    given = {name: np.ones((shots, 3), np.float32) for name, shots in LENGTHS.items()}
    colour = {"a": np.full((4, 2), 0.5, np.float32)}
    write_features(tmp_path / "f.h5", "x", given, colour=colour)
    write_features(tmp_path / "old.h5", "x", given)
    np.testing.assert_array_equal(
        colour_of(index, [tmp_path / "f.h5"]), np.vstack([colour["a"], np.zeros((4, 2), np.float32)])
    )
    assert colour_of(index, [tmp_path / "old.h5"]) is None
    write_features(tmp_path / "wide.h5", "x", {"b": given["b"]}, colour={"b": np.ones((1, 3), np.float32)})
    refusal(lambda: colour_of(index, [tmp_path / "f.h5", tmp_path / "wide.h5"]), "colour of different widths")


def test_the_same_features_give_the_same_bytes(tmp_path: Path) -> None:
    given = features()
    write_features(tmp_path / "one.h5", "x", given)
    write_features(tmp_path / "other.h5", "x", dict(reversed(given.items())))
    assert (tmp_path / "one.h5").read_bytes() == (tmp_path / "other.h5").read_bytes()


def test_array_views_are_stored_with_their_values(tmp_path: Path) -> None:
    wide = np.arange(24, dtype=np.float32).reshape(4, 6)
    write_features(tmp_path / "f.h5", "x", {"a": wide[:, ::2], "b": wide.T[:3].T})
    found = open_features(tmp_path / "f.h5").videos
    np.testing.assert_array_equal(found["a"], wide[:, ::2])
    np.testing.assert_array_equal(found["b"], wide[:, :3])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "none"),
        ({"a": np.zeros((2, 3), np.float16), "b": np.zeros((2, 3), np.float32)}, "3 float16 and 3 float32"),
        ({"a": np.zeros((2, 3), np.float16), "b": np.zeros((2, 4), np.float16)}, "3 float16 and 4 float16"),
        ({"a": np.zeros(3, np.float16)}, "features of a"),
        ({"a": np.zeros((2, 3), int)}, "features of a"),
        ({"a": np.zeros((2, 0), np.float16)}, "features of a"),
        ({"a": np.ones((2, 3), np.float16), "b": np.zeros((0, 3), np.float16)}, "features of b"),
        ({"a": np.array([[1, np.nan]], np.float16)}, "features of a are not all finite"),
        ({"a": np.array([[1, np.inf]], np.float32)}, "features of a are not all finite"),
    ],
)
def test_invalid_features_are_refused(tmp_path: Path, given: dict[str, Any], words: str) -> None:
    refusal(lambda: write_features(tmp_path / "f.h5", "x", given), tmp_path / "f.h5", words)
    assert not list(tmp_path.iterdir())


def test_truncated_and_changed_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "f.h5"
    write_features(path, "x", features(size=40))
    for _case, content in damaged(path.read_bytes(), flips=220, cuts=80, seed=1):
        path.write_bytes(content)
        refusal(lambda: open_features(path), path, "delete it, and make it with `bassl encode`")


def test_stores_of_another_schema_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "f.h5"
    refusal(lambda: open_features(path), path, "no such file")
    with create_store(path, "bassl.index", VERSION):
        pass
    refusal(lambda: open_features(path), path, "bassl.index", "bassl.features")
    with create_store(path, SCHEMA, 9):
        pass
    refusal(lambda: open_features(path), path, "version 9")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"features": None}, "features"),
        ({"features": np.zeros((36, 6), np.int16)}, "int16"),
        ({"features": np.zeros(36, np.float16)}, "1 dimension"),
        ({"features": np.zeros((36, 6), np.float16)}, "checksums"),
        ({"features": np.zeros((35, 6), np.float16)}, "rows do not fit"),
        ({"videos/first_row": np.array([0, 30, 36])}, "rows do not fit"),
        ({"videos/first_row": np.array([0, 36, 35, 36])}, "rows do not fit"),
        ({"videos/first_row": np.array([0, 30, 30, 36])}, "rows do not fit"),
        ({"videos/first_row": np.zeros(0, int)}, "rows do not fit"),
        ({"videos/id": np.array([b"a", b"a", b"b"])}, "rows do not fit"),
        ({"videos/crc32": np.zeros(3, np.uint32)}, "checksums"),
        ({"videos/crc32": np.zeros(2, np.uint32)}, "checksums"),
        ({"videos/shots": np.zeros(2, np.uint32)}, "rows do not fit"),
        ({"@encoder": None}, ""),
        ({"@encoder": 5}, "encoder"),
    ],
)
def test_contradictory_content_is_not_read(tmp_path: Path, changes: dict[str, Any], words: str) -> None:
    write_features(tmp_path / "good.h5", "x", features())
    forge(tmp_path / "good.h5", tmp_path / "forged.h5", changes)
    refusal(lambda: open_features(tmp_path / "forged.h5"), tmp_path / "forged.h5", words)


def test_non_finite_values_are_not_read(tmp_path: Path) -> None:
    bad = np.full((36, 6), np.nan, np.float16)
    write_features(tmp_path / "good.h5", "x", features())
    rows = open_features(tmp_path / "good.h5").videos
    lengths = np.cumsum([0, *map(len, rows.values())])
    checksums = [zlib.crc32(bad[start:end]) for start, end in pairwise(lengths)]
    forge(tmp_path / "good.h5", tmp_path / "f.h5", {"features": bad, "videos/crc32": np.array(checksums, np.uint32)})
    refusal(lambda: open_features(tmp_path / "f.h5"), tmp_path / "f.h5", "not finite")


# --- features and shots -----------------------------------------------------------------------------------------------


def test_the_encoded_shots_are_recorded_by_a_checksum(tmp_path: Path) -> None:
    path = tmp_path / "f.h5"
    write_features(path, "x", features(), {"b/1": 1, "b/2": 2**32 - 1, "Ä": 0})
    assert open_features(path).shots == {"b/1": 1, "b/2": 2**32 - 1, "Ä": 0} == read_shot_checksums(path)
    write_features(path, "x", features())
    assert open_features(path).shots == {}
    assert read_shot_checksums(path) == {"b/1": None, "b/2": None, "Ä": None}


def test_features_are_written_one_video_at_a_time(tmp_path: Path) -> None:
    class OneAtATime(Mapping[str, Any]):
        def __init__(self) -> None:
            self.given, self.asked = features(), list[str]()

        def __getitem__(self, name: str) -> Any:
            self.asked.append(name)
            return self.given[name]

        def __iter__(self) -> Iterator[str]:
            return iter(self.given)

        def __len__(self) -> int:
            return len(self.given)

    lazy = OneAtATime()
    write_features(tmp_path / "f.h5", "x", lazy)
    assert lazy.asked == ["b/1", "b/2", "Ä"] * 2


def test_features_are_memory_mapped_and_changes_are_not_written(tmp_path: Path) -> None:
    path = tmp_path / "f.h5"
    write_features(path, "x", features())
    before = path.read_bytes()
    store = open_features(path)
    assert isinstance(store.features, np.memmap)
    store.features[:] = 0
    assert all((values == 0).all() for values in store.videos.values())
    assert path.read_bytes() == before


def test_features_are_read_in_the_rows_of_an_index(tmp_path: Path) -> None:
    given = {name: np.full((shots, 3), number, np.float16) for number, (name, shots) in enumerate(LENGTHS.items())}
    index = written(tmp_path / "index.h5", *(video(name, shots) for name, shots in LENGTHS.items()))
    expected = np.repeat([0, 1, 2], list(LENGTHS.values()))
    write_features(tmp_path / "all.h5", "x", given)
    write_features(tmp_path / "some.h5", "x", {name: given[name] for name in ("a", "c")})
    write_features(tmp_path / "rest.h5", "y", {"b": given["b"]})
    write_features(tmp_path / "float.h5", "x", {name: values.astype(np.float32) for name, values in given.items()})
    others = {name: np.full((2, 3), 9, np.float32) for name in ("0", "bb")}  # of videos that the index does not have
    write_features(tmp_path / "more.h5", "x", {**open_features(tmp_path / "float.h5").videos, **others})
    for stores, encoder in ((["all"], "x"), (["some", "rest"], "x + y"), (["float"], "x"), (["more"], "x")):
        name, found = features_of(index, [tmp_path / f"{store}.h5" for store in stores])
        assert (name, found.dtype) == (encoder, np.float32)
        np.testing.assert_array_equal(found, np.repeat(expected[:, None], 3, axis=1))
    assert isinstance(features_of(index, [tmp_path / "float.h5"])[1], np.memmap)
    refusal(lambda: features_of(index, [tmp_path / "some.h5"]), tmp_path / "some.h5", "no features of b")
    write_features(tmp_path / "wide.h5", "x", {"b": np.zeros((LENGTHS["b"], 4), np.float32)})
    refusal(lambda: features_of(index, [tmp_path / "some.h5", tmp_path / "wide.h5"]), "different widths")


def test_features_of_other_shots_are_refused(tmp_path: Path) -> None:
    index = written(tmp_path / "index.h5", pictured("a", tmp_path))
    own = shot_checksums(index)
    given = {"a": np.zeros((4, 3), np.float32)}
    path = tmp_path / "f.h5"
    write_features(path, "x", given, own)
    assert features_of(index, [path])[1].shape == (4, 3)
    write_features(path, "x", given)  # from elsewhere: nobody knows
    assert features_of(index, [path])[1].shape == (4, 3)
    write_features(path, "x", given, {"a": own["a"] ^ 1})
    refusal(lambda: features_of(index, [path]), path, "features of a are of other shots or keyframes", "encode")
    bare = written(tmp_path / "bare.h5", video("a"))
    assert features_of(bare, [path])[1].shape == (4, 3)
    write_features(path, "x", {"a": np.zeros((5, 3), np.float32)})
    refusal(lambda: features_of(index, [path]), path, "has 5 shots of a where", "has 4")


def test_the_checksum_depends_on_shots_and_keyframes(tmp_path: Path) -> None:
    one = pictured("a", tmp_path)
    assert one.jpeg_crc32 is not None
    others = [
        replace(one, frames=one.frames + 1),
        replace(one, jpeg_crc32=one.jpeg_crc32 + np.uint32(1)),
        pictured("a", tmp_path, shots=3),
    ]
    found = [shot_checksums(written(tmp_path / "index.h5", each))["a"] for each in (one, *others)]
    assert len(set(found)) == len(found)
    renamed = written(tmp_path / "index.h5", video("0"), replace(one, video_id="b", label=one.label + 1))
    assert shot_checksums(renamed)["b"] == found[0]


def test_without_keyframes_the_checksum_depends_on_shot_times(tmp_path: Path) -> None:
    one = video("a")
    slower = replace(one, seconds=one.seconds * 2, frame_rate=one.frame_rate / 2)
    assert shot_checksums(written(tmp_path / "1.h5", one)) != shot_checksums(written(tmp_path / "2.h5", slower))
