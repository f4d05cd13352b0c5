"""Every metric of every bootstrap draw against the plain metrics on the drawn videos."""

from dataclasses import replace
from statistics import harmonic_mean

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, f1_score, precision_score, recall_score, roc_auc_score

from pipelines.evaluation.bootstrap import METRICS, Measure, _draws, _statistics, compare, evaluate, measure
from pipelines.evaluation.metrics import (
    VideoScores,
    coverage_overflow,
    recall_within_counts,
    video_boundaries,
    video_miou,
)
from tests.evaluation.scored_videos import one_video, videos


def drawn(some: list[VideoScores], weights: np.ndarray) -> list[VideoScores]:
    return [video for video, times in zip(some, weights.astype(int), strict=True) for _ in range(times)]


def plain(videos: list[VideoScores], threshold: float = 0.5) -> dict[str, float]:
    """Metrics over shots and mIoU, and ``video_...`` for means over videos, by scikit-learn."""
    pairs = [(video.labels[video.is_counted], video.scores[video.is_counted]) for video in videos]
    pooled = tuple(np.concatenate(parts) for parts in zip(*pairs, strict=True))
    metrics = {
        "ap": average_precision_score,
        "auc": roc_auc_score,
        "f1": lambda y, s: f1_score(y, s >= threshold),
        "precision": lambda y, s: precision_score(y, s >= threshold, zero_division=0),
        "recall": lambda y, s: recall_score(y, s >= threshold),
    }
    values = {name: metric(*pooled) for name, metric in metrics.items()}
    values |= {f"video_{name}": np.mean([metric(*pair) for pair in pairs]) for name, metric in metrics.items()}
    return values | {"miou": np.mean([video_miou(v.labels, v.decisions(threshold), v.shots) for v in videos])}


@pytest.mark.parametrize("levels", [0, 8], ids=["scores differ", "ties"])
def test_each_bootstrap_draw_equals_the_metrics_of_its_videos(levels: int) -> None:
    some = videos(levels=levels)
    weights = _draws(len(some), 8, seed=1)
    pooled, means = _statistics(some, 0.5, 2.0, weights)
    for r, row in enumerate(weights):
        these = drawn(some, row)
        expected = plain(these)
        for name in ("ap", "auc", "f1", "precision", "recall"):
            assert pooled[name][r] == pytest.approx(expected[name])
            assert means[name][r] == pytest.approx(expected[f"video_{name}"])
        assert means["miou"][r] == pytest.approx(expected["miou"])
        assert pooled["sum"][r] == pytest.approx(sum(expected[name] for name in ("ap", "miou", "auc", "f1")))

        parts = [coverage_overflow(video.labels, video.decisions(0.5)) for video in these]
        shots = sum(part[2] for part in parts)
        coverage = sum(part[0] * part[2] for part in parts) / shots
        overflow = sum(part[1] * part[2] for part in parts) / shots
        assert pooled["coverage"][r] == pytest.approx(coverage)
        assert pooled["overflow"][r] == pytest.approx(overflow)
        assert pooled["coverage_overflow_f"][r] == pytest.approx(harmonic_mean([coverage, 1 - overflow]))
        assert means["coverage"][r] == pytest.approx(np.mean([part[0] for part in parts]))
        assert means["overflow"][r] == pytest.approx(np.mean([part[1] for part in parts]))
        both = [harmonic_mean([part[0], max(0.0, 1 - part[1])]) for part in parts]
        assert means["coverage_overflow_f"][r] == pytest.approx(np.mean(both))

        matches = [match for video in these if (match := video_boundaries(video, 0.5, 2.0))]
        matched, true, marks = np.sum(matches, axis=0)
        assert pooled["boundary_precision"][r] == pytest.approx(matched / marks)
        assert pooled["boundary_recall"][r] == pytest.approx(matched / true)
        assert pooled["boundary_f1"][r] == pytest.approx(harmonic_mean([matched / marks, matched / true]))
        assert means["boundary_precision"][r] == pytest.approx(np.mean([one / n for one, _, n in matches]))
        assert means["boundary_recall"][r] == pytest.approx(np.mean([one / n for one, n, _ in matches]))
        f1 = [2 * one / max(1, true + marks) for one, true, marks in matches]
        assert means["boundary_f1"][r] == pytest.approx(np.mean(f1))
        counts = [recall_within_counts(v.labels * v.is_counted, v.decisions(0.5), v.seconds) for v in these]
        assert pooled["recall_at_3s"][r] == pytest.approx(np.divide(*np.sum(counts, axis=0)))
        assert means["recall_at_3s"][r] == pytest.approx(np.mean([found / true for found, true in counts]))


@pytest.mark.parametrize("threshold", [0.0, 0.25, 0.5, 1.1])
def test_evaluate_gives_the_metrics_of_scikit_learn_also_for_scores_at_the_threshold(threshold: float) -> None:
    some = videos(levels=8)
    expected = plain(some, threshold)
    for name, value in evaluate(some, threshold).items():
        assert value == pytest.approx(expected[name])


