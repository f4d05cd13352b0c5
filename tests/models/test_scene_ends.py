"""The best choice of scene ends, against trying every choice."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from pipelines.errors import BasslError
from pipelines.models.scene_ends import choose_scene_ends

Numbers = NDArray[np.float64]


def worth(scores: Numbers, chosen: list[int], threshold: float) -> float:
    """What a choice is worth; the last shot ends a scene in any case."""
    p = scores[chosen[:-1]]
    return float(np.sum(np.log(p / (1 - p)) - np.log(threshold / (1 - threshold))))


def lengths(ends: Numbers, chosen: list[int]) -> Numbers:
    return np.diff(ends[chosen], prepend=0.0)


def all_choices(ends: Numbers, min_scene: float) -> list[list[int]]:
    """Every choice that leaves no scene shorter than the minimum; the whole video as one scene always is one."""
    last = len(ends) - 1
    choices = [[*some, last] for count in range(last + 1) for some in combinations(range(last), count)]
    return [c for c in choices if len(c) == 1 or (lengths(ends, c) >= min_scene - 1e-9).all()]


@st.composite
def videos(draw: st.DrawFn) -> tuple[Numbers, Numbers]:
    """Scores and ends of up to eight shots; whole and half seconds, so that lengths often equal the minimum."""
    shots = draw(st.integers(1, 8))
    scores = draw(st.lists(st.floats(0.01, 0.99), min_size=shots, max_size=shots))
    durations = draw(st.lists(st.sampled_from([0.5, 1.0, 1.5, 2.0, 5.0]), min_size=shots, max_size=shots))
    return np.array(scores), np.cumsum(durations)


MINIMA = st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.5, 10.0, 100.0])
THRESHOLDS = st.sampled_from([0.05, 0.3, 0.5, 0.9])


@given(videos(), THRESHOLDS, MINIMA)
def test_no_choice_with_the_minimum_length_has_a_greater_gain(
    video: tuple[Numbers, Numbers], threshold: float, min_scene: float
) -> None:
    scores, ends = video
    before = scores.copy(), ends.copy()
    chosen = choose_scene_ends(scores, ends, threshold, min_scene)
    assert all(map(np.array_equal, before, video))
    choices = all_choices(ends, min_scene)
    assert chosen in choices
    assert worth(scores, chosen, threshold) >= max(worth(scores, c, threshold) for c in choices) - 1e-9


@given(videos(), THRESHOLDS, MINIMA, st.integers(1, 8))
def test_no_choice_with_the_same_number_of_scenes_has_a_greater_gain(
    video: tuple[Numbers, Numbers], threshold: float, min_scene: float, scenes: int
) -> None:
    scores, ends = video
    choices = [c for c in all_choices(ends, min_scene) if len(c) == scenes]
    if not choices:
        with pytest.raises(BasslError, match="cannot be divided"):
            choose_scene_ends(scores, ends, threshold, min_scene, scenes)
        return
    chosen = choose_scene_ends(scores, ends, threshold, min_scene, scenes)
    assert chosen in choices
    assert worth(scores, chosen, threshold) >= max(worth(scores, c, threshold) for c in choices) - 1e-9


@given(videos(), THRESHOLDS)
def test_without_a_minimum_the_shots_that_reach_the_threshold_end_scenes(
    video: tuple[Numbers, Numbers], threshold: float
) -> None:
    scores, ends = video
    last = len(scores) - 1
    assert choose_scene_ends(scores, ends, threshold) == [*np.flatnonzero(scores[:-1] >= threshold), last]


def test_a_score_that_equals_the_threshold_ends_a_scene() -> None:
    assert choose_scene_ends(np.array([0.3, 0.29, 0.5]), np.array([1.0, 2.0, 3.0]), threshold=0.3) == [0, 2]


def test_scores_of_0_and_1_are_accepted() -> None:
    scores, ends = np.array([1.0, 0.0, 1.0, 0.0]), np.array([1.0, 2.0, 3.0, 4.0])
    assert choose_scene_ends(scores, ends) == [0, 2, 3]
    assert choose_scene_ends(scores, ends, scenes=4) == [0, 1, 2, 3]


@pytest.mark.parametrize("scenes", [0, -1, 4])
def test_an_impossible_number_of_scenes_is_refused(scenes: int) -> None:
    with pytest.raises(BasslError, match="3 shots"):
        choose_scene_ends(np.array([0.5] * 3), np.arange(1.0, 4.0), scenes=scenes)


def test_scene_ends_of_a_three_hour_video_are_chosen() -> None:
    rng = np.random.default_rng(0)
    scores, ends = rng.uniform(size=4000), np.cumsum(rng.uniform(1, 5, size=4000))
    chosen = choose_scene_ends(scores, ends, min_scene=30.0, scenes=150)
    assert len(chosen) == 150
    assert lengths(ends, chosen).min() >= 30
