"""Systems that divide a video by dynamic programming: DP, Grouping, Story Graph; and scenes of fixed length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pipelines.baselines import (
    Floats,
    Segmentation,
    block,
    block_sums,
    center,
    segmentation,
    similarities,
    squared_distances,
)
from pipelines.models.calibration import sigmoid
from pipelines.models.networks.cut_evidence import unit_rows


def prefix_values(worth: Floats, most: int) -> Floats:
    """Return the maximum value of the first n shots of a video in k scenes, (most+1, N+1): `[k, n]`; -infinity if
    impossible. `worth`: (L, N), `worth[m-1, j]` is the value of a scene of m shots whose last is shot j; ignored if
    j < m - 1. L is the longest scene. O(most N L) time."""
    L, N = worth.shape
    values = np.full((most + 1, N + 1), -np.inf)
    values[0, 0] = 0.0
    sums = np.empty(N)
    for before, best in pairwise(values):
        for m in range(1, min(L, N) + 1):
            # All ends at once: a row of a few thousand numbers fits into the L1 cache.
            np.add(before[: N + 1 - m], worth[m - 1, m - 1 :], out=sums[: N + 1 - m])
            np.maximum(best[m:], sums[: N + 1 - m], out=best[m:])
    return values


def best_division(worth: Floats, scenes: int) -> tuple[NDArray[np.int64], Floats]:
    """Return the division of maximum value into K scenes, which must be possible: their last shots, (K-1,), without the
    video's last, and the `margins` of an end at each shot, (N,). `worth` is as for `prefix_values`. O(K N L) time."""
    L, N = worth.shape
    first = prefix_values(worth, scenes)
    # [k, n]: the shots from n on, in k scenes
    rest = np.ascontiguousarray(prefix_values(_in_reverse(worth), scenes)[:, ::-1])
    best = np.full((L, N), -np.inf)  # of the best division that contains each scene
    sums = np.empty(N)
    for m in range(1, min(L, N) + 1):
        for before, after in zip(first[:scenes], rest[:scenes][::-1], strict=True):
            np.add(before[: N + 1 - m], after[m:], out=sums[: N + 1 - m])
            np.maximum(best[m - 1, m - 1 :], sums[: N + 1 - m], out=best[m - 1, m - 1 :])
        best[m - 1, m - 1 :] += worth[m - 1, m - 1 :]
    with_end = (first[1:scenes] + rest[scenes - 1 : 0 : -1]).max(axis=0, initial=-np.inf)[1:]
    ends = backtrack(worth, first, scenes)
    return ends, margins(with_end, spanning(best))


def divide(worth: Floats, scenes: int) -> Segmentation:
    """Return the division of maximum value into some scenes, scored by its margins; a single one by margins of two."""
    ends, margin = best_division(worth, scenes)
    if scenes == 1 < worth.shape[1] <= 2 * len(worth):
        margin = best_division(worth, 2)[1]
    return segmentation(ends, margin)


def backtrack(worth: Floats, values: Floats, scenes: int) -> NDArray[np.int64]:
    """Return last shots of the scenes, without the video's last, of the best division by its `prefix_values`."""
    ends: list[int] = []
    n = worth.shape[1]
    for k in range(scenes, 0, -1):
        m = np.arange(1, min(len(worth), n) + 1)
        n -= int(m[(values[k - 1, n - m] + worth[m - 1, n - 1]).argmax()])
        ends.append(n - 1)
    return np.array(ends[-2::-1], dtype=np.int64)


def spanning(best: Floats) -> Floats:
    """Return the maximum value of a division without an end at each shot, (N,): with a scene that spans it. In `best`,
    (L, N), `[m-1, j]` is the value of the best division in which a scene of m shots ends with shot j."""
    L, N = best.shape
    longer = np.maximum.accumulate(best[::-1], axis=0)[::-1]  # scenes of at least m shots
    across = np.full(N, -np.inf)
    for d in range(1, min(L, N)):  # the scene ends d shots later, so it has at least d + 1 shots
        np.maximum(across[: N - d], longer[d, d:], out=across[: N - d])
    return across


