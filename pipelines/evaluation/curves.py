"""The curves behind the numbers: precision over recall, and how often a score has come true."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipelines.evaluation.metrics import FilmScores


@dataclass(frozen=True, eq=False)
class PrecisionRecall:
    """A precision-recall curve, a point for each different score from the highest to the lowest.

    Attributes:
        thresholds: (T,) falling.
        precision, recall: (T,) when every shot with at least that score is taken for a scene end.
    """

    thresholds: NDArray[np.float64]
    precision: NDArray[np.float64]
    recall: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Reliability:
    """How often a scene did end with a shot, by its score.

    Attributes:
        edges: (B + 1,) of the bins, from 0 to 1.
        shots: (B,) in each bin; a score on an edge belongs to the bin above, 1 to the last.
        score: (B,) their mean score; NaN in an empty bin.
        share: (B,) the share of them that are scene ends; NaN in an empty bin.
    """

    edges: NDArray[np.float64]
    shots: NDArray[np.int64]
    score: NDArray[np.float64]
    share: NDArray[np.float64]

    @property
    def error(self) -> float:
        """Expected calibration error: mean over shots of the distance of share and mean score of their bin.

        Source: Guo et al., "On Calibration of Modern Neural Networks", ICML 2017.
        """
        full = self.shots > 0
        distance = np.abs(self.share - self.score)[full]
        return float((distance * self.shots[full]).sum() / self.shots.sum())


def pooled_shots(films: Sequence[FilmScores]) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Labels and scores of the shots of all films that count, (T,) each."""
    counted = [film.counted() for film in films]
    labels = np.concatenate([film.labels[known] == 1 for film, known in zip(films, counted, strict=True)])
    return labels, np.concatenate([film.scores[known] for film, known in zip(films, counted, strict=True)])


def precision_recall(films: Sequence[FilmScores]) -> PrecisionRecall:
    """The precision-recall curve over the pooled shots of films.

    Raises:
        ValueError: no scene end among them, or a film without scores.
    """
    labels, scores = pooled_shots(films)
    if not labels.any() or np.isnan(scores).any():
        raise ValueError("a precision-recall curve needs scores and a scene end")
    order = np.argsort(-scores, kind="stable")
    last = np.append(np.flatnonzero(np.diff(scores[order])), len(order) - 1)  # of shots that score the same
    found = np.cumsum(labels[order])[last]
    return PrecisionRecall(scores[order][last], found / (last + 1), found / labels.sum())


def reliability(films: Sequence[FilmScores], bins: int = 10) -> Reliability:
    """How often scores came true, over the pooled shots of films, in bins of equal width.

    Raises:
        ValueError: a score is not between 0 and 1, or there is no shot.
    """
    labels, scores = pooled_shots(films)
    if not len(scores) or not ((scores >= 0) & (scores <= 1)).all():
        raise ValueError("a reliability diagram needs scores between 0 and 1")
    edges = np.linspace(0, 1, bins + 1)
    place = np.minimum(np.searchsorted(edges, scores, "right") - 1, bins - 1)
    shots = np.bincount(place, minlength=bins)
    with np.errstate(invalid="ignore"):
        score = np.bincount(place, scores, bins) / shots
        share = np.bincount(place, labels, bins) / shots
    return Reliability(edges, shots, score, share)
