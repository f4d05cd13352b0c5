"""Optimal sequential grouping: against every division into K scenes."""

from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from pipelines.baselines.divisions import (
    GroupingSettings,
    estimated_scenes,
    grouping,
    least_ratio,
    scene_costs,
)
from tests.baselines import divisions, margin, random_video, scenes_of


def cosine_distances(features: NDArray[np.float64]) -> NDArray[np.float64]:
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    return np.array([[0.0 if i == j else 1 - a @ b for j, b in enumerate(unit)] for i, a in enumerate(unit)])


def literal_sums(distances: NDArray[np.float64], ends: tuple[int, ...]) -> tuple[float, float]:
    """Sum of the distances within scenes, and the number of pairs that it runs over."""
    parts = scenes_of(ends, len(distances))
    cost = sum(distances[i, j] for a, b in parts for i in range(a, b) for j in range(a, b))
    return float(cost), float(sum((b - a) ** 2 for a, b in parts))


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("scenes", [2, 6])
@pytest.mark.parametrize("kind", ["additive", "normalized"])
def test_no_division_has_a_lower_cost(seed: int, scenes: int, kind: Literal["additive", "normalized"]) -> None:
    features, times = random_video(seed, 10)
    distances = cosine_distances(features)
    distances /= distances.mean()
    sums = {ends: literal_sums(distances, ends) for ends in divisions(10, scenes)}
    least = 0.0
    if kind == "normalized":
        least = min(cost / pairs for cost, pairs in sums.values())
        areas = np.arange(1.0, 11)[:, None] ** 2
        assert least_ratio(scene_costs(distances), areas, scenes) == pytest.approx(least)
    values = {ends: least * pairs - cost for ends, (cost, pairs) in sums.items()}
    result = grouping([features], times, GroupingSettings(kind, scenes))
    assert values[tuple(result.ends)] == pytest.approx(max(values.values()))
    np.testing.assert_allclose(result.score[:-1], [margin(values, shot) for shot in range(9)], atol=1e-9)


@pytest.mark.parametrize("sizes", [(12, 12, 12, 12), (9, 15, 10, 14, 12)], ids=["even", "uneven"])
def test_the_number_of_clear_scenes_is_estimated_from_the_singular_values(sizes: tuple[int, ...]) -> None:
    scene = np.repeat(np.arange(len(sizes)), sizes)
    noise = np.random.default_rng(0).uniform(0, 0.01, (len(scene), len(scene)))
    distances = (scene[:, None] != scene) + noise + noise.T
    np.fill_diagonal(distances, 0.0)
    assert abs(estimated_scenes(distances) - len(sizes)) <= 1


def test_several_feature_sets_find_more_scenes_than_each_alone() -> None:
    """Images show the first border, sound the second."""
    rng = np.random.default_rng(0)
    scene = np.repeat([0, 1, 2], 10)
    picture = rng.normal(size=(2, 30))[np.minimum(scene, 1)] + 0.3 * rng.normal(size=(30, 30))
    sound = 100 * (rng.normal(size=(2, 8))[np.maximum(scene, 1) - 1] + 0.3 * rng.normal(size=(30, 8)))
    times = np.stack([np.arange(30.0), np.arange(1.0, 31)], axis=1)
    three = GroupingSettings(scenes=3)
    assert grouping([picture, sound], times, three).ends.tolist() == [9, 19]
    assert grouping([picture], times, three).ends.tolist() != [9, 19]
    assert grouping([sound], times, three).ends.tolist() != [9, 19]


def test_the_number_of_scenes_is_limited_to_the_number_of_shots() -> None:
    features, times = random_video(0, 5)
    assert grouping([features], times, GroupingSettings(scenes=9)).ends.tolist() == [0, 1, 2, 3]
