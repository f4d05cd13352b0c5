"""Posteriors against every division of a short video, worths against plain loops."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import multivariate_normal

from pipelines.models.networks.scene_posteriors import (
    ODDS_LIMIT,
    association,
    common_mean,
    pair_sums,
    posterior_log_odds,
    predictive_likelihood,
    principal_parts,
    range_sums,
)
from tests.models.bands import band_of, near_table

Floats = NDArray[np.float64]


def ranges(N: int, longest: int) -> list[tuple[int, int]]:
    return [(a, b) for a in range(N) for b in range(a + 1, min(N, a + longest) + 1)]


SHAPES = [(1, 3, 2), (2, 3, 2), (9, 3, 2), (9, 4, 12), (7, 20, 20)]
"""Shots, longest scene, reach."""


@pytest.mark.parametrize(("N", "longest"), [(1, 3), (2, 1), (2, 5), (9, 3), (9, 20)])
def test_posteriors_equal_those_over_all_divisions(N: int, longest: int) -> None:
    worth = np.random.default_rng(N).normal(scale=2, size=(2, longest, N))
    result = posterior_log_odds(worth.T)
    assert result.shape == (2, N - 1)
    for b in range(2):
        through, total = np.zeros(N - 1), 0.0
        for count in range(N):
            for cuts in combinations(range(1, N), count):
                scenes = list(pairwise([0, *cuts, N]))
                if max(end - start for start, end in scenes) > longest:
                    continue
                weight = np.exp(sum(worth[b, end - start - 1, end - 1] for start, end in scenes))
                total += weight
                through[np.array(cuts, dtype=int) - 1] += weight
        share = np.clip(through / total, 1e-15, 1 - 1e-9)
        expected = np.clip(np.log(share) - np.log1p(-share), -ODDS_LIMIT, ODDS_LIMIT)
        np.testing.assert_allclose(result[b], expected, atol=1e-9)


def test_posteriors_are_bounded_for_any_worth() -> None:
    for scale in (1e-9, 1.0, 1e6):
        result = posterior_log_odds(scale * np.random.default_rng(2).normal(size=(40, 5, 3)))
        assert np.isfinite(result).all()
        assert np.abs(result).max() <= ODDS_LIMIT


@pytest.mark.parametrize(("N", "longest", "reach"), SHAPES)
def test_sums_and_association_equal_plain_loops(N: int, longest: int, reach: int) -> None:
    table = near_table(N, reach)
    single, inside = range_sums(np.diag(table), longest), pair_sums(band_of(table, reach), longest)
    share = association(band_of(table, reach), longest)
    for a, b in ranges(N, longest):
        position = b - a - 1, b - 1
        assert single[position] == pytest.approx(np.trace(table[a:b, a:b]))
        assert inside[position] == pytest.approx(np.triu(table[a:b, a:b], 1).sum())
        assert share[position] == pytest.approx(table[a:b, a:b].sum() / table[a:b].sum())


@pytest.mark.parametrize(("N", "longest", "reach"), [*SHAPES, (40, 40, 50)])
def test_the_predictive_likelihood_equals_plain_loops(N: int, longest: int, reach: int) -> None:
    table = near_table(N, reach)
    backgrounds = (0.5, 2.0)
    result = predictive_likelihood(np.stack([band_of(table, reach), band_of(3 * table, reach)]), backgrounds, longest)
    assert result.shape == (2, longest, N)
    for kind, (kernel, some) in enumerate(zip((table, 3 * table), backgrounds, strict=True)):
        for a, b in ranges(N, longest):
            others = kernel[a:b, a:b].sum(axis=1) - np.diag(kernel)[a:b]
            expected = np.log((others + some) / (b - a - 1 + some)).sum()
            assert result[kind, b - a - 1, b - 1] == pytest.approx(expected, abs=1e-9)


def test_the_common_mean_likelihood_equals_the_random_effects_likelihood() -> None:
    N, d, longest = 7, 3, 5
    parts = np.random.default_rng(3).normal(size=(N, d))
    scales, ratios = [np.ones(d), np.array([0.5, 1.0, 3.0])], (2.0, 0.3)
    result = common_mean(parts, scales, ratios, longest)
    assert result.shape == (2, 2, longest, N)
    for tables, scale in zip(result, scales, strict=True):
        for table, ratio in zip(tables, ratios, strict=True):
            within, between = 1 / (1 + ratio), ratio / (1 + ratio)
            for a, b in ranges(N, longest):
                together = within * np.eye(b - a) + between
                expected = sum(
                    multivariate_normal.logpdf(part, cov=together) - multivariate_normal.logpdf(part, cov=np.eye(b - a))
                    for part in (parts[a:b] / scale).T
                )
                assert table[b - a - 1, b - 1] == pytest.approx(expected)


def test_without_axes_the_common_mean_likelihood_ratio_is_zero() -> None:
    assert not common_mean(np.zeros((5, 0)), [np.zeros(0)], [0.5], 3).any()


@pytest.mark.parametrize(("N", "D"), [(40, 9), (9, 40), (40, 40)])
def test_principal_parts_equal_those_of_the_singular_value_decomposition(N: int, D: int) -> None:
    x = np.random.default_rng(4).normal(size=(N, D)) * np.arange(1, D + 1)
    centered = x - x.mean(axis=0)
    left, values, _ = np.linalg.svd(centered, full_matrices=False)
    expected = (left * values)[:, :5]
    result = principal_parts(x, 5)
    np.testing.assert_allclose(result @ result.T, expected @ expected.T, atol=1e-8 * values[0] ** 2)


@pytest.mark.parametrize(("N", "D", "axes"), [(1, 4, 0), (2, 4, 1), (5, 30, 4), (30, 3, 3), (30, 1, 1)])
def test_a_video_has_at_most_as_many_axes_as_it_varies_along(N: int, D: int, axes: int) -> None:
    x = np.random.default_rng(5).normal(size=(N, D))
    assert principal_parts(x, 16).shape == (N, axes)
    assert principal_parts(np.ones((N, D)), 16).shape == (N, 0)
    assert principal_parts(np.full((N, D), 0.1), 16).shape == (N, 0)  # the mean of which has rounding errors
    assert principal_parts(x * np.append(1000.0, np.full(D - 1, 0.1)), 16).shape == (N, min(axes, 1))
