"""Grouping: optimal sequential grouping of shots (Rotman, Porat and Ashour 2016, 2017, 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from pipelines.baselines.dp import backtrack, divide, prefix_values
from pipelines.baselines.segmentation import Floats, Segmentation, block_sums
from pipelines.models.networks.cut_evidence import unit_rows


@dataclass(frozen=True)
class GroupingSettings:
    """Settings of `grouping`."""

    # Additive: the sum of the distances within scenes (2016). Normalized: that sum divided by the number of its pairs,
    # a shot with itself included (2018), which removes the preference for scenes of equal size.
    cost: Literal["additive", "normalized"] = "normalized"
    scenes: int | None = None  # number of scenes; None: estimated from the singular values of the distances


def grouping(sets: Sequence[Floats], times: Floats, settings: GroupingSettings = GroupingSettings()) -> Segmentation:
    """Divide the video into K scenes so that the distances between shots of the same scene are minimal.

    The distance of two shots is the cosine distance of their features, as in the papers, without subtracting the
    video's mean.

    Score: the cost of the best division into K scenes without an end at the shot, minus the cost of the best with one;
    for the normalized cost, the difference of the numerators at the minimum ratio. Positive at the ends.

    Takes one or several feature sets of the same N shots; times are not used.

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
    """Estimate the number of scenes: the elbow of the log singular values of the distances.

    Distinct scenes make blocks on the diagonal, and each block gives a large singular value. The elbow is the value
    farthest below the line from the first to the last. As in public implementations of the paper, the smaller half is
    left out: it falls steeply to rounding error and would distort the line.
    """
    values = np.linalg.eigvalsh(distances)
    values = np.sort(np.abs(values))[::-1][: max(len(distances) // 2, 1)]
    values = values[values > 1e-12 * max(float(values[0]), np.finfo(np.float64).tiny)]
    if len(values) < 3:
        return max(len(values), 1)
    logs = np.log(values)
    line = np.linspace(logs[0], logs[-1], len(logs))
    return int((line - logs).argmax()) + 1


def scene_costs(distances: Floats) -> Floats:
    """Return sums of the distances within each scene, (N, N): `[m-1, j]` for m shots up to shot j; 0 outside the video.
    Each pair counts twice, in both orders, as in the papers."""
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
