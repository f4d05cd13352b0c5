"""LGSS: its optimal grouping against all divisions, what it learns, and one or several feature sets."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from pipelines.baselines import Labeled
from pipelines.baselines.learned import (
    LGSSNetwork,
    LGSSSettings,
    best_grouping,
    lgss,
    scene_worth,
    super_shot_similarities,
    train_lgss,
)
from tests.baselines import clear_video, divisions, marks_of, random_video, scenes_of


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
def network() -> LGSSNetwork:
    videos = [clear_video(seed=seed) for seed in range(4)]
    return train_lgss([Labeled([video[0]], marks_of(video)) for video in videos], width=16)


def test_scenes_of_an_unseen_video_are_found(network: LGSSNetwork) -> None:
    features, times, ends = clear_video(seed=4)
    result = lgss([features], times, LGSSSettings(network))
    assert result.ends.tolist() == ends.tolist()
    assert sorted(np.argsort(-result.score)[: len(ends)].tolist()) == ends.tolist()
    assert ((result.score >= 0) & (result.score <= 1)).all()


def test_further_rounds_only_remove_scene_ends(network: LGSSNetwork) -> None:
    features, times, _ = clear_video(seed=4)
    before = lgss([features], times, LGSSSettings(network, rounds=0))
    assert len(before.ends) == round(4 * len(features) / network.shots_per_scene) - 1
    for rounds in (1, 2, 3):
        after = lgss([features], times, LGSSSettings(network, rounds=rounds))
        assert set(after.ends) <= set(before.ends)
        np.testing.assert_array_equal(after.score, before.score)
        before = after


def test_several_feature_sets_are_fused() -> None:
    """Images are uninformative; sound marks the scenes."""
    rng = np.random.default_rng(0)

    def video() -> tuple[list[NDArray[np.float64]], NDArray[np.float64], NDArray[np.uint8]]:
        sound, times, ends = clear_video(seed=int(rng.integers(1000)))
        return [rng.normal(size=(len(sound), 5)), sound], times, marks_of((sound, times, ends))

    taught, (sets, times, marks) = [video() for _ in range(6)], video()
    network = train_lgss([Labeled(s, m) for s, _, m in taught], width=16)
    result = lgss(sets, times, LGSSSettings(network))
    assert np.mean(np.isin(np.flatnonzero(marks), np.argsort(-result.score)[: 2 * int(marks.sum())])) > 0.7
