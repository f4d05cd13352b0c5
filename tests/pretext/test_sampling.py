"""Random sampling of the pretext tasks: what can be drawn, and how often."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from pipelines.pretext.pseudo_boundary import (
    draw_noise,
    joined_rows,
    neighbor_row,
    sample_group_shots,
    sample_mask,
    sample_other_shot,
)

WINDOWS = 20_000


def chi_square(counts: Tensor, expected: float) -> float:
    return float(((counts.double() - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("S", [3, 4, 9])
def test_positive_and_negative_shots_are_on_their_sides_of_the_boundary(S: int, generator: torch.Generator) -> None:
    center = S // 2
    for b in range(S - 1):
        boundary = torch.full((WINDOWS // 4,), b)
        noise = draw_noise(WINDOWS // 4, S, generator)
        positive, negative = sample_group_shots(boundary, noise[:, 1], noise[:, 2])
        left, right = set(range(b + 1)), set(range(b + 1, S))
        own, other = (left, right) if center in left else (right, left)
        # Every shot of a side appears, none else, and all alike often.
        for drawn, side in ((positive, own - {center}), (negative, other)):
            counts = torch.bincount(drawn, minlength=S)
            assert set(counts.nonzero().flatten().tolist()) == side
            assert chi_square(counts[sorted(side)], WINDOWS / 4 / len(side)) < 30


def test_the_other_shot_is_uniform_over_all_but_the_boundary(generator: torch.Generator) -> None:
    for b in (0, 4, 7):
        boundary = torch.full((WINDOWS,), b)
        counts = torch.bincount(sample_other_shot(boundary, torch.rand(WINDOWS, 9, generator=generator)), minlength=9)
        assert int(counts[b]) == 0
        assert chi_square(counts[torch.arange(9) != b], WINDOWS / 8) < 24.3  # 7 degrees of freedom


def test_the_number_of_masked_shots_is_binomial_and_never_zero(generator: torch.Generator) -> None:
    S, rate = 9, 0.15
    mask = sample_mask(torch.rand(WINDOWS, S, generator=generator), rate)
    sizes = torch.bincount(mask.sum(1), minlength=S + 1)
    assert int(sizes[0]) == 0
    # Binomial, with the empty mask's share moved to masks of one shot.
    shares = [math.comb(S, k) * rate**k * (1 - rate) ** (S - k) for k in range(S + 1)]
    shares[1] += shares[0]
    expected = WINDOWS * torch.tensor(shares)
    for k in range(1, 6):
        assert abs(float(sizes[k] - expected[k])) < 4 * float(expected[k]) ** 0.5
    assert chi_square(mask.sum(0), float(mask.sum()) / S) < 26.1  # no place in the window is preferred


def test_joined_windows_begin_in_one_video_and_end_in_the_other(rng: np.random.Generator) -> None:
    left, right = np.arange(9) + 100, np.arange(9) + 500
    seen = np.zeros(9, int)
    for _ in range(8000):
        rows, b = joined_rows(left, right, rng)
        assert rows.tolist() == [*left[: b + 1], *right[b + 1 :]]
        seen[b] += 1
    assert seen[8] == 0
    assert ((seen[:8] - 1000) ** 2 / 1000).sum() < 24.3


def test_a_neighbor_is_any_other_row_of_the_window(rng: np.random.Generator) -> None:
    window = np.array([3, 3, 3, 4, 5, 6, 7])  # clipped at a video's beginning: row 3 is its first
    drawn = [neighbor_row(window, 4, rng) for _ in range(4000)]
    rows, counts = np.unique(drawn, return_counts=True)
    assert rows.tolist() == [3, 5, 6, 7]
    assert ((counts - 1000) ** 2 / 1000).sum() < 16.3
    assert neighbor_row(np.array([2, 2, 2]), 2, rng) == 2
