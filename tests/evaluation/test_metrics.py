"""Metrics of a video against scikit-learn or a plain loop over the definition, and in edge cases."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import average_precision_score

from pipelines.evaluation.bootstrap import evaluate
from pipelines.evaluation.metrics import (
    VideoScores,
    average_precision,
    boundary_match,
    coverage_overflow,
    recall_within_counts,
    video_boundaries,
    video_miou,
)

CASES = range(10)


def random_video(seed: int, levels: int = 7) -> VideoScores:
    """A video with few distinct scores, so that ties are common, and with gaps between shots."""
    rng = np.random.default_rng(seed)
    N = int(rng.integers(5, 40))
    labels = (rng.random(N) < 0.3).astype(np.uint8)
    labels[:2] = (0, 1)
    edges = np.cumsum(rng.integers(1, 50, size=2 * N)).astype(np.int64)
    return VideoScores(labels, rng.integers(0, levels, size=N) / (levels - 1), edges.reshape(N, 2))


def looped_miou(labels: NDArray[np.uint8], predicted: NDArray[np.bool_], shots: NDArray[np.int64]) -> float:
    """Scenes as sets of frames; a scene spans from its first to its last frame, gaps within it included."""

    def scenes(ends: NDArray[np.generic]) -> list[set[int]]:
        found, first = [], 0
        for i, end in enumerate(ends):
            if end:
                found.append(set(range(int(shots[first, 0]), int(shots[i, 1]))))
                first = i + 1
        return found

    def one_way(these: list[set[int]], those: list[set[int]]) -> float:
        return sum(max(len(a & b) / len(a | b) for b in those) for a in these) / len(these)

    truth, guess = scenes(labels), scenes(predicted)
    return (one_way(truth, guess) + one_way(guess, truth)) / 2 if truth and guess else 0.0


@pytest.mark.parametrize("seed", CASES)
def test_average_precision_and_miou_equal_scikit_learns_and_the_definition_on_sets_of_frames(seed: int) -> None:
    video = random_video(seed)
    labels, predicted = video.labels, video.scores >= 0.5
    assert average_precision(labels, video.scores) == pytest.approx(average_precision_score(labels, video.scores))
    assert video_miou(labels, predicted, video.shots) == pytest.approx(looped_miou(labels, predicted, video.shots))


def test_miou_equals_a_value_computed_by_hand() -> None:
    shots = np.array([[0, 10], [10, 20], [20, 40], [40, 50]])
    # Truth: [0, 20) and [20, 40); predicted: [0, 40). Shot 3 is after the last boundary: in no scene.
    assert video_miou([0, 1, 1, 0], [0, 0, 1, 0], shots) == pytest.approx((0.5 + 0.5) / 2)
    # Truth: [0, 50); predicted: [0, 10) and [10, 50).
    assert video_miou([0, 0, 0, 1], [1, 0, 0, 1], shots) == pytest.approx((0.8 + (0.2 + 0.8) / 2) / 2)
    assert video_miou([0, 1, 1, 0], [0, 1, 1, 0], shots) == 1.0


def test_a_video_without_a_predicted_boundary_scores_zero_and_undefined_metrics_are_left_out() -> None:
    shots, score = np.array([[0, 10], [10, 20]]), np.array([0.4, 0.1])
    assert video_miou([1, 0], [0, 0], shots) == video_miou([0, 0], [0, 0], shots) == 0.0
    good, empty = (VideoScores(np.array([1, 0], np.uint8), scores, shots) for scores in (2 * score, score))
    assert evaluate([good, empty])["miou"] == 0.5
    nothing = evaluate([VideoScores(np.zeros(2, np.uint8), score, shots)])
    assert nothing == {"f1": 0.0, "miou": 0.0, "precision": 0.0, "video_f1": 0.0}


def looped_recall_at_3s(
    labels: NDArray[np.uint8], predicted: NDArray[np.bool_], frames: NDArray[np.int64]
) -> tuple[int, int]:
    """As the release walks over shots: the five before and after, ends of shots at 24 frames per second."""
    hits = total = 0
    for i in range(len(labels)):
        if labels[i] != 1:
            continue
        total += 1
        for step in range(-5, 6):
            j = i + step
            if 0 <= j < len(labels) and predicted[j] and abs(int(frames[j, 1]) - int(frames[i, 1])) / 24 < 3:
                hits += 1
                break
    return hits, total


@pytest.mark.parametrize("seed", CASES)
def test_recall_at_3s_equals_the_releases_algorithm(seed: int) -> None:
    rng = np.random.default_rng(seed)
    N = 200
    edges = np.append(0, np.cumsum(rng.integers(2, 60, N)))
    frames = np.stack([edges[:-1], edges[1:]], axis=1)
    labels, predicted = (rng.random(N) < 0.2).astype(np.uint8), rng.random(N) < 0.15
    hits, total = looped_recall_at_3s(labels, predicted, frames)
    assert recall_within_counts(labels, predicted, frames / 24) == (hits, total)


def test_recall_at_3s_requires_less_than_three_seconds_and_at_most_five_shots() -> None:
    seconds = np.array([[0, 1], [1, 2], [2, 4], [4, 5]], float)
    assert recall_within_counts([1, 0, 0, 0], [0, 1, 0, 0], seconds) == (1, 1)
    assert recall_within_counts([1, 0, 0, 0], [0, 0, 1, 0], seconds) == (0, 1)  # exactly three
    assert recall_within_counts([1, 1, 0, 0], [0, 1, 0, 0], seconds) == (2, 2)  # one may serve two
    tenths = np.stack([np.arange(8), np.arange(1, 9)], axis=1) / 10
    assert recall_within_counts([1, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1, 0, 0], tenths) == (1, 1)
    assert recall_within_counts([1, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 1, 0], tenths) == (0, 1)
    assert recall_within_counts([0, 0, 0, 0], [1, 0, 0, 0], seconds) == (0, 0)


def shot_sets(ends: NDArray[np.uint8]) -> list[set[int]]:
    found, current = [], set()
    for shot, end in enumerate(ends):
        current.add(shot)
        if end or shot == len(ends) - 1:
            found.append(current)
            current = set()
    return found


def of_sets(labels: NDArray[np.uint8], predicted: NDArray[np.uint8]) -> tuple[float, float]:
    """The two formulas as they are printed."""
    truth, guess = shot_sets(labels), shot_sets(predicted)
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
    assert coverage_overflow(labels, predicted) == pytest.approx((*of_sets(labels, predicted), N))


def test_coverage_and_overflow_equal_values_computed_by_hand() -> None:
    # Truth: shots 0-1, 2-4, 5-7; predicted: 0-2, 3-7, whatever the last label is.
    for last in (0, 1):
        result = coverage_overflow([0, 1, 0, 0, 1, 0, 0, last], [0, 0, 1, 0, 0, 0, 0, last])
        assert result == pytest.approx((7 / 8, (2 / 3 + 3 + 2) / 8, 8))
    # One scene: the outer true ones have a neighbor of two shots and four shots outside, the middle one 4 of 4.
    assert coverage_overflow([0, 1, 0, 1, 0, 1], [0] * 6) == pytest.approx((1.0, (4 / 2 + 4 / 4 + 4 / 2) / 3, 6))


@pytest.mark.parametrize("seed", CASES)
def test_as_many_boundaries_are_matched_as_by_an_assignment_solver(seed: int) -> None:
    rng = np.random.default_rng(seed)
    true, found = (np.unique(rng.uniform(0, 60, int(rng.integers(0, 25)))) for _ in range(2))
    for tolerance in (0.0, 0.5, 3.0, 20.0):
        near = np.abs(true[:, None] - found[None, :]) <= tolerance
        rows, columns = linear_sum_assignment(near, maximize=True)
        pairs = int(near[rows, columns].sum())
        assert boundary_match(true, found, tolerance) == (pairs, len(true), len(found))


def test_boundaries_are_matched_one_to_one_within_the_tolerance() -> None:
    assert boundary_match([10.0, 11.0], [10.5], 3.0)[0] == 1  # each at most once
    assert boundary_match([2.0, 5.0], [0.0, 3.0], 2.0)[0] == 2  # 2 is nearest to 3, but 3 is all that 5 can have
    assert boundary_match([10.0], [13.0], 3.0)[0] == 1  # the tolerance is inclusive
    assert boundary_match([[10.0, 20.0]], [18.0], 0.0)[0] == 1  # in a gap there is no distance


def test_the_end_of_the_video_is_not_a_boundary() -> None:
    shots = np.array([[0, 24], [24, 48], [48, 96], [96, 240]])
    labels = np.array([0, 1, 0, 1], np.uint8)
    video = VideoScores(labels, np.array([0.1, 0.2, 0.9, 0.9]), shots, seconds=shots / 24)
    assert video_boundaries(video, 0.5, 3.0) == (1, 1, 1)  # 2 s and 4 s
    assert video_boundaries(video, 0.5, 1.0) == (0, 1, 1)
    assert video_boundaries(VideoScores(labels, video.scores, shots), 0.5, 3.0) is None
