"""DP: a boundary evaluation criterion and dynamic programming (Han and Wu 2011)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipelines.baselines.chains import margins, spanning
from pipelines.baselines.segmentation import (
    Features,
    Floats,
    Segmentation,
    Times,
    block,
    block_sums,
    check_features,
    segmentation,
    similarities,
)

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

    def __post_init__(self) -> None:
        if not 0 <= self.fading < 1 or self.longest < 1 or self.memory < 0 or self.closest < 0:
            raise ValueError(f"settings of dp out of range: {self}")


def dp(features: Features, times: Times, settings: DPSettings = DPSettings()) -> Segmentation:
    """Choose the boundaries of maximum total value, where each is evaluated with the two scenes that it separates.

    The criterion of a boundary between scenes A and B is low where they differ. With w(X, Y) for the sum of the
    similarities of the shots in X to the shots in Y, each faded by the distance of the two in shots, it is the sum of

    - the normalized cut of A and B: w(A, B) / (w(A, B) + w(A, A)) + w(A, B) / (w(A, B) + w(B, B));
    - the same of B and everything before A, its side on B only: w(M, B) / (w(M, B) + w(B, B)), 0 where nothing is
      before A; it detects scenes that continue after an interruption;
    - the greatest similarity of a shot in A to a shot in B, not faded.

    The value of a boundary is `reward` minus its criterion; the sum over boundaries is maximal over all divisions of
    the video into scenes of at most `longest` shots.

    Choices made here: only the abstract of the paper was available. It names these three parts ("multiple normalized
    min-max cut scores" with a "memory-fading model" for scenes that are not neighbors, and "the maximal cross-boundary
    strict shot similarity") and a heuristic search with Monte Carlo steps for stability; the formulas are our
    interpretation. Because a criterion here depends on two scenes only, the best division is found exactly, without
    heuristics. A shot is not its own neighbor, so that a scene of one shot has no internal similarity and its share of
    the cut is 1. (With min-max cuts of mean similarities its internal similarity would be maximal, hundreds of single
    shots become scenes, and AP falls to chance.) The paper's strict similarity, of color and structure, is here the
    similarity of the features.

    Score: the maximum value of a division with an end at the shot, minus the maximum without. Positive at the ends.

    Complexity: O(N^2 D) for the similarities, O(N longest^2) for the rest, twice.

    Source: B. Han, W. Wu: Video scene segmentation using a novel boundary evaluation criterion and dynamic programming,
    ICME 2011.
    """
    x, _ = check_features(features, times)
    N = len(x)
    L = min(settings.longest, N)
    criteria = Criteria(similarities(x), settings)
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
        """For a boundary before shot n: (A, B), `[a-1, b-1]` for a shots in the scene before and b after it."""
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
    """cut / (cut + within), 1 if both are 0."""
    # Differences of sums may be slightly below 0 by rounding; the small constant decides if both are 0.
    cut = np.maximum(cut, 0.0) + TINY
    return np.asarray(cut / (cut + np.maximum(within, 0.0)))


def _follow(criteria: Criteria, reward: float, after: Floats) -> NDArray[np.int64]:
    """Last shots of the scenes of the best division, without the video's last."""
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
