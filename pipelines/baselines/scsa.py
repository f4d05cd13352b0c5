"""SCSA: shot clustering and sequence alignment (Chasanis, Likas and Galatsanos 2009)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipelines.baselines.segmentation import Features, Floats, Segmentation, Times, checked, segmentation, similarities
from pipelines.baselines.spectral import leading_eigenvectors, normalised_affinity


@dataclass(frozen=True)
class SCSASettings:
    """Of `scsa`."""

    eigenvalue: float = 0.1
    """As many clusters as the normalised similarities have eigenvalues above this; 1 is the greatest they can have."""
    most_clusters: int = 100
    """At most so many clusters."""
    window: int = 4
    """Shots on either side of a candidate whose labels are aligned."""
    gap: float = -0.5
    """Score of a label that has no counterpart. Two equal labels score 1."""
    threshold: float = 0.5
    """A local minimum of the alignment score ends a scene where it is no higher than this share of the way from the
    film's least score to its mean."""

    def __post_init__(self) -> None:
        if self.window < 1 or self.most_clusters < 1:
            raise ValueError(f"counts must be positive: {self}")


def scsa(features: Features, times: Times, settings: SCSASettings | None = None) -> Segmentation:
    """Group shots that look alike wherever in the film they are, and end scenes where the pattern of groups changes.

    1. Spectral clustering of the shots' similarities: the leading eigenvectors of D^-1/2 A D^-1/2, rows scaled to unit
       length, grouped by fast global k-means. There are as many clusters as eigenvalues near 1.
    2. The labels of the `window` shots up to each shot are aligned with those of the `window` shots after it, globally
       (Needleman and Wunsch 1970). A pair of equal labels scores 1, a pair of different ones the mean similarity of
       their clusters less 1, a gap `gap`; the sum is divided by the length of the longer side.
    3. A scene ends where the score is a local minimum and low.

    Decided here: the paper could be had as an abstract only. It names the clustering (spectral, improved by an estimate
    of the number of clusters and by fast global k-means) and the alignment of label sequences; the limit on the
    eigenvalues, the scores of the alignment, its window and the rule for "low" are ours. The paper compares several
    key-frames a shot by colour histograms; here a shot has one feature.

    Score: minus the alignment score.

    Args:
        features: (N, D).
        times: (N, 2) seconds; not used beyond their check. That time plays no part in grouping is the paper's point.
        settings: see there.

    Raises:
        ValueError: what `checked` raises.

    Complexity: O(N^2 D) for the similarities, O(C N^2) for C clusters, O(N window^2) for the alignment; O(N^2) memory.

    Source: V. T. Chasanis, A. C. Likas, N. P. Galatsanos: Scene detection in videos using shot clustering and sequence
    alignment. IEEE Trans. Multimedia 11(1), 2009.
    """
    settings = settings or SCSASettings()
    x, _ = checked(features, times)
    alike = similarities(x)
    labels = shot_clusters(alike, settings)
    scores = alignment_scores(labels, substitutions(alike, labels), settings.window, settings.gap)
    score = np.concatenate([-scores, [-np.inf]])
    return segmentation(low_points(scores, settings.threshold), score)


def shot_clusters(alike: Floats, settings: SCSASettings) -> NDArray[np.int64]:
    """The cluster of each shot, (N,)."""
    values, vectors = leading_eigenvectors(normalised_affinity(alike), min(settings.most_clusters, len(alike)))
    count = max(1, int((values > settings.eigenvalue).sum()))
    rows = vectors[:, :count]
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return fast_global_kmeans(rows, count)


