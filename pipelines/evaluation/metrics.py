"""Labels and predictions of a video, and its metrics: the paper's (section 4.1, as in its release), coverage and
overflow (as reported on BBC and OVSD), and boundary precision, recall and F1 within a tolerance.

Labels are (N,) of 0 and 1, 1 if a scene ends with the shot; predicted scene ends likewise; scores are (N,), and N is
at least 1. :mod:`.bootstrap` computes all metrics over a set of videos.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipelines.datasets.matching import assign_scene_ends
from pipelines.errors import count
from pipelines.stores.index import Index

RECALL_SECONDS = 3.0  # Recall@3s: maximum distance of a predicted scene end in seconds, exclusive
RECALL_SHOTS = 5  # Recall@3s: maximum distance in shots, as in the release


@dataclass(frozen=True, eq=False, repr=False)
class VideoScores:
    """Labels and predictions of one video of N shots."""

    labels: NDArray[np.uint8]  # (N,) 0 or 1, 1 if a scene ends with the shot
    scores: NDArray[np.float64]  # (N,) predicted scores of scene ends; all NaN without scores, see `predicted`
    # (N, 2) half-open frame range of each shot; in seconds if frames are unknown
    shots: NDArray[np.int64] | NDArray[np.float64]
    seconds: NDArray[np.float64] | None = None  # (N, 2) the same in seconds, if known
    # (N,) False at shots without a label, which AP, AUC, F1, precision and recall leave out; None: all have one
    known: NDArray[np.bool_] | None = None
    # (N,) predicted scene ends, if they do not follow from scores and a threshold
    predicted: NDArray[np.bool_] | None = None
    # (M, 2) earliest and latest time of each true scene end in seconds; None: the ends of the labeled shots
    true_ends: NDArray[np.float64] | None = None
    predicted_ends: NDArray[np.float64] | None = None  # (L, 2) the same for the prediction
    pieces: bool = False  # whether rows are not shots but the segments between the ends of two lists of scenes
    video: str = ""  # name of the video

    def __repr__(self) -> str:
        shots = count(len(self.labels), "segment" if self.pieces else "shot")
        return f"VideoScores({self.video!r}, {shots}, {count(int(self.labels.sum()), 'scene end')})"

    def decisions(self, threshold: float) -> NDArray[np.bool_]:
        """Return (N,) whether a scene end is predicted at the shot."""
        return self.scores >= threshold if self.predicted is None else self.predicted

    @property
    def is_counted(self) -> NDArray[np.bool_]:
        """Return (N,) whether metrics over shots include the shot."""
        return np.ones(len(self.labels), np.bool_) if self.known is None else self.known


def average_precision(labels: ArrayLike, scores: ArrayLike) -> float:
    """Compute the area under the precision-recall curve as a step function (no interpolation), as scikit-learn does
    for the release. At least one label is 1."""
    y, s = np.asarray(labels), np.asarray(scores, dtype=np.float64)
    order = np.argsort(-s)
    falling = s[order]
    last = np.flatnonzero(np.append(falling[1:] != falling[:-1], True))  # of those with the same score
    positives = np.cumsum(y[order], dtype=np.int64)[last]  # at or above each distinct score
    return float((np.diff(positives, prepend=0) / positives[-1] * (positives / (last + 1))).sum())


def recall_within_counts(labels: ArrayLike, predicted: ArrayLike, seconds: NDArray[np.float64]) -> tuple[int, int]:
    """Count Recall@3s of one video, with shots at `seconds` (N, 2): the true scene ends that have a predicted one less
    than `RECALL_SECONDS` and at most `RECALL_SHOTS` away, and all true ones. A predicted scene end may match several.
    Source: LGSS (Rao et al. 2020), and the BaSSL release, which adds 1e-5 to the denominator."""
    true, predicted_ends = np.flatnonzero(labels), np.flatnonzero(predicted)
    distance = np.abs(true[:, None] - predicted_ends)
    seconds_apart = np.abs(seconds[true, 1][:, None] - seconds[predicted_ends, 1])
    near = (distance <= RECALL_SHOTS) & (seconds_apart < RECALL_SECONDS)
    return int(near.any(axis=1).sum()), len(true)


def video_miou(labels: ArrayLike, predicted: ArrayLike, shots: NDArray[np.int64] | NDArray[np.float64]) -> float:
    """Compute the mean IoU between the true and the predicted scenes of one video.

    The result is the mean of two averages: over true scenes of the best IoU with a predicted scene, and vice versa. As
    in the release, shots after the last boundary are in no scene, and a video without a predicted (or true) boundary
    gets 0. (The release uses last frames as ends, so that its scenes are one frame shorter.) `shots`: (N, 2) half-open.

    Source: MovieNet (Huang et al. 2020) as the BaSSL release computes it.
    """
    truth, guess = _scenes(labels, shots), _scenes(predicted, shots)
    if not len(truth) or not len(guess):
        return 0.0
    starts, ends = np.maximum(truth[:, None, 0], guess[:, 0]), np.minimum(truth[:, None, 1], guess[:, 1])
    overlap = np.maximum(ends - starts, 0)
    iou = overlap / (np.diff(truth) + np.diff(guess)[:, 0] - overlap)
    return float((iou.max(axis=1).mean() + iou.max(axis=0).mean()) / 2)


def _scenes(ends: ArrayLike, shots: NDArray[np.int64] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Return half-open ranges of the scenes that end at the marked shots, (scenes, 2)."""
    last = np.flatnonzero(ends)
    first = np.append(0, last[:-1] + 1)[: len(last)]
    return np.stack([shots[first, 0], shots[last, 1]], axis=1).astype(np.float64)


