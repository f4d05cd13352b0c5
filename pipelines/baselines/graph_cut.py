"""GraphCut: recursive normalised cuts of the shot similarity graph (Rasheed and Shah 2005)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

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


@dataclass(frozen=True)
class GraphCutSettings:
    """Settings of `graph_cut`."""

    # d of the paper, with its value: how slowly the weight of an edge decays with time
    decay: float = 20.0
    # maximum normalised cut at which a part is divided: the best of the values tried on BBC and on OVSD; it depends on
    # how similarity is measured
    threshold: float = 0.2

    def __post_init__(self) -> None:
        if not self.decay > 0 or not 0 <= self.threshold <= 2:
            raise ValueError(f"decay must be positive and threshold between 0 and 2: {self}")


def graph_cut(features: Features, times: Times, settings: GraphCutSettings = GraphCutSettings()) -> Segmentation:
    """Cut the video where the normalised cut is minimal, then each part again, until all cuts exceed the threshold.

    The weight between two shots is their similarity times exp(-((m_i - m_j) / sigma)^2 / d), m being the middle of a
    shot and sigma the standard deviation of the shots' lengths. A part V of the video is cut into the shots before and
    after a point, A and B, where cut(A, B) / assoc(A, V) + cut(A, B) / assoc(B, V) is minimal. As the paper allows cuts
    in time only, all cuts are evaluated, and no eigenvector is needed.

    Choices made here: the paper's similarity is the mean of color and motion similarity; here it is the similarity of
    features (`pipelines.baselines.segmentation`). A shot is its own neighbour with weight 1, as in Shi and Malik 2000.

    Score: the recursion continues to single shots whatever the threshold; the score of a cut is minus the greatest
    normalised cut on the path to it, including its own. The scene ends for any threshold are then the cuts with a score
    of at least minus the threshold.

    Complexity: O(N^2 D) for the similarities, then O(N) per cut: O(N log N) for even cuts, O(N^2) at worst. O(N^2)
    memory.

    Source: Z. Rasheed, M. Shah: Detection and representation of scenes in videos. IEEE Trans. Multimedia 7(6), 2005.
    """
    x, t = check_features(features, times)
    costs = cut_costs(shot_graph(x, t, settings.decay))
    return segmentation(np.flatnonzero(costs[:-1] <= settings.threshold), -costs)


def shot_graph(features: Floats, times: Floats, decay: float) -> Floats:
    """Weights of the shot similarity graph, (N, N)."""
    middle = times.mean(axis=1)
    # Shots of equal length have no deviation; the unit is then their length.
    lengths = np.diff(times)[:, 0]
    unit = float(lengths.std()) or float(lengths.mean()) or 1.0
    return np.asarray(similarities(features) * np.exp(-(((middle[:, None] - middle) / unit) ** 2) / decay))


def normalised_cuts(sums: Floats, start: int, end: int) -> Floats:
    """Normalised cuts of shots [start, end) after each shot but the last, (end - start - 1,)."""
    at = np.arange(start + 1, end)
    whole = block(sums, (start, end), (start, end))
    before, after = block(sums, (start, at), (start, at)), block(sums, (at, end), (at, end))
    # Sums of thousands of terms may be slightly below 0 by rounding.
    cut = np.maximum((whole - before - after) / 2, 0.0)
    return np.asarray(cut / (before + cut) + cut / (after + cut))


def cut_costs(weights: Floats) -> Floats:
    """The smallest threshold at which the recursion cuts after each shot, (N,); infinite at the last shot."""
    sums = block_sums(weights)
    costs = np.full(len(weights), np.inf)
    parts = [(0, len(weights), 0.0)]
    while parts:
        start, end, reached = parts.pop()
        if end - start < 2:
            continue
        values = normalised_cuts(sums, start, end)
        best = int(values.argmin())
        reached = max(reached, float(values[best]))
        middle = start + best + 1
        costs[middle - 1] = reached
        parts += [(start, middle, reached), (middle, end, reached)]
    return costs
