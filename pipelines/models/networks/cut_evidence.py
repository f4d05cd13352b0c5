"""Hand-crafted evidence for and against a scene end at each cut of a video, at many scales, without learning.

All evidence is computed from the lengths of the shots and the similarities of every two that are at most
`LONGEST_SCENE` apart: the normalized cut of the shot graph at the cut (at several scales of time), the contrast between
similarity on the same side and across, recurrence of shots after the cut, the number of links between shots that it
severs, and the posterior of a scene end (`pipelines.models.networks.scene_posteriors`).

Shots are compared by their content features joined with their color histogram, at several weights of color; each kind
of evidence is averaged over these weights. There are two similarities for each: the cosine after subtracting the
video's mean, which distinguishes settings, and the cosine after subtracting the mean of the surroundings, which still
distinguishes shots within a long sequence of one color.

The evidence does not change if the video is reversed, or its features are scaled or rotated. Only the numbers of shots
within some seconds of a cut depend on absolute time; all other lengths are relative to the video.
"""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.models.networks.scene_posteriors import (
    association,
    common_mean,
    posterior_log_odds,
    predictive_likelihood,
    principal_parts,
)

Floats = NDArray[np.float64]
Numbers = NDArray[np.floating[Any] | np.integer[Any]]

COLOR_WEIGHTS = (0.35, 0.7, 1.0)  # lengths of the color part beside content of unit length
PACE_SECONDS = (8.0, 15.0, 30.0, 60.0, 120.0)  # seconds from a cut within which shots are counted
REACH = 48  # shots that are farther apart are not compared, except in posteriors (`LONGEST_SCENE`)
SURROUNDINGS = 64  # shots on either side whose mean is the mean of the surroundings
Z_LIMIT = 6.0  # z-scores are clipped here; real videos stay within five
# Root mean square of similarities in graphs, whatever the encoder; about the value of VGG19 on videos.
TYPICAL_COSINE = 0.2
COST_FLOOR = 0.03  # added to a normalized cut before its logarithm is taken: smaller costs hardly differ

SHORTEST_TIME_UNIT = 0.75
"""The unit of time is the standard deviation of the shots' lengths, but at least this many mean lengths, about the
lowest deviation among the training videos."""
DECAYS = (10.0, 40.0)
"""d: how slowly the weight of an edge falls with time; 20 is the value of Rasheed and Shah 2005."""
MASSES = (0.0, 0.5)  # a shot counts as this power of its length
LOCAL_SIDES = (4, 8, 16)  # shots on either side in local normalized cuts, beside cuts of the whole video
INDEX_SCALES = (4.0, 8.0)  # of graphs whose weights fall with the number of shots in between, not with time
CONTRAST_SIDES = (1, 2, 3, 4, 6, 8, 12, 16, 24)
RECURRENCE_SIDES = (2, 3, 4, 6, 8, 12, 16)
LINK_REACHES = (8, 20, 40)
LINK_STRENGTHS = (1.5, 2.5)  # z-scores from which on two shots are linked

LONGEST_SCENE = 64  # shots of the longest scene in posteriors, which compare shots that far apart
ASSOCIATION_DECAY, ASSOCIATION_SCALE = 40.0, 6.0
"""Graphs whose association makes a scene: in time, with each of `MASSES`, and by the number of shots between."""
ASSOCIATION_WORTH = (40.0, -35.0)
"""Worth of a scene: the first times its normalized association, plus the second. The constants of all worths were
chosen from a few values, by AP on the videos that the built-in model was trained on."""
SHARPNESSES, BACKGROUNDS = (1.0, 2.0), (0.5, 2.0)
"""s of the kernel exp(s z) of z-scores; and the number of shots that the whole video counts as."""
PREDICTIVE_SHARE, PREDICTIVE_COSTS = 0.5, (1.0, 3.0)
"""Weight of the log likelihood, below 1 because shots of a scene are not independent; and the costs of a scene."""
AXES, RATIOS = 16, (0.5, 2.0)  # principal axes, and variances between scenes over variances within
MEAN_SHARE, MEAN_COST = 0.3, 2.5  # as for the predictive likelihood