def margins(with_end: Floats, without: Floats) -> Floats:
    """Return the maximum value of a division with an end at each shot, minus the maximum without; infinite if all or no
    divisions have an end there, -infinity at the last shot."""
    margin = np.full(len(with_end), -np.inf)
    possible = with_end > -np.inf
    margin[possible] = with_end[possible] - without[possible]
    margin[-1] = -np.inf
    return margin


def _in_reverse(worth: Floats) -> Floats:
    """Return the same table for the reversed video."""
    L, N = worth.shape
    lengths = np.arange(1, L + 1)[:, None]
    last = N - 1 - np.arange(N) + lengths - 1  # in the original order, of the scene that begins at each shot
    return np.asarray(np.where(last < N, worth[lengths - 1, np.minimum(last, N - 1)], -np.inf))


# --- DP: Han and Wu 2011 ----------------------------------------------------------------------------------------------

TINY = 1e-9  # similarities below this count as none


@dataclass(frozen=True)
class DPSettings:
    """Settings of `dp`."""

    reward: float = 0.6  # value of a boundary before its criterion is subtracted: the higher, the more scenes
    # memory fading: the similarity of shots that are d shots apart is multiplied by this to the power of d
    fading: float = 0.8
    memory: float = 1.0  # weight of the cut between the scene on the right and all shots before the scene on the left
    closest: float = 0.5  # weight of the most similar pair of shots across the boundary
    longest: int = 80  # maximum number of shots in a scene


def dp(features: Floats, times: Floats, settings: DPSettings = DPSettings()) -> Segmentation:
    """Choose the boundaries of maximum total value, where each is evaluated with the two scenes that it separates.

    The criterion of a boundary between scenes A and B is low where they differ. With w(X, Y) for the sum of the
    similarities of the shots in X to the shots in Y, each faded by the distance of the two in shots, it is the sum of

    - the normalized cut of A and B: w(A, B) / (w(A, B) + w(A, A)) + w(A, B) / (w(A, B) + w(B, B));
    - the same of B and everything before A, its side on B only: w(M, B) / (w(M, B) + w(B, B)), 0 where nothing is
      before A; it detects scenes that continue after an interruption;
    - the greatest similarity of a shot in A to a shot in B, not faded.

    The value of a boundary is `reward` minus its criterion; the sum over boundaries is maximal over all divisions of
    the video into scenes of at most `longest` shots.

    Score: the maximum value of a division with an end at the shot, minus the maximum without. Positive at the ends.

    Source: B. Han, W. Wu: Video scene segmentation using a novel boundary evaluation criterion and dynamic programming,
    ICME 2011.
    """
    N = len(features)
    L = min(settings.longest, N)
    criteria = Criteria(similarities(features), settings)
    # [n, a]: for a scene of a shots that ends at n, total value of the boundaries before n, and from n on.
    before, after = np.full((N + 1, L + 1), -np.inf), np.full((N + 1, L + 1), -np.inf)
    lengths = np.arange(1, L + 1)
    before[lengths, lengths] = 0.0  # the first scene
    for n in range(1, N):
        worth = settings.reward - criteria.at(n)
        b = np.arange(1, worth.shape[1] + 1)
        best = (before[n, 1 : len(worth) + 1, None] + worth).max(axis=0)
        before[n + b, b] = np.maximum(before[n + b, b], best)
    after[N, 1:] = 0.0
    for n in range(N - 1, 0, -1):
        worth = settings.reward - criteria.at(n)
        b = np.arange(1, worth.shape[1] + 1)
        after[n, 1 : len(worth) + 1] = (worth + after[n + b, b]).max(axis=1)
    through = before + after  # value of the best division with this scene
    margin = margins(through[1:, 1:].max(axis=1), spanning(np.ascontiguousarray(through[1:, 1:].T)))
    return segmentation(_follow(criteria, settings.reward, after), margin)


