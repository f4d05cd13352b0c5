"""LGSS: local-to-global scene segmentation from clips, segments and the whole video (Rao et al. 2020)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pipelines.baselines.segmentation import (
    Features,
    Floats,
    Segmentation,
    Times,
    block_sums,
    centre,
    check_sets,
    segmentation,
    unit_rows,
)

if TYPE_CHECKING:  # start-up time: torch
    from pipelines.baselines.lgss_network import LGSSNetwork


@dataclass(frozen=True)
class LGSSSettings:
    """Settings of `lgss`."""

    network: LGSSNetwork
    """The trained network (`pipelines.baselines.lgss_network.train_lgss`)."""
    supershots: float = 4.0
    """Super shots at the start of the global step, per scene expected from the training videos."""
    rounds: int = 1
    """Global steps; the scenes of each are the super shots of the next. 0: the first super shots are the scenes."""

    def __post_init__(self) -> None:
        if not self.supershots >= 1 or self.rounds < 0:
            raise ValueError(f"supershots must be 1 or more and rounds 0 or more: {self}")


def lgss(features: Features | Sequence[Features], times: Times, settings: LGSSSettings) -> Segmentation:
    """Score the cut after each shot from the shots around it and its neighbouring cuts, then group the whole video.

    1. *Clip*: a boundary network for each modality (place, cast, action, sound, ...) computes a vector from the shots
       before and after a cut: cosines of temporal filters on both sides, and the maximum of temporal filters over both.
    2. *Segment*: a bidirectional LSTM for each modality reads the vectors of consecutive cuts. The modalities' logits
       are averaged; a sigmoid gives the score of the cut.
    3. *Video*: the cuts with the highest scores divide the video into super shots C. Of all divisions of these into
       scenes, the one with the greatest sum of g is taken,
       g(scene) = sum over its C of F_s(C) + F_t(C), where F_s is the mean similarity of C to the other super shots of
       the scene, and F_t is sigma(similarity to the most similar of them), because shots of a dialogue recur.
       The scenes become super shots, and this is repeated.

    Choices made here: the first two steps are the network of `pipelines.models.ms_lstm`. Features come from frozen
    encoders, minus the video's mean and of unit length, instead of from networks that are trained jointly. Modalities
    have equal weights. Super shots are compared by their mean features (the paper refines these in its supplement),
    with the same similarity as in all systems here: the cosine about the video's mean, with negative values set to 0,
    averaged over modalities. A single super shot counts as similar to none: F_s 0, F_t sigma(0). The paper begins with
    600 super shots per video, about four per scene in its videos; here it is four per expected scene, for videos of any
    length. The sum of g also decides the number of scenes; each round leaves fewer, and one round was best on BBC and
    on OVSD (the paper: five).

    Score: the output of step 2, for every cut. The global step decides where scenes end and does not change scores.

    Takes one or several feature sets of the same N shots, as in training. Raises ValueError also if the network was
    trained on other feature sets.

    Complexity: O(N) for the scores, O(M^3) for M super shots, O(M^2) memory.

    Source: A. Rao, L. Xu, Y. Xiong, G. Xu, Q. Huang, B. Zhou, D. Lin: A local-to-global approach to multi-modal movie
    scene segmentation, CVPR 2020.
    """
    sets = check_sets(features, times)
    scores = settings.network.probabilities(sets)
    N = len(scores)
    count = min(N, max(1, round(settings.supershots * N / settings.network.shots_per_scene)))
    ends = np.sort(np.argsort(-scores[:-1], kind="stable")[: count - 1])
    for _ in range(settings.rounds):
        grouped = ends[best_grouping(scene_worth(super_shot_similarities(sets, ends)))]
        if len(grouped) == len(ends):
            break
        ends = grouped
    return segmentation(ends, scores)


def super_shot_similarities(sets: Sequence[Floats], ends: NDArray[np.int64]) -> Floats:
    """Similarities of super shots, (M, M), from 0 to 1, with 0 on the diagonal. `ends`: the last
    shots of all super shots but the last one."""
    starts = np.concatenate([[0], ends + 1])
    alike = []
    for one in sets:
        unit = unit_rows(np.add.reduceat(centre(one), starts, axis=0), 1e-12)  # the sums have the means' directions
        alike.append(np.clip(unit @ unit.T, 0.0, 1.0))
    similarity = np.mean(alike, axis=0)
    np.fill_diagonal(similarity, 0.0)
    return np.asarray(similarity)


def scene_worth(similarity: Floats) -> Floats:
    """g of every scene of consecutive super shots, (M, M): `[i, j]` from i to j; -infinity if j < i.

    `similarity`: (M, M), not negative, its diagonal 0.
    """
    M = len(similarity)
    sums = block_sums(similarity)
    # On the diagonal sigma(0), the minimum: similarity to itself does not count.
    likeness = 1 / (1 + np.exp(-similarity))
    worth = np.full((M, M), -np.inf)
    for i in range(M):
        counts = np.arange(M - i)  # number of other super shots
        within = sums[range(i + 1, M + 1), range(i + 1, M + 1)] - sums[i, i + 1 :] - sums[i + 1 :, i] + sums[i, i]
        nearest = np.maximum.accumulate(likeness[i:, i:], axis=1)  # [l, j]: for super shot l of i to j
        worth[i, i:] = within / np.maximum(counts, 1) + np.triu(nearest).sum(axis=0)
    return worth


def best_grouping(worth: Floats) -> NDArray[np.int64]:
    """Last super shots of the scenes, without the video's last, of the division with the greatest total value.

    Of divisions of equal value, one with fewer scenes at the end of the video is taken.

    `worth`: (M, M), see `scene_worth`.
    """
    M = len(worth)
    best = np.zeros(M + 1)  # value of the first n super shots
    begins = np.zeros(M + 1, dtype=np.int64)
    for n in range(1, M + 1):
        sums = best[:n] + worth[:n, n - 1]
        begins[n] = int(sums.argmax())
        best[n] = sums[begins[n]]
    ends: list[int] = []
    n = int(begins[M])
    while n > 0:
        ends.append(n - 1)
        n = int(begins[n])
    return np.array(ends[::-1], dtype=np.int64)
