"""Story Graph: dynamic programming over similarity and shot threads (Tapaswi, Bäuml and Stiefelhagen 2014)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipelines.baselines.chains import divided, prefix_values
from pipelines.baselines.segmentation import (
    Features,
    Floats,
    Segmentation,
    Times,
    centred,
    checked,
    similarities,
)


@dataclass(frozen=True)
class StoryGraphSettings:
    """Of `story_graph`."""

    longest: int = 100
    """N_l: the most shots in a scene, as in the authors' release."""
    lookahead: int = 24
    """How many of the following shots a shot is compared with to find threads, as in the authors' release."""
    thread: float = 0.9
    """Least similarity of two shots of one thread, that is, of one camera in one place. The paper matches SIFT points
    instead."""
    gain: float = 0.2
    """Scenes are added while another one raises the total by at least so much. The release has 0.8, for similarities of
    other units; on BBC and OVSD that gives too few scenes."""
    scenes: int | None = None
    """Number of scenes instead."""

    def __post_init__(self) -> None:
        if self.longest < 1 or self.lookahead < 0 or (self.scenes is not None and self.scenes < 1):
            raise ValueError(f"counts must be positive: {self}")


def story_graph(features: Features, times: Times, settings: StoryGraphSettings | None = None) -> Segmentation:
    """Divide the film so that shots are like the scene they join, and scenes begin with shots that are not.

    A shot that is the n-th of its scene is worth alpha(n) * (C + T): C how like it is to the scene's shots before it,
    T how many of these are of its own thread, and alpha(n) = 1 - (n / N_l)^2 / 2, which keeps scenes from growing
    without end. A shot that begins a scene after one of n shots is worth alpha(N_l - n + 1) * max(0, 1 - C - T'), C and
    T' (0 or 1: is any of its own thread) taken with respect to that scene; here alpha keeps scenes from being very
    short. The first shot of the film is worth nothing. The sum is greatest over all divisions into K scenes; K grows
    while that raises the sum by at least `gain`.

    Decided here: C is a logistic function of the mean distance of the features, where the paper measures histograms of
    colours; as in the authors' release its centre and slope are the mean and the standard deviation of the distances
    of pairs at random, which here are all pairs of the film. Threads are what is connected by pairs that are alike
    enough and near each other. K is at most a third of the number of shots (a fifth in the release, which is too few
    for films with short scenes).

    Score: the sum of the best division into K scenes with an end at the shot, less that of the best without one.

    Args:
        features: (N, D).
        times: (N, 2) seconds; the order of the shots is all that counts.
        settings: see there; more scenes than shots, or too few to hold them, are taken for the nearest number that can.

    Raises:
        ValueError: what `checked` raises.

    Complexity: O(N^2 D) for the similarities, O(N N_l) for the scenes' worth, O(K N N_l) for the division and the
    scores.

    Source: M. Tapaswi, M. Bäuml, R. Stiefelhagen: StoryGraphs: visualizing character interactions as a timeline,
    CVPR 2014, section 3; their public code for scene detection.
    """
    settings = settings or StoryGraphSettings()
    x, _ = checked(features, times)
    alike = similarities(x)
    worth = scene_worth(closeness(x), threads(alike, settings.lookahead, settings.thread), settings.longest)
    N, least = len(x), -(-len(x) // settings.longest)
    if settings.scenes is None:
        values = prefix_values(worth, max(least, N // 3))[least:, N]
        enough = np.flatnonzero(np.diff(values) < settings.gain)
        scenes = least + (int(enough[0]) if len(enough) else len(values) - 1)
    else:
        scenes = min(max(settings.scenes, least), N)
    return divided(worth, scenes)


def closeness(features: Floats) -> Floats:
    """Distances between shots in units of their deviation over the film, from their mean on, (N, N); high is near."""
    unit = centred(features)
    squared = (unit**2).sum(axis=1)
    distances = np.sqrt(np.maximum(squared[:, None] + squared - 2 * unit @ unit.T, 0.0))
    pairs = distances[np.triu_indices(len(distances), 1)]
    if not len(pairs) or pairs.std() < 1e-9:
        return np.zeros_like(distances)
    return np.asarray((pairs.mean() - distances) / pairs.std())


def threads(alike: Floats, lookahead: int, least: float) -> NDArray[np.int64]:
    """The thread of each shot, (N,): its number, the same for all shots that are connected; a lone shot has its own."""
    from scipy.sparse import csr_array  # type: ignore[import-untyped]
    from scipy.sparse.csgraph import connected_components  # type: ignore[import-untyped]

    near = np.triu(alike >= least, 1) & ~np.triu(np.ones(alike.shape, dtype=bool), lookahead + 1)
    return np.asarray(connected_components(csr_array(near), directed=False)[1], dtype=np.int64)


def scene_worth(near: Floats, thread: NDArray[np.int64], longest: int) -> Floats:
    """What each scene is worth, (L, N): `[m-1, j]` of m shots whose last is shot j, -infinity outside the film.

    A scene's worth is that of its shots after the first, and that of the shot after it as the beginning of the next
    scene, which depends on no more than the two.

    Args:
        near: (N, N), see `closeness`.
        thread: (N,).
        longest: L.
    """
    N = len(near)
    L = min(longest, N)
    alpha = 1 - 0.5 * (np.arange(1, longest + 1) / longest) ** 2
    same = thread[:, None] == thread
    worth = np.full((L, N), -np.inf)
    worth[0] = 0.0
    beyond = np.zeros((L, N))  # of shot j+1 as the first of the next scene, after m shots up to j
    total, mates = np.zeros(N), np.zeros(N)  # over the m shots before each shot
    for m in range(1, L + 1):
        shots = np.arange(m, N)  # those with m shots before them
        total[shots] += near[shots, shots - m]
        mates[shots] += same[shots, shots - m]
        like = (1 + np.tanh(total[shots] / m / 2)) / 2  # the logistic function
        beyond[m - 1, shots - 1] = alpha[longest - m] * np.maximum(0.0, 1 - like - (mates[shots] > 0))
        if m < L:
            worth[m, shots] = worth[m - 1, shots - 1] + alpha[m] * (like + mates[shots])
    return worth + beyond