def cut_evidence(
    features: Numbers, durations: Numbers, color: Numbers | None = None
) -> tuple[tuple[str, ...], NDArray[np.float32]]:
    """Return F kinds of evidence by name, and the evidence at each cut of one video, (N - 1, F): row i is about the cut
    between shots i and i + 1. Every number is finite and, for real videos, of the order of one. The arguments are as
    for `pipelines.models.networks.relational.shot_tokens`. O(N D REACH) time and O(N (D + REACH)) memory."""
    seconds = np.asarray(durations, dtype=np.float64)
    seconds = np.maximum(seconds, seconds[seconds > 0].min() if (seconds > 0).any() else 1.0)
    lengths = seconds / seconds.mean()
    # If all colors are equal, they do not change the similarities at any weight.
    if color is None or np.ptp(color, axis=0).max() == 0:
        views = [_view_evidence(unit_features(features), lengths)]
    else:
        views = [
            _view_evidence(unit_features(joined_features(features, color, weight)), lengths) for weight in COLOR_WEIGHTS
        ]
    evidence = {kind: np.mean([view[kind] for view in views], axis=0) for kind in views[0]}
    evidence |= _length_evidence(lengths) | _pace_evidence(seconds)
    return tuple(evidence), np.stack(list(evidence.values()), axis=1).astype(np.float32)


@cache
def token_width() -> int:
    """Return F, the length of a token of the relational network: the kinds of evidence at a cut, and 1."""
    kinds, _ = cut_evidence(np.eye(2, dtype=np.float32), np.ones(2))
    return len(kinds) + 1


def _view_evidence(units: tuple[NDArray[np.float32], ...], lengths: Floats) -> dict[str, Floats]:
    evidence: dict[str, Floats] = {}
    worths: dict[str, Floats] = {}
    for name, unit in zip(("video", "near"), units, strict=True):
        wide = similarity_band(unit, LONGEST_SCENE)
        band = wide[:, : REACH + 1]
        evidence |= {f"{name} {kind}": values for kind, values in _graph_evidence(ShotGraphs(band, lengths)).items()}
        evidence |= {f"{name} {kind}": values for kind, values in _similarity_evidence(z_scores(band)).items()}
        worths |= {f"{name} {kind}": values for kind, values in _scene_worths(unit, wide, lengths).items()}
    kinds = list(worths)
    table = np.stack([worths.pop(kind).T for kind in kinds], axis=2)
    return evidence | dict(zip(kinds, posterior_log_odds(table), strict=True))


# --- similarities -----------------------------------------------------------------------------------------------------


def joined_features(features: Numbers, color: Numbers, weight: float) -> Floats:
    """Return content (N, D) of unit length beside the square root of color histograms (N, H) of length `weight`, (N, D
    + H). The inner product of the roots of two histograms is their Bhattacharyya coefficient."""
    content = np.asarray(features, dtype=np.float64)
    content = content / max(float(np.abs(content).max()), np.finfo(np.float64).tiny)
    return np.hstack([unit_rows(content), weight * unit_rows(np.sqrt(np.asarray(color, dtype=np.float64)))])


def unit_features(features: Numbers) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return features minus the video's mean, and minus the mean of the surroundings; each row has unit length, or is
    0. Each shot's features are first scaled to unit length, which improved scores, see docs/default-model.md."""
    x = np.asarray(features, dtype=np.float64)
    x = unit_rows(x / max(float(np.abs(x).max()), np.finfo(np.float64).tiny))
    x -= x.mean(axis=0)
    N, D = x.shape
    sums = np.zeros((N + 1, D))
    np.cumsum(x, axis=0, out=sums[1:])
    video, near = np.empty((N, D), np.float32), np.empty((N, D), np.float32)
    for begin in range(0, N, 256):  # few rows at a time: these arrays take most of the memory for a long video
        rows = np.arange(begin, min(begin + 256, N))
        first, last = np.maximum(rows - SURROUNDINGS, 0), np.minimum(rows + SURROUNDINGS + 1, N)
        around = (sums[last] - sums[first]) / (last - first)[:, None]
        video[rows], near[rows] = unit_rows(x[rows]), unit_rows(x[rows] - around)
    return video, near


