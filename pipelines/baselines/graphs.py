"""Systems that cut or cluster the graph of similarities between shots: SCSA and GraphCut."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipelines.baselines import Floats, Segmentation, center, segmentation, similarities, squared_distances
from pipelines.models.networks.cut_evidence import BlockSums, cut_costs, similarity_band, unit_rows

# --- SCSA: Chasanis, Likas and Galatsanos 2009 ------------------------------------------------------------------------


@dataclass(frozen=True)
class SCSASettings:
    """Settings of `scsa`."""

    # the number of clusters is the number of eigenvalues of the normalized similarities above this; their maximum is 1
    eigenvalue: float = 0.1
    most_clusters: int = 100  # maximum number of clusters
    window: int = 4  # shots on each side of a candidate whose labels are aligned
    gap: float = -0.5  # Score of a gap in the alignment. Two equal labels score 1.
    threshold: float = 0.5  # of a low alignment score, see `low_points`


def scsa(features: Floats, times: Floats, settings: SCSASettings = SCSASettings()) -> Segmentation:
    """Cluster similar shots regardless of time, and end scenes where the sequence of cluster labels changes.

    1. Spectral clustering of the shots' similarities: the leading eigenvectors of D^-1/2 A D^-1/2, rows scaled to unit
       length, grouped by fast global k-means. The number of clusters is the number of eigenvalues near 1.
    2. The labels of the `window` shots up to each shot are aligned with the labels of the `window` shots after it
       (globally, Needleman and Wunsch 1970). A pair of equal labels scores 1, a pair of different ones the mean
       similarity of their clusters less 1, a gap `gap`; the sum is divided by the length of the longer side.
    3. A scene ends where the score is a local minimum and low.

    Score: minus the alignment score.

    Source: V. T. Chasanis, A. C. Likas, N. P. Galatsanos: Scene detection in videos using shot clustering and sequence
    alignment. IEEE Trans. Multimedia 11(1), 2009.
    """
    alike = similarities(features)
    labels = shot_clusters(alike, settings)
    scores = alignment_scores(labels, substitutions(alike, labels), settings.window, settings.gap)
    score = np.concatenate([-scores, [-np.inf]])
    return segmentation(low_points(scores, settings.threshold), score)


def shot_clusters(alike: Floats, settings: SCSASettings) -> NDArray[np.int64]:
    """Return the cluster of each shot, (N,)."""
    values, vectors = spectral_embedding(alike, settings.most_clusters)
    count = max(1, int((values > settings.eigenvalue).sum()))
    return fast_global_kmeans(unit_rows(vectors[:, :count], 1e-12), count)


def spectral_embedding(affinity: Floats, count: int) -> tuple[Floats, Floats]:
    """Return the greatest eigenvalues of D^-1/2 A D^-1/2, (count,), at most N, in descending order, and their
    eigenvectors, (N, count), with a positive entry of greatest magnitude, for affinities A (N, N) with degrees D."""
    from scipy import linalg  # type: ignore[import-untyped]  # optional dependency

    scale = 1 / np.sqrt(np.maximum(affinity.sum(axis=1), np.finfo(np.float64).tiny))
    N = len(affinity)
    values, vectors = linalg.eigh(affinity * scale[:, None] * scale, subset_by_index=(N - min(count, N), N - 1))
    values, vectors = values[::-1], vectors[:, ::-1]
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])])
    return values, np.asarray(vectors * signs)


def fast_global_kmeans(points: Floats, count: int) -> NDArray[np.int64]:
    """Cluster points (N, d) by fast global k-means (Likas et al. 2003): return the cluster of each point, (N,). The
    next center is the point that would reduce the squared error most if the other centers stayed fixed."""
    apart = squared_distances(points, points)
    centers = points.mean(axis=0, keepdims=True)
    while True:
        distances = squared_distances(points, centers)
        gains = np.maximum(distances.min(axis=1)[:, None] - apart, 0.0).sum(axis=0)
        best = int(gains.argmax())
        if len(centers) == count or gains[best] <= 1e-9:
            return np.asarray(distances.argmin(axis=1), dtype=np.int64)
        centers = _lloyd(points, np.concatenate([centers, points[best : best + 1]]))


def _lloyd(points: Floats, centers: Floats) -> Floats:
    """Return centers after at most ten of Lloyd's iterations, enough from a good start."""
    before = np.full(len(points), -1)
    for _ in range(10):
        nearest = ((centers**2).sum(axis=1) - 2 * points @ centers.T).argmin(axis=1)
        if (nearest == before).all():
            break
        order = np.argsort(nearest, kind="stable")
        filled, first = np.unique(nearest[order], return_index=True)  # an empty cluster keeps its center
        sizes = np.diff(first, append=len(points))
        centers[filled] = np.add.reduceat(points[order], first, axis=0) / sizes[:, None]
        before = nearest
    return centers