class Criteria:
    """The criterion of every boundary of a video, for every pair of scenes that it could separate."""

    def __init__(self, alike: Floats, settings: DPSettings) -> None:
        self.alike, self.settings = alike, settings
        shots = np.arange(len(alike))
        weights = alike * settings.fading ** np.abs(shots[:, None] - shots)
        np.fill_diagonal(weights, 0.0)
        self.sums = block_sums(weights)

    def at(self, n: int) -> Floats:
        """Return the criteria (A, B) of a boundary before shot n: `[a-1, b-1]` for a shots before and b after it."""
        N, longest = len(self.alike), self.settings.longest
        a, b = np.arange(1, min(n, longest) + 1), np.arange(1, min(N - n, longest) + 1)
        start = n - a[:, None]
        across = self.alike[n - len(a) : n, n : n + len(b)][::-1]
        closest = np.maximum.accumulate(np.maximum.accumulate(across, axis=0), axis=1)
        left = block(self.sums, (start, n), (start, n))
        right = block(self.sums, (n, n + b), (n, n + b))
        cut = block(self.sums, (start, n), (n, n + b))
        recalled = block(self.sums, (0, start), (n, n + b))
        return np.asarray(
            _share(cut, left)
            + _share(cut, right)
            + self.settings.memory * np.where(start > 0, _share(recalled, right), 0.0)
            + self.settings.closest * closest
        )


def _share(cut: Floats, within: Floats) -> Floats:
    """Return cut / (cut + within), 1 if both are 0."""
    # Differences of sums may be slightly below 0 by rounding; the small constant decides if both are 0.
    cut = np.maximum(cut, 0.0) + TINY
    return np.asarray(cut / (cut + np.maximum(within, 0.0)))


def _follow(criteria: Criteria, reward: float, after: Floats) -> NDArray[np.int64]:
    """Return last shots of the scenes of the best division, without the video's last."""
    N, L = after.shape[0] - 1, after.shape[1] - 1
    first = np.arange(1, min(L, N) + 1)
    a = int(first[after[first, first].argmax()])
    n, ends = a, []
    while n < N:
        ends.append(n - 1)
        worth = reward - criteria.at(n)[a - 1]
        b = np.arange(1, len(worth) + 1)
        a = int(b[(worth + after[n + b, b]).argmax()])
        n += a
    return np.array(ends, dtype=np.int64)


# --- Grouping: Rotman, Porat and Ashour 2016, 2017, 2018 --------------------------------------------------------------


@dataclass(frozen=True)
class GroupingSettings:
    """Settings of `grouping`."""

    # Additive: the sum of the distances within scenes (2016). Normalized: divided by the number of its pairs (2018).
    cost: Literal["additive", "normalized"] = "normalized"
    scenes: int | None = None  # number of scenes; None: estimated from the singular values of the distances


def grouping(sets: Sequence[Floats], times: Floats, settings: GroupingSettings = GroupingSettings()) -> Segmentation:
    """Divide the video into K scenes so that the distances between shots of the same scene are minimal.

    The distance of two shots is the cosine distance of their features, as in the papers, without subtracting the
    video's mean; of several feature sets, the mean.

    Score: the cost of the best division into K scenes without an end at the shot, minus the cost of the best with one;
    for the normalized cost, the difference of the numerators at the minimum ratio.

    Sources: D. Rotman, D. Porat, G. Ashour: Robust and efficient video scene detection using optimal sequential
    grouping, ISM 2016; Robust video scene detection using multimodal fusion of optimally grouped features, MMSP 2017;
    D. Rotman, D. Porat, G. Ashour, U. Barzelay: Optimally grouped deep features using normalized cost for video scene
    detection, ICMR 2018.
    """
    distances = fused_distances(sets)
    scenes = estimated_scenes(distances) if settings.scenes is None else min(settings.scenes, len(distances))
    costs = scene_costs(distances)
    areas = np.arange(1.0, len(costs) + 1)[:, None] ** 2
    worth = -costs if settings.cost == "additive" else least_ratio(costs, areas, scenes) * areas - costs
    return divide(worth, scenes)


def fused_distances(sets: Sequence[Floats]) -> Floats:
    """Return distances between shots, (N, N), 0 on the diagonal: the mean over feature sets of (N, D) each."""
    total = np.zeros((len(sets[0]), len(sets[0])))
    for features in sets:
        unit = unit_rows(features, 0)
        distances = np.maximum(1 - unit @ unit.T, 0.0)
        np.fill_diagonal(distances, 0.0)
        total += distances / len(sets) / (distances.mean() or 1.0)
    return total


