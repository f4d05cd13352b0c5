"""How well scores of shots say where scenes end.

The four metrics of the BaSSL paper (section 4.1), computed as its release computes them: AP, AUC-ROC and F1 over the
shots of all films pooled, mIoU film by film and then averaged.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray


@dataclass(frozen=True)
class FilmScores:
    """What is known and what was said about one film of N shots.

    Attributes:
        labels: (N,) 0 or 1, 1 where a scene ends with the shot.
        scores: (N,) how sure the model is of that; higher is surer.
        shots: (N, 2) half-open frame range of each shot.
    """

    labels: NDArray[np.uint8]
    scores: NDArray[np.float64]
    shots: NDArray[np.int64]


@dataclass(frozen=True)
class Evaluation:
    """The metrics over a set of films, all between 0 and 1.

    Attributes:
        ap: average precision over the pooled shots.
        auc: area under the ROC curve over the pooled shots.
        f1: F1 at the threshold over the pooled shots.
        miou: mean over films of `film_miou` at the threshold.
        film_ap: mean over films of the average precision of each.
        film_f1: mean over films of F1 at the threshold of each.
    """

    ap: float
    auc: float
    f1: float
    miou: float
    film_ap: float
    film_f1: float


def average_precision(labels: ArrayLike, scores: ArrayLike) -> float:
    """Area under the precision-recall curve, as a step function (no interpolation).

    Args:
        labels: (N,) of 0 and 1.
        scores: (N,); only their order counts.

    Raises:
        ValueError: shapes differ, a label is neither 0 nor 1, a score is NaN, or no label is 1.

    Source: `sklearn.metrics.average_precision_score`, which the release calls.
    """
    # scikit-learn takes a second to import; what is on the path of `bassl predict` must not wait for it.
    from sklearn.metrics import average_precision_score

    y, s = _checked(labels, scores)
    if not y.any():
        raise ValueError("average precision is not defined without a positive label")
    return float(average_precision_score(y, s))


def auc_roc(labels: ArrayLike, scores: ArrayLike) -> float:
    """Probability that a random scene end scores higher than a random other shot (ties count half).

    Args:
        labels: (N,) of 0 and 1.
        scores: (N,); only their order counts.

    Raises:
        ValueError: shapes differ, a label is neither 0 nor 1, a score is NaN, or only one class is present.

    Source: `sklearn.metrics.roc_auc_score`.
    """
    from sklearn.metrics import roc_auc_score

    y, s = _checked(labels, scores)
    if y.all() or not y.any():
        raise ValueError("AUC-ROC is not defined without both classes")
    return float(roc_auc_score(y, s))


def f1_at(labels: ArrayLike, scores: ArrayLike, threshold: float = 0.5) -> float:
    """F1 of the positive class when a shot with `score >= threshold` is taken for a scene end.

    Args:
        labels: (N,) of 0 and 1.
        scores: (N,).
        threshold: the operating point; 0.5 in the release.

    Returns:
        2 TP / (2 TP + FP + FN); 0 where there is neither a true nor a predicted scene end.

    Raises:
        ValueError: shapes differ, a label is neither 0 nor 1, or a score is NaN.
    """
    from sklearn.metrics import f1_score

    y, s = _checked(labels, scores)
    return float(f1_score(y, s >= threshold, zero_division=0.0))


def film_miou(labels: ArrayLike, predicted: ArrayLike, shots: NDArray[np.int64]) -> float:
    """Mean IoU between the true and the predicted scenes of one film.

    A scene reaches from the first frame of its first shot to the last frame of its last shot. For each true scene the
    best IoU with any predicted scene is taken and averaged, then the same the other way round; the result is the mean
    of both. As in the release, shots after the last boundary are in no scene, and a film without a predicted boundary
    (or without a true one) gets 0.

    Args:
        labels: (N,) of 0 and 1, 1 at the last shot of a true scene.
        predicted: (N,) of 0 and 1 (or bool), 1 at the last shot of a predicted scene.
        shots: (N, 2) half-open frame range of each shot.

    Raises:
        ValueError: shapes differ, or a label is neither 0 nor 1.

    Source: MovieNet (Huang et al. 2020) as the BaSSL release computes it.
    """
    y, p = _checked(labels, predicted)
    if shots.shape != (len(y), 2):
        raise ValueError(f"shots must have the shape ({len(y)}, 2), not {shots.shape}")
    truth, guess = _scenes(y == 1, shots), _scenes(p == 1, shots)
    if not len(truth) or not len(guess):
        return 0.0
    start = np.maximum(truth[:, None, 0], guess[None, :, 0])
    end = np.minimum(truth[:, None, 1], guess[None, :, 1])
    overlap = np.maximum(end - start, 0)
    union = (truth[:, 1] - truth[:, 0])[:, None] + (guess[:, 1] - guess[:, 0])[None, :] - overlap
    iou = overlap / union
    return float((iou.max(axis=1).mean() + iou.max(axis=0).mean()) / 2)


def miou(films: Sequence[FilmScores], threshold: float = 0.5) -> float:
    """Mean of `film_miou` over films, a scene ending where `score >= threshold`.

    Raises:
        ValueError: no film, or what `film_miou` raises.
    """
    if not films:
        raise ValueError("mIoU is not defined without a film")
    return float(np.mean([film_miou(film.labels, film.scores >= threshold, film.shots) for film in films]))


def evaluate(films: Sequence[FilmScores], threshold: float = 0.5) -> Evaluation:
    """All metrics over a set of films. Films without a scene end are left out of the mean `film_ap`.

    Raises:
        ValueError: no film, or what the single metrics raise.
    """
    if not films:
        raise ValueError("nothing to evaluate: no film")
    labels = np.concatenate([film.labels for film in films])
    scores = np.concatenate([film.scores for film in films])
    return Evaluation(
        ap=average_precision(labels, scores),
        auc=auc_roc(labels, scores),
        f1=f1_at(labels, scores, threshold),
        miou=miou(films, threshold),
        film_ap=float(np.mean([average_precision(film.labels, film.scores) for film in films if film.labels.any()])),
        film_f1=float(np.mean([f1_at(film.labels, film.scores, threshold) for film in films])),
    )


def _scenes(ends: NDArray[np.bool_], shots: NDArray[np.int64]) -> NDArray[np.int64]:
    """Half-open frame ranges of the scenes that end at the marked shots, (number of scenes, 2)."""
    last = np.flatnonzero(ends)
    first = np.concatenate([np.zeros(1, dtype=np.int64), last[:-1] + 1])[: len(last)]
    return np.stack([shots[first, 0], shots[last, 1]], axis=1)


def _checked(labels: ArrayLike, scores: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    y, s = np.asarray(labels), np.asarray(scores, dtype=np.float64)
    if y.ndim != 1 or y.shape != s.shape:
        raise ValueError(f"labels and scores must be two arrays of the same length, not {y.shape} and {s.shape}")
    if not np.isin(y, (0, 1)).all():
        raise ValueError("labels must be 0 or 1")
    if np.isnan(s).any():
        raise ValueError("scores must not be NaN")
    return y.astype(np.int64), s
