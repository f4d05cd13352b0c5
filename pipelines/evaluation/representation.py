"""How well encodings of shots group by scene, without any training on labels.

The two measures that the BaSSL paper watches pre-training with: kNN precision, by which its release validates, and the
normalised mutual information of clusters and scenes (appendix, "Measuring Representation Quality at Pre-training
Stage"). Both want the encodings e of the shot encoder, a row a shot, in film order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

NEIGHBOURS = (1, 5, 10, 15, 20)
"""The k of the release's validation."""
SCENE_LENGTHS = (8, 16, 32)
"""The N_c of the appendix."""
_QUERIES = 1024  # shots whose neighbours are sought at a time: what bounds memory is this times the shots of a film


@dataclass(frozen=True)
class KnnPrecision:
    """Precision at each k, between 0 and 1; NaN where no shot counts.

    Attributes:
        pooled: mean over all shots that count, as in the release.
        by_video: mean over the videos of the mean over their shots, so that a long film weighs no more than a short.
        shots: how many shots counted.
    """

    pooled: Mapping[int, float]
    by_video: Mapping[int, float]
    shots: Mapping[int, int]


@dataclass(frozen=True)
class SceneClustering:
    """NMI of clusters and scenes.

    Attributes:
        length: N_c, shots taken of each scene.
        scenes: how many scenes were sampled, and clusters sought, in each trial: fewer than asked for where there are
            fewer of that length.
        trials: NMI of each trial, between 0 and 1; empty where there are fewer than two scenes.
        nmi: their mean, NaN where there is none.
    """

    length: int
    scenes: int
    trials: tuple[float, ...]
    nmi: float


def scene_ids(ends: ArrayLike, videos: ArrayLike) -> NDArray[np.int64]:
    """Number the scenes of all videos.

    Args:
        ends: (T,) 0 or 1, 1 where a scene ends with the shot (``Index.targets``). The last shot of a video needs no
            label, for its scene ends there anyway.
        videos: (T,) what video each shot is of; the shots of a video stand together, in order.

    Returns:
        (T,) from 0, rising; no two videos share one.

    Raises:
        ValueError: shapes differ, a label is neither 0 nor 1, or the shots of a video do not stand together.
    """
    marks, of = np.asarray(ends), np.asarray(videos)
    if marks.ndim != 1 or marks.shape != of.shape:
        raise ValueError(f"ends and videos must be two arrays of the same length, not {marks.shape} and {of.shape}")
    if not np.isin(marks, (0, 1)).all():
        raise ValueError("ends must be 0 or 1")
    new_video = of[1:] != of[:-1]
    if len(of) and int(new_video.sum()) + 1 != len(np.unique(of)):
        raise ValueError("the shots of a video must stand together")
    starts = (marks[:-1] == 1) | new_video
    return np.concatenate([np.zeros(min(len(of), 1), np.int64), np.cumsum(starts, dtype=np.int64)])