def coverage_overflow(labels: ArrayLike, predicted: ArrayLike, lengths: ArrayLike = 1) -> tuple[float, float, float]:
    """Return coverage C, 0 to 1, and overflow O, from 0, lower is better, of one video, counted in shots or by their
    `lengths`, (N,) above 0; and the number of shots, or their lengths together.

    With true scenes t_1 ... t_n and predicted scenes s_1 ... s_m as sets of shots, and #(x) the number of shots:

        C(t_k) = max_i #(s_i & t_k) / #(t_k)
        O(t_k) = sum over the s_i that share a shot with t_k of #(s_i \\ t_k) / (#(t_{k-1}) + #(t_{k+1}))

    and C and O of the video are the means over its true scenes, weighted by #(t_k). A video's first and last scene have
    one neighbor; a video of one scene has none, and no overflow. O is above 1 where predicted scenes extend beyond the
    neighboring true scenes. The last scene ends with the video, whatever the last label is.

    Source: Vendrig and Worring, "Systematic evaluation of logical story unit segmentation", IEEE Transactions on
    Multimedia 2002, in the form of Baraldi, Grana and Cucchiara, "A Deep Siamese Network for Scene Detection in
    Broadcast Videos", ACM MM 2015, which BBC and OVSD papers report.
    """
    # the scene of each shot
    truth, guess = (np.append(0, np.cumsum(np.asarray(ends)[:-1], dtype=np.int64)) for ends in (labels, predicted))
    shared = np.zeros((truth[-1] + 1, guess[-1] + 1))
    np.add.at(shared, (truth, guess), lengths)
    size, guess_size = shared.sum(axis=1), shared.sum(axis=0)
    covered = shared.max(axis=1)  # C(t_k) #(t_k)
    outside = ((guess_size[None, :] - shared) * (shared > 0)).sum(axis=1)
    neighbors = np.append(size[1:], 0) + np.append(0, size[:-1])
    overflow = outside / np.where(neighbors > 0, neighbors, 1)  # a scene without neighbors has no overflow
    total = size.sum()
    return float(covered.sum() / total), float((overflow * size).sum() / total), float(total)


def boundary_match(true: ArrayLike, predicted: ArrayLike, tolerance: float) -> tuple[int, int, int]:
    """Match true and predicted boundaries that are at most `tolerance` apart, in a maximum one-to-one matching; return
    the number of pairs, of true and of predicted boundaries.

    `true`: (M,) times in seconds, in order, without the video's end; or (M, 2), the earliest and latest time of each.
    `predicted`: (L,) or (L, 2), of which the middle is taken.

    Source: TRECVID's shot boundary task, with an optimal instead of a greedy matching.
    """
    marks = np.asarray(predicted, np.float64)
    marks = np.unique(marks.mean(axis=1) if marks.ndim == 2 else marks)
    spans = np.asarray(true, np.float64)
    return int((assign_scene_ends(marks, spans, tolerance) >= 0).sum()), len(spans), len(marks)


def video_boundaries(video: VideoScores, threshold: float, tolerance: float) -> tuple[int, int, int] | None:
    """Return `boundary_match` of a video, or None if its times are unknown."""
    if video.seconds is None or not np.isfinite(video.seconds).all():
        return None
    ends, counted = video.seconds[:-1, 1], video.is_counted[:-1]
    true = ends[(video.labels[:-1] == 1) & counted] if video.true_ends is None else video.true_ends
    predicted = (
        ends[video.decisions(threshold)[:-1] & counted] if video.predicted_ends is None else video.predicted_ends
    )
    return boundary_match(true, predicted, tolerance)


def video_scores(index: Index, video: int, scores: NDArray[np.float64], frame_rate: float | None = None) -> VideoScores:
    """Return labels and shots of a video of an index, with scores (N,); `frame_rate` is for an index without times."""
    span = index.span(video)
    return VideoScores(
        labels=index.targets(np.arange(span.start, span.stop)).astype(np.uint8),
        scores=scores,
        shots=index.frames[span].astype(np.int64),
        seconds=index.times(video, frame_rate),
        known=index.usable[span],
        video=index.video_ids[video],
    )


# --- quality of encodings ---------------------------------------------------------------------------------------------
#
# Of the shot encoder, one row per shot, in video order (appendix, "Measuring Representation Quality at Pre-training
# Stage"): kNN precision, which the release validates by, and the normalized mutual information of clusters and scenes.

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
    """Compute kNN precision: of the k most similar shots of the same video, by cosine, the share that is in the same
    scene. As in the release, a shot counts at k only if its scene has at least k shots, itself included; the maximum is
    still below 1. A video with fewer than k other shots does not count at that k.

    ``features`` are (T, D), a zero row is similar to none; ``scenes`` (T,) are from `scene_ids`, ``videos`` (T,).
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

    In each trial, ``sampled`` scenes are drawn from all videos without replacement (fewer if fewer are long enough),
    N_c = ``length`` consecutive shots at a random position are taken from each, and these are grouped into as many
    clusters, the best of some ``restarts``. Features are not normalized. Arguments are as for `knn_precision`.
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