def fast_global_kmeans(points: Floats, count: int) -> NDArray[np.int64]:
    """The cluster of each point, (N,): clusters are added one by one where they help most (Likas et al. 2003).

    From the best clusters so far, the next centre is the point that would take the most off the squared error if the
    other centres stayed where they are; then Lloyd's iterations. No random start, so the same points give the same
    clusters. Fewer than `count` clusters where that many different points do not exist.

    Args:
        points: (N, d).
        count: of clusters.
    """
    squared = (points**2).sum(axis=1)
    apart = np.maximum(squared[:, None] + squared - 2 * points @ points.T, 0.0)
    centres = points.mean(axis=0, keepdims=True)
    while True:
        distances = np.maximum(squared[:, None] + (centres**2).sum(axis=1) - 2 * points @ centres.T, 0.0)
        nearest = distances.min(axis=1)
        if len(centres) == count:
            return np.asarray(distances.argmin(axis=1), dtype=np.int64)
        gains = np.maximum(nearest[:, None] - apart, 0.0).sum(axis=0)
        best = int(gains.argmax())
        if gains[best] <= 1e-9:
            return np.asarray(distances.argmin(axis=1), dtype=np.int64)
        centres = _lloyd(points, np.concatenate([centres, points[best : best + 1]]))


def _lloyd(points: Floats, centres: Floats) -> Floats:
    """Centres after at most ten of Lloyd's iterations, which few starts from good centres need."""
    before = np.full(len(points), -1)
    for _ in range(10):
        nearest = ((centres**2).sum(axis=1) - 2 * points @ centres.T).argmin(axis=1)
        if (nearest == before).all():
            break
        order = np.argsort(nearest, kind="stable")
        held, first = np.unique(nearest[order], return_index=True)  # an empty cluster's centre stays where it is
        sizes = np.diff(first, append=len(points))
        centres[held] = np.add.reduceat(points[order], first, axis=0) / sizes[:, None]
        before = nearest
    return centres


def substitutions(alike: Floats, labels: NDArray[np.int64]) -> Floats:
    """Score of each pair of labels in an alignment, (C, C): 1 on the diagonal, elsewhere from -1 to 0."""
    members = (labels == np.arange(labels.max() + 1)[:, None]).astype(np.float64)
    size = np.maximum(members.sum(axis=1), 1)
    scores = members @ alike @ members.T / (size[:, None] * size) - 1
    np.fill_diagonal(scores, 1.0)
    return np.asarray(scores)


def alignment_scores(labels: NDArray[np.int64], scores: Floats, window: int, gap: float) -> Floats:
    """How well the labels up to each shot but the last align with those after it, (N-1,), 1 at best.

    At the film's edges a side has fewer than `window` shots. All candidates go through the table of the alignment
    together, cell by cell.
    """
    N = len(labels)
    at = np.arange(N - 1)
    left, right = np.minimum(at + 1, window), np.minimum(N - 1 - at, window)
    # Both sides are read backwards, which changes nothing and lets every side start at its place 0.
    places = np.arange(window)
    first = labels[np.maximum(at[:, None] - places, 0)]
    second = labels[np.clip((at + right)[:, None] - places, 0, N - 1)]
    table = np.zeros((window + 1, window + 1, N - 1))
    table[:, 0] = table[0, :] = gap * np.arange(window + 1)[:, None]
    for i in range(1, window + 1):
        for j in range(1, window + 1):
            match = table[i - 1, j - 1] + scores[first[:, i - 1], second[:, j - 1]]
            table[i, j] = np.maximum(match, np.maximum(table[i - 1, j], table[i, j - 1]) + gap)
    return np.asarray(table[left, right, at] / np.maximum(left, right))


def low_points(scores: Floats, threshold: float) -> NDArray[np.int64]:
    """Where scores are a local minimum below a share of the way from their least to their mean; of equal neighbours
    the first."""
    if not len(scores):
        return np.zeros(0, dtype=np.int64)
    padded = np.concatenate([[np.inf], scores, [np.inf]])
    minimum = (scores < padded[:-2]) & (scores <= padded[2:])
    return np.flatnonzero(minimum & (scores <= scores.min() + threshold * (scores.mean() - scores.min())))
