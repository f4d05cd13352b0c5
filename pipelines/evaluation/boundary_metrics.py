"""Metrics of scenes and boundaries: coverage and overflow, as reported on BBC and OVSD, and boundary precision, recall
and F1 within a tolerance. The metrics of `pipelines.evaluation.metrics` are mostly over shots.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipelines.datasets.matching import assign_scene_ends
from pipelines.evaluation.metrics import VideoScores


@dataclass(frozen=True)
class CoverageOverflow:
    """Coverage and overflow of one video, or of several with their shots pooled."""

    coverage: float  # C, 0 to 1, higher is better
    # O, from 0, lower is better; above 1 where predicted scenes extend beyond the neighbouring true scenes
    overflow: float
    shots: float  # number of shots, or their lengths together


def coverage_overflow(labels: ArrayLike, predicted: ArrayLike, lengths: ArrayLike = 1) -> CoverageOverflow:
    """Coverage and overflow of one video, counted in shots; or by their `lengths`, (N,) above 0.

    With true scenes t_1 ... t_n and predicted scenes s_1 ... s_m as sets of shots, and #(x) the number of shots:

        C(t_k) = max_i #(s_i & t_k) / #(t_k)
        O(t_k) = sum over the s_i that share a shot with t_k of #(s_i \\ t_k) / (#(t_{k-1}) + #(t_{k+1}))

    and C and O of the video are the means over its true scenes, weighted by #(t_k). A video's first and last scene have
    one neighbor; a video of one scene has none, and no overflow. The last scene ends with the video, whatever the last
    label is.

    `labels`, `predicted`: (N,) of 0 and 1, 1 at the last shot of a true scene, and of a predicted scene.
    Raises ValueError: shapes differ, there is no shot, or a value is neither 0 nor 1.

    Source: Vendrig and Worring, "Systematic evaluation of logical story unit segmentation", IEEE Transactions on
    Multimedia 2002, in the form of Baraldi, Grana and Cucchiara, "A Deep Siamese Network for Scene Detection in
    Broadcast Videos", ACM MM 2015, which BBC and OVSD papers report.
    """
    truth, guess = _scene_numbers(labels), _scene_numbers(predicted)
    if truth.shape != guess.shape:
        raise ValueError(f"labels and predicted must have the same length, not {len(truth)} and {len(guess)}")
    shared = np.zeros((truth[-1] + 1, guess[-1] + 1))
    np.add.at(shared, (truth, guess), lengths)
    size, guess_size = shared.sum(axis=1), shared.sum(axis=0)
    covered = shared.max(axis=1)  # C(t_k) #(t_k)
    outside = ((guess_size[None, :] - shared) * (shared > 0)).sum(axis=1)
    neighbours = np.append(size[1:], 0) + np.append(0, size[:-1])
    overflow = outside / np.where(neighbours > 0, neighbours, 1)  # a scene without neighbours has no overflow
    return CoverageOverflow(
        float(covered.sum() / size.sum()), float((overflow * size).sum() / size.sum()), float(size.sum())
    )


@dataclass(frozen=True)
class BoundaryMatch:
    """Counts of matched boundaries of a video."""

    matched: int  # one-to-one pairs of a true and a predicted boundary
    true: int  # true boundaries
    predicted: int  # predicted ones

    @property
    def f1(self) -> float:
        """2 matched / (true + predicted); 0 if there are none."""
        return 2 * self.matched / max(1, self.true + self.predicted)


def boundary_match(true: ArrayLike, predicted: ArrayLike, tolerance: float) -> BoundaryMatch:
    """Match true and predicted boundaries that are at most `tolerance` apart: a maximum one-to-one matching.

    The video's end is not a boundary; leave it out. On a line some maximum matching keeps the order, which dynamic
    programming finds (`pipelines.datasets.matching.assign_scene_ends`).

    Args:
        true: (M,) times in seconds, in order; or (M, 2), the earliest and latest time of each, for boundaries inside a
            gap, such as a fade.
        predicted: (L,) or (L, 2), likewise; the middle of a range is taken.
        tolerance: in seconds.
    Raises ValueError: times are not in order or not numbers, or the tolerance is negative.

    Source: boundary detection within a tolerance as in TRECVID's shot boundary task, with an optimal instead of a
    greedy matching.
    """
    marks = np.asarray(predicted, np.float64)
    marks = np.unique(marks.mean(axis=1) if marks.ndim == 2 else marks)
    spans = np.asarray(true, np.float64)
    matched = int((assign_scene_ends(marks, spans, tolerance) >= 0).sum()) if len(marks) else 0
    return BoundaryMatch(matched, len(spans), len(marks))


def video_boundaries(video: VideoScores, threshold: float, tolerance: float) -> BoundaryMatch | None:
    """`boundary_match` of a video; None if its times are unknown.

    Boundaries are the ends of scenes except the end of the video, at the times of truth and prediction themselves where
    these have shots of their own.
    """
    if video.seconds is None or not np.isfinite(video.seconds).all():
        return None
    ends, counted = video.seconds[:-1, 1], video.counted()[:-1]
    true = ends[(video.labels[:-1] == 1) & counted] if video.true_ends is None else video.true_ends
    predicted = ends[video.decided(threshold)[:-1] & counted] if video.predicted_ends is None else video.predicted_ends
    return boundary_match(true, predicted, tolerance)


def _scene_numbers(ends: ArrayLike) -> NDArray[np.int64]:
    """Scene index of each shot, (N,), from labels of scene ends."""
    marks = np.asarray(ends)
    if marks.ndim != 1 or not len(marks) or not np.isin(marks, (0, 1)).all():
        raise ValueError("marks of scene ends must be (N,) of 0 and 1, N >= 1")
    return np.append(0, np.cumsum(marks[:-1].astype(np.int64)))
