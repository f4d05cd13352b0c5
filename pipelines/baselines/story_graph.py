"""Story Graph: dynamic programming with shot similarity and shot threads (Tapaswi, Bäuml and Stiefelhagen 2014)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array  # type: ignore[import-untyped]
from scipy.sparse.csgraph import connected_components  # type: ignore[import-untyped]

from pipelines.baselines.dp import divide, prefix_values
from pipelines.baselines.segmentation import Floats, Segmentation, center, similarities, squared_distances
from pipelines.models.calibration import sigmoid


@dataclass(frozen=True)
class StoryGraphSettings:
    """Settings of `story_graph`."""

    longest: int = 100  # N_l: maximum number of shots in a scene, as in the authors' release
    lookahead: int = 24  # following shots that a shot is compared with to find threads, as in the release
    # minimum similarity of two shots of a thread, that is, from one camera position; the paper matches SIFT points
    thread: float = 0.9
    # scenes are added while each raises the total by at least this; the release has 0.8, for another measure of
    # similarity, which gives too few scenes on BBC and OVSD
    gain: float = 0.2
    scenes: int | None = None  # number of scenes, clipped to the possible range; None: decided by `gain`


def story_graph(features: Floats, times: Floats, settings: StoryGraphSettings = StoryGraphSettings()) -> Segmentation:
    """Divide the video so that shots are similar to their scene and its first shot differs from the scene before.

    The value of the n-th shot of a scene is alpha(n) * (C + T): C is its similarity to the shots of the scene before
    it, T the number of these in its thread, and alpha(n) = 1 - (n / N_l)^2 / 2 limits the length of scenes. The value
    of the first shot of a scene that follows one of n shots is alpha(N_l - n + 1) * max(0, 1 - C - T'), with C and T'
    (1 if any shot is in its thread, else 0) with respect to that scene; here alpha penalizes very short scenes. The
    first shot of the video has the value 0. The sum is maximal over all divisions into K scenes; K grows while the sum
    grows by at least `gain`.

    Score: the value of the best division into K scenes with an end at the shot, minus the value of the best without.

    Source: M. Tapaswi, M. Bäuml, R. Stiefelhagen: StoryGraphs: visualizing character interactions as a timeline,
    CVPR 2014, section 3; their public code for scene detection.
    """
    alike = similarities(features)
    worth = scene_worth(closeness(features), threads(alike, settings.lookahead, settings.thread), settings.longest)
    N, least = len(features), -(-len(features) // settings.longest)
    if settings.scenes is None:
        values = prefix_values(worth, max(least, N // 3))[least:, N]
        enough = np.flatnonzero(np.diff(values) < settings.gain)
        scenes = least + (int(enough[0]) if len(enough) else len(values) - 1)
    else:
        scenes = min(max(settings.scenes, least), N)
    return divide(worth, scenes)


def closeness(features: Floats) -> Floats:
    """Return standardized negative distances between shots, (mean - distance) / deviation over the video, (N, N)."""
    unit = center(features)
    distances = np.sqrt(squared_distances(unit, unit))
    pairs = distances[np.triu_indices(len(distances), 1)]
    if not len(pairs) or pairs.std() < 1e-9:
        return np.zeros_like(distances)
    return np.asarray((pairs.mean() - distances) / pairs.std())


def threads(alike: Floats, lookahead: int, least: float) -> NDArray[np.int64]:
    """Return the thread of each shot, (N,): the number of its connected component."""
    near = np.triu(alike >= least, 1) & ~np.triu(np.ones(alike.shape, dtype=bool), lookahead + 1)
    return np.asarray(connected_components(csr_array(near), directed=False)[1], dtype=np.int64)


def scene_worth(near: Floats, thread: NDArray[np.int64], longest: int) -> Floats:
    """Return the value of each scene, (L, N): `[m-1, j]` for m shots up to shot j, -infinity outside the video. It is
    the sum over its shots after the first, plus the value of the next shot as the first of the next scene, which
    depends on these two scenes only. `near` is from `closeness`, `thread` from `threads`; `longest` is L."""
    N = len(near)
    L = min(longest, N)
    alpha = 1 - 0.5 * (np.arange(1, longest + 1) / longest) ** 2
    same = thread[:, None] == thread
    worth = np.full((L, N), -np.inf)
    worth[0] = 0.0
    beyond = np.zeros((L, N))  # value of shot j+1 as the first of the next scene, after m shots up to j
    total, mates = np.zeros(N), np.zeros(N)  # over the m shots before each shot
    for m in range(1, L + 1):
        shots = np.arange(m, N)  # with m shots before them
        total[shots] += near[shots, shots - m]
        mates[shots] += same[shots, shots - m]
        like = sigmoid(total[shots] / m)
        beyond[m - 1, shots - 1] = alpha[longest - m] * np.maximum(0.0, 1 - like - (mates[shots] > 0))
        if m < L:
            worth[m, shots] = worth[m - 1, shots - 1] + alpha[m] * (like + mates[shots])
    return worth + beyond
