"""Metrics of the BaSSL paper (section 4.1), computed as in its release: AP, AUC-ROC, F1, mIoU, Recall, Recall@3s.

AP, AUC-ROC and F1 are over the pooled shots of all films; mIoU, Recall and Recall@3s are means over films. Labels are
(N,) of 0 and 1, 1 where a scene ends with the shot, scores are (N,). Every function of labels raises ValueError where
shapes differ, a label is neither 0 nor 1, or a score is NaN.
:mod:`.boundary_metrics` has metrics of other papers, :mod:`.bootstrap` all of them with confidence intervals.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

RECALL_SECONDS = 3.0  # Recall@3s: maximum distance of a predicted scene end in seconds, exclusive
RECALL_SHOTS = 5  # Recall@3s: maximum distance in shots, as in the release


@dataclass(frozen=True, eq=False)
class FilmScores:
    """Labels and predictions of one film of N shots."""

    labels: NDArray[np.uint8]  # (N,) 0 or 1, 1 where a scene ends with the shot
    # (N,) predicted scores of scene ends; all NaN for predictions without scores, such as a list of scenes, which have
    # `predicted` instead
    scores: NDArray[np.float64]
    # (N, 2) half-open frame range of each shot; in seconds if frames are unknown
    shots: NDArray[np.int64] | NDArray[np.float64]
    seconds: NDArray[np.float64] | None = None  # (N, 2) the same in seconds, if known
    # (N,) False at shots without a label, which AP, AUC, F1, precision and recall leave out; None: all have one
    known: NDArray[np.bool_] | None = None
    # (N,) predicted scene ends, if they do not follow from scores and a threshold
    predicted: NDArray[np.bool_] | None = None
    # (M, 2) earliest and latest time of each true scene end in seconds, if the truth has shots of its own; None: at the
    # ends of the labelled shots
    true_ends: NDArray[np.float64] | None = None
    predicted_ends: NDArray[np.float64] | None = None  # (L, 2) the same for the prediction
    film: str = ""  # name of the film

    def __post_init__(self) -> None:
        N = len(self.labels)
        for array, shape in (
            (self.scores, (N,)),
            (self.shots, (N, 2)),
            (self.seconds, (N, 2)),
            (self.known, (N,)),
            (self.predicted, (N,)),
        ):
            if array is not None and array.shape != shape:
                raise ValueError(f"{self.film or 'a film'} has {N} labels, but an array {array.shape}, not {shape}")
        if self.predicted is None and np.isnan(self.scores).any():
            raise ValueError(f"{self.film or 'a film'} has scores that are NaN")

    def decided(self, threshold: float) -> NDArray[np.bool_]:
        """(N,) whether a scene end is predicted at the shot."""
        return self.scores >= threshold if self.predicted is None else self.predicted

    def counted(self) -> NDArray[np.bool_]:
        """(N,) whether metrics over shots include the shot."""
        return np.ones(len(self.labels), np.bool_) if self.known is None else self.known


@dataclass(frozen=True)
class Evaluation:
    """The metrics over a set of films, from 0 to 1, over the pooled shots; ``film_...`` are means over films."""

    ap: float  # average precision
    auc: float  # area under the ROC curve
    f1: float  # at the threshold, as are the next
    miou: float  # mean over films of `film_miou`
    film_ap: float
    film_f1: float
    precision: float
    recall: float
    film_recall: float  # the Recall of the release

    @property
    def sum(self) -> float:
        """The paper's Sum, see `meta_sum`."""
        return meta_sum(self.ap, self.miou, self.auc, self.f1)


def average_precision(labels: ArrayLike, scores: ArrayLike) -> float:
    """Area under the precision-recall curve, as a step function (no interpolation), as scikit-learn computes it for the
    release. Raises ValueError where no label is 1."""
    y, s = _checked(labels, scores)
    if not y.any():
        raise ValueError("average precision is not defined without a positive label")
    positives, taken = _counts_by_threshold(y, s)
    return float((np.diff(positives, prepend=0) / positives[-1] * (positives / taken)).sum())


def auc_roc(labels: ArrayLike, scores: ArrayLike) -> float:
    """Probability that a random scene end scores higher than a random other shot (ties count half). Raises ValueError
    where only one class is present."""
    y, s = _checked(labels, scores)
    if y.all() or not y.any():
        raise ValueError("AUC-ROC is not defined without both classes")
    positives, taken = _counts_by_threshold(y, s)
    hits, false = positives / positives[-1], (taken - positives) / (taken[-1] - positives[-1])
    return float(np.trapezoid(np.append(0.0, hits), np.append(0.0, false)))