def unit_rows(x: Floats, least: float = 1e-6) -> Floats:
    """Scale rows to unit length; rows of at most the least length, which may be rounding errors only, become 0."""
    norm = np.sqrt(np.einsum("nd,nd->n", x, x))[:, None]
    alive = norm > least
    return np.asarray(x * (alive / np.where(alive, norm, 1.0)))


def similarity_band(unit: NDArray[np.floating[Any]], reach: int) -> Floats:
    """Return the similarity of shots i and i + k, (N, reach + 1); 0 if there is no shot i + k."""
    N, rows = len(unit), 256
    band = np.zeros((N, reach + 1))
    for first in range(0, N, rows):
        part = unit[first : first + rows]
        products = np.zeros((len(part), rows + reach))
        others = unit[first : first + rows + reach]
        products[:, : len(others)] = part @ others.T
        row = np.arange(len(part))[:, None]
        band[first : first + rows] = products[row, row + np.arange(reach + 1)]
    return band


def pairs_exist(N: int, reach: int) -> NDArray[np.bool_]:
    """Return (N, reach + 1): whether there is a shot i + k."""
    return np.asarray(np.arange(N)[:, None] + np.arange(reach + 1) < N)


def z_scores(band: Floats) -> Floats:
    """Return a band of similarities as z-scores over all pairs of different shots in it; 0 if there is no pair."""
    exists = pairs_exist(len(band), band.shape[1] - 1)
    pairs = band[:, 1:][exists[:, 1:]]
    deviation = float(pairs.std()) if len(pairs) else 0.0
    if deviation < 1e-6:  # fewer than three shots, or all equally similar
        return np.zeros_like(band)
    return np.asarray(np.clip((band - pairs.mean()) / deviation, -Z_LIMIT, Z_LIMIT) * exists)


# --- sums over blocks of a band ---------------------------------------------------------------------------------------


class BlockSums:
    """Sums over the pairs of shots between any two ranges, for weights that are 0 beyond a reach. The table takes
    O(N reach); each sum then takes four look-ups.

    Several bands of weights can be summed in one call: in ranges of the band `g`, shots are counted from `first[g]` on.
    """

    def __init__(self, *bands: Floats) -> None:
        """`bands`: (N, reach + 1) each, the weight of shots i and i + k; 0 if there is no shot i + k."""
        weights = np.stack(bands)
        G, N, width = weights.shape
        self.shots, self.reach = N, width - 1
        self.first = np.arange(G) * (N + 1)
        onwards = np.zeros((G, N, self.reach + 2))
        onwards[:, :, 1:-1] = weights[:, :, 1:]
        onwards = np.cumsum(onwards[:, :, ::-1], axis=2)[:, :, ::-1]
        # [g, i, k]: of pairs of a shot before i and a shot from i + k on
        beyond = np.zeros((G, N + 1, self.reach + 1))
        for k in range(self.reach - 1, -1, -1):
            beyond[:, 1:, k] = onwards[:, :, k + 1] + beyond[:, :-1, k + 1]
        # _before[g (N + 1) + i, k]: of pairs of a shot before i and a later one before i + k.
        before = np.pad(np.cumsum(onwards[:, :, 1], axis=1), ((0, 0), (1, 0)))[:, :, None] - beyond
        self._before = before.reshape(-1, self.reach + 1)
        # (G (N + 1),) own weights of the shots before each
        self.own: Floats = np.pad(np.cumsum(weights[:, :, 0], axis=1), ((0, 0), (1, 0))).ravel()
        self.severed: Floats = beyond[:, 1:-1, 0]  # (G, N - 1) over all pairs with a shot on either side of a cut

    def within(self, start: Any, end: Any) -> Floats:
        """Sum over the pairs of different shots of [start, end)."""
        return self._up_to(end, end) - self._up_to(start, end)

    def across(self, start: Any, cut: Any, end: Any) -> Floats:
        """Sum over the pairs of a shot of [start, cut) and one of [cut, end)."""
        return self._up_to(cut, end) - self._up_to(start, end) - self._up_to(cut, cut) + self._up_to(start, cut)

    def normalized_cut(self, start: Any, cut: Any, end: Any) -> Floats:
        """Return the normalized cut of [start, end) into [start, cut) and [cut, end), 0 to 2 (Shi and Malik 2000)."""
        # Rounding can make differences of large sums negative.
        severed = np.maximum(self.across(start, cut, end), 0.0)
        left = self.own[cut] - self.own[start] + 2 * self.within(start, cut)
        right = self.own[end] - self.own[cut] + 2 * self.within(cut, end)
        return np.asarray(severed / (left + severed) + severed / (right + severed))

    def _up_to(self, row: Any, column: Any) -> Floats:
        return np.asarray(self._before[row, np.minimum(column - row, self.reach)])


