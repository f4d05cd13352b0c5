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
_QUERIES = 1024  # shots whose neighbors are searched at a time: bounds memory to this times the shots of a video


@dataclass(frozen=True)
class KnnPrecision:
    """Precision at each k, between 0 and 1; NaN if no shot is counted."""

    pooled: Mapping[int, float]  # mean over all counted shots, as in the release
    by_video: Mapping[int, float]  # mean over videos of the mean over their shots, so that all videos have equal weight
    shots: Mapping[int, int]  # number of counted shots


@dataclass(frozen=True)
class SceneClustering:
    """NMI of clusters with scenes."""

    length: int  # N_c, shots taken from each scene
    scenes: int  # number of sampled scenes and of clusters in each trial
    trials: tuple[float, ...]  # NMI of each trial, between 0 and 1; empty if there are fewer than two scenes
    nmi: float  # their mean, NaN if there is none


def scene_ids(ends: ArrayLike, videos: ArrayLike) -> NDArray[np.int64]:
    """Number the scenes of all videos: the scene of each shot, (T,), from 0, ascending, unique across videos.

    `ends`: (T,) 0 or 1, 1 if a scene ends with the shot (``Index.targets``); the last shot of a video always ends its
    scene. `videos`: (T,) the video of each shot; the shots of a video are contiguous and in order.
    Raises ValueError: shapes differ, a label is neither 0 nor 1, or the shots of a video are not contiguous.
    """
    marks, of = np.asarray(ends), np.asarray(videos)
    if marks.ndim != 1 or marks.shape != of.shape:
        raise ValueError(f"ends and videos must be two arrays of the same length, not {marks.shape} and {of.shape}")
    if not np.isin(marks, (0, 1)).all():
        raise ValueError("ends must be 0 or 1")
    new_video = of[1:] != of[:-1]
    if len(of) and int(new_video.sum()) + 1 != len(np.unique(of)):
        raise ValueError("the shots of a video must be contiguous")
    starts = (marks[:-1] == 1) | new_video
    return np.append(np.zeros(min(len(of), 1), np.int64), np.cumsum(starts))


def knn_precision(
    features: ArrayLike, scenes: ArrayLike, videos: ArrayLike, neighbors: Sequence[int] = NEIGHBORS
) -> KnnPrecision:
    """Compute kNN precision: of the k most similar shots of the same video, the share that is in the same scene.

    For each shot, the others of its video are ranked by cosine similarity. Its precision at k is the share of the first
    k that belong to its scene. As in the release, a shot counts at k only if its scene has at least k shots, itself
    included. (The maximum is still below 1, as a scene of exactly k shots has k - 1 others: compare models on the same
    videos, not values across k or data sets.) A video with fewer than k other shots does not count at that k; the
    release would fail there, or take a shot as its own neighbor. The choice among equally similar shots is unspecified
    but deterministic.

    Args:
        features: (T, D), finite, of any length; the similarity of a zero row is 0.
        scenes: (T,) scene id of each shot.
        videos: (T,) the video of each shot.
        neighbors: the values of k.
    Raises ValueError: shapes do not fit, features are not finite, or a k is below 1.

    Source: validation of the BaSSL release.
    """
    if not neighbors or min(neighbors) < 1:
        raise ValueError("neighbors must be one or more whole numbers from 1")
    x, scene, video = _check_arrays(features, scenes, videos)
    ks = sorted(set(neighbors))
    sums: dict[int, list[float]] = {k: [] for k in ks}
    counts: dict[int, list[int]] = {k: [] for k in ks}
    order = np.argsort(video, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(video[order])) + 1):
        hits, size = _neighbor_hits(x[rows], scene[rows], ks[-1])
        for k in ks:
            if k <= hits.shape[1] and (counted := size >= k).any():
                sums[k].append(float(hits[counted, :k].mean(axis=1).sum()))
                counts[k].append(int(counted.sum()))
    return KnnPrecision(
        pooled={k: sum(sums[k]) / sum(counts[k]) if counts[k] else math.nan for k in ks},
        by_video={k: float(np.mean(np.divide(sums[k], counts[k]))) if counts[k] else math.nan for k in ks},
        shots={k: sum(counts[k]) for k in ks},
    )


def scene_nmi(
    features: ArrayLike,
    scenes: ArrayLike,
    videos: ArrayLike,
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
        features, scenes, videos: as for :func:`knn_precision`, in video order; scene ids from :func:`scene_ids`.
        length: N_c.
        sampled: number of scenes and clusters, 100 in the appendix; fewer if fewer scenes are long enough. NMI values
            with different numbers are not comparable.
        trials: with different scenes and k-means seeds; five in the appendix.
        restarts: of k-means, the best is kept; not in the appendix, 10 was scikit-learn's default.
        seed: of the sampling and of k-means.
    Raises ValueError: shapes do not fit, features are not finite, a scene is not contiguous or in two videos, or a
        number is below 1.

    Source: BaSSL, appendix; `sklearn.cluster.KMeans`, `sklearn.metrics.normalized_mutual_info_score`.
    """
    from sklearn import cluster, exceptions, metrics  # start-up time: scikit-learn; precision does not need it

    if min(length, sampled, trials, restarts) < 1:
        raise ValueError("length, sampled, trials and restarts must be at least 1")
    x, scene, video = _check_arrays(features, scenes, videos)
    first = np.append(0, np.flatnonzero(np.diff(scene)) + 1)
    size = np.diff(first, append=len(scene))
    if len(np.unique(scene)) != len(first) or (np.diff(video)[np.diff(scene) == 0] != 0).any():
        raise ValueError("the shots of a scene must be contiguous, in one video")
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


def _neighbor_hits(
    features: NDArray[np.float32], scene: NDArray[np.int64], depth: int
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return, for one video of N shots, whether the nearest, second nearest ... other shot is in the same scene, (N,
    min(depth, N - 1)), and the size of that scene (N,)."""
    N = len(features)
    depth = min(depth, N - 1)
    _, which, sizes = np.unique(scene, return_inverse=True, return_counts=True)
    hits = np.empty((N, depth), np.bool_)
    norm = np.linalg.norm(features, axis=1, keepdims=True)
    unit = features / np.where(norm > 0, norm, 1)
    for start in range(0, N if depth else 0, _QUERIES):
        rows = np.arange(start, min(start + _QUERIES, N))
        distance = -(unit[rows] @ unit.T)
        distance[rows - start, rows] = np.inf
        nearest = np.argpartition(distance, depth - 1, axis=1)[:, :depth]
        ranks = np.argsort(np.take_along_axis(distance, nearest, axis=1), axis=1, kind="stable")
        hits[rows] = scene[np.take_along_axis(nearest, ranks, axis=1)] == scene[rows, None]
    return hits, sizes[which]


def _check_arrays(
    features: ArrayLike, scenes: ArrayLike, videos: ArrayLike
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
    """Check the three arrays; scenes and videos are renumbered from 0."""
    x, scene, video = np.asarray(features, np.float32), np.asarray(scenes), np.asarray(videos)
    if x.ndim != 2 or not len(x) or scene.shape != (len(x),) or video.shape != (len(x),):
        raise ValueError(
            "features must have the shape (T, D), scenes and videos (T,), with T > 0, "
            f"not {x.shape}, {scene.shape} and {video.shape}"
        )
    if not np.isfinite(x).all():
        raise ValueError("features must be finite")
    return x, np.unique(scene, return_inverse=True)[1], np.unique(video, return_inverse=True)[1]