def test_intervals_are_percentiles_of_bootstrap_draws() -> None:
    some = videos()
    result = measure(some, 0.5, resamples=16, seed=3)
    assert list(result) == list(METRICS)
    values = [plain(drawn(some, row)) for row in _draws(len(some), 16, seed=3)[1:]]
    low, high = np.quantile([one["ap"] for one in values], [0.025, 0.975])
    assert result["ap"].interval == pytest.approx((low, high))
    low, high = np.quantile([one["miou"] for one in values], [0.025, 0.975])
    assert result["miou"].videos_interval == pytest.approx((low, high))
    assert result["ap"].pooled == pytest.approx(plain(some)["ap"])
    assert measure(some, 0.5, resamples=16, seed=3) == result
    assert measure(some, 0.5, resamples=16, seed=4)["ap"].interval != result["ap"].interval
    for one in result.values():
        assert one.interval is None or one.interval[0] <= one.pooled <= one.interval[1]  # type: ignore[operator]


def test_a_difference_is_measured_on_the_same_draws() -> None:
    some = videos(12)
    rng = np.random.default_rng(5)
    noise = [rng.normal(0, 0.02, len(video.scores)) for video in some]
    other = [replace(v, scores=np.clip(v.scores + more, 0, 1)) for v, more in zip(some, noise, strict=True)]
    same = compare(some, some)
    for one in same.values():
        assert one.pooled in (0.0, None)
        assert one.interval in ((0.0, 0.0), None)
    difference, alone = compare(some, other), measure(some)
    assert difference["ap"].pooled == pytest.approx(plain(some)["ap"] - plain(other)["ap"])
    back = compare(other, some)["ap"]
    assert back.pooled == pytest.approx(-difference["ap"].pooled)  # type: ignore[operator]
    assert back.interval == pytest.approx(tuple(-end for end in reversed(difference["ap"].interval or ())))

    def wide(one: Measure) -> float:
        return one.interval[1] - one.interval[0]

    assert wide(difference["ap"]) < wide(alone["ap"]) / 3


def test_only_the_same_videos_can_be_compared_and_nothing_measured_without_one() -> None:
    with pytest.raises(ValueError, match="same videos"):
        compare(videos(3), videos(3)[::-1])
    with pytest.raises(ValueError, match="no video"):
        measure([])


ENDS = ("ap", "auc", "sum", "recall", "recall_at_3s", "boundary_recall")
FOUND = ("f1", "precision", "recall", "recall_at_3s", "boundary_precision", "boundary_recall", "boundary_f1")


@pytest.mark.parametrize(
    ("labels", "scores", "expected"),
    [
        ([0, 1, 0, 0], [0.1, 0.4, 0.2, 0.1], dict.fromkeys((*FOUND, "miou"), 0.0) | {"ap": 1.0, "coverage": 1.0}),
        ([0, 0, 0], [0.9, 0.4, 0.2], dict.fromkeys(ENDS) | {"precision": 0.0, "overflow": 0.0}),
        ([1, 1, 1], [0.9, 0.9, 0.9], dict.fromkeys((*FOUND, "ap", "coverage", "miou"), 1.0) | {"auc": None}),
        ([0], [0.3], {"coverage": 1.0, "overflow": 0.0, "ap": None}),
        ([0, 1, 0, 1, 0, 1], [0.1] * 6, {"overflow": pytest.approx(5 / 3), "coverage_overflow_f": 0.0}),
    ],
    ids=["nothing predicted", "no scene end", "every shot", "one shot", "an overflow above one"],
)
def test_metrics_of_extreme_videos_are_defined(
    labels: list[int], scores: list[float], expected: dict[str, float | None]
) -> None:
    result = measure([one_video(labels, scores)] * 2, resamples=10)
    assert {name: result[name].value for name in expected} == expected
    assert all(one.interval is one.videos_interval is None for one in measure([one_video(labels, scores)]).values())
    assert all(result[name].interval is None for name, value in expected.items() if value is None)


def test_a_video_without_a_scene_end_is_left_out_of_undefined_video_means() -> None:
    some = videos(3)
    without = one_video([0, 0, 0], [0.2, 0.7, 0.1])
    assert measure([*some, without])["ap"].videos == pytest.approx(measure(some)["ap"].videos)
    assert measure([*some, without])["ap"].pooled != measure(some)["ap"].pooled


def test_videos_without_times_are_left_out_of_metrics_that_need_times() -> None:
    timed, timeless = videos(3), videos(3, seed=1, timed=False)
    both, one = measure([*timed, *timeless], resamples=20), measure(timed, resamples=20)
    for name in ("recall_at_3s", "boundary_precision", "boundary_recall", "boundary_f1"):
        assert both[name].pooled == pytest.approx(one[name].pooled)
        assert both[name].videos == pytest.approx(one[name].videos)
        assert measure(timeless, resamples=20)[name].value is None
    assert measure(timeless, resamples=20)["ap"].pooled is not None


def test_ap_is_undefined_without_scores() -> None:
    video = videos(1)[0]
    listed = replace(video, scores=np.full(len(video.labels), np.nan), predicted=video.scores >= 0.5)
    result = measure([listed, video], resamples=10)
    for name in ("ap", "auc", "sum"):
        assert result[name].value is None
    assert result["f1"].pooled is not None