def cut_costs(sums: BlockSums) -> Floats:
    """Return the least threshold at which recursive normalized cuts cut the video at each of its cuts, (G, N - 1).

    The video is cut where the normalized cut is least, then each part again, down to single shots. The cost of a cut is
    the greatest normalized cut on the path to it, including its own.

    Source: Z. Rasheed, M. Shah: Detection and representation of scenes in videos. IEEE Trans. Multimedia 7(6), 2005.
    """
    G, N = len(sums.first), sums.shots
    costs = np.zeros((G, N + 1))  # of the cut between shots i and i + 1, at i
    cuts = (sums.first[:, None] + np.arange(N - 1)).ravel()
    start, end = np.repeat(sums.first, N - 1), np.repeat(sums.first + N, N - 1)
    reached = np.zeros(len(cuts))
    while len(cuts):
        values = sums.normalized_cut(start, cuts + 1, end)
        first = np.flatnonzero(np.append(True, start[1:] != start[:-1]))
        part = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(cuts))))
        least = np.minimum.reduceat(values, first)[part]
        reached = np.maximum(reached, least)
        hits = np.flatnonzero(values == least)
        hits = hits[np.append(True, part[hits[1:]] != part[hits[:-1]])]  # the first of equals in each part
        costs.flat[cuts[hits]] = reached[hits]
        cut = cuts[hits][part]
        left, rest = cuts < cut, cuts != cut
        start, end = np.where(left, start, cut + 1)[rest], np.where(left, cut + 1, end)[rest]
        cuts, reached = cuts[rest], reached[rest]
    return costs[:, : N - 1]


# --- kinds of evidence ------------------------------------------------------------------------------------------------


class ShotGraphs:
    """Graphs of the shots of a video: weights of edges rise with similarity and fall with the distance between shots.
    `differ` is False if all pairs of shots are equally similar: all similarities then count as 1."""

    def __init__(self, band: Floats, lengths: Floats) -> None:
        """`band`: (N, reach + 1), similarities of shots i and i + k. `lengths`: (N,), above 0, their mean 1."""
        N, reach = len(band), band.shape[1] - 1
        exists = pairs_exist(N, reach)
        # With the mean subtracted, two shots are always opposite each other, and equal shots are zero: no information.
        spread = float(np.sqrt((band[:, 1:][exists[:, 1:]] ** 2).mean())) if N > 2 else 0.0
        self.differ = spread > 1e-6
        self._alike = np.clip(band * (TYPICAL_COSINE / spread), 0.0, 1.0) if self.differ else exists.astype(np.float64)
        self._alike[:, 0] = 1.0  # a shot is its own neighbor
        self._lengths, self._apart = lengths, np.arange(reach + 1)
        self._other = np.minimum(np.arange(N)[:, None] + self._apart, N - 1)
        middle = np.cumsum(lengths) - lengths / 2
        unit = max(float(lengths.std()), SHORTEST_TIME_UNIT)
        self._seconds = ((middle[self._other] - middle[:, None]) / unit) ** 2

    def in_time(self, decay: float, power: float) -> Floats:
        """Return weights (N, reach + 1) falling with time; a shot counts as this power of its length."""
        mass = self._lengths**power
        return np.asarray(self._alike * np.exp(-self._seconds / decay) * mass[:, None] * mass[self._other])

    def in_shots(self, scale: float) -> Floats:
        """Return weights (N, reach + 1) falling with the number of shots between."""
        return np.asarray(self._alike * np.exp(-((self._apart / scale) ** 2)))


