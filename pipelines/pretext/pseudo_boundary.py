"""Pseudo-boundaries by dynamic time warping and its alternatives (paper, section 3.3 and appendix D), and random draws.

Every discovery function returns (B,) int64: the last shot b of the left sub-sequence, ``0 <= b <= S-2``, so that
neither side is empty. None computes gradients.

Uniform noise is drawn for each window beforehand, and every random choice is a function of it, so that losses are the
same with any number of processes and after resuming.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipelines.pretext import PseudoBoundary


@torch.no_grad()
def end_similarity(slow: Tensor, dense: Tensor) -> Tensor:
    """Return the cosine similarity of the first and the last shot of a window, the first two of `slow` (B, n, D), to
    each of its shots, `dense` (B, S, D): (B, 2, S) float32 whatever the precision; 0 for zero vectors."""
    # In half precision, different shots would tie and a cumulative sum of costs would lose their differences.
    with torch.autocast(dense.device.type, enabled=False):
        ends, shots = slow[:, :2].float(), dense.float()
        lengths = ends.norm(dim=2)[:, :, None] * shots.norm(dim=2)[:, None]
        similarity: Tensor = torch.bmm(ends, shots.transpose(1, 2)) / lengths.clamp(min=1e-12)
        return similarity


@torch.no_grad()
def dtw_boundary(similarity: Tensor) -> Tensor:
    """Return the pseudo-boundary of the release, by DTW: least sum of the costs 1 - cosine over all shots.

    It is the last shot that ``tslearn.metrics.dtw_path_from_metric(cost, metric="precomputed")`` aligns to the first
    row, for ``cost`` as in :func:`alignment_cost`. Left shots 0 to b and right shots b+1 to S-1 cost a constant plus
    the cumulative sum of ``cost[0] - cost[1]`` at b. Of equally good b, tslearn takes the last.

    Sums are exact, so that ties are the same on every device: in float32, 1 - x of a cosine x is a multiple of 2^-24,
    and these are summed as integers.
    """
    cost = (alignment_cost(similarity) * 2.0**24).to(torch.int64)
    after = (cost[:, 0] - cost[:, 1]).cumsum(dim=1)[:, :-1]
    return after.shape[1] - 1 - after.flip(1).argmin(dim=1)


def alignment_cost(similarity: Tensor) -> Tensor:
    """Return 1 - cosine, (B, 2, S) in float32, at least 0. The release keeps negative costs, by rounding: if a window's
    first and last shot are nearly equal, it can then give a shot to both ends and leave the right side empty."""
    return (1 - similarity.float()).clamp(min=0)


@torch.no_grad()
def tslearn_boundary(similarity: Tensor) -> Tensor:
    """Return the boundaries of :func:`dtw_boundary`, by tslearn on the CPU, as in the paper's listing 1."""
    from tslearn.metrics import dtw_path_from_metric  # start-up time: numba; only this method needs it

    boundaries = []
    for matrix in alignment_cost(similarity).cpu().contiguous().numpy():
        path = np.asarray(dtw_path_from_metric(matrix, metric="precomputed")[0])
        boundaries.append(int(path[path[:, 0] == 0, 1].max()))
    return torch.tensor(boundaries, dtype=torch.int64, device=similarity.device)


