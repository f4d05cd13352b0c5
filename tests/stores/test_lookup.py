"""Which feature stores belong to an index."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pipelines.stores.features import find_features, is_store, store_path
from tests.small_index import video, written
from tests.small_stores import put_features, refusal


def put(store: Path, *videos: str) -> Path:
    return put_features(store, store.name, {name: np.zeros((4, 2), np.float32) for name in videos})


def test_a_folder_of_stores_is_not_a_store(tmp_path: Path) -> None:
    store = put(store_path(tmp_path, "vgg"), "a")
    assert is_store(store)
    assert not is_store(tmp_path)
    assert not is_store(tmp_path / "none")


def test_features_are_searched_in_the_index_first_and_then_in_the_folder(tmp_path: Path) -> None:
    own, folder = tmp_path / "own", tmp_path / "features"
    index = written(tmp_path / "index.h5", video("a"), video("b"), features={"vgg": own})
    assert find_features(index, "vgg", folder) == ()
    put(folder / "vgg", "a")
    assert find_features(index, "vgg", folder) == ()
    assert find_features(index, "vgg", folder, [0]) == (folder / "vgg",)
    put(folder / "vgg", "b")
    assert find_features(index, "vgg", folder) == (folder / "vgg",)
    put(own, "a")
    assert find_features(index, "vgg", folder) == (own,)
    assert find_features(index, "other", folder) == ()


def test_features_in_several_stores_are_used_only_if_together_complete(tmp_path: Path) -> None:
    one, two = put(tmp_path / "one", "a"), put(tmp_path / "two", "b")
    index = written(tmp_path / "index.h5", video("a"), video("b"), features={"one": one, "two": two})
    assert find_features(index, "two + one", tmp_path) == (two, one)
    assert find_features(index, "one + three", tmp_path) == ()


def test_two_stores_with_one_video_are_refused(tmp_path: Path) -> None:
    one, two = put(tmp_path / "one", "a", "c"), put(tmp_path / "two", "b", "c")
    apart = written(tmp_path / "index.h5", video("a"), video("b"), features={"one": one, "two": two})
    assert find_features(apart, "one + two", tmp_path) == (one, two)
    twice = written(tmp_path / "index.h5", video("a"), video("c"), features={"one": one, "two": two})
    refusal(lambda: find_features(twice, "one + two", tmp_path), twice.path, "several encoders", "--features", one, two)
    assert find_features(twice, "one", tmp_path) == (one,)
