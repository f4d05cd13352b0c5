"""All metrics over a set of videos, with confidence intervals by bootstrap over videos.

Videos are independent but the shots of a video are not: whole videos are resampled with replacement, and each metric is
computed on every draw. A draw is a row of weights, how often it contains each video; the row of ones is the set itself.
Most metrics are functions of sums over videos, so that all draws are one matrix product.

AP, AUC-ROC and F1 are defined as in the paper (section 4.1), over the pooled shots of all videos; its mIoU, Recall and
Recall@3s are means over videos. F1 and precision are 0 if no scene end is true or predicted. Sum is the paper's
Meta-Sum, AP + mIoU + AUC-ROC + F1, from 0 to 4 (the paper adds percentages: 241.73 is 2.4173).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from numpy.typing import NDArray

from pipelines.evaluation.metrics import (
    VideoScores,
    coverage_overflow,
    recall_within_counts,
    video_boundaries,
    video_miou,
)

METRICS = {
    "ap": "AP",
    "auc": "AUC-ROC",
    "f1": "F1",
    "precision": "precision",
    "recall": "recall",
    "miou": "mIoU",
    "recall_at_3s": "Recall@3s",
    "sum": "Sum",
    "coverage": "coverage",
    "overflow": "overflow",
    "coverage_overflow_f": "F of the two",
    "boundary_precision": "boundary precision",
    "boundary_recall": "boundary recall",
    "boundary_f1": "boundary F1",
}
"""The metrics in the order of tables, with their names there."""

AT_SOFTMAX = {"f1_at_softmax": "f1", "miou_at_softmax": "miou"}
"""Metrics at a softmax of the network itself, before calibration, by name; and what they measure."""

JSON_KEYS = {"auc": "auc_roc"}  # keys in the JSON of a score that differ from the names in `METRICS`

CONFIDENCE = 0.95  # confidence level: intervals are from the 2.5th to the 97.5th percentile of the draws

_CHUNK = 4_000_000  # most numbers in memory while AP is computed for many draws
_Values = dict[str, NDArray[np.float64]]


@dataclass(frozen=True)
class Measure:
    """One metric over a set of videos; an undefined value is None."""

    # over the shots, scenes or boundaries of all videos together. None for mIoU, which is a mean over videos.
    pooled: float | None
    interval: tuple[float, float] | None  # its confidence interval; None for a single video
    # mean over the videos for which it is defined. None for Sum, which adds values of both kinds, as in the paper.
    videos: float | None
    videos_interval: tuple[float, float] | None  # its confidence interval

    @property
    def value(self) -> float | None:
        """Return the value that the paper reports: pooled, except for mIoU."""
        return self.pooled if self.pooled is not None else self.videos


def measure(
    videos: Sequence[VideoScores], threshold: float = 0.5, within: float = 3.0, resamples: int = 1000, seed: int = 0
) -> dict[str, Measure]:
    """Compute all `METRICS` with their confidence intervals, by name, in the order of `METRICS`. AP and AUC-ROC are
    None if a video has no scores; Recall@3s and the boundary metrics skip videos without times.

    Args:
        threshold: a shot with at least this score ends a scene, in videos without explicit decisions.
        within: tolerance of the boundary metrics, in seconds.
        resamples: number of draws; 0 for no intervals.
    Raises ValueError if there is no video.
    """
    weights = _draws(len(videos), resamples, seed)
    pooled, means = _statistics(videos, threshold, within, weights)
    return {name: _summary(pooled.get(name), means.get(name)) for name in METRICS}


def evaluate(videos: Sequence[VideoScores], threshold: float = 0.5) -> dict[str, float]:
    """Compute the paper's metrics that are defined by `measure`; ``video_...`` are means over videos."""
    measures = measure(videos, threshold, resamples=0)
    values = {name: measures[name].value for name in ("ap", "auc", "f1", "miou", "precision", "recall")}
    values |= {f"video_{name}": measures[name].videos for name in ("ap", "f1", "recall")}
    return {name: value for name, value in values.items() if value is not None}


