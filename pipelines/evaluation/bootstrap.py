"""All metrics over a set of films, with confidence intervals by bootstrap over films.

Films are independent, the shots of a film are not: whole films are resampled with replacement, and each metric is
computed on every draw. A draw is a row of weights, how often each film is in it; the row of ones is the set itself.
Most metrics are functions of sums over films, so that all draws are one matrix product; so are AP and AUC-ROC, from
the number of shots of each film that score at least as high as each true scene end.

AP, AUC-ROC and F1 are those of the BaSSL paper (section 4.1) over the pooled shots of all films; its mIoU, Recall and
Recall@3s are means over films. F1 and precision are 0 where no scene end is true or predicted. Sum is the paper's
Meta-Sum, AP + mIoU + AUC-ROC + F1, from 0 to 4 (the paper adds percentages: 241.73 is 2.4173).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipelines.evaluation.boundary_metrics import coverage_overflow, film_boundaries
from pipelines.evaluation.metrics import FilmScores, film_miou, recall_within_counts

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

JSON_KEYS = {"auc": "auc_roc"}
"""The keys of metrics in the JSON of a score, where they differ from the names in `METRICS`."""

CONFIDENCE = 0.95  # confidence level: intervals are from the 2.5th to the 97.5th percentile of the draws

_CHUNK = 4_000_000  # most numbers in memory while AP is computed for many draws
_Values = dict[str, NDArray[np.float64]]


@dataclass(frozen=True)
class Measure:
    """One metric over a set of films; a value is None where it is undefined."""

    # over the shots, scenes or boundaries of all films together. None for mIoU, which is a mean over films.
    pooled: float | None
    interval: tuple[float, float] | None  # its confidence interval; None for a single film
    # mean over the films for which it is defined. None for Sum, which adds values of both kinds, as in the paper.
    films: float | None
    films_interval: tuple[float, float] | None  # its confidence interval

    @property
    def value(self) -> float | None:
        """The value that the paper reports: pooled, except for mIoU."""
        return self.pooled if self.pooled is not None else self.films


def measure(
    films: Sequence[FilmScores], threshold: float = 0.5, within: float = 3.0, resamples: int = 1000, seed: int = 0
) -> dict[str, Measure]:
    """Compute all `METRICS` with their confidence intervals.

    Args:
        films: labels and predictions of each film.
        threshold: a shot with at least this score ends a scene, in films without explicit decisions.
        within: tolerance of the boundary metrics, in seconds.
        resamples: number of draws; 0 for no intervals.
        seed: of the draws, which depend on it and on the number of films only.
    Returns: By name, in the order of `METRICS`. AP and AUC-ROC are None if a film has no scores, Recall@3s and the
        boundary metrics if no film has times (they leave out films without).
    Raises ValueError: no film, or an invalid threshold, tolerance or number of draws.
    """
    weights = _draws(len(films), resamples, seed)
    pooled, means = _statistics(films, threshold, within, weights)
    return {name: _summary(pooled.get(name), means.get(name)) for name in METRICS}


def evaluate(films: Sequence[FilmScores], threshold: float = 0.5) -> dict[str, float]:
    """The paper's metrics over shots that are defined, and mIoU, without intervals; ``film_...`` are means over films.
    Arguments and errors as for `measure`."""
    found = measure(films, threshold, resamples=0)
    values = {name: found[name].value for name in ("ap", "auc", "f1", "miou", "precision", "recall")}
    values |= {f"film_{name}": found[name].films for name in ("ap", "f1", "recall")}
    return {name: value for name, value in values.items() if value is not None}


def compare(
    first: Sequence[FilmScores],
    second: Sequence[FilmScores],
    thresholds: tuple[float, float] = (0.5, 0.5),
    within: float = 3.0,
    resamples: int = 1000,
    seed: int = 0,
) -> dict[str, Measure]:
    """The difference of two predictions for the same films, first minus second, for each metric.

    Paired bootstrap: both are measured on the same draws, so that the difficulty of films cancels out and the interval
    of the difference is narrower than the two intervals suggest. ``thresholds`` are those of the two; the other
    arguments are those of `measure`. Raises ValueError: names or order of the films differ; and as `measure`.
    """
    if [film.film for film in first] != [film.film for film in second]:
        raise ValueError("two predictions can only be compared on the same films")
    weights = _draws(len(first), resamples, seed)
    one, other = (
        _statistics(films, threshold, within, weights)
        for films, threshold in zip((first, second), thresholds, strict=True)
    )

    def less(a: _Values, b: _Values, name: str) -> NDArray[np.float64] | None:
        return a[name] - b[name] if name in a and name in b else None

    return {name: _summary(less(one[0], other[0], name), less(one[1], other[1], name)) for name in METRICS}


def _draws(films: int, resamples: int, seed: int) -> NDArray[np.float64]:
    """(1 + resamples, films): how often each film is in each draw; the first is the set itself."""
    if films < 1:
        raise ValueError("nothing to measure: no film")
    if resamples < 0:
        raise ValueError("resamples must be 0 or more")
    if films == 1:  # with one film all draws are equal
        resamples = 0
    drawn = np.random.default_rng(seed).multinomial(films, np.full(films, 1 / films), resamples)
    return np.concatenate([np.ones((1, films)), drawn.astype(np.float64)])


def _summary(pooled: NDArray[np.float64] | None, means: NDArray[np.float64] | None) -> Measure:
    def both(values: NDArray[np.float64] | None) -> tuple[float | None, tuple[float, float] | None]:
        if values is None or np.isnan(values[0]):
            return None, None
        drawn = values[1:][~np.isnan(values[1:])]  # a draw may be all films without a scene end
        if not len(drawn):
            return float(values[0]), None
        low, high = np.quantile(drawn, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
        return float(values[0]), (float(low), float(high))

    return Measure(*both(pooled), *both(means))


def _statistics(
    films: Sequence[FilmScores], threshold: float, within: float, weights: NDArray[np.float64]
) -> tuple[_Values, _Values]:
    """Pooled values and means over films of each metric for each draw; NaN where undefined."""
    if not within >= 0 or np.isnan(threshold):
        raise ValueError("the threshold must be a number and the tolerance 0 or more")
    V = len(films)
    counts = {name: np.zeros(V) for name in ("tp", "taken", "true", "hits", "ends", "pairs", "marks", "bounds")}
    miou, coverage, overflow, shots = (np.zeros(V) for _ in range(4))
    timed = np.zeros(V, np.bool_)
    for v, film in enumerate(films):
        decided, counted = film.decided(threshold), film.counted()
        y, d = film.labels[counted] == 1, decided[counted]
        counts["tp"][v], counts["taken"][v], counts["true"][v] = (y & d).sum(), d.sum(), y.sum()
        miou[v] = film_miou(film.labels, decided, film.shots)
        segment = coverage_overflow(film.labels, decided, np.diff(film.shots)[:, 0] if film.pieces else 1)
        coverage[v], overflow[v], shots[v] = segment.coverage, segment.overflow, segment.shots
        match = film_boundaries(film, threshold, within)
        if match is not None and film.seconds is not None:
            timed[v] = True
            counts["pairs"][v], counts["marks"][v], counts["bounds"][v] = match.matched, match.predicted, match.true
            counts["hits"][v], counts["ends"][v] = recall_within_counts(film.labels * counted, decided, film.seconds)

    alone = _of_counts(counts)
    for name in _TIMED:
        alone[name][~timed] = np.nan
    alone |= {"miou": miou, **_of_segments(coverage, overflow)}
    pooled = _of_counts({name: weights @ values for name, values in counts.items()})
    if not timed.any():
        pooled = {name: values for name, values in pooled.items() if name not in _TIMED}
    total = weights @ shots
    pooled |= _of_segments(weights @ (coverage * shots) / total, weights @ (overflow * shots) / total)
    if not any(np.isnan(film.scores).any() for film in films):
        ranking = _rankings(films)
        alone["ap"], alone["auc"] = _rank(ranking, np.eye(V))
        pooled["ap"], pooled["auc"] = _rank(ranking, weights)
    means = {name: _mean(weights, values) for name, values in alone.items()}
    if "ap" in pooled:
        pooled["sum"] = pooled["ap"] + means["miou"] + pooled["auc"] + pooled["f1"]
    return pooled, means


_TIMED = ("recall_at_3s", "boundary_precision", "boundary_recall", "boundary_f1")
"""The metrics that films without times do not have."""


def _of_counts(counts: Mapping[str, NDArray[np.float64]]) -> _Values:
    """Metrics that follow from counts, which are those of films or sums over films."""
    return {
        "f1": 2 * counts["tp"] / np.maximum(1, counts["taken"] + counts["true"]),
        "precision": counts["tp"] / np.maximum(1, counts["taken"]),
        "recall": _ratio(counts["tp"], counts["true"]),
        "recall_at_3s": _ratio(counts["hits"], counts["ends"]),
        "boundary_precision": counts["pairs"] / np.maximum(1, counts["marks"]),
        "boundary_recall": _ratio(counts["pairs"], counts["bounds"]),
        "boundary_f1": 2 * counts["pairs"] / np.maximum(1, counts["marks"] + counts["bounds"]),
    }


def _of_segments(coverage: NDArray[np.float64], overflow: NDArray[np.float64]) -> _Values:
    """Coverage, overflow, and the harmonic mean of C and 1 - O; 0 where O is 1 or more."""
    rest = np.maximum(0, 1 - overflow)
    f = 2 * coverage * rest / (coverage + rest)  # C is never 0
    return {"coverage": coverage, "overflow": overflow, "coverage_overflow_f": f}


def _ratio(part: NDArray[np.float64], whole: NDArray[np.float64]) -> NDArray[np.float64]:
    """part / whole, NaN where the whole is 0."""
    return np.divide(part, whole, out=np.full_like(part, np.nan), where=whole > 0)


def _mean(weights: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Weighted means of the values that are not NaN, (draws,)."""
    defined = ~np.isnan(values)
    return _ratio(weights @ np.where(defined, values, 0.0), weights @ defined.astype(np.float64))