def _graph_evidence(graphs: ShotGraphs) -> dict[str, Floats]:
    """Return logarithms of normalized cuts in graphs, of the whole video and of the surroundings of each cut."""
    # Name and weights of each graph, and the names and sizes of the surroundings in which it is cut.
    sides = [(f" of {side}", side) for side in LOCAL_SIDES]
    kinds = [(f"d{decay:g} m{power:g}", graphs.in_time(decay, power), sides) for decay in DECAYS for power in MASSES]
    kinds += [(f"i{scale:g}", graphs.in_shots(scale), [("", int(3 * scale))]) for scale in INDEX_SCALES]
    sums = BlockSums(*(weights for _, weights, _ in kinds))
    cut = np.arange(1, sums.shots)
    costs: dict[str, Floats] = {}
    for (name, _, near), first, cost in zip(kinds, sums.first, cut_costs(sums), strict=True):
        costs[f"cost {name}"] = cost
        for of, side in near:
            around = np.maximum(cut - side, 0), cut, np.minimum(cut + side, sums.shots)
            costs[f"local cost {name}{of}"] = sums.normalized_cut(*(first + row for row in around))
    return {
        name: np.log((cost if graphs.differ else np.ones_like(cost)) + COST_FLOOR) + 1 for name, cost in costs.items()
    }


def _scene_worths(unit: NDArray[np.float32], band: Floats, lengths: Floats) -> dict[str, Floats]:
    """Return the worth of each range of shots as a scene, (LONGEST_SCENE, N) each, from `unit_features` (N, D), their
    similarities (N, LONGEST_SCENE + 1), and lengths (N,) of mean 1."""
    worths: dict[str, Floats] = {}
    parts = principal_parts(unit, AXES)
    graphs = ShotGraphs(band, lengths)
    whole, cost = ASSOCIATION_WORTH
    of_graphs = {f"d{ASSOCIATION_DECAY:g} m{power:g}": graphs.in_time(ASSOCIATION_DECAY, power) for power in MASSES}
    of_graphs[f"i{ASSOCIATION_SCALE:g}"] = graphs.in_shots(ASSOCIATION_SCALE)
    for name, weights in of_graphs.items():
        worths[f"association {name}"] = whole * association(weights, LONGEST_SCENE) + cost

    exists = pairs_exist(len(band), LONGEST_SCENE)
    z = np.maximum(z_scores(band), -Z_LIMIT / 2)
    kinds, kernels = [(sharpness, some) for sharpness in SHARPNESSES for some in BACKGROUNDS], []
    for sharpness, _ in kinds:
        kernel = np.exp(sharpness * z) * exists
        pairs = kernel[:, 1:][exists[:, 1:]]
        kernels.append(kernel / (pairs.mean() if len(pairs) else 1.0))
    better = PREDICTIVE_SHARE * predictive_likelihood(np.stack(kernels), [some for _, some in kinds], LONGEST_SCENE)
    for (sharpness, some), each in zip(kinds, better, strict=True):
        for cost in PREDICTIVE_COSTS:
            worths[f"predictive s{sharpness:g} a{some:g} c{cost:g}"] = each - cost

    deviations = parts.std(axis=0)  # none is 0
    together = np.sqrt((deviations**2).mean()) if len(deviations) else 1.0
    scales = {"plain": np.full_like(deviations, together), "whitened": deviations}
    means = common_mean(parts, list(scales.values()), RATIOS, LONGEST_SCENE)
    for name, each in zip(scales, means, strict=True):
        for ratio, likelihood in zip(RATIOS, each, strict=True):
            worths[f"mean {name} r{ratio:g}"] = MEAN_SHARE * likelihood - MEAN_COST
    return worths


def side_means(sums: BlockSums, side: int) -> tuple[Floats, Floats, Floats]:
    """Return the mean similarities around each cut, (N - 1,) each: of pairs of the last `side` shots up to it and of
    the first `side` after it (fewer at the video's ends; 0 for a single shot), and of pairs across it."""
    cut = np.arange(1, sums.shots)
    start, end = np.maximum(cut - side, 0), np.minimum(cut + side, sums.shots)
    before, after = cut - start, end - cut
    left = sums.within(start, cut) / np.maximum(before * (before - 1) / 2, 1)
    right = sums.within(cut, end) / np.maximum(after * (after - 1) / 2, 1)
    return left, right, sums.across(start, cut, end) / (before * after)