def compare(
    first: Sequence[VideoScores],
    second: Sequence[VideoScores],
    threshold: float = 0.5,
    within: float = 3.0,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Measure]:
    """Compute the difference of two predictions, first minus second, for each metric, by `measure`, on the same draws
    (paired bootstrap). Raises ValueError if names or order of the videos differ."""
    if [video.video for video in first] != [video.video for video in second]:
        raise ValueError("two predictions can only be compared on the same videos")
    weights = _draws(len(first), resamples, seed)
    a, b = (_statistics(videos, threshold, within, weights) for videos in (first, second))
    pooled, means = ({name: x[name] - y[name] for name in x.keys() & y.keys()} for x, y in zip(a, b, strict=True))
    return {name: _summary(pooled.get(name), means.get(name)) for name in METRICS}


def _draws(videos: int, resamples: int, seed: int) -> NDArray[np.float64]:
    """Draw (1 + resamples, videos): how often each video is in each draw; the first is the set itself."""
    if videos < 1:
        raise ValueError("nothing to measure: no video")
    if videos == 1:  # with one video all draws are equal
        resamples = 0
    drawn = np.random.default_rng(seed).multinomial(videos, np.full(videos, 1 / videos), resamples)
    return np.concatenate([np.ones((1, videos)), drawn.astype(np.float64)])


def _summary(pooled: NDArray[np.float64] | None, means: NDArray[np.float64] | None) -> Measure:
    def both(values: NDArray[np.float64] | None) -> tuple[float | None, tuple[float, float] | None]:
        if values is None or np.isnan(values[0]):
            return None, None
        drawn = values[1:][~np.isnan(values[1:])]  # a draw may be all videos without a scene end
        if not len(drawn):
            return float(values[0]), None
        low, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
        return float(values[0]), (float(low), float(high))

    return Measure(*both(pooled), *both(means))


def _statistics(
    videos: Sequence[VideoScores], threshold: float, within: float, weights: NDArray[np.float64]
) -> tuple[_Values, _Values]:
    """Compute pooled values and means over videos of each metric for each draw; NaN if undefined."""
    V = len(videos)
    counts = {name: np.zeros(V) for name in ("tp", "taken", "true", "hits", "ends", "pairs", "marks", "bounds")}
    miou, coverage, overflow, shots = (np.zeros(V) for _ in range(4))
    timed = np.zeros(V, np.bool_)
    for v, video in enumerate(videos):
        decisions, counted = video.decisions(threshold), video.is_counted
        y, d = video.labels[counted] == 1, decisions[counted]
        counts["tp"][v], counts["taken"][v], counts["true"][v] = (y & d).sum(), d.sum(), y.sum()
        miou[v] = video_miou(video.labels, decisions, video.shots)
        lengths = np.diff(video.shots)[:, 0] if video.pieces else 1
        coverage[v], overflow[v], shots[v] = coverage_overflow(video.labels, decisions, lengths)
        match = video_boundaries(video, threshold, within)
        if match is not None and video.seconds is not None:
            timed[v] = True
            counts["pairs"][v], counts["bounds"][v], counts["marks"][v] = match
            counts["hits"][v], counts["ends"][v] = recall_within_counts(
                video.labels * counted, decisions, video.seconds
            )

    by_video = _count_metrics(counts)
    for name in _TIMED:
        by_video[name][~timed] = np.nan
    by_video |= {"miou": miou, **_segment_metrics(coverage, overflow)}
    pooled = _count_metrics({name: weights @ values for name, values in counts.items()})
    if not timed.any():
        pooled = {name: values for name, values in pooled.items() if name not in _TIMED}
    total = weights @ shots
    pooled |= _segment_metrics(weights @ (coverage * shots) / total, weights @ (overflow * shots) / total)
    if not any(np.isnan(video.scores).any() for video in videos):
        rank = _ranker(videos)
        by_video["ap"], by_video["auc"] = rank(np.eye(V))
        pooled["ap"], pooled["auc"] = rank(weights)
    means = {name: _mean(weights, values) for name, values in by_video.items()}
    if "ap" in pooled:
        pooled["sum"] = pooled["ap"] + means["miou"] + pooled["auc"] + pooled["f1"]
    return pooled, means


_TIMED = ("recall_at_3s", "boundary_precision", "boundary_recall", "boundary_f1")
"""The metrics that videos without times do not have."""


