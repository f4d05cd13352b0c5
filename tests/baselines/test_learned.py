"""LGSS and Siamese: what they learn, and LGSS's optimal grouping against all divisions."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from pipelines.baselines import Labeled
from pipelines.baselines.learned import (
    LGSSNetwork,
    LGSSSettings,
    LGSSTraining,
    SiameseNetwork,
    SiameseSettings,
    SiameseTraining,
    affinities,
    best_grouping,
    greatest_gap,
    lgss,
    scene_worth,
    siamese,
    super_shot_similarities,
    train_lgss,
    train_siamese,
)
from tests.baselines import clear_video, divisions, marks_of, random_video, scenes_of

# --- LGSS -------------------------------------------------------------------------------------------------------------


def literal_worth(similarity: NDArray[np.float64], start: int, end: int) -> float:
    """g of the scene of super shots [start, end), term by term."""
    total = 0.0
    for one in range(start, end):
        others = [similarity[one, other] for other in range(start, end) if other != one]
        total += sum(others) / len(others) if others else 0.0
        total += 1 / (1 + np.exp(-max(others, default=0.0)))
    return total


@pytest.mark.parametrize("seed", range(3))
def test_the_grouping_is_the_best_of_all_groupings(seed: int) -> None:
    features, _ = random_video(seed, shots=9)
    similarity = super_shot_similarities([features], np.arange(8))
    worth = scene_worth(similarity)
    values = {ends: sum(literal_worth(similarity, *scene) for scene in scenes_of(ends, 9)) for ends in divisions(9)}
    result = tuple(best_grouping(worth).tolist())
    assert values[result] == pytest.approx(max(values.values()), abs=1e-12)
    for start in range(9):
        for end in range(start + 1, 10):
            assert worth[start, end - 1] == pytest.approx(literal_worth(similarity, start, end), abs=1e-12)
            assert end == 9 or worth[end, start] == -np.inf


def test_similarities_are_those_of_mean_features_averaged_over_sets() -> None:
    (one, _), (other, _) = random_video(0, 6), random_video(1, 6, width=4)
    ends = np.array([1, 3])
    result = super_shot_similarities([one, other], ends)
    expected = np.zeros((3, 3))
    for features in (one, other):
        x = features - features.mean(axis=0)
        x /= np.linalg.norm(x, axis=1, keepdims=True)
        means = np.stack([x[a:b].mean(axis=0) for a, b in ((0, 2), (2, 4), (4, 6))])
        means /= np.linalg.norm(means, axis=1, keepdims=True)
        expected += np.maximum(means @ means.T, 0) / 2
    np.fill_diagonal(expected, 0)
    np.testing.assert_allclose(result, expected, atol=1e-12)


@pytest.fixture(scope="module")
def lgss_network() -> LGSSNetwork:
    videos = [clear_video(seed=seed) for seed in range(4)]
    return train_lgss([Labeled([video[0]], marks_of(video)) for video in videos], width=16)


def test_scenes_of_an_unseen_video_are_found_by_lgss(lgss_network: LGSSNetwork) -> None:
    features, times, ends = clear_video(seed=4)
    result = lgss([features], times, LGSSSettings(lgss_network))
    assert result.ends.tolist() == ends.tolist()
    assert sorted(np.argsort(-result.score)[: len(ends)].tolist()) == ends.tolist()
    assert ((result.score >= 0) & (result.score <= 1)).all()


def test_further_rounds_only_remove_scene_ends(lgss_network: LGSSNetwork) -> None:
    features, times, _ = clear_video(seed=4)
    before = lgss([features], times, LGSSSettings(lgss_network, rounds=0))
    assert len(before.ends) == round(4 * len(features) / lgss_network.shots_per_scene) - 1
    for rounds in (1, 2, 3):
        after = lgss([features], times, LGSSSettings(lgss_network, rounds=rounds))
        assert set(after.ends) <= set(before.ends)
        np.testing.assert_array_equal(after.score, before.score)
        before = after


def test_the_logits_of_several_feature_sets_are_averaged() -> None:
    torch.manual_seed(0)
    network = LGSSNetwork([5, 7], LGSSTraining(width=4), 8.0)
    windows = [torch.randn(2, 3, 4, width) for width in (5, 7)]
    each = [branch(one) for branch, one in zip(network.branches, windows, strict=True)]
    torch.testing.assert_close(network(windows), sum(one[..., 1] - one[..., 0] for one in each) / 2)


# --- Siamese ----------------------------------------------------------------------------------------------------------


FAST = SiameseTraining(hidden=64, dimensions=16, epochs=30, batch_size=64, learning_rate=3e-3)


def labeled(seed: int) -> Labeled:
    """A video whose settings are visible only in its first ten features; the others are noise, twice as large."""
    features, times, ends = clear_video(seed=seed)
    features[:, 10:] = 2 * np.random.default_rng(seed + 100).normal(size=(len(features), 30))
    return Labeled([features], marks_of((features, times, ends)))


@pytest.fixture(scope="module")
def siamese_network() -> SiameseNetwork:
    return train_siamese([labeled(seed) for seed in range(1, 13)], FAST)


def mean_distances(points: np.ndarray, scene: np.ndarray) -> tuple[float, float]:
    """Within scenes and between them."""
    apart = np.linalg.norm(points[:, None] - points, axis=2)
    same = (scene[:, None] == scene) & ~np.eye(len(scene), dtype=bool)
    return float(apart[same].mean()), float(apart[scene[:, None] != scene].mean())


def test_training_moves_shots_of_one_scene_closer_together(siamese_network: SiameseNetwork) -> None:
    (features,), scene_end = labeled(0)  # not learned from
    scene = np.cumsum(scene_end) - scene_end
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    before, after = mean_distances(unit, scene), mean_distances(siamese_network.embed(features), scene)
    assert after[0] / after[1] < 0.7 * before[0] / before[1]
    assert siamese_network.shots_per_scene == pytest.approx(10.0)


def test_clear_scenes_of_an_unseen_video_are_found(siamese_network: SiameseNetwork) -> None:
    _, times, ends = clear_video()
    result = siamese(labeled(0).features[0], times, SiameseSettings(siamese_network, temporal=1.0))
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
