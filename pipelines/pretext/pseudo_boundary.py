"""Pseudo-boundary discovery by dynamic time warping and its alternatives (paper, section 3.3 and appendix D).

The slow sequence of a window is its first and its last shot. Aligning it with all S shots by DTW leaves one choice:
the last shot that is aligned with the first. For a batch of windows this is a cumulative sum and an argmin, on the
device of the features.

Every function returns (B,) int64: the last shot b of the left sub-sequence, ``0 <= b <= S-2``, so that neither side is
empty. None computes gradients.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from pipelines.pretext.settings import PseudoBoundary

# In float32, 1 - x of a cosine x is a multiple of this.
_STEP = 2.0**-24


@torch.no_grad()
def end_similarity(slow: Tensor, dense: Tensor) -> Tensor:
    """Cosine similarity of the first and the last shot of a window to each of its shots, (B, 2, S) float32, also under
    autocast and for features of another precision; 0 for zero vectors.

    `slow`: (B, n, D), n >= 2, features of the slow sequence; only its first two shots, the window's ends, are used
    (with ShotCoL they are followed by the center). `dense`: (B, S, D), features of the window.
    Raises ValueError: shapes do not fit, or windows have fewer than two shots.
    """
    if dense.ndim != 3 or slow.ndim != 3 or slow.shape[1] < 2 or dense.shape[1] < 2:
        raise ValueError(f"need slow (B, 2, D) and dense (B, S, D), S >= 2, not {slow.shape} and {dense.shape}")
    # In half precision, different shots would tie and a cumulative sum of costs would lose their differences.
    with torch.autocast(dense.device.type, enabled=False):
        ends, shots = slow[:, :2].float(), dense.float()
        lengths = ends.norm(dim=2)[:, :, None] * shots.norm(dim=2)[:, None]
        similarity: Tensor = torch.bmm(ends, shots.transpose(1, 2)) / lengths.clamp(min=1e-12)
        return similarity


@torch.no_grad()
def dtw_boundary(similarity: Tensor) -> Tensor:
    """The pseudo-boundary of the release, by DTW: least sum of the costs 1 - cosine over all shots.

    It is the last shot that ``tslearn.metrics.dtw_path_from_metric(cost, metric="precomputed")`` aligns to the first
    row, for ``cost`` as in :func:`alignment_cost`. Left shots 0 to b and right shots b+1 to S-1 cost
    ``sum(cost[0, :b+1]) + sum(cost[1, b+1:])``, which is a constant plus the cumulative sum of ``cost[0] - cost[1]``
    at b. Of equally good b, tslearn takes the last: its backtracking prefers the diagonal step. It never aligns one
    shot with both ends, because that only adds a cost.

    Sums are exact, so that ties are the same on every device and in any order of summation: costs from float32 cosines
    are multiples of 2^-24 and are summed as integers. (Costs of any other origin are rounded to such multiples, and may
    then tie even if they do not for tslearn.)
    """
    cost = (alignment_cost(similarity) / _STEP).to(torch.int64)
    after = (cost[:, 0] - cost[:, 1]).cumsum(dim=1)[:, :-1]
    return after.shape[1] - 1 - after.flip(1).argmin(dim=1)


def alignment_cost(similarity: Tensor) -> Tensor:
    """1 - cosine, (B, 2, S) in float32, at least 0.

    Rounding can make the cosine of parallel vectors slightly greater than 1. The release keeps the negative cost: if
    a window's first and last shot are nearly equal, its alignment can then give a shot to both ends and leave the right
    sub-sequence empty. All other windows are aligned the same way, except for ties that depend on such rounding.
    """
    return (1 - similarity.float()).clamp(min=0)


@torch.no_grad()
def tslearn_boundary(similarity: Tensor) -> Tensor:
    """The boundaries of :func:`dtw_boundary`, by tslearn, window by window on the CPU, as in the paper's listing 1."""
    from tslearn.metrics import dtw_path_from_metric  # start-up time: numba; only this method needs it

    boundaries = []
    for matrix in alignment_cost(similarity).cpu().contiguous().numpy():
        path = np.asarray(dtw_path_from_metric(matrix, metric="precomputed")[0])
        boundaries.append(int(path[path[:, 0] == 0, 1].max()))
    return torch.tensor(boundaries, dtype=torch.int64, device=similarity.device)


@torch.no_grad()
def mean_boundary(similarity: Tensor) -> Tensor:
    """The equation of section 3.3: greatest *mean* similarity left plus *mean* right, without the two end shots.

    With shots counted from 0, b is in 1 to S-2, the left mean is over shots 1 to b and the right mean over shots b+1
    to S-2. At b = S-2 (b = K-1 in the paper) the right mean is over no shot, 0 / 0 in the equation; it is taken as 0,
    so that the right sub-sequence is the last shot alone if the inner shots are dissimilar to it on average. Of equally
    good b the first is taken. Windows of two shots have b = 0.
    """
    S = similarity.shape[2]
    if S == 2:
        return torch.zeros(len(similarity), dtype=torch.int64, device=similarity.device)
    inner = similarity.float()[:, :, None, 1:-1]
    candidate = torch.arange(1, S - 1, device=similarity.device)
    left = candidate <= candidate[:, None]  # (b, shot)
    # Sums of masked products, not a matrix product or cumulative sum, which TF32 or a parallel scan would round.
    left_mean = (inner[:, 0] * left).sum(dim=2) / candidate
    right_mean = (inner[:, 1] * ~left).sum(dim=2) / (S - 2 - candidate).clamp(min=1)
    best: Tensor = (left_mean + right_mean).argmax(dim=1)
    return best + 1


def discover(
    method: PseudoBoundary, slow: Tensor, dense: Tensor, noise: Tensor | None = None, joins: Tensor | None = None
) -> Tensor:
    """Find the pseudo-boundaries of a batch of windows with features as for :func:`end_similarity`.

    ``random`` needs uniform noise (B, S), ``synthesized`` the boundaries (B,) from
    :func:`pipelines.pretext.sampling.joined_rows`. Raises ValueError if they are missing.
    """
    B, S, _ = dense.shape
    if method == "random":
        if noise is None:
            raise ValueError("random pseudo-boundaries need noise")
        return noise[:, :-1].argmax(dim=1)  # any shot but the last with equal probability (table 4a)
    if method == "fixed":
        # The center shot (table 4a); of two shots the first, so that the right side is not empty.
        return torch.full((B,), min(S // 2, S - 2), dtype=torch.int64, device=dense.device)
    if method == "synthesized":
        if joins is None:
            raise ValueError("synthesized pseudo-boundaries need the positions at which the windows were joined")
        return joins
    similarity = end_similarity(slow, dense)
    if method == "mean":
        return mean_boundary(similarity)
    return dtw_boundary(similarity) if method == "dtw" else tslearn_boundary(similarity)