def _counts_by_threshold(y: NDArray[np.int64], s: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """For each distinct score as threshold, the highest first: positives at or above it, and all at or above it."""
    order = np.argsort(-s)
    falling = s[order]
    last = np.flatnonzero(np.append(falling[1:] != falling[:-1], True))  # of those with the same score
    return np.cumsum(y[order])[last], last + 1


def f1_at(labels: ArrayLike, scores: ArrayLike, threshold: float = 0.5) -> float:
    """F1 of the positive class if shots with `score >= threshold` (0.5 in the release) are predicted scene ends:
    2 TP / (2 TP + FP + FN); 0 if there is neither a true nor a predicted scene end."""
    y, s = _checked(labels, scores)
    taken = s >= threshold
    return float(2 * y[taken].sum() / max(1, y.sum() + taken.sum()))


def precision_at(labels: ArrayLike, scores: ArrayLike, threshold: float = 0.5) -> float:
    """TP / (TP + FP) if shots with `score >= threshold` are predicted scene ends; 0 if there are none."""
    y, s = _checked(labels, scores)
    taken = s >= threshold
    return float(y[taken].sum() / max(1, taken.sum()))


def recall_at(labels: ArrayLike, scores: ArrayLike, threshold: float = 0.5) -> float:
    """TP / (TP + FN) if shots with `score >= threshold` are predicted scene ends. Its mean over films is the Recall of
    the release and of LGSS (Rao et al. 2020). Raises ValueError where no label is 1."""
    y, s = _checked(labels, scores)
    if not y.any():
        raise ValueError("recall is not defined without a positive label")
    return float(y[s >= threshold].sum() / y.sum())


def recall_within_counts(labels: ArrayLike, predicted: ArrayLike, seconds: NDArray[np.float64]) -> tuple[int, int]:
    """Recall@3s of one film, as counts: the true scene ends that have a predicted one near, and all true ones.

    Near is less than `RECALL_SECONDS`, from end of shot to end of shot, and at most `RECALL_SHOTS` away. A predicted
    scene end may match several true ones; `boundary_metrics.boundary_match` is stricter.

    Args:
        labels: (N,) of 0 and 1.
        predicted: (N,) of 0 and 1, or bool.
        seconds: (N, 2) range of each shot. For MovieNet frames at 24 a second, as in the release.
    Raises ValueError where times are not finite.

    Source: LGSS (Rao et al. 2020), and the BaSSL release, which adds 1e-5 to the denominator.
    """
    y, p = _checked(labels, predicted)
    if seconds.shape != (len(y), 2) or not np.isfinite(seconds).all():
        raise ValueError(f"seconds must be ({len(y)}, 2) finite numbers")
    true, found = np.flatnonzero(y == 1), np.flatnonzero(p == 1)
    apart = np.abs(true[:, None] - found[None, :])
    ends = seconds[:, 1]
    near = (apart <= RECALL_SHOTS) & (np.abs(ends[true][:, None] - ends[found][None, :]) < RECALL_SECONDS)
    return int(near.any(axis=1).sum()), len(true)


def meta_sum(ap: float, miou: float, auc: float, f1: float) -> float:
    """The paper's Sum: AP + mIoU + AUC-ROC + F1, from 0 to 4 (the paper adds percentages: 241.73 is 2.4173).

    Source: the BaSSL paper, section 4.1 ("Meta-Sum") and its table of pretext tasks.
    """
    return ap + miou + auc + f1


def film_miou(labels: ArrayLike, predicted: ArrayLike, shots: NDArray[np.int64] | NDArray[np.float64]) -> float:
    """Mean IoU between the true and the predicted scenes of one film.

    A scene extends from the first frame of its first shot to the last frame of its last shot. The result is the mean of
    two averages: over true scenes of the best IoU with a predicted scene, and vice versa. As in the release, shots
    after the last boundary are in no scene, and a film without a predicted (or true) boundary gets 0. (The release uses
    last frames as ends, so that its scenes are one frame shorter.)

    Args:
        labels: (N,) of 0 and 1, 1 at the last shot of a true scene.
        predicted: (N,) of 0 and 1 (or bool), 1 at the last shot of a predicted scene.
        shots: (N, 2) half-open range of each shot, in frames; seconds do as well.

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
    """Mean of `film_miou` over films, with scene ends where `score >= threshold`. Raises ValueError: no film, or what
    `film_miou` raises."""
    if not films:
        raise ValueError("mIoU is not defined without a film")
    return float(np.mean([film_miou(film.labels, film.decided(threshold), film.shots) for film in films]))


def evaluate(films: Sequence[FilmScores], threshold: float = 0.5) -> Evaluation:
    """The paper's metrics over a set of films. Films without a scene end are left out of `film_ap` and `film_recall`.

    mIoU uses the labels of all shots, the other metrics those of the known shots. Raises ValueError: no film, or what
    the single metrics raise.
    """
    if not films:
        raise ValueError("nothing to evaluate: no film")
    known = [film.counted() for film in films]
    truth = [film.labels[counted] for film, counted in zip(films, known, strict=True)]
    predicted = [film.scores[counted] for film, counted in zip(films, known, strict=True)]
    decided = [film.decided(threshold)[counted].astype(float) for film, counted in zip(films, known, strict=True)]
    labels, scores, decisions = np.concatenate(truth), np.concatenate(predicted), np.concatenate(decided)
    with_ends = [i for i, y in enumerate(truth) if y.any()]
    return Evaluation(
        ap=average_precision(labels, scores),
        auc=auc_roc(labels, scores),
        f1=f1_at(labels, decisions),
        miou=miou(films, threshold),
        film_ap=float(np.mean([average_precision(truth[i], predicted[i]) for i in with_ends])),
        film_f1=float(np.mean([f1_at(y, d) for y, d in zip(truth, decided, strict=True)])),
        precision=precision_at(labels, decisions),
        recall=recall_at(labels, decisions),
        film_recall=float(np.mean([recall_at(truth[i], decided[i]) for i in with_ends])),
    )


def _scenes(ends: NDArray[np.bool_], shots: NDArray[np.int64] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Half-open ranges of the scenes that end at the marked shots, (scenes, 2)."""
    last = np.flatnonzero(ends)
    first = np.concatenate([np.zeros(1, dtype=np.int64), last[:-1] + 1])[: len(last)]
    return np.stack([shots[first, 0], shots[last, 1]], axis=1).astype(np.float64)


def _checked(labels: ArrayLike, scores: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    y, s = np.asarray(labels), np.asarray(scores, dtype=np.float64)
    if y.ndim != 1 or y.shape != s.shape:
        raise ValueError(f"labels and scores must be two arrays of the same length, not {y.shape} and {s.shape}")
    if not np.isin(y, (0, 1)).all():
        raise ValueError("labels must be 0 or 1")
    if np.isnan(s).any():
        raise ValueError("scores must not be NaN")
    return y.astype(np.int64), s
