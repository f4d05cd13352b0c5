"""Stores of version 1, which earlier versions of the program wrote, are still read."""

from pathlib import Path

import numpy as np

from pipelines.stores.features import features_of
from pipelines.stores.index import read_index
from pipelines.stores.keyframes import read_keyframes
from tests.small_stores import RATE, SHOT_FRAMES, jpeg, read_jpegs

STORES = Path(__file__).parents[1] / "assets" / "version_1"


def test_stores_of_version_1_are_read() -> None:
    store = read_keyframes(STORES / "keyframes" / "video.h5")
    assert read_jpegs(store, 0, 3) == [[jpeg(0, shot, 0)] for shot in range(3)]
    index = read_index(STORES / "index.h5")
    assert index.keyframe_sources == ((STORES / "keyframes" / "video.h5").resolve(),)
    np.testing.assert_array_equal(index.seconds, index.frames / RATE)
    assert index.frames.tolist() == [[SHOT_FRAMES * shot, SHOT_FRAMES * (shot + 1)] for shot in range(3)]
    stored = features_of(index, [STORES / "features" / "encoder"])
    assert stored.encoder == "encoder"
    np.testing.assert_array_equal(stored.features[np.arange(3)], np.arange(6).reshape(3, 2))
    assert stored.color is not None
    np.testing.assert_array_equal(stored.color[np.arange(3)], np.full((3, 4), 0.25))
