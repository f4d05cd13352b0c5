"""Where a person looks next, against definitions by brute force and another optimizer."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit, logit

from pipelines.models.calibration import (
    best_expected_f1,
    expected_f1,
    fit_platt,
    next_window,
    review,
)

Numbers = NDArray[np.float64]
PROBABILITIES = st.lists(st.floats(0.0, 1.0), min_size=1, max_size=8).map(np.array)


def answered(shots: int, seed: int) -> tuple[Numbers, dict[int, bool], Numbers]:
    """Scores, answers for a third of the cuts, and whether a scene ends at each cut."""
    rng = np.random.default_rng(seed)
    scores = expit(rng.normal(-1, 2, shots))
    truth = rng.random(shots - 1) < expit(1.3 * logit(scores[:-1]) - 0.7)
    cuts = rng.permutation(shots - 1)[: shots // 3].tolist()
    return scores, {cut: bool(truth[cut]) for cut in cuts}, truth


@pytest.mark.parametrize("seed", [0, 1])
def test_slope_and_offset_are_the_most_likely_by_another_optimizer(seed: int) -> None:
    scores, answers, _ = answered(90, seed)
    x, y = logit(scores[list(answers)]), np.array(list(answers.values()))

    def loss(values: Numbers) -> float:
        slope, offset = values
        likelihood = np.logaddexp(0, np.where(y, -1, 1) * (slope * x + offset)).sum()
        return float(likelihood + ((slope - 1.0) / 0.2) ** 2 / 2 + ((offset + 1.3) / 0.5) ** 2 / 2)

    assert fit_platt(logit(scores[:-1]), answers) == pytest.approx(minimize(loss, [1.0, 0.0], tol=1e-10).x, abs=1e-5)


def test_without_answers_the_prior_holds() -> None:
    assert fit_platt(np.array([-3.0, 2.0]), {}) == (1.0, -1.3)


def test_a_higher_score_is_a_higher_probability_whatever_the_answers() -> None:
    scores = expit(np.linspace(-8, 8, 200))
    unanswered = review(scores, {cut: cut < 100 for cut in range(0, 199, 2)}).probabilities[1::2]
    assert (np.diff(unanswered) > 0).all()


def test_extreme_scores_and_answers_that_contradict_them_have_finite_results() -> None:
    state = review([0.0, 1.0] * 20, {cut: cut % 2 == 0 for cut in range(20)})
    assert np.isfinite(state.probabilities).all()
    assert 0.001 <= state.threshold <= 0.999


@settings(max_examples=300)
@given(PROBABILITIES)
def test_no_choice_has_a_greater_expected_f1_than_the_best_one(probabilities: Numbers) -> None:
    best, least = best_expected_f1(probabilities)
    choices = [np.array(choice) for choice in product([False, True], repeat=len(probabilities))]
    assert best == pytest.approx(max(expected_f1(probabilities, choice) for choice in choices))
    assert best == pytest.approx(expected_f1(probabilities, probabilities >= least * (1 - 1e-12)))


def test_expected_f1_is_the_mean_f1_of_what_the_probabilities_allow() -> None:
    rng = np.random.default_rng(0)
    probabilities = expit(rng.normal(-2, 2, 200))
    ends = probabilities > 0.3
    truths = rng.random((2000, 200)) < probabilities
    f1 = 2 * truths[:, ends].sum(axis=1) / (ends.sum() + truths.sum(axis=1))
    assert expected_f1(probabilities, ends) == pytest.approx(f1.mean(), abs=0.005)


@settings(max_examples=300)
@given(PROBABILITIES, st.floats(0.05, 0.5), st.integers(2, 10), st.sets(st.integers(0, 7)))
def test_the_window_is_worth_the_most_answers(
    probabilities: Numbers, least: float, shots: int, answers: set[int]
) -> None:
    answers = {cut for cut in answers if cut < len(probabilities)}

    def worth(cut: int) -> float:
        """By how much an answer improves the choice of this cut; choosing one costs `least`, a hit gains 1."""
        p = 0.0 if cut in answers else float(probabilities[cut])
        return p * (1 - least) - max(0.0, p - least)

    cuts = min(shots - 1, len(probabilities))
    totals = [sum(map(worth, range(start, start + cuts))) for start in range(len(probabilities) - cuts + 1)]
    window = next_window(probabilities, dict.fromkeys(answers, True), least, shots)
    if window is None:
        assert max(totals) == pytest.approx(0)
    else:
        assert window[1] - window[0] == cuts + 1
        assert totals[window[0]] == pytest.approx(max(totals))


@pytest.mark.parametrize(("shots", "window"), [(9, (2, 6)), (5, (1, 5)), (2, (0, 2))])
def test_a_single_uncertain_cut_is_in_the_middle_of_its_window(shots: int, window: tuple[int, int]) -> None:
    probabilities = np.zeros(shots - 1)
    probabilities[min(3, shots - 2)] = 0.5
    assert next_window(probabilities, {}, 0.5, 4) == window


@pytest.mark.parametrize("scores", [[0.5], [0.5, 0.5]])
def test_a_video_of_one_or_two_shots_has_at_most_one_look(scores: list[float]) -> None:
    assert review(scores, {}).window == ((0, 2) if len(scores) == 2 else None)
    assert review(scores, {0: False} if len(scores) == 2 else {}).expected_f1 == 1.0


def test_answers_hold_and_shift_what_is_expected_elsewhere() -> None:
    scores, _, _ = answered(60, 2)
    plain = review(scores, {})
    refused, confirmed = (review(scores, dict.fromkeys(range(20), answer)) for answer in (False, True))
    assert refused.probabilities[:20].tolist() == [0.0] * 20
    means = [state.probabilities[20:].mean() for state in (refused, plain, confirmed)]
    assert means == sorted(means)
    assert refused.threshold > plain.threshold