@torch.no_grad()
def mean_boundary(similarity: Tensor) -> Tensor:
    """Return the boundary by the equation of section 3.3: greatest *mean* similarity left plus *mean* right, without
    the two end shots.

    With shots counted from 0, b is in 1 to S-2, the left mean is over shots 1 to b and the right mean over shots b+1
    to S-2. At b = S-2 (b = K-1 in the paper) the right mean is over no shot, and taken as 0. Of equally good b the
    first is taken. Windows of two shots have b = 0.
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

    ``random`` needs uniform noise (B, S), ``synthesized`` the boundaries (B,) from `joined_rows`.
    """
    B, S, _ = dense.shape
    if method == "random":
        assert noise is not None
        return noise[:, :-1].argmax(dim=1)  # any shot but the last with equal probability (table 4a)
    if method == "fixed":
        # The center shot (table 4a); of two shots the first, so that the right side is not empty.
        return torch.full((B,), min(S // 2, S - 2), dtype=torch.int64, device=dense.device)
    if method == "synthesized":
        assert joins is not None
        return joins
    similarity = end_similarity(slow, dense)
    if method == "mean":
        return mean_boundary(similarity)
    return dtw_boundary(similarity) if method == "dtw" else tslearn_boundary(similarity)


# --- random draws -----------------------------------------------------------------------------------------------------

NOISE = ("boundary", "positive", "negative", "other", "mask")  # what each row of a window's noise is used for


def draw_noise(windows: int, shots: int, generator: torch.Generator) -> Tensor:
    """Draw the noise of a batch: (B, 5, S) uniform in [0, 1), on the generator's device; rows as in :data:`NOISE`. Each
    of several processes draws all from an equal generator and keeps its own part."""
    return torch.rand(windows, len(NOISE), shots, generator=generator, device=generator.device)


def sample(noise: Tensor, allowed: Tensor) -> Tensor:
    """Draw one of the allowed shots of each window, with equal probability: uniform noise (B, S) and a mask (B, S) with
    at least one shot per window to (B,) int64."""
    return torch.where(allowed, noise, -1.0).argmax(dim=1)


def left_of(boundary: Tensor, shots: int) -> Tensor:
    """Return (B, S) bool: whether a shot is in the left sub-sequence, that is, not after the pseudo-boundary, (B,)."""
    return torch.arange(shots, device=boundary.device) <= boundary[:, None]


def sample_group_shots(boundary: Tensor, noise_positive: Tensor, noise_negative: Tensor) -> tuple[Tensor, Tensor]:
    """Draw the positive and negative shot of CGM (section 3.4), (B,) int64 each, from the center's sub-sequence and
    from the other one, with equal probability; the center is not its own positive shot (release).

    `boundary`: (B,) last shot of the left sub-sequence. `noise_positive`, `noise_negative`: (B, S) uniform, S >= 3.
    """
    S = noise_positive.shape[1]
    left = left_of(boundary, S)
    same = left == left[:, S // 2, None]
    others = torch.arange(S, device=boundary.device) != S // 2
    return sample(noise_positive, same & others), sample(noise_negative, ~same)


def sample_other_shot(boundary: Tensor, noise: Tensor) -> Tensor:
    """Draw the non-boundary shot of PP (section 3.4), (B,) int64: any shot but the boundary (B,), by noise (B, S)."""
    return sample(noise, torch.arange(noise.shape[1], device=boundary.device) != boundary[:, None])


def sample_mask(noise: Tensor, rate: float = 0.15) -> Tensor:
    """Draw the shots that MSM masks, (B, S) bool, from uniform noise (B, S): each with probability `rate` (section
    3.4), but at least one at random (release)."""
    # If any shot is below the rate, the lowest one is; if none is, the lowest is a uniformly random shot.
    lowest = torch.arange(noise.shape[1], device=noise.device) == noise.argmin(dim=1, keepdim=True)
    return (noise < rate) | lowest


def joined_rows(
    left: NDArray[np.int64], right: NDArray[np.int64], rng: np.random.Generator
) -> tuple[NDArray[np.int64], int]:
    """Return a window with a synthesized pseudo-boundary (table 4a): the start of one window joined to the end of
    another, rows (S,) of two videos. The last shot of the first part is the pseudo-boundary: any but the last shot of
    the window, with equal probability (the paper does not say)."""
    boundary = int(rng.integers(len(left) - 1))
    return np.where(np.arange(len(left)) <= boundary, left, right), boundary


def neighbor_row(window: NDArray[np.int64], row: int, rng: np.random.Generator) -> int:
    """Draw the positive shot of SimCLR (temporal), M4, for a shot and the window (S,) around it: any other shot of it
    with equal probability, as in the paper (the release loads the first shot again). A row repeated at a video's edge
    counts once; a single shot is its own positive."""
    others = np.unique(window[window != row])
    return int(rng.choice(others)) if len(others) else row