@dataclass(frozen=True, eq=False)
class _Ranking:
    """For G distinct scores of true scene ends, in descending order, and V films: how many shots of each film score at
    least (or above) each. AP and AUC-ROC of any draw of films follow from it."""

    ends: NDArray[np.float64]  # (G, V) scene ends with exactly this score
    ends_from: NDArray[np.float64]  # (G, V) scene ends with at least this score
    others_from: NDArray[np.float64]  # (G, V) other shots with at least this score
    others_above: NDArray[np.float64]  # (G, V) other shots with a higher score
    others: NDArray[np.float64]  # (V,) all other shots


def _rankings(films: Sequence[FilmScores]) -> _Ranking:
    ends, others = [], []
    for film in films:
        counted = film.counted()
        scores, labels = film.scores[counted], film.labels[counted] == 1
        ends.append(np.sort(scores[labels]))
        others.append(np.sort(scores[~labels]))
    levels = np.unique(np.concatenate(ends))[::-1]

    def at_least(scores: list[NDArray[np.float64]], above: bool = False) -> NDArray[np.float64]:
        side = "right" if above else "left"
        columns = [len(one) - np.searchsorted(one, levels, side) for one in scores]  # type: ignore[call-overload]
        return np.stack(columns, axis=1).astype(np.float64)

    ends_from = at_least(ends)
    return _Ranking(
        ends_from - at_least(ends, above=True),
        ends_from,
        at_least(others),
        at_least(others, above=True),
        np.array([len(one) for one in others], np.float64),
    )


