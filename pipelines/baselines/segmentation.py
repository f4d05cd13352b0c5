"""The result type of all baselines, and the similarity between shots that they share.

A baseline is a function of the features (N, D) of a video's shots, their times (N, 2) in seconds, and its settings.
Most look at the order of the shots only, not at the times themselves.

The papers measure color histograms, motion, SIFT matches or sound; here every system gets the same features of a shot,
from any encoder, and the similarity is the cosine after the video's mean is subtracted, with negative values set to 0.
Like histogram intersection it lies between 0 and 1 and has no unit, and it is 0 unless two shots are more similar than
average for the video. (Features of one encoder have similar directions: without subtracting the mean, all cosines of
VGG19 features are above 0.3.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.models.networks.cut_evidence import unit_rows

Floats = NDArray[np.float64]
Features = NDArray[np.floating[Any]]
Times = NDArray[np.floating[Any] | np.integer[Any]]


@dataclass(frozen=True, eq=False)
class Segmentation:
    """Scenes of a video of N shots."""

    ends: NDArray[np.int64]  # (M,) increasing: the last shots of all scenes but the video's last one
    # (N,) finite: higher if a scene end is more likely, lowest at the video's last shot. Only the order within the
    # video is meaningful; each system documents what it is.
    score: Floats

    @property
    def labels(self) -> NDArray[np.uint8]:
        """Return (N,) 0 or 1, 1 at the shots in `ends`."""
        marks = np.zeros(len(self.score), dtype=np.uint8)
        marks[self.ends] = 1
        return marks


class Labeled(NamedTuple):
    """A training video of N shots."""

    features: Sequence[Features]  # one or several feature sets, (N, D_m) each, in the same order in every video
    scene_end: NDArray[np.integer[Any]]  # (N,) 1 at the last shot of a scene


def segmentation(ends: NDArray[np.integer[Any]], score: Floats) -> Segmentation:
    """Make a segmentation with a finite score that is lowest at the last shot. An infinite score (all or no divisions
    have an end there) becomes the greatest finite score plus 1, or the lowest minus 1."""
    values = np.array(score, dtype=np.float64)
    finite = values[:-1][np.isfinite(values[:-1])]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    values = np.nan_to_num(values, nan=low, posinf=high + 1, neginf=low - 1)
    values[-1] = values[:-1].min(initial=low)
    return Segmentation(np.sort(np.asarray(ends, dtype=np.int64)), values)


def center(features: Floats) -> Floats:
    """Return features minus the video's mean, scaled to unit length, (N, D). A shot that equals the mean stays 0."""
    x = features / max(float(np.abs(features).max()), np.finfo(np.float64).tiny)
    x = x - x.mean(axis=0)
    # If all shots are equal, only rounding error remains.
    return unit_rows(x, 1e-9 * float(np.sqrt(x.shape[1])))


def squared_distances(x: Floats, y: Floats) -> Floats:
    """Return squared Euclidean distances (N, M) of points (N, D) and (M, D)."""
    return np.asarray(np.maximum((x**2).sum(axis=1)[:, None] + (y**2).sum(axis=1) - 2 * x @ y.T, 0.0))


def similarities(features: Floats) -> Floats:
    """Return similarities of the shots of a video, (N, N), symmetric, between 0 and 1; 1 on the diagonal. O(N^2 D)."""
    unit = center(features)
    alike = np.clip(unit @ unit.T, 0.0, 1.0)
    np.fill_diagonal(alike, 1.0)
    return np.asarray(np.maximum(alike, alike.T))


def block_sums(matrix: Floats) -> Floats:
    """Return summed-area table of a matrix, (N+1, N+1): the sum over any block takes four look-ups (`block`)."""
    sums = np.zeros((matrix.shape[0] + 1, matrix.shape[1] + 1))
    np.cumsum(matrix, axis=0, out=sums[1:, 1:])
    np.cumsum(sums[1:, 1:], axis=1, out=sums[1:, 1:])
    return sums


def block(sums: Floats, rows: tuple[Any, Any], columns: tuple[Any, Any]) -> Any:
    """Return sum over `matrix[rows[0]:rows[1], columns[0]:columns[1]]` from `block_sums`; bounds may be arrays."""
    (a, b), (c, d) = rows, columns
    return sums[b, d] - sums[a, d] - sums[b, c] + sums[a, c]


# --- fixed length -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FixedLengthSettings:
    """Settings of `fixed_length`."""

    seconds: float = 60.0  # length of a scene


def fixed_length(
    features: Floats, times: Floats, settings: FixedLengthSettings = FixedLengthSettings()
) -> Segmentation:
    """End a scene with each shot during which the time since the start of the video passes a multiple of the length.

    The features are not used. Score: 1 at these shots, 0 elsewhere.
    """
    passed = np.floor((times[:, 1] - times[0, 0]) / settings.seconds)
    marks = np.diff(passed, prepend=0.0) > 0
    marks[-1] = False
    return segmentation(np.flatnonzero(marks), marks.astype(np.float64))
