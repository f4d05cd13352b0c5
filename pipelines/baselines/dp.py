"""Division of a video by dynamic programming: into K scenes that each have a value of their own (also for Grouping and
Story Graph), and DP, whose boundaries have values (Han and Wu 2011)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from pipelines.baselines.segmentation import Floats, Segmentation, block, block_sums, segmentation, similarities


def prefix_values(worth: Floats, most: int) -> Floats:
    """Return the maximum value of the first n shots of a video in k scenes, (most+1, N+1): `[k, n]`; -infinity if
    impossible.

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
    """Return the division of maximum value into a given number of scenes: their last shots, (K-1,), without the video's
    last, and the margin of an end at each shot, (N,), see `margins`. `worth` is as for `prefix_values`; K scenes of at
    most L shots must be possible. O(K N L) time."""
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
    """Return the division of maximum value into a number of scenes, scored by its margins; by the margins of two scenes
    if there is only one."""
    ends, margin = best_division(worth, scenes)
    if scenes == 1 < worth.shape[1] <= 2 * len(worth):
        margin = best_division(worth, 2)[1]
    return segmentation(ends, margin)


def backtrack(worth: Floats, values: Floats, scenes: int) -> NDArray[np.int64]:
    """Return last shots of the scenes of the best division according to `prefix_values`, without the video's last
    shot."""
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
    """Return the maximum value of a division with an end at each shot, minus the maximum without: positive at the ends
    of the best division (0 if another one has the same value), negative elsewhere; infinite if all or no divisions have
    an end there; -infinity at the last shot."""
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


# --- dp ---------------------------------------------------------------------------------------------------------------

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
        """Return the criteria (A, B) of a boundary before shot n: `[a-1, b-1]` for a shots in the scene before and b
        after it."""
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