def knn_precision(
    features: ArrayLike, scenes: ArrayLike, videos: ArrayLike, neighbours: Sequence[int] = NEIGHBOURS
) -> KnnPrecision:
    """Of the k shots of a film that look most like a shot, the share that is of its scene.

    For each shot all others of its video are ranked by cosine similarity; other videos are not looked at. Its precision
    at k is the share of the first k that belong to its scene. As in the release, a shot counts at k only where its
    scene has k shots or more, itself included: a shot of a scene of three could not do better than 2 in 20. (The best
    that can be had is still less than 1: a scene of exactly k shots holds k - 1 others. Compare models on the same
    films, not numbers across k or data sets.) Where the release would stop, or take a shot for its own neighbour, at a
    video with fewer than k other shots, the video does not count at that k.

    The release averages over the shots of all videos; ``by_video`` first within videos. Which of several equally
    similar shots is taken is not specified, and the same from run to run.

    Args:
        features: (T, D), of any length but not NaN; a row of zeros is similar to nothing.
        scenes: (T,) number of the scene of each shot.
        videos: (T,) what video each shot is of.
        neighbours: the k.

    Raises:
        ValueError: for shapes that do not fit, features that are not finite, or a k below 1.

    Source: validation of the BaSSL release.
    """
    if not neighbours or min(neighbours) < 1:
        raise ValueError("neighbours must be one or more whole numbers from 1")
    x, scene, video = _checked(features, scenes, videos)
    ks = sorted(set(neighbours))
    sums: dict[int, list[float]] = {k: [] for k in ks}
    counts: dict[int, list[int]] = {k: [] for k in ks}
    order = np.argsort(video, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(video[order])) + 1):
        hits, size = _neighbour_hits(x[rows], scene[rows], ks[-1])
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
    """Whether K-Means finds scenes again: NMI of clusters of shots with the scenes they were taken from.

    In each trial ``sampled`` scenes are drawn, from all videos and without replacement, and their shots put into as
    many clusters. The appendix speaks of scenes of N_c shots; as few scenes have exactly 32, N_c neighbouring shots
    are taken, at a random place, of scenes that have at least as many. The features are clustered as they are, as
    nothing else is said; normalise them before for cosine distances.

    Args:
        features: (T, D), in film order.
        scenes: (T,) number of the scene of each shot, not shared by videos and each in one piece (:func:`scene_ids`).
        videos: (T,) what video each shot is of.
        length: N_c.
        sampled: scenes and clusters, 100 in the appendix. Where fewer scenes are long enough, all of them are taken and
            as many clusters sought; the result says how many. The NMI of fewer is not comparable with that of 100.
        trials: each with other scenes and other K-Means seeds; five in the appendix.
        restarts: of K-Means, the best of which is kept; the appendix does not say, 10 was scikit-learn's default then.
        seed: of the sampling and of K-Means.

    Raises:
        ValueError: for shapes that do not fit, features that are not finite, a scene in pieces or in two videos, or
            numbers below 1.

    Source: BaSSL, appendix; `sklearn.cluster.KMeans`, `sklearn.metrics.normalized_mutual_info_score`.
    """
    # scikit-learn takes a second to import; who only measures precision need not wait for it.
    from sklearn.cluster import KMeans
    from sklearn.metrics import normalized_mutual_info_score

    if min(length, sampled, trials, restarts) < 1:
        raise ValueError("length, sampled, trials and restarts must be at least 1")
    x, scene, video = _checked(features, scenes, videos)
    first = np.concatenate([np.zeros(1, np.int64), np.flatnonzero(np.diff(scene)) + 1])
    size = np.diff(first, append=len(scene))
    if len(np.unique(scene)) != len(first) or (np.diff(video)[np.diff(scene) == 0] != 0).any():
        raise ValueError("the shots of a scene must stand together, in one video")
    usable = np.flatnonzero(size >= length)
    count = min(sampled, len(usable))
    if count < 2:
        return SceneClustering(length, count, (), math.nan)
    values = []
    for trial in range(trials):
        rng = np.random.default_rng((seed, length, trial))
        chosen = rng.choice(usable, count, replace=False)
        start = first[chosen] + rng.integers(0, size[chosen] - length + 1)
        rows = (start[:, None] + np.arange(length)).ravel()
        clusters = KMeans(count, n_init=restarts, random_state=int(rng.integers(2**31))).fit_predict(x[rows])
        values.append(float(normalized_mutual_info_score(np.repeat(np.arange(count), length), clusters)))
    return SceneClustering(length, count, tuple(values), float(np.mean(values)))


def _neighbour_hits(
    features: NDArray[np.float32], scene: NDArray[np.int64], depth: int
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Of one video of N shots: whether the nearest, second nearest ... other shot is of the shot's scene, and how large
    that scene is; (N, min(depth, N - 1)) and (N,)."""
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


def _checked(
    features: ArrayLike, scenes: ArrayLike, videos: ArrayLike
) -> tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]:
    """The three as arrays that fit together, videos and scenes numbered."""
    x, scene, video = np.asarray(features, np.float32), np.asarray(scenes), np.asarray(videos)
    if x.ndim != 2 or not len(x) or scene.shape != (len(x),) or video.shape != (len(x),):
        raise ValueError(
            "features must have the shape (T, D), scenes and videos (T,), with T > 0, "
            f"not {x.shape}, {scene.shape} and {video.shape}"
        )
    if not np.isfinite(x).all():
        raise ValueError("features must be finite")
    return x, np.unique(scene, return_inverse=True)[1], np.unique(video, return_inverse=True)[1]
