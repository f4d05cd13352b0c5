"""Dynamic programming: the best division by scenes' worth, and DP's criterion, against every division."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from pipelines.baselines import similarities
from pipelines.baselines.divisions import DPSettings, best_division, divide, dp
from tests.baselines import divisions, margin, random_video, scenes_of


def value(worth: NDArray[np.float64], ends: tuple[int, ...]) -> float:
    longest, shots = worth.shape
    total = 0.0
    for start, end in scenes_of(ends, shots):
        total += worth[end - start - 1, end - 1] if end - start <= longest else -np.inf
    return total


@st.composite
def tables(draw: st.DrawFn) -> tuple[NDArray[np.float64], int]:
    """Worth of the scenes of up to eight shots, of at most L each, and a number of scenes that can hold them."""
    shots = draw(st.integers(1, 8))
    longest = draw(st.integers(1, shots))
    scenes = draw(st.integers(-(-shots // longest), shots))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    return rng.normal(size=(longest, shots)), scenes


@given(tables())
def test_no_division_has_a_higher_worth_and_margins_equal_brute_force(table: tuple[NDArray[np.float64], int]) -> None:
    worth, scenes = table
    shots = worth.shape[1]
    values = {ends: v for ends in divisions(shots, scenes) if (v := value(worth, ends)) > -np.inf}
    ends, margins = best_division(worth, scenes)
    assert tuple(ends) == max(values, key=lambda ends: values[ends])
    expected = [margin(values, shot) for shot in range(shots - 1)]
    np.testing.assert_allclose(margins[:-1], expected, atol=1e-12)
    assert margins[-1] == -np.inf


def test_a_division_into_one_scene_is_scored_as_one_into_two() -> None:
    worth = np.random.default_rng(0).normal(size=(6, 6))
    one, two = divide(worth, 1), divide(worth, 2)
    assert not len(one.ends)
    np.testing.assert_array_equal(one.score, two.score)
    assert one.score[:-1].argmax() == two.ends[0]


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


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    "settings",
    [DPSettings(), DPSettings(reward=1.5), DPSettings(reward=1.0, memory=0.0, closest=0.0), DPSettings(1.2, longest=3)],
    ids=["defaults", "rewarded", "cuts only", "short scenes"],
)
def test_no_division_has_a_higher_worth_and_scores_equal_brute_force(seed: int, settings: DPSettings) -> None:
    features, times = random_video(seed, 8)
    values = literal_values(features, settings)
    result = dp(features, times, settings)
    assert values[tuple(result.ends)] == pytest.approx(max(values.values()), abs=1e-6)
    expected = [margin(values, shot) for shot in range(7)]
    np.testing.assert_allclose(result.score[:-1], expected, atol=1e-6)