def substitutions(alike: Floats, labels: NDArray[np.int64]) -> Floats:
    """Score of each pair of labels in an alignment, (C, C): 1 on the diagonal, elsewhere from -1 to 0."""
    members = (labels == np.arange(labels.max() + 1)[:, None]).astype(np.float64)
    size = np.maximum(members.sum(axis=1), 1)
    scores = members @ alike @ members.T / (size[:, None] * size) - 1
    np.fill_diagonal(scores, 1.0)
    return np.asarray(scores)


def alignment_scores(labels: NDArray[np.int64], scores: Floats, window: int, gap: float) -> Floats:
    """Return alignment score of the labels up to each shot but the last with the labels after it, (N-1,), at most 1.
    The alignment tables of all candidates are computed together."""
    N = len(labels)
    shot = np.arange(N - 1)
    left, right = np.minimum(shot + 1, window), np.minimum(N - 1 - shot, window)
    # Both sides are reversed, which does not change the score and lets every side start at position 0.
    places = np.arange(window)
    first = labels[np.maximum(shot[:, None] - places, 0)]
    second = labels[np.clip((shot + right)[:, None] - places, 0, N - 1)]
    table = np.zeros((window + 1, window + 1, N - 1))
    table[:, 0] = table[0, :] = gap * np.arange(window + 1)[:, None]
    for i in range(1, window + 1):
        for j in range(1, window + 1):
            match = table[i - 1, j - 1] + scores[first[:, i - 1], second[:, j - 1]]
            table[i, j] = np.maximum(match, np.maximum(table[i - 1, j], table[i, j - 1]) + gap)
    return np.asarray(table[left, right, shot] / np.maximum(left, right))


def low_points(scores: Floats, threshold: float) -> NDArray[np.int64]:
    """Return local minima of at most minimum + threshold * (mean - minimum); of equal neighbors the first."""
    if not len(scores):
        return np.zeros(0, dtype=np.int64)
    padded = np.concatenate([[np.inf], scores, [np.inf]])
    minimum = (scores < padded[:-2]) & (scores <= padded[2:])
    return np.flatnonzero(minimum & (scores <= scores.min() + threshold * (scores.mean() - scores.min())))


# --- GraphCut: Rasheed and Shah 2005 ----------------------------------------------------------------------------------

_NEGLIGIBLE = 1e-18  # weights below this change no sum: a shot's weight with itself is 1


@dataclass(frozen=True)
class GraphCutSettings:
    """Settings of `graph_cut`."""

    decay: float = 20.0  # d of the paper, with its value: how slowly the weight of an edge decays with time
    threshold: float = 0.2  # maximum normalized cut at which a part is divided: the best on BBC and on OVSD


def graph_cut(features: Floats, times: Floats, settings: GraphCutSettings = GraphCutSettings()) -> Segmentation:
    """Cut the video where the normalized cut is minimal, then each part again, until all cuts exceed the threshold.

    The weight between two shots is their similarity times exp(-((m_i - m_j) / sigma)^2 / d), m being the middle of a
    shot and sigma the standard deviation of the shots' lengths. A part V of the video is cut into the shots before and
    after a point, A and B, where cut(A, B) / assoc(A, V) + cut(A, B) / assoc(B, V) is minimal.

    Score: the recursion continues to single shots whatever the threshold; the score of a cut is minus the greatest
    normalized cut on the path to it, including its own.

    Source: Z. Rasheed, M. Shah: Detection and representation of scenes in videos. IEEE Trans. Multimedia 7(6), 2005.
    """
    costs = np.full(len(features), np.inf)
    costs[:-1] = cut_costs(BlockSums(shot_graph(features, times, settings.decay)))[0]
    return segmentation(np.flatnonzero(costs[:-1] <= settings.threshold), -costs)


def shot_graph(features: Floats, times: Floats, decay: float) -> Floats:
    """Return weights of the shot similarity graph: of shots i and i + k, (N, R + 1), beyond which none matters."""
    middle = times.mean(axis=1)
    # Shots of equal length have no deviation; the unit is then their length.
    lengths = np.diff(times)[:, 0]
    unit = float(lengths.std()) or float(lengths.mean()) or 1.0
    within = unit * np.sqrt(-np.log(_NEGLIGIBLE) * decay)
    later = np.minimum.accumulate(middle[::-1])[::-1]  # the earliest middle of the shots from each on
    reach = int((np.searchsorted(later, middle + within, "right") - 1 - np.arange(len(middle))).max())
    alike = np.clip(similarity_band(center(features), reach), 0.0, 1.0)
    alike[:, 0] = 1.0
    other = np.minimum(np.arange(len(middle))[:, None] + np.arange(reach + 1), len(middle) - 1)
    return np.asarray(alike * np.exp(-(((middle[other] - middle[:, None]) / unit) ** 2) / decay))
