"""Which feature stores belong to an index."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pipelines.stores.features import write_features
from pipelines.stores.lookup import find_features, store_path
from tests.small_index import video, written
from tests.small_stores import refusal


def put_features(path: Path, *videos: str) -> Path:
    write_features(path, path.stem, {name: np.zeros((4, 2), np.float32) for name in videos})
    return path


def test_features_are_searched_in_the_index_first_and_then_in_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "features"
    folder.mkdir()
    own = tmp_path / "own.h5"
    index = written(tmp_path / "index.h5", video("a"), features={"vgg": own})
    assert find_features(index, "vgg", folder) == ()
    put_features(store_path(folder, "vgg"), "a")
    assert find_features(index, "vgg", folder) == (folder / "vgg.h5",)
    put_features(own, "a")
    assert find_features(index, "vgg", folder) == (own,)
    assert find_features(index, "other", folder) == ()


def test_features_in_several_stores_are_used_only_if_together_complete(tmp_path: Path) -> None:
    one, two = put_features(tmp_path / "one.h5", "a"), put_features(tmp_path / "two.h5", "b")
    index = written(tmp_path / "index.h5", video("a"), video("b"), features={"one": one, "two": two})
    assert find_features(index, "two + one", tmp_path) == (two, one)
    assert find_features(index, "one + three", tmp_path) == ()


def test_two_stores_with_one_video_are_refused(tmp_path: Path) -> None:
    one, two = put_features(tmp_path / "one.h5", "a", "c"), put_features(tmp_path / "two.h5", "b", "c")
    apart = written(tmp_path / "index.h5", video("a"), video("b"), features={"one": one, "two": two})
    assert find_features(apart, "one + two", tmp_path) == (one, two)
    twice = written(tmp_path / "index.h5", video("a"), video("c"), features={"one": one, "two": two})
    refusal(lambda: find_features(twice, "one + two", tmp_path), twice.path, "several encoders", "--features", one, two)
    assert find_features(twice, "one", tmp_path) == (one,)
