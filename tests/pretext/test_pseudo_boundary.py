"""Pseudo-boundaries against tslearn and against the paper's equation, written out; and what is drawn how often."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor
from tslearn.metrics import dtw_path_from_metric

from pipelines.pretext import PseudoBoundary
from pipelines.pretext.pseudo_boundary import (
    alignment_cost,
    discover,
    draw_noise,
    dtw_boundary,
    end_similarity,
    joined_rows,
    mean_boundary,
    neighbor_row,
    sample_group_shots,
    sample_mask,
    sample_other_shot,
    tslearn_boundary,
)

LENGTHS = (2, 3, 4, 9, 16, 33)


def by_tslearn(cost: NDArray[np.float32]) -> list[int]:
    """The boundary as the release reads it: where the first row's last step stands in the path."""
    boundaries = []
    for matrix in np.ascontiguousarray(cost):  # one layout, compiled once
        path = np.asarray(dtw_path_from_metric(matrix, metric="precomputed")[0])
        boundaries.append(int(np.where(path[:, 0] == 0)[0][-1]))
    return boundaries


def windows(B: int, S: int, D: int, generator: torch.Generator, noise: float = 0.5) -> tuple[Tensor, Tensor]:
    """Shots of two scenes, and the ends seen a second time."""
    scenes = torch.randn(B, 2, D, generator=generator)
    switch = torch.randint(0, S, (B, 1), generator=generator)
    scene = (torch.arange(S) > switch).long()
    dense = scenes[torch.arange(B)[:, None], scene] + noise * torch.randn(B, S, D, generator=generator)
    slow = dense[:, [0, -1]] + noise / 2 * torch.randn(B, 2, D, generator=generator)
    return slow, dense


