"""Labels and predictions of a video, and metrics of the BaSSL paper (section 4.1) for one, as in its release.

Labels are (N,) of 0 and 1, 1 if a scene ends with the shot, scores are (N,). Every function of labels raises
ValueError where shapes differ, a label is neither 0 nor 1, or a score is NaN.
:mod:`.boundary_metrics` has metrics of other papers, :mod:`.bootstrap` all metrics over a set of videos.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

RECALL_SECONDS = 3.0  # Recall@3s: maximum distance of a predicted scene end in seconds, exclusive
RECALL_SHOTS = 5  # Recall@3s: maximum distance in shots, as in the release


@dataclass(frozen=True, eq=False)
class VideoScores:
    """Labels and predictions of one video of N shots."""

    labels: NDArray[np.uint8]  # (N,) 0 or 1, 1 if a scene ends with the shot
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
    # (M, 2) earliest and latest time of each true scene end in seconds, if the truth has its own shots; None: the ends
    # of the labeled shots
    true_ends: NDArray[np.float64] | None = None
    predicted_ends: NDArray[np.float64] | None = None  # (L, 2) the same for the prediction
    pieces: bool = False  # whether rows are not shots but the segments between the ends of two lists of scenes
    video: str = ""  # name of the video

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
                raise ValueError(f"{self.video or 'a video'} has {N} labels, but an array {array.shape}, not {shape}")
        if self.predicted is None and np.isnan(self.scores).any():
            raise ValueError(f"{self.video or 'a video'} has scores that are NaN")

    def decided(self, threshold: float) -> NDArray[np.bool_]:
        """(N,) whether a scene end is predicted at the shot."""
        return self.scores >= threshold if self.predicted is None else self.predicted

    def counted(self) -> NDArray[np.bool_]:
        """(N,) whether metrics over shots include the shot."""
        return np.ones(len(self.labels), np.bool_) if self.known is None else self.known


def average_precision(labels: ArrayLike, scores: ArrayLike) -> float:
    """Area under the precision-recall curve, as a step function (no interpolation), as scikit-learn computes it for the
    release. Raises ValueError if no label is 1."""
    y, s = _check_arrays(labels, scores)
    if not y.any():
        raise ValueError("average precision is not defined without a positive label")
    order = np.argsort(-s)
    falling = s[order]
    last = np.flatnonzero(np.append(falling[1:] != falling[:-1], True))  # of those with the same score
    positives = np.cumsum(y[order])[last]  # at or above each distinct score
    return float((np.diff(positives, prepend=0) / positives[-1] * (positives / (last + 1))).sum())


def recall_within_counts(labels: ArrayLike, predicted: ArrayLike, seconds: NDArray[np.float64]) -> tuple[int, int]:
    """Recall@3s of one video, as counts: the true scene ends that have a predicted one near, and all true ones.

    Near is less than `RECALL_SECONDS`, from end of shot to end of shot, and at most `RECALL_SHOTS` away. A predicted
    scene end may match several true ones; `boundary_metrics.boundary_match` is stricter.

    Args:
        labels: (N,) of 0 and 1.
        predicted: (N,) of 0 and 1, or bool.
        seconds: (N, 2) range of each shot. For MovieNet frames at 24 a second, as in the release.
    Raises ValueError where times are not finite.

    Source: LGSS (Rao et al. 2020), and the BaSSL release, which adds 1e-5 to the denominator.
    """
    y, p = _check_arrays(labels, predicted)
    if seconds.shape != (len(y), 2) or not np.isfinite(seconds).all():
        raise ValueError(f"seconds must be ({len(y)}, 2) finite numbers")
    true, predicted_ends = np.flatnonzero(y == 1), np.flatnonzero(p == 1)
    apart = np.abs(true[:, None] - predicted_ends[None, :])
    ends = seconds[:, 1]
    near = (apart <= RECALL_SHOTS) & (np.abs(ends[true][:, None] - ends[predicted_ends][None, :]) < RECALL_SECONDS)
    return int(near.any(axis=1).sum()), len(true)


def video_miou(labels: ArrayLike, predicted: ArrayLike, shots: NDArray[np.int64] | NDArray[np.float64]) -> float:
    """Mean IoU between the true and the predicted scenes of one video.

    A scene extends from the first frame of its first shot to the last frame of its last shot. The result is the mean of
    two averages: over true scenes of the best IoU with a predicted scene, and vice versa. As in the release, shots
    after the last boundary are in no scene, and a video without a predicted (or true) boundary gets 0. (The release
    uses last frames as ends, so that its scenes are one frame shorter.)

    Args:
        labels: (N,) of 0 and 1, 1 at the last shot of a true scene.
        predicted: (N,) of 0 and 1 (or bool), 1 at the last shot of a predicted scene.
        shots: (N, 2) half-open range of each shot, in frames or in seconds.

    Source: MovieNet (Huang et al. 2020) as the BaSSL release computes it.
    """
    y, p = _check_arrays(labels, predicted)
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


def _scenes(ends: NDArray[np.bool_], shots: NDArray[np.int64] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Half-open ranges of the scenes that end at the marked shots, (scenes, 2)."""
    last = np.flatnonzero(ends)
    first = np.concatenate([np.zeros(1, dtype=np.int64), last[:-1] + 1])[: len(last)]
    return np.stack([shots[first, 0], shots[last, 1]], axis=1).astype(np.float64)


def _check_arrays(labels: ArrayLike, scores: ArrayLike) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    y, s = np.asarray(labels), np.asarray(scores, dtype=np.float64)
    if y.ndim != 1 or y.shape != s.shape:
        raise ValueError(f"labels and scores must be two arrays of the same length, not {y.shape} and {s.shape}")
    if not np.isin(y, (0, 1)).all():
        raise ValueError("labels must be 0 or 1")
    if np.isnan(s).any():
        raise ValueError("scores must not be NaN")
    return y.astype(np.int64), s
