"""Random sampling of the pretext tasks: positive and negative shots, masks, and synthesized windows.

Uniform noise is drawn for each window beforehand, and every choice is a function of it: so losses are the same with any
number of processes, in a compiled graph, and after resuming.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

NOISE = ("boundary", "positive", "negative", "other", "mask")  # what each row of a window's noise is used for


def draw_noise(windows: int, shots: int, generator: torch.Generator) -> Tensor:
    """The noise of a batch: (B, 5, S) uniform in [0, 1), on the generator's device; rows as in :data:`NOISE`. Each of
    several processes draws the noise of the global batch from an equal generator and keeps its own part, so that the
    result is the same as for one process."""
    return torch.rand(windows, len(NOISE), shots, generator=generator, device=generator.device)


def sample(noise: Tensor, allowed: Tensor) -> Tensor:
    """Draw one of the allowed shots of each window, with equal probability: uniform noise (B, S) and a mask (B, S) with
    at least one shot per window to (B,) int64."""
    return torch.where(allowed, noise, -1.0).argmax(dim=1)


def left_of(boundary: Tensor, shots: int) -> Tensor:
    """(B, S) bool: whether a shot is in the left sub-sequence, that is, not after the pseudo-boundary, (B,)."""
    return torch.arange(shots, device=boundary.device) <= boundary[:, None]


def sample_group_shots(boundary: Tensor, noise_positive: Tensor, noise_negative: Tensor) -> tuple[Tensor, Tensor]:
    """The positive and negative shot of CGM (section 3.4), (B,) int64 each, from the center's sub-sequence and from the
    other one, with equal probability; the center is not its own positive shot (release).

    `boundary`: (B,) last shot of the left sub-sequence. `noise_positive`, `noise_negative`: (B, S) uniform.
    Raises ValueError: windows of fewer than three shots, in which the center can be alone.
    """
    S = noise_positive.shape[1]
    if S < 3:
        raise ValueError(f"contextual group matching needs windows of at least 3 shots, not {S}")
    left = left_of(boundary, S)
    same = left == left[:, S // 2, None]
    others = torch.arange(S, device=boundary.device) != S // 2
    return sample(noise_positive, same & others), sample(noise_negative, ~same)


def sample_other_shot(boundary: Tensor, noise: Tensor) -> Tensor:
    """The non-boundary shot of PP (section 3.4), (B,) int64: any shot but the boundary (B,) with equal probability,
    from uniform noise (B, S)."""
    return sample(noise, torch.arange(noise.shape[1], device=boundary.device) != boundary[:, None])


def sample_mask(noise: Tensor, rate: float = 0.15) -> Tensor:
    """The shots that MSM masks, (B, S) bool, from uniform noise (B, S): each with probability `rate` (section 3.4), but
    at least one at random (release)."""
    # If any shot is below the rate, the lowest one is; if none is, the lowest is a uniformly random shot.
    lowest = torch.arange(noise.shape[1], device=noise.device) == noise.argmin(dim=1, keepdim=True)
    return (noise < rate) | lowest


def joined_rows(
    left: NDArray[np.int64], right: NDArray[np.int64], rng: np.random.Generator
) -> tuple[NDArray[np.int64], int]:
    """A window with a synthesized pseudo-boundary (table 4a): the start of one window joined to the end of another.

    Shots keep their positions in the window. The last shot of the first part is the pseudo-boundary: any but the last
    shot of the window, with equal probability (the paper does not say). `left` and `right` are rows (S,) of windows of
    two different videos. Raises ValueError: the shapes differ, or a window has fewer than two shots.
    """
    if left.shape != right.shape or len(left) < 2:
        raise ValueError(f"windows of one length of at least 2 can be joined, not {left.shape} and {right.shape}")
    boundary = int(rng.integers(len(left) - 1))
    return np.where(np.arange(len(left)) <= boundary, left, right), boundary


def neighbor_row(window: NDArray[np.int64], row: int, rng: np.random.Generator) -> int:
    """The positive shot of SimCLR (temporal), M4, for a shot and the window (S,) around it: any other shot of it with
    equal probability. A row repeated at a video's edge counts once; a single shot is its own positive.

    The release draws it but then loads the first shot again, so that its SimCLR (temporal) is SimCLR (instance); here
    it is as in the paper.
    """
    others = np.unique(window[window != row])
    return int(rng.choice(others)) if len(others) else row
