"""Boundary criterion and dynamic programming: against the criterion written out and every division."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from pipelines.baselines.dp import DPSettings, dp
from pipelines.baselines.segmentation import similarities
from tests.baselines import divisions, margin, random_video, scenes_of


def literal_criterion(
    alike: NDArray[np.float64], left: tuple[int, int], right: tuple[int, int], settings: DPSettings
) -> float:
    """The three parts of the criterion, pair by pair."""

    def links(first: range, second: range) -> float:
        return sum(alike[i, j] * settings.fading ** abs(i - j) for i in first for j in second if i != j)

    def share(cut: float, within: float) -> float:
        return cut / (cut + within) if cut + within > 0 else 1.0

    before, after, memory = range(*left), range(*right), range(left[0])
    cut = links(before, after)
    recalled = share(links(memory, after), links(after, after)) if memory else 0.0
    closest = max(alike[i, j] for i in before for j in after)
    return (
        share(cut, links(before, before))
        + share(cut, links(after, after))
        + settings.memory * recalled
        + settings.closest * closest
    )


def literal_values(features: NDArray[np.float64], settings: DPSettings) -> dict[tuple[int, ...], float]:
    alike, shots = similarities(features), len(features)
    values = {}
    for ends in divisions(shots):
        scenes = scenes_of(ends, shots)
        if max(end - start for start, end in scenes) > settings.longest:
            continue
        values[ends] = sum(
            settings.reward - literal_criterion(alike, one, other, settings) for one, other in pairwise(scenes)
        )
    return values


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "settings",
    [DPSettings(), DPSettings(reward=1.5), DPSettings(reward=1.0, memory=0.0, closest=0.0), DPSettings(1.2, longest=3)],
    ids=["defaults", "rewarded", "cuts only", "short scenes"],
)
def test_no_division_has_a_higher_worth_and_scores_equal_brute_force(seed: int, settings: DPSettings) -> None:
    features, times = random_video(seed, 8)
    values = literal_values(features, settings)
    found = dp(features, times, settings)
    assert values[tuple(found.ends)] == pytest.approx(max(values.values()), abs=1e-6)
    expected = [margin(values, shot) for shot in range(7)]
    np.testing.assert_allclose(found.score[:-1], expected, atol=1e-6)


def test_a_greater_reward_gives_at_least_as_many_scenes() -> None:
    features, times = random_video(1, 60)
    counts = [len(dp(features, times, DPSettings(reward=r)).ends) for r in (0.0, 0.3, 0.8, 1.5, 99.0)]
    assert counts == sorted(counts)
    assert counts[0] == 0
    assert counts[-1] == 59


def test_no_scene_is_longer_than_the_longest() -> None:
    features, times = random_video(2, 50)
    ends = dp(features, times, DPSettings(reward=-1.0, longest=7)).ends
    lengths = np.diff([-1, *ends, 49])
    assert lengths.max() == 7
