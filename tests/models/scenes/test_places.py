"""Settings of shots: which places return."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.cluster import AgglomerativeClustering

from pipelines.models.scenes.places import MOST_PARTS, _clusters, shot_settings

Floats = NDArray[np.float64]


def video(places: str, shots: int = 6, seed: int = 0) -> tuple[Floats, Floats, Floats]:
    """Features, hue and scores of a video whose scenes are in these places; each shows its place from three sides."""
    rng = np.random.default_rng(seed)
    sides = {place: rng.random((3, 40)) for place in sorted({*places})}
    features = np.concatenate([sides[place][np.arange(shots) % 3] for place in places])
    scores = np.tile([0.1] * (shots - 1) + [0.9], len(places))
    return features + rng.normal(0, 0.02, features.shape), np.full((len(features), 8), 0.125), scores


@pytest.mark.parametrize(
    ("places", "numbers"),
    [
        ("kitchen", [0, 1, 2, 3, 4, 5, 6]),
        ("abacdb", [0, 1, 0, 2, 3, 1]),
        ("xabcab", [2, 0, 1, 3, 0, 1]),  # a place that returns has a lower number than one that does not
        ("aab", [0, 0, 1]),
    ],
)
def test_shots_of_a_place_that_returns_have_one_number(places: str, numbers: list[int]) -> None:
    assert shot_settings(*video(places)) == np.repeat(numbers, 6).tolist()


@pytest.mark.parametrize("shots", [1, 2, 7])
def test_a_single_scene_is_one_setting(shots: int) -> None:
    features, color, _ = video("a", shots)
    assert shot_settings(features, color, np.zeros(shots)) == [0] * shots


def test_low_scores_still_divide_a_video() -> None:
    features, color, scores = video("abacab", 12)
    assert shot_settings(features, color, scores / 10) == np.repeat([0, 1, 0, 2, 0, 1], 12).tolist()


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_video_of_one_image_has_no_setting_that_returns(value: float) -> None:
    assert shot_settings(np.full((8, 4), value), np.full((8, 4), 0.25), np.full(8, 0.9)) == [*range(8)]


def test_memory_is_bounded_if_every_shot_ends_a_scene() -> None:
    shots = 2 * MOST_PARTS
    settings = shot_settings(np.random.default_rng(0).random((shots, 2)), np.ones((shots, 1)), np.full(shots, 0.9))
    assert len(settings) == shots
    assert max(settings) < MOST_PARTS


@pytest.mark.parametrize("seed", range(6))
def test_clusters_are_those_of_average_linkage(seed: int) -> None:
    rng = np.random.default_rng(seed)
    similarity = rng.random((40, 40)).astype(np.float32)
    similarity = (similarity + similarity.T) / 2
    least = rng.uniform(0.3, 0.8)
    reference = AgglomerativeClustering(
        None, metric="precomputed", linkage="average", distance_threshold=1 - least
    ).fit_predict(1 - similarity)
    cluster = _clusters(similarity, least)
    pairs = [labels[:, None] == labels for labels in (cluster, reference)]
    np.testing.assert_array_equal(*pairs)
