"""The settings of a video's shots: which places return, without labels.

The video is divided at its most likely scene ends; these parts are compared by the images in them and clustered by
average linkage. Parts rather than shots, because a place is seen from several sides, and two close-ups of a person may
be more alike than two views of a room.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipelines.models.networks.cut_evidence import joined_features

COLOR_WEIGHT = 1.0  # of the hue histogram beside content of unit length
SHOTS_PER_PART = 12  # on average, at most: a model with low scores still divides a video
MOST_PARTS = 2000  # bounds time and memory
MOST_COMPARED = 64  # shots of a part, evenly spread


def shot_settings(
    features: NDArray[np.floating[Any]], color: NDArray[np.floating[Any]], scores: ArrayLike
) -> list[int]:
    """The number of each shot's setting: those that return first, in the order in which they appear.

    Two parts are as similar as each shot of one is to the most similar shot of the other, on average, by the cosine of
    content and hue after subtracting the video's mean. Clusters of parts are merged down to halfway between the median
    similarity of two parts and the median similarity of the halves of a part.

    Args:
        features: (N, D_e) content of the shots.
        color: (N, HUES) hue histograms.
        scores: (N,) probabilities that a scene ends with the shot.

    Memory: O(N D_e + MOST_PARTS^2). Time: O(N^2 D_e), less for parts of more than MOST_COMPARED shots.
    """
    bounds = _part_bounds(np.asarray(scores, np.float64))
    parts = len(bounds) - 1
    if parts == 1:
        return [0] * len(features)
    joined = joined_features(features, color, COLOR_WEIGHT)
    joined -= joined.mean(axis=0)
    joined /= np.maximum(np.linalg.norm(joined, axis=1, keepdims=True), 1e-3)  # equal shots differ by rounding
    unit = joined.astype(np.float32)
    spread = [np.linspace(a, b - 1, min(b - a, MOST_COMPARED)).round().astype(int) for a, b in pairwise(bounds)]
    sizes = np.array([len(shots) for shots in spread])
    firsts, compared = np.cumsum(sizes) - sizes, unit[np.concatenate(spread)]
    one_way = np.empty((parts, parts), np.float32)
    for i, shots in enumerate(spread):
        one_way[:, i] = np.add.reduceat((compared @ unit[shots].T).max(axis=1), firsts) / sizes
    similarity = np.asarray((one_way + one_way.T) / 2, np.float32)
    between = np.median(similarity[np.triu_indices(parts, 1)])
    halves = [
        _likeness(unit[shots[: len(shots) // 2]], unit[shots[len(shots) // 2 :]]) for shots in spread if len(shots) > 3
    ]
    within = np.median(halves) if halves else 1.0
    cluster = _clusters(similarity, float(between + within) / 2)
    _, first, times = np.unique(cluster, return_index=True, return_counts=True)
    order = np.lexsort((first, times < 2))
    number = {int(cluster[first[at]]): i for i, at in enumerate(order)}
    return [number[int(of)] for of in np.repeat(cluster, np.diff(bounds))]


def _part_bounds(scores: NDArray[np.float64]) -> NDArray[np.intp]:
    """Where parts of the video begin, and its end: at scores of at least 0.5, the highest ones."""
    N = len(scores)
    ends = min(max(int((scores[:-1] >= 0.5).sum()), N // SHOTS_PER_PART - 1, 0), MOST_PARTS - 1)
    highest = np.argsort(-scores[:-1], kind="stable")[:ends]
    return np.concatenate([[0], np.sort(highest) + 1, [N]])


def _likeness(one: NDArray[np.float32], other: NDArray[np.float32]) -> float:
    similarity = one @ other.T
    return float(similarity.max(axis=0).mean() + similarity.max(axis=1).mean()) / 2


def _clusters(similarity: NDArray[np.float32], least: float) -> NDArray[np.intp]:
    """Average linkage: the cluster of each item, (P,), when no two clusters have a similarity of at least ``least``.
    Changes ``similarity`` (P, P)."""
    np.fill_diagonal(similarity, -np.inf)
    cluster, sizes = np.arange(len(similarity)), np.ones(len(similarity), np.float32)
    nearest, best = similarity.argmax(axis=1), similarity.max(axis=1)
    while best[i := int(best.argmax())] >= least:
        j = int(nearest[i])
        merged = (sizes[i] * similarity[i] + sizes[j] * similarity[j]) / (sizes[i] + sizes[j])
        merged[[i, j]] = similarity[j] = similarity[:, j] = -np.inf
        similarity[i] = similarity[:, i] = merged
        cluster[cluster == j] = i
        sizes[i] += sizes[j]
        # No similarity to a merged cluster is higher than the higher of its two before.
        changed = np.flatnonzero((nearest == i) | (nearest == j))
        changed = np.union1d(changed, [i, j])
        nearest[changed], best[changed] = similarity[changed].argmax(axis=1), similarity[changed].max(axis=1)
    return cluster
