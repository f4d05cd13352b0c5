"""Optimal division of a video into K scenes by dynamic programming, where each scene has a value of its own."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pipelines.baselines.segmentation import Floats, Segmentation, segmentation


def prefix_values(worth: Floats, most: int) -> Floats:
    """The maximum value of the first n shots of a video in k scenes, (most+1, N+1): `[k, n]`; -infinity if impossible.

    `worth`: (L, N), `worth[m-1, j]` is the value of a scene of m shots whose last is shot j; ignored if the scene would
    start before the video (j < m - 1). L is the longest scene. O(most N L) time.
    """
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
    """The division of maximum value into a given number of scenes: their last shots, (K-1,), without the video's last,
    and the margin of an end at each shot, (N,), see `margins`. `worth` is as for `prefix_values`. O(K N L) time. Raises
    ValueError: K is not between 1 and N, or K scenes of at most L shots cannot cover the video."""
    L, N = worth.shape
    if not 1 <= scenes <= N:
        raise ValueError(f"{N} shots cannot be divided into {scenes} scenes")
    first = prefix_values(worth, scenes)
    if first[scenes, N] == -np.inf:
        raise ValueError(f"{N} shots cannot be divided into {scenes} scenes of at most {L} shots")
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
    """The division of maximum value into a number of scenes, scored by its margins; by the margins of two scenes if
    there is only one."""
    ends, margin = best_division(worth, scenes)
    if scenes == 1 < worth.shape[1] <= 2 * len(worth):
        margin = best_division(worth, 2)[1]
    return segmentation(ends, margin)


def backtrack(worth: Floats, values: Floats, scenes: int) -> NDArray[np.int64]:
    """Last shots of the scenes of the best division according to `prefix_values`, without the video's last shot."""
    ends: list[int] = []
    n = worth.shape[1]
    for k in range(scenes, 0, -1):
        m = np.arange(1, min(len(worth), n) + 1)
        n -= int(m[(values[k - 1, n - m] + worth[m - 1, n - 1]).argmax()])
        ends.append(n - 1)
    return np.array(ends[-2::-1], dtype=np.int64)


def spanning(best: Floats) -> Floats:
    """The maximum value of a division without an end at each shot, (N,): with a scene that spans it. In `best`, (L, N),
    `[m-1, j]` is the value of the best division in which a scene of m shots ends with shot j."""
    L, N = best.shape
    longer = np.maximum.accumulate(best[::-1], axis=0)[::-1]  # scenes of at least m shots
    across = np.full(N, -np.inf)
    for d in range(1, min(L, N)):  # the scene ends d shots later, so it has at least d + 1 shots
        np.maximum(across[: N - d], longer[d, d:], out=across[: N - d])
    return across


def margins(with_end: Floats, without: Floats) -> Floats:
    """The maximum value of a division with an end at each shot, minus the maximum without: positive at the ends of the
    best division (0 if another one has the same value), negative elsewhere; infinite if all or no divisions have an end
    there; -infinity at the last shot."""
    margin = np.full(len(with_end), -np.inf)
    possible = with_end > -np.inf
    margin[possible] = with_end[possible] - without[possible]
    margin[-1] = -np.inf
    return margin


def _in_reverse(worth: Floats) -> Floats:
    """The same table for the reversed video."""
    L, N = worth.shape
    lengths = np.arange(1, L + 1)[:, None]
    last = N - 1 - np.arange(N) + lengths - 1  # in the original order, of the scene that begins at each shot
    return np.asarray(np.where(last < N, worth[lengths - 1, np.minimum(last, N - 1)], -np.inf))
