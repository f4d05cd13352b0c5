"""The best division by scenes' worth: against trying out every division."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray

from pipelines.baselines.chains import best_division, divide, prefix_values, spanning
from tests.baselines import divisions, margin, scenes_of


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


@given(tables())
@settings(max_examples=30)
def test_prefix_tables_contain_the_best_division_for_each_number_of_scenes(
    table: tuple[NDArray[np.float64], int],
) -> None:
    worth, _ = table
    shots = worth.shape[1]
    values = prefix_values(worth, shots)
    for first in range(1, shots + 1):
        for scenes in range(1, shots + 1):
            part = worth[:, :first]
            best = max((value(part, ends) for ends in divisions(first, scenes)), default=-np.inf)
            assert values[scenes, first] == pytest.approx(best)


def test_a_division_into_one_scene_is_scored_as_one_into_two() -> None:
    worth = np.random.default_rng(0).normal(size=(6, 6))
    one, two = divide(worth, 1), divide(worth, 2)
    assert not len(one.ends)
    np.testing.assert_array_equal(one.score, two.score)
    assert one.score[:-1].argmax() == two.ends[0]


def test_spanning_gives_each_end_the_best_scene_across_it() -> None:
    best = np.full((3, 5), -np.inf)
    best[2, 3] = 7.0  # shots 1, 2 and 3
    assert spanning(best).tolist() == [-np.inf, 7.0, 7.0, -np.inf, -np.inf]
