"""Pooled shots of videos, and their reliability diagram."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipelines.evaluation.metrics import VideoScores


@dataclass(frozen=True, eq=False)
class Reliability:
    """A reliability diagram: the share of scene ends among shots with similar scores."""

    edges: NDArray[np.float64]  # (B + 1,) bin edges, from 0 to 1
    shots: NDArray[np.int64]  # (B,) number in each bin; a score on an edge belongs to the bin above, 1 to the last
    score: NDArray[np.float64]  # (B,) their mean score; NaN in an empty bin
    share: NDArray[np.float64]  # (B,) the share of them that are scene ends; NaN in an empty bin

    @property
    def error(self) -> float:
        """Expected calibration error: mean over shots of |share - mean score| of their bin.

        Source: Guo et al., "On Calibration of Modern Neural Networks", ICML 2017.
        """
        full = self.shots > 0
        distance = np.abs(self.share - self.score)[full]
        return float((distance * self.shots[full]).sum() / self.shots.sum())


def pooled_shots(videos: Sequence[VideoScores]) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Labels and scores of the labeled shots of all videos, (T,) each."""
    counted = [video.counted() for video in videos]
    labels = np.concatenate([video.labels[shots] == 1 for video, shots in zip(videos, counted, strict=True)])
    return labels, np.concatenate([video.scores[shots] for video, shots in zip(videos, counted, strict=True)])


def reliability(videos: Sequence[VideoScores], bins: int = 10) -> Reliability:
    """The reliability diagram over the pooled shots of videos, with bins of equal width; scores are between 0 and
    1."""
    labels, scores = pooled_shots(videos)
    edges = np.linspace(0, 1, bins + 1)
    bin_of = np.minimum(np.searchsorted(edges, scores, "right") - 1, bins - 1)
    shots = np.bincount(bin_of, minlength=bins)
    with np.errstate(invalid="ignore"):
        score = np.bincount(bin_of, scores, bins) / shots
        share = np.bincount(bin_of, labels, bins) / shots
    return Reliability(edges, shots, score, share)
