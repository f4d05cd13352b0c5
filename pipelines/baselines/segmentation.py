"""What every classical system takes and gives, and the one similarity between shots that they share.

The papers measure colour histograms, motion, SIFT matches or sound; here every system gets the same features of a shot,
from whatever encoder, and turns them into similarities in one way: the cosine after the film's mean is taken off,
negative values set to 0. That lies between 0 and 1 as histogram intersection does, needs no unit, and says that two
shots have nothing in common unless they are more alike than two shots of this film are on the whole. (Features of one
encoder all point the same way: without the mean's removal, all cosines of VGG19 features lie above 0.3.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Features = NDArray[np.floating[Any]]
Times = NDArray[np.floating[Any] | np.integer[Any]]


@dataclass(frozen=True, eq=False)
class Segmentation:
    """Scenes of a film of N shots.

    Attributes:
        ends: (M,) int64, increasing: the last shots of all scenes but the film's last one. The film's last shot is
            never among them, as it has no label (or the label 0) in the data sets. M + 1 is the number of scenes.
        score: (N,) float64, finite: higher where a scene more likely ends. Only the order within the film is meant;
            what the number is, each system says. The film's last shot has the lowest score.
    """

    ends: NDArray[np.int64]
    score: Floats

    @property
    def labels(self) -> NDArray[np.uint8]:
        """(N,) 0 or 1, 1 at the shots in `ends`."""
        marks = np.zeros(len(self.score), dtype=np.uint8)
        marks[self.ends] = 1
        return marks


def segmentation(ends: NDArray[np.integer[Any]], score: Floats) -> Segmentation:
    """A segmentation whose score is made finite, and lowest at the last shot.

    A score of infinity (no choice without an end there, or none with one) becomes one more, or less, than the farthest
    finite score.
    """
    values = np.array(score, dtype=np.float64)
    finite = values[:-1][np.isfinite(values[:-1])]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    values = np.nan_to_num(values, nan=low, posinf=high + 1, neginf=low - 1)
    values[-1] = values[:-1].min(initial=low)
    return Segmentation(np.sort(np.asarray(ends, dtype=np.int64)), values)


def checked(features: Features, times: Times) -> tuple[Floats, Floats]:
    """Features and times as float64.

    Args:
        features: (N, D), N and D at least 1.
        times: (N, 2), when each shot starts and ends, in seconds.

    Raises:
        ValueError: shapes do not fit, a value is not finite, or a shot ends before it starts or starts before the one
            before it.
    """
    x, t = np.asarray(features, dtype=np.float64), np.asarray(times, dtype=np.float64)
    if x.ndim != 2 or not x.size:
        raise ValueError(f"features must be (N, D) with N, D >= 1, not {x.shape}")
    if t.shape != (len(x), 2):
        raise ValueError(f"times must be ({len(x)}, 2), one row for each row of features, not {t.shape}")
    if not np.isfinite(x).all() or not np.isfinite(t).all():
        raise ValueError("features and times must be finite")
    if (t[:, 1] < t[:, 0]).any() or (np.diff(t[:, 0]) < 0).any():
        raise ValueError("shots must be in order of time, and none may end before it starts")
    return x, t


def centred(features: Floats) -> Floats:
    """Features less the film's mean, scaled to unit length, (N, D). A shot that equals the mean stays 0."""
    x = features / max(float(np.abs(features).max()), np.finfo(np.float64).tiny)
    x = x - x.mean(axis=0)
    norm = np.linalg.norm(x, axis=1, keepdims=True)
    # What is left of a film of equal shots is rounding error, which must not be blown up to unit length.
    alive = norm > 1e-9 * np.sqrt(x.shape[1])
    return np.asarray(np.where(alive, x / np.where(alive, norm, 1.0), 0.0))


def similarities(features: Floats) -> Floats:
    """How alike the shots of a film are, (N, N), symmetric, between 0 and 1; 1 on the diagonal. O(N^2 D)."""
    unit = centred(features)
    alike = np.clip(unit @ unit.T, 0.0, 1.0)
    np.fill_diagonal(alike, 1.0)
    return np.asarray(np.maximum(alike, alike.T))


def block_sums(matrix: Floats) -> Floats:
    """(N+1, N+1) sums of all entries above and left: the sum over a block takes four look-ups (`block`)."""
    sums = np.zeros((matrix.shape[0] + 1, matrix.shape[1] + 1))
    np.cumsum(matrix, axis=0, out=sums[1:, 1:])
    np.cumsum(sums[1:, 1:], axis=1, out=sums[1:, 1:])
    return sums


def block(sums: Floats, rows: tuple[Any, Any], columns: tuple[Any, Any]) -> Any:
    """Sum over `matrix[rows[0]:rows[1], columns[0]:columns[1]]`; bounds may be arrays that broadcast."""
    (a, b), (c, d) = rows, columns
    return sums[b, d] - sums[a, d] - sums[b, c] + sums[a, c]
