"""GraphCut: recursive normalized cuts of the shot similarity graph (Rasheed and Shah 2005)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipelines.baselines.segmentation import Floats, Segmentation, center, segmentation
from pipelines.models.networks.cut_evidence import BlockSums, cut_costs, similarity_band

_NEGLIGIBLE = 1e-18  # weights below this change no sum: a shot's weight with itself is 1


@dataclass(frozen=True)
class GraphCutSettings:
    """Settings of `graph_cut`."""

    # d of the paper, with its value: how slowly the weight of an edge decays with time
    decay: float = 20.0
    # maximum normalized cut at which a part is divided: the best of the values tried on BBC and on OVSD; it depends on
    # how similarity is measured
    threshold: float = 0.2


def graph_cut(features: Floats, times: Floats, settings: GraphCutSettings = GraphCutSettings()) -> Segmentation:
    """Cut the video where the normalized cut is minimal, then each part again, until all cuts exceed the threshold.

    The weight between two shots is their similarity times exp(-((m_i - m_j) / sigma)^2 / d), m being the middle of a
    shot and sigma the standard deviation of the shots' lengths. A part V of the video is cut into the shots before and
    after a point, A and B, where cut(A, B) / assoc(A, V) + cut(A, B) / assoc(B, V) is minimal. As the paper allows cuts
    in time only, all cuts are evaluated, and no eigenvector is needed.

    Score: the recursion continues to single shots whatever the threshold; the score of a cut is minus the greatest
    normalized cut on the path to it, including its own. The scene ends for any threshold are then the cuts with a score
    of at least minus the threshold.

    Edges beyond some distance in time have no weight: with R shots within it, the similarities take O(N R D), the
    cuts O(N) per level of the recursion, and the memory is O(N (D + R)).

    Source: Z. Rasheed, M. Shah: Detection and representation of scenes in videos. IEEE Trans. Multimedia 7(6), 2005.
    """
    costs = np.full(len(features), np.inf)
    costs[:-1] = cut_costs(BlockSums(shot_graph(features, times, settings.decay)))[0]
    return segmentation(np.flatnonzero(costs[:-1] <= settings.threshold), -costs)


def shot_graph(features: Floats, times: Floats, decay: float) -> Floats:
    """Return weights of the shot similarity graph: of shots i and i + k, (N, R + 1); farther apart they are
    negligible."""
    middle = times.mean(axis=1)
    # Shots of equal length have no deviation; the unit is then their length.
    lengths = np.diff(times)[:, 0]
    unit = float(lengths.std()) or float(lengths.mean()) or 1.0
    within = unit * np.sqrt(-np.log(_NEGLIGIBLE) * decay)
    later = np.minimum.accumulate(middle[::-1])[::-1]  # the earliest middle of the shots from each on
    reach = int((np.searchsorted(later, middle + within, "right") - 1 - np.arange(len(middle))).max())
    alike = np.clip(similarity_band(center(features), reach), 0.0, 1.0)
    alike[:, 0] = 1.0
    other = np.minimum(np.arange(len(middle))[:, None] + np.arange(reach + 1), len(middle) - 1)
    return np.asarray(alike * np.exp(-(((middle[other] - middle[:, None]) / unit) ** 2) / decay))