def estimated_scenes(distances: Floats) -> int:
    """Estimate the number of scenes: the elbow of the log singular values of the distances, farthest below the line
    from the first to the last. As in public implementations of the paper, the smaller half is left out."""
    values = np.linalg.eigvalsh(distances)
    values = np.sort(np.abs(values))[::-1][: max(len(distances) // 2, 1)]
    values = values[values > 1e-12 * max(float(values[0]), np.finfo(np.float64).tiny)]
    if len(values) < 3:
        return max(len(values), 1)
    logs = np.log(values)
    line = np.linspace(logs[0], logs[-1], len(logs))
    return int((line - logs).argmax()) + 1


def scene_costs(distances: Floats) -> Floats:
    """Return sums of the distances within scenes, each pair twice, (N, N): `[m-1, j]` for m shots up to j."""
    N = len(distances)
    sums = block_sums(distances)
    corners = np.diagonal(sums)
    costs = np.zeros((N, N))
    for m in range(1, N + 1):
        beside = np.diagonal(sums, m) + np.diagonal(sums, -m)
        # Sums over thousands of shots may be slightly below 0 by rounding.
        costs[m - 1, m - 1 :] = np.maximum(corners[m:] + corners[: N + 1 - m] - beside, 0.0)
    return costs


def least_ratio(costs: Floats, areas: Floats, scenes: int) -> float:
    """Return minimum of (sum of costs) / (sum of areas) over the divisions into a number of scenes (Dinkelbach 1967),
    for costs from `scene_costs` and areas (N, 1), of a scene of m shots at `[m-1]`."""
    worth = -costs  # the division of minimum cost is a good start
    ratio = np.inf
    while True:
        values = prefix_values(worth, scenes)
        ends = np.concatenate([backtrack(worth, values, scenes), [costs.shape[1] - 1]])
        lengths = np.diff(ends, prepend=-1)
        lower = float(costs[lengths - 1, ends].sum() / areas[lengths - 1].sum())
        if not lower < ratio * (1 - 1e-12):
            return min(lower, ratio)
        ratio = lower
        worth = ratio * areas - costs


# --- Story Graph: Tapaswi, Bäuml and Stiefelhagen 2014 ----------------------------------------------------------------


@dataclass(frozen=True)
class StoryGraphSettings:
    """Settings of `story_graph`."""

    longest: int = 100  # N_l: maximum number of shots in a scene, as in the authors' release
    lookahead: int = 24  # following shots that a shot is compared with to find threads, as in the release
    # minimum similarity of two shots of a thread, that is, from one camera position; the paper matches SIFT points
    thread: float = 0.9
    # scenes are added while each raises the total by at least this (the release: 0.8, for another similarity)
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
    from scipy import sparse  # type: ignore[import-untyped]  # optional dependency

    near = np.triu(alike >= least, 1) & ~np.triu(np.ones(alike.shape, dtype=bool), lookahead + 1)
    return np.asarray(sparse.csgraph.connected_components(sparse.csr_array(near), directed=False)[1], dtype=np.int64)


def scene_worth(near: Floats, thread: NDArray[np.int64], longest: int) -> Floats:
    """Return the value of each scene, (L, N): `[m-1, j]` for m shots up to shot j, -infinity outside the video: the sum
    over its shots after the first, plus the value of the next shot as the first of the next scene."""
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


# --- fixed length -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FixedLengthSettings:
    """Settings of `fixed_length`."""

    seconds: float = 60.0  # length of a scene


def fixed_length(
    features: Floats, times: Floats, settings: FixedLengthSettings = FixedLengthSettings()
) -> Segmentation:
    """End a scene with each shot during which the time since the start of the video passes a multiple of the length;
    score: 1 at these shots, 0 elsewhere."""
    passed = np.floor((times[:, 1] - times[0, 0]) / settings.seconds)
    marks = np.diff(passed, prepend=0.0) > 0
    marks[-1] = False
    return segmentation(np.flatnonzero(marks), marks.astype(np.float64))