def _similarity_evidence(z: Floats) -> dict[str, Floats]:
    N, reach = len(z), z.shape[1] - 1
    evidence: dict[str, Floats] = {}
    cut = np.arange(1, N)

    sums = BlockSums(z)
    for side in CONTRAST_SIDES:
        left, right, across = side_means(sums, side)
        evidence[f"across {side}"] = across
        if side > 1:
            evidence[f"contrast {side}"] = (left + right) / 2 - across
            evidence[f"less alike side {side}"] = np.minimum(left, right)
            evidence[f"more alike side {side}"] = np.maximum(left, right)

    widest = np.arange(max(RECURRENCE_SIDES))
    before, after = cut[:, None] - 1 - widest, cut[:, None] + widest
    exist = (before >= 0)[:, :, None] & (after < N)[:, None, :]
    facing = np.where(exist, z[np.maximum(before, 0)[:, :, None], widest[:, None] + widest + 1], -Z_LIMIT)
    for side in RECURRENCE_SIDES:
        box = facing[:, :side, :side]
        best_after, best_before = box.max(axis=2), box.max(axis=1)
        evidence[f"closest pair {side}"] = best_after.max(axis=1)
        ranked = np.partition(box.reshape(N - 1, side * side), side * side - side, axis=1)
        evidence[f"closest pairs {side}"] = ranked[:, side * side - side :].mean(axis=1)
        after_cut, before_cut = (np.maximum(best, -Z_LIMIT / 2).mean(axis=1) for best in (best_after, best_before))
        evidence[f"less taken up {side}"] = np.minimum(after_cut, before_cut)
        evidence[f"more taken up {side}"] = np.maximum(after_cut, before_cut)

    apart = np.arange(reach + 1)
    for far in LINK_REACHES:
        linked = BlockSums(*(((z > strength) & (apart <= far)).astype(np.float64) for strength in LINK_STRENGTHS))
        for strength, severed in zip(LINK_STRENGTHS, linked.severed, strict=True):
            evidence[f"links {far} from {strength:g}"] = np.log1p(severed)
        evidence[f"nearest {far}"] = np.log1p(_links_to_nearest(z, far))
    return evidence


def _links_to_nearest(z: Floats, far: int) -> Floats:
    """Return how many links from a shot to the most similar one at most `far` away each cut severs, (N - 1,)."""
    N = len(z)
    exists = pairs_exist(N, far)[:, 1:]
    around = np.full((N, 2 * far), -np.inf)  # the shots before, from the nearest on, then those after
    around[:, far:] = np.where(exists, z[:, 1 : far + 1], -np.inf)
    for k in range(1, min(far, N - 1) + 1):
        around[k:, k - 1] = z[: N - k, k]
    place = around.argmax(axis=1)
    nearest = np.arange(N) + np.where(place < far, -1 - place, place - far + 1)
    steps = np.zeros(N + 1)
    np.add.at(steps, np.minimum(np.arange(N), nearest), 1)
    np.add.at(steps, np.maximum(np.arange(N), nearest), -1)
    return np.asarray(np.cumsum(steps)[: N - 1])


def _length_evidence(lengths: Floats) -> dict[str, Floats]:
    logs = np.log(lengths)
    logs = np.clip((logs - logs.mean()) / max(float(logs.std()), 1e-6), -Z_LIMIT, Z_LIMIT)
    before, after = logs[:-1], logs[1:]
    second = np.pad(logs, 2, mode="edge")
    return {
        "length": (before + after) / 2,
        "length change": np.abs(before - after),
        "longer length": np.maximum(before, after),
        "second length": (second[1:-4] + second[4:-1]) / 2,
    }


def _pace_evidence(seconds: Floats) -> dict[str, Floats]:
    """Return log(1 + n), where n shots have their middle within some seconds of a cut."""
    ends = np.cumsum(seconds)
    middles, cuts = ends - seconds / 2, ends[:-1]
    return {
        f"shots within {reach:g} s": np.log1p(
            np.searchsorted(middles, cuts + reach, "right") - np.searchsorted(middles, cuts - reach, "left")
        )
        for reach in PACE_SECONDS
    }
