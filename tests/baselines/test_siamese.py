"""The learned distance and its clusters."""

import numpy as np
import pytest

from pipelines.baselines import Labeled
from pipelines.baselines.learned import (
    SiameseNetwork,
    SiameseSettings,
    SiameseTraining,
    affinities,
    greatest_gap,
    siamese,
    train_siamese,
)
from tests.baselines import clear_video, marks_of

FAST = SiameseTraining(hidden=64, dimensions=16, epochs=30, batch_size=64, learning_rate=3e-3)


def labeled(seed: int) -> Labeled:
    """A video whose settings are visible only in its first ten features; the others are noise, twice as large."""
    features, times, ends = clear_video(seed=seed)
    features[:, 10:] = 2 * np.random.default_rng(seed + 100).normal(size=(len(features), 30))
    return Labeled([features], marks_of((features, times, ends)))


@pytest.fixture(scope="module")
def network() -> SiameseNetwork:
    return train_siamese([labeled(seed) for seed in range(1, 13)], FAST)


def mean_distances(points: np.ndarray, scene: np.ndarray) -> tuple[float, float]:
    """Within scenes and between them."""
    apart = np.linalg.norm(points[:, None] - points, axis=2)
    same = (scene[:, None] == scene) & ~np.eye(len(scene), dtype=bool)
    return float(apart[same].mean()), float(apart[scene[:, None] != scene].mean())


def test_training_moves_shots_of_one_scene_closer_together(network: SiameseNetwork) -> None:
    (features,), scene_end = labeled(0)  # not learned from
    scene = np.cumsum(scene_end) - scene_end
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    before, after = mean_distances(unit, scene), mean_distances(network.embed(features), scene)
    assert after[0] / after[1] < 0.7 * before[0] / before[1]
    assert network.shots_per_scene == pytest.approx(10.0)


def test_clear_scenes_of_an_unseen_video_are_found(network: SiameseNetwork) -> None:
    _, times, ends = clear_video()
    result = siamese(labeled(0).features[0], times, SiameseSettings(network, temporal=1.0))
    assert result.ends.tolist() == ends.tolist()
    assert result.score[ends].mean() > 1.5 * np.delete(result.score, ends).mean()


def test_affinities_fall_with_feature_and_time_distance() -> None:
    points = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    times = np.array([[0.0, 60.0], [60.0, 120.0], [120.0, 180.0]])
    spread = 8 / 9  # mean of the squared distances, each pair and each shot with itself
    result = affinities(points, times, 0.5)
    assert result[0, 1] == pytest.approx(np.exp(-0.5 / spread))
    assert result[0, 2] == pytest.approx(np.exp(-(2 + 0.5 * 4) / spread))
    assert np.diagonal(result).tolist() == [1.0, 1.0, 1.0]


def test_the_number_of_clusters_is_at_the_largest_eigenvalue_gap() -> None:
    values = np.array([1.0, 0.5, 0.45, 0.44, 0.2, 0.1])
    assert greatest_gap(values, 1, 6) == 1
    assert greatest_gap(values, 2, 6) == 4
    assert greatest_gap(values, 2, 3) == 2
    assert greatest_gap(values[:1], 0, 3) == 1
