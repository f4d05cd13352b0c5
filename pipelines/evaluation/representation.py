"""The two measures of the BaSSL paper for pre-training: kNN precision, used for validation by its release, and the
normalized mutual information of clusters and scenes (appendix, "Measuring Representation Quality at Pre-training
Stage"). Both take the encodings e of the shot encoder, one row per shot, in video order.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

NEIGHBORS = (1, 5, 10, 15, 20)  # the k of the release's validation
SCENE_LENGTHS = (8, 16, 32)  # the N_c of the appendix


@dataclass(frozen=True)
class KnnPrecision:
    """Precision at each k, between 0 and 1; NaN if no shot is counted."""

    pooled: Mapping[int, float]  # mean over all counted shots, as in the release
    by_video: Mapping[int, float]  # mean over videos of the mean over their shots, so that all videos have equal weight


@dataclass(frozen=True)
class SceneClustering:
    """NMI of clusters with scenes."""

    length: int  # N_c, shots taken from each scene
    scenes: int  # number of sampled scenes and of clusters in each trial
    trials: tuple[float, ...]  # NMI of each trial, between 0 and 1; empty if there are fewer than two scenes
    nmi: float  # their mean, NaN if there is none


def scene_ids(ends: ArrayLike, videos: ArrayLike) -> NDArray[np.int64]:
    """Number the scenes of all videos: the scene of each shot, (T,), from 0, ascending, unique across videos.

    `ends`: (T,) 0 or 1, 1 if a scene ends with the shot; the last shot of a video always ends its scene. `videos`:
    (T,) the video of each shot; the shots of a video are contiguous and in order.
    """
    marks, video = np.asarray(ends), np.asarray(videos)
    starts = (marks[:-1] == 1) | (video[1:] != video[:-1])
    return np.append(np.zeros(min(len(marks), 1), np.int64), np.cumsum(starts))


def knn_precision(
    features: ArrayLike, scenes: ArrayLike, videos: ArrayLike, neighbors: Sequence[int] = NEIGHBORS
) -> KnnPrecision:
    """Compute kNN precision: of the k most similar shots of the same video, the share that is in the same scene.

    Shots are ranked by cosine similarity. As in the release, a shot counts at k only if its scene has at least k shots,
    itself included. (The maximum is still below 1, as a scene of exactly k shots has k - 1 others: compare models on
    the same videos, not values across k or data sets.) A video with fewer than k other shots does not count at that k;
    the release would fail there, or take a shot as its own neighbor.

    Args:
        features: (T, D); the similarity of a zero row is 0.
        scenes, videos: (T,) scene id of each shot, from :func:`scene_ids`, and its video.

    Source: validation of the BaSSL release.
    """
    from sklearn.neighbors import NearestNeighbors  # start-up time

    x, scene, video = np.asarray(features, np.float32), np.asarray(scenes), np.asarray(videos)
    ks = sorted(set(neighbors))
    sums: dict[int, list[float]] = {k: [] for k in ks}
    counts: dict[int, list[int]] = {k: [] for k in ks}
    size = np.bincount(scene)[scene]  # shots of the shot's scene
    for rows in (np.flatnonzero(video == one) for one in np.unique(video)):
        if len(rows) < 2:
            continue
        search = NearestNeighbors(n_neighbors=min(ks[-1], len(rows) - 1), metric="cosine").fit(x[rows])
        hits = scene[rows][search.kneighbors(return_distance=False)] == scene[rows, None]
        for k in ks:
            if k <= hits.shape[1] and (counted := size[rows] >= k).any():
                sums[k].append(float(hits[counted, :k].mean(axis=1).sum()))
                counts[k].append(int(counted.sum()))
    return KnnPrecision(
        pooled={k: sum(sums[k]) / sum(counts[k]) if counts[k] else math.nan for k in ks},
        by_video={k: float(np.mean(np.divide(sums[k], counts[k]))) if counts[k] else math.nan for k in ks},
    )


def scene_nmi(
    features: ArrayLike,
    scenes: ArrayLike,
    length: int,
    sampled: int = 100,
    trials: int = 5,
    restarts: int = 10,
    seed: int = 0,
) -> SceneClustering:
    """Compute the NMI of k-means clusters of shots with the scenes that they were sampled from.

    In each trial, ``sampled`` scenes are drawn from all videos without replacement, and their shots are grouped into as
    many clusters. As few scenes have exactly 32 shots, N_c consecutive ones are taken, at a random position, from
    scenes with at least N_c. Features are not normalized (not in the paper); normalize them for cosine distances.

    Args:
        features, scenes: as for :func:`knn_precision`, in video order; length: N_c.
        sampled: number of scenes and clusters, 100 in the appendix; fewer if fewer scenes are long enough. NMI values
            with different numbers are not comparable.
        trials: with different scenes and k-means seeds; five in the appendix.
        restarts: of k-means, the best is kept; not in the appendix, 10 was scikit-learn's default.
        seed: of the sampling and of k-means.

    Source: BaSSL, appendix; `sklearn.cluster.KMeans`, `sklearn.metrics.normalized_mutual_info_score`.
    """
    from sklearn import cluster, exceptions, metrics  # start-up time

    x, scene = np.asarray(features, np.float32), np.asarray(scenes)
    first = np.append(0, np.flatnonzero(np.diff(scene)) + 1)
    size = np.diff(first, append=len(scene))
    usable = np.flatnonzero(size >= length)
    count = min(sampled, len(usable))
    if count < 2:
        return SceneClustering(length, count, (), math.nan)
    values = []
    for trial in range(trials):
        rng = np.random.default_rng((seed, length, trial))
        sample = rng.choice(usable, count, replace=False)
        start = first[sample] + rng.integers(0, size[sample] - length + 1)
        rows = (start[:, None] + np.arange(length)).ravel()
        means = cluster.KMeans(count, n_init=restarts, random_state=int(rng.integers(2**31)))
        with warnings.catch_warnings():  # there may be fewer distinct shots than clusters
            warnings.simplefilter("ignore", exceptions.ConvergenceWarning)
            clusters = means.fit_predict(x[rows])
        values.append(float(metrics.normalized_mutual_info_score(np.repeat(np.arange(count), length), clusters)))
    return SceneClustering(length, count, tuple(values), float(np.mean(values)))
