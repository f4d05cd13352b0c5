"""Metrics of a video against scikit-learn or a plain loop over the definition, and in edge cases."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score, f1_score

from pipelines.evaluation.bootstrap import evaluate
from pipelines.evaluation.metrics import (
    VideoScores,
    average_precision,
    coverage_overflow,
    recall_within_counts,
    video_miou,
)

CASES = range(20)


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
def test_average_precision_equals_scikit_learns(seed: int) -> None:
    video = random_video(seed)
    expected = average_precision_score(video.labels, video.scores)
    assert average_precision(video.labels, video.scores) == pytest.approx(expected)


@pytest.mark.parametrize("seed", CASES)
def test_miou_equals_its_definition_on_sets_of_frames(seed: int) -> None:
    video = random_video(seed)
    predicted = video.scores >= 0.5
    assert video_miou(video.labels, predicted, video.shots) == pytest.approx(
        looped_miou(video.labels, predicted, video.shots)
    )


def test_miou_equals_a_value_computed_by_hand() -> None:
    shots = np.array([[0, 10], [10, 20], [20, 40], [40, 50]])
    # Truth: [0, 20) and [20, 40); predicted: [0, 40). Shot 3 is after the last boundary: in no scene.
    assert video_miou([0, 1, 1, 0], [0, 0, 1, 0], shots) == pytest.approx((0.5 + 0.5) / 2)
    # Truth: [0, 50); predicted: [0, 10) and [10, 50).
    assert video_miou([0, 0, 0, 1], [1, 0, 0, 1], shots) == pytest.approx((0.8 + (0.2 + 0.8) / 2) / 2)
    assert video_miou([0, 1, 1, 0], [0, 1, 1, 0], shots) == 1.0


def test_a_video_without_a_predicted_boundary_scores_zero() -> None:
    shots = np.array([[0, 10], [10, 20]])
    assert video_miou([1, 0], [0, 0], shots) == 0.0
    assert video_miou([0, 0], [0, 0], shots) == 0.0
    good = VideoScores(np.array([1, 0], np.uint8), np.array([0.9, 0.1]), shots)
    empty = VideoScores(np.array([1, 0], np.uint8), np.array([0.4, 0.1]), shots)
    assert evaluate([good, empty])["miou"] == 0.5


def test_perfect_and_inverted_scores_have_extreme_metrics() -> None:
    labels = np.array([0, 1, 0, 0, 1])
    assert average_precision(labels, labels) == 1.0
    shots = np.stack([np.arange(5), np.arange(1, 6)], axis=1)
    perfect, inverted = (evaluate([VideoScores(labels, scores * 1.0, shots)]) for scores in (labels, 1 - labels))
    assert (perfect["auc"], perfect["f1"]) == (1.0, 1.0)
    assert (inverted["auc"], inverted["f1"]) == (0.0, 0.0)


NAN, ENDS, SHOTS = float("nan"), np.array([0, 1], np.uint8), np.array([[0, 5], [5, 9]])


@pytest.mark.parametrize(
    ("measure", "words"),
    [
        (lambda: average_precision([0, 1], [0.5]), "same length"),
        (lambda: average_precision([[0, 1]], [[0.5, 0.5]]), "same length"),
        (lambda: average_precision([0, 2], [0.5, 0.5]), "0 or 1"),
        (lambda: coverage_overflow([], []), "length above 0"),
        (lambda: coverage_overflow([0, 2], [0, 1]), "0 or 1"),
        (lambda: coverage_overflow([0, 1], [0, 1, 0]), "same length"),
        (lambda: average_precision([0, 1], [0.5, NAN]), "NaN"),
        (lambda: average_precision([0, 0], [0.1, 0.2]), "without a positive"),
        (lambda: video_miou([0, 1], [0, 1], np.zeros((3, 2), np.int64)), "shape"),
        (lambda: evaluate([]), "video"),
        (lambda: recall_within_counts([1, 0], [1, 0], np.full((2, 2), NAN)), "finite"),
        (lambda: VideoScores(ENDS, np.array([0.1]), SHOTS, video="video x"), "video x"),
        (lambda: VideoScores(ENDS, np.array([0.1, 0.9]), SHOTS, known=np.array([True])), ""),
        (lambda: VideoScores(ENDS, np.array([0.1, 0.9]), SHOTS, seconds=np.zeros((3, 2))), ""),
        (lambda: VideoScores(ENDS, np.array([NAN, NAN]), SHOTS), "NaN"),
    ],
)
def test_inconsistent_arrays_and_undefined_metrics_are_refused(measure: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        measure()


def test_undefined_metrics_are_left_out() -> None:
    nothing = evaluate([VideoScores(np.zeros(2, np.uint8), np.array([0.1, 0.2]), SHOTS)])
    assert nothing == {"f1": 0.0, "miou": 0.0, "precision": 0.0, "video_f1": 0.0}
    VideoScores(ENDS, np.array([NAN, NAN]), SHOTS, predicted=np.array([True, False]))


# --- Recall@3s ------------------------------------------------------------------------------------------------------


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


def test_recall_at_3s_of_a_video_without_scene_ends_counts_nothing() -> None:
    assert recall_within_counts([0, 0], [1, 0], np.array([[0.0, 1], [1, 2]])) == (0, 0)


# --- what a video may say of itself ----------------------------------------------------------------------------------


def test_shots_without_a_label_are_left_out_of_shot_wise_metrics() -> None:
    video = random_video(1)
    known = np.ones(len(video.labels), np.bool_)
    known[::3] = False
    masked = VideoScores(video.labels, video.scores, video.shots, known=known)
    kept = VideoScores(video.labels[known], video.scores[known], video.shots[known])
    some, all_of_kept = evaluate([masked]), evaluate([kept])
    for name in some.keys() - {"miou"}:
        assert some[name] == all_of_kept[name]
    assert some["miou"] == evaluate([video])["miou"]


def test_explicit_predicted_scene_ends_replace_the_threshold() -> None:
    video = random_video(2)
    predicted = np.zeros(len(video.labels), np.bool_)
    predicted[[1, 4]] = True
    said = VideoScores(video.labels, video.scores, video.shots, predicted=predicted)
    for threshold in (0.0, 0.5, 2.0):
        result = evaluate([said], threshold)
        assert result["f1"] == pytest.approx(f1_score(video.labels, predicted))
        assert result["miou"] == video_miou(video.labels, predicted, video.shots)
        assert result["ap"] == evaluate([video])["ap"]