def _count_metrics(counts: Mapping[str, NDArray[np.float64]]) -> _Values:
    """Return metrics that follow from counts of videos or from their sums over videos."""
    return {
        "f1": 2 * counts["tp"] / np.maximum(1, counts["taken"] + counts["true"]),
        "precision": counts["tp"] / np.maximum(1, counts["taken"]),
        "recall": _ratio(counts["tp"], counts["true"]),
        "recall_at_3s": _ratio(counts["hits"], counts["ends"]),
        "boundary_precision": counts["pairs"] / np.maximum(1, counts["marks"]),
        "boundary_recall": _ratio(counts["pairs"], counts["bounds"]),
        "boundary_f1": 2 * counts["pairs"] / np.maximum(1, counts["marks"] + counts["bounds"]),
    }


def _segment_metrics(coverage: NDArray[np.float64], overflow: NDArray[np.float64]) -> _Values:
    """Return coverage, overflow, and the harmonic mean of C and 1 - O; 0 where O is 1 or more."""
    rest = np.maximum(0, 1 - overflow)
    f = 2 * coverage * rest / (coverage + rest)  # C is never 0
    return {"coverage": coverage, "overflow": overflow, "coverage_overflow_f": f}


def _ratio(part: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return part / whole, NaN if the whole is 0."""
    return np.divide(part, whole, out=np.full_like(part, np.nan), where=whole > 0)


def _mean(weights: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return weighted means of the values that are not NaN, (draws,)."""
    defined = ~np.isnan(values)
    return _ratio(weights @ np.where(defined, values, 0.0), weights @ defined.astype(np.float64))


def _ranker(videos: Sequence[VideoScores]) -> Callable[[NDArray[np.float64]], tuple[NDArray[np.float64], ...]]:
    """Return a function from weights (R, V) to AP and AUC-ROC of each draw, (R,) each.

    AP = sum over thresholds of (rise in recall) x precision; recall rises only at scores of scene ends. AUC-ROC = share
    of pairs of a scene end and another shot in which the scene end scores higher, ties counting half. Both follow from
    the number of shots of each video that score at least (or above) each score of a true scene end.
    """
    ends, others = [], []
    for video in videos:
        counted = video.is_counted
        scores, labels = video.scores[counted], video.labels[counted] == 1
        ends.append(np.sort(scores[labels]))
        others.append(np.sort(scores[~labels]))
    levels = np.unique(np.concatenate(ends))[::-1]
    G = len(levels)

    def at_least(scores: list[NDArray[np.float64]], above: bool = False) -> NDArray[np.float64]:  # (G, V)
        side = "right" if above else "left"
        columns = [len(s) - np.searchsorted(s, levels, side) for s in scores]  # type: ignore[call-overload]
        return np.stack(columns, axis=1).astype(np.float64)

    ends_from, others_from, others_above = at_least(ends), at_least(others), at_least(others, above=True)
    ends_at = ends_from - at_least(ends, above=True)
    other_shots = np.array([len(scores) for scores in others], np.float64)  # (V,)

    def rank(weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        ap, auc = np.full((2, len(weights)), np.nan)
        step = max(1, _CHUNK // max(1, G))
        for start in range(0, len(weights), step):
            some = slice(start, start + step)
            w = weights[some].T
            rise, true = ends_at @ w, ends_from @ w  # (G, draws); counts are exact in float64
            from_here, above = others_from @ w, others_above @ w
            positives, negatives = rise.sum(axis=0), other_shots @ w
            # If no shot of the draw reaches the first thresholds, recall does not rise either.
            precision = true / np.maximum(1, true + from_here)
            ap[some] = _ratio((rise * precision).sum(axis=0), positives)
            below = negatives - (from_here + above) / 2
            auc[some] = _ratio((rise * below).sum(axis=0), positives * negatives)
        return ap, auc

    return rank


def flatten(measures: Mapping[str, Measure]) -> dict[str, dict[str, float | list[float] | None]]:
    """Return the measures as plain JSON values, by their keys in JSON files."""
    return {
        JSON_KEYS.get(name, name): {
            key: list(value) if isinstance(value, tuple) else value for key, value in asdict(result).items()
        }
        for name, result in measures.items()
    }
