"""Coverage, overflow and boundaries against sets of shots and an assignment solver, by hand and in edge cases."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from pipelines.evaluation.metrics import VideoScores, boundary_match, coverage_overflow, video_boundaries

CASES = range(20)


def scenes(ends: NDArray[np.uint8]) -> list[set[int]]:
    found, current = [], set()
    for shot, end in enumerate(ends):
        current.add(shot)
        if end or shot == len(ends) - 1:
            found.append(current)
            current = set()
    return found


def of_sets(labels: NDArray[np.uint8], predicted: NDArray[np.uint8]) -> tuple[float, float]:
    """The two formulas as they are printed."""
    truth, guess = scenes(labels), scenes(predicted)
    coverage = overflow = 0.0
    for t, true in enumerate(truth):
        coverage += max(len(s & true) for s in guess)
        around = (len(truth[t - 1]) if t > 0 else 0) + (len(truth[t + 1]) if t + 1 < len(truth) else 0)
        outside = sum(len(s - true) * min(1, len(s & true)) for s in guess)
        overflow += len(true) * (outside / around if around else 0.0)
    return coverage / len(labels), overflow / len(labels)


@pytest.mark.parametrize("seed", CASES)
def test_coverage_and_overflow_equal_their_formulas_on_sets_of_shots(seed: int) -> None:
    rng = np.random.default_rng(seed)
    N = int(rng.integers(1, 50))
    labels, predicted = (rng.random((2, N)) < rng.uniform(0, 0.6, (2, 1))).astype(np.uint8)
    result = coverage_overflow(labels, predicted)
    coverage, overflow = of_sets(labels, predicted)
    assert result.coverage == pytest.approx(coverage)
    assert result.overflow == pytest.approx(overflow)
    assert result.shots == N


def test_coverage_and_overflow_equal_values_computed_by_hand() -> None:
    # Truth: shots 0-1, 2-4, 5-7; predicted: 0-2, 3-7.
    result = coverage_overflow([0, 1, 0, 0, 1, 0, 0, 1], [0, 0, 1, 0, 0, 0, 0, 1])
    assert result.coverage == pytest.approx((2 * 1 + 3 * (2 / 3) + 3 * 1) / 8)
    assert result.overflow == pytest.approx((2 * (1 / 3) + 3 * ((2 + 3) / (2 + 3)) + 3 * (2 / 3)) / 8)


def test_a_single_predicted_scene_has_full_coverage_and_overflow() -> None:
    labels = [0, 1, 0, 1, 0, 1]
    nothing = coverage_overflow(labels, [0] * 6)
    assert nothing.coverage == 1.0
    # The outer scenes have one neighbour of two shots and four shots outside, the middle one 4 of 4.
    assert nothing.overflow == pytest.approx((4 / 2 + 4 / 4 + 4 / 2) / 3)
    everything = coverage_overflow(labels, [1] * 6)
    assert (everything.coverage, everything.overflow) == (0.5, 0.0)


def test_a_video_without_true_boundaries_has_no_overflow() -> None:
    halves = coverage_overflow([0, 0, 0, 0], [0, 1, 0, 0])
    assert (halves.coverage, halves.overflow) == (0.5, 0.0)
    one_shot = coverage_overflow([0], [1])
    assert (one_shot.coverage, one_shot.overflow, one_shot.shots) == (1.0, 0.0, 1)


def test_the_label_of_the_last_shot_does_not_matter() -> None:
    assert coverage_overflow([0, 1, 0, 0], [1, 0, 0, 0]) == coverage_overflow([0, 1, 0, 1], [1, 0, 0, 1])


@pytest.mark.parametrize("seed", CASES)
def test_as_many_boundaries_are_matched_as_by_an_assignment_solver(seed: int) -> None:
    rng = np.random.default_rng(seed)
    true, found = (np.unique(rng.uniform(0, 60, int(rng.integers(0, 25)))) for _ in range(2))
    for tolerance in (0.0, 0.5, 3.0, 20.0):
        near = np.abs(true[:, None] - found[None, :]) <= tolerance
        rows, columns = linear_sum_assignment(near, maximize=True)
        pairs = int(near[rows, columns].sum())
        result = boundary_match(true, found, tolerance)
        assert (result.matched, result.true, result.predicted) == (pairs, len(true), len(found))
        assert result.f1 == pytest.approx(2 * pairs / max(1, len(true) + len(found)))


def test_each_boundary_is_matched_at_most_once() -> None:
    assert boundary_match([10.0, 11.0], [10.5], 3.0).f1 == pytest.approx(2 / 3)
    # Taking the nearest first would leave the other alone: 2 is nearest to 3, but 3 is all that 5 can have.
    assert boundary_match([2.0, 5.0], [0.0, 3.0], 2.0).matched == 2


def test_the_tolerance_is_inclusive_and_gaps_have_no_distance() -> None:
    assert boundary_match([10.0], [13.0], 3.0).matched == 1
    assert boundary_match([10.0], [13.01], 3.0).matched == 0
    assert boundary_match([[10.0, 20.0]], [18.0], 0.0).matched == 1


def test_boundary_f1_is_defined_without_boundaries() -> None:
    for true, found in (([], []), ([], [1.0]), ([1.0], [])):
        result = boundary_match(true, found, 3.0)
        assert (result.matched, result.f1) == (0, 0.0)


def test_the_end_of_the_video_is_not_a_boundary() -> None:
    shots = np.array([[0, 24], [24, 48], [48, 96], [96, 240]])
    labels = np.array([0, 1, 0, 1], np.uint8)
    video = VideoScores(labels, np.array([0.1, 0.2, 0.9, 0.9]), shots, seconds=shots / 24)
    match = video_boundaries(video, 0.5, 3.0)
    assert (match.matched, match.true, match.predicted) == (1, 1, 1)  # 2 s and 4 s
    match = video_boundaries(video, 0.5, 1.0)
    assert match.matched == 0
    assert video_boundaries(VideoScores(labels, video.scores, shots), 0.5, 3.0) is None


def test_boundary_times_given_apart_from_shots_are_used() -> None:
    shots = np.array([[0.0, 10.0], [10.0, 20.0], [20.0, 30.0]])
    video = VideoScores(
        np.array([1, 0, 0], np.uint8),
        np.array([0.9, 0.1, 0.1]),
        shots,
        seconds=shots,
        true_ends=np.array([[10.9, 10.9]]),
        predicted_ends=np.array([[9.2, 9.2], [25.0, 25.0]]),
    )
    match = video_boundaries(video, 0.5, 1.0)
    assert (match.matched, match.true, match.predicted) == (0, 1, 2)