def _rank(ranking: _Ranking, weights: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """AP and AUC-ROC of each draw (weights (R, V)), (R,) each.

    AP = sum over thresholds of (rise in recall) x precision; recall rises only at scores of scene ends. AUC-ROC = share
    of pairs of a scene end and another shot in which the scene end scores higher, ties counting half.
    """
    R, G = len(weights), len(ranking.ends)
    ap, auc = np.full(R, np.nan), np.full(R, np.nan)
    step = max(1, _CHUNK // max(1, G))
    for start in range(0, R, step):
        some = slice(start, start + step)
        w = weights[some].T
        rise, found = ranking.ends @ w, ranking.ends_from @ w  # (G, draws); counts are exact in float64
        from_here, above = ranking.others_from @ w, ranking.others_above @ w
        positives, negatives = rise.sum(axis=0), ranking.others @ w
        # Where no shot of the draw reaches the first thresholds, recall does not rise either.
        precision = found / np.maximum(1, found + from_here)
        ap[some] = _ratio((rise * precision).sum(axis=0), positives)
        below = negatives - (from_here + above) / 2
        auc[some] = _ratio((rise * below).sum(axis=0), positives * negatives)
    return ap, auc


def flatten(measures: Mapping[str, Measure]) -> dict[str, dict[str, float | list[float] | None]]:
    """The measures as plain JSON values, by their keys in JSON files."""
    return {
        JSON_KEYS.get(name, name): {
            "pooled": one.pooled,
            "interval": None if one.interval is None else list(one.interval),
            "films": one.films,
            "films_interval": None if one.films_interval is None else list(one.films_interval),
        }
        for name, one in measures.items()
    }