def uniform(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return 2 * torch.rand(shape, generator=generator) - 1


def equal(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """All but the last shot are on the left then."""
    return torch.tensor([1.0, 0.3, -1.0]).repeat(shape[0])[: shape[0], None, None].expand(shape)


def quantized(steps: int) -> Callable[[tuple[int, ...], torch.Generator], Tensor]:
    def draw(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
        return torch.randint(-steps, steps + 1, shape, generator=generator) / steps

    return draw


def few_values(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    """Cosines that are no round binary numbers, each of them often."""
    return torch.tensor([0.1, 0.3, 0.7, -0.2, 1.0])[torch.randint(0, 5, shape, generator=generator)]


@pytest.mark.parametrize("draw", [uniform, equal, quantized(1), quantized(8), few_values])
def test_dtw_boundaries_equal_tslearns(
    draw: Callable[[tuple[int, ...], torch.Generator], Tensor], generator: torch.Generator
) -> None:
    for S in LENGTHS:
        similarity = draw((80, 2, S), generator)
        expected = by_tslearn((1 - similarity).numpy())
        assert dtw_boundary(similarity).tolist() == expected
        assert tslearn_boundary(similarity).tolist() == expected


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_dtw_boundaries_of_features_equal_tslearns(dtype: torch.dtype, generator: torch.Generator) -> None:
    for S in (2, 9, 17):
        slow, dense = (x.to(dtype) for x in windows(100, S, 16, generator))
        similarity = end_similarity(slow, dense)
        assert similarity.dtype == torch.float32
        expected = by_tslearn((1 - similarity).numpy())  # nothing clamped, as in the release
        assert discover("dtw", slow, dense).tolist() == expected
        assert discover("dtw-tslearn", slow, dense).tolist() == expected


def test_dtw_boundaries_of_repeated_shots_equal_tslearns(generator: torch.Generator) -> None:
    """Shots of a small alphabet, among them the ends themselves: ties, and cosines just above 1."""
    for S in LENGTHS:
        alphabet = torch.randn(60, 3, 8, generator=generator)
        chosen = torch.randint(0, 3, (60, S), generator=generator)
        chosen[:, 0], chosen[:, -1] = 0, 1
        dense = alphabet[torch.arange(60)[:, None], chosen]
        similarity = end_similarity(dense[:, [0, -1]], dense)
        assert dtw_boundary(similarity).tolist() == by_tslearn(alignment_cost(similarity).numpy())


@pytest.mark.parametrize("method", ["dtw", "mean"])
def test_only_feature_directions_and_the_ends_of_the_same_window_matter(
    method: PseudoBoundary, generator: torch.Generator
) -> None:
    slow, dense = windows(50, 17, 8, generator)
    whole = discover(method, slow, dense)
    assert [int(discover(method, slow[i : i + 1], dense[i : i + 1])) for i in range(50)] == whole.tolist()
    longer = dense * (0.5 + torch.rand(50, 17, 1, generator=generator))
    with_center = torch.cat([3 * slow, dense[:, 8:9]], dim=1)
    assert torch.equal(discover(method, with_center, longer), whole)


def mean_by_the_equation(similarity: NDArray[np.float32]) -> int:
    """Section 3.3 with shots from -K to K, as it stands, but 0/0 is 0."""
    K = (similarity.shape[1] - 1) // 2
    value = {}
    for b in range(-K + 1, K):
        left, right = np.float32(0), np.float32(0)
        for i in range(-K + 1, b + 1):
            left += similarity[0, i + K]
        for j in range(b + 1, K):
            right += similarity[1, j + K]
        value[b] = left / np.float32(b + K) + (right / np.float32(K - b - 1) if b < K - 1 else np.float32(0))
    best = max(value, key=lambda b: value[b])  # the first of equals
    return best + K


def test_the_mean_method_equals_its_equation(generator: torch.Generator) -> None:
    for K in (1, 2, 5, 16):
        for draw in (uniform, quantized(1), quantized(4)):
            similarity = draw((60, 2, 2 * K + 1), generator)
            assert mean_boundary(similarity).tolist() == [mean_by_the_equation(x) for x in similarity.numpy()]


def test_random_boundaries_are_uniform_over_all_shots_but_the_last(generator: torch.Generator) -> None:
    windows, noise = torch.zeros(16_000, 17, 1), torch.rand(16_000, 17, generator=generator)
    counts = torch.bincount(discover("random", windows, windows, noise), minlength=17)
    assert int(counts[16]) == 0
    assert float(((counts[:16] - 1000.0) ** 2 / 1000).sum()) < 37.7  # chi-square, 15 degrees of freedom, p = 0.001


def test_fixed_boundaries_are_at_the_center_and_synthesized_ones_where_windows_were_joined() -> None:
    windows = [torch.zeros(1, S, 1) for S in (2, 3, 4, 17, 33)]
    assert [int(discover("fixed", window, window)) for window in windows] == [0, 1, 2, 8, 16]
    joins = torch.tensor([3, 0])
    assert discover("synthesized", torch.rand(2, 2, 4), torch.rand(2, 9, 4), joins=joins) is joins


@pytest.mark.parametrize("method", ["dtw", "dtw-tslearn", "mean"])
def test_both_sides_of_a_pseudo_boundary_have_a_shot_if_features_are_zero(method: PseudoBoundary) -> None:
    for S in LENGTHS:
        zeros = torch.zeros(5, S, 4)
        assert not end_similarity(zeros[:, [0, -1]], zeros).any()
        boundary = discover(method, zeros[:, [0, -1]], zeros)
        assert boundary.dtype == torch.int64
        assert 0 <= int(boundary.min()) <= int(boundary.max()) <= S - 2


@pytest.mark.parametrize("boundary_of", [dtw_boundary, tslearn_boundary])
def test_the_right_side_is_not_empty_if_cosines_are_rounded_to_above_1(boundary_of: Callable[[Tensor], Tensor]) -> None:
    above = torch.full((1, 2, 5), float(np.nextafter(np.float32(1), np.float32(2))))
    assert by_tslearn((1 - above).numpy()) == [4], "as in the release"
    assert boundary_of(above).tolist() == [3]


def test_similarities_are_computed_in_full_precision_and_without_gradients(generator: torch.Generator) -> None:
    slow, dense = (x.requires_grad_() for x in windows(64, 17, 128, generator))
    expected = discover("dtw", slow, dense)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(discover("dtw", slow, dense), expected)
        similarity = end_similarity(slow, dense)
    assert (similarity.dtype, similarity.requires_grad) == (torch.float32, False)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_gpu_gives_the_same_boundaries(generator: torch.Generator) -> None:
    for draw in (uniform, quantized(2), few_values):
        similarity = draw((4096, 2, 17), generator)
        assert torch.equal(dtw_boundary(similarity.cuda()).cpu(), dtw_boundary(similarity))
    slow, dense = (x.cuda() for x in windows(4096, 17, 128, generator))
    assert discover("dtw", slow, dense).device.type == "cuda"
    assert torch.equal(discover("dtw", slow, dense), discover("dtw-tslearn", slow, dense))


# --- random draws -----------------------------------------------------------------------------------------------------


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
