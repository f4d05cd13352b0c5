"""The evidence at the cuts of a video: sums and costs against plain loops, symmetric in time, always finite."""

import re

import numpy as np
import pytest

from pipelines.models.networks.cut_evidence import (
    COLOR_WEIGHTS,
    LONGEST_SCENE,
    REACH,
    BlockSums,
    cut_costs,
    cut_evidence,
    similarity_band,
    unit_features,
)
from tests.models.bands import band_of, costs_by_recursion, near_table


def test_cut_costs_of_several_graphs_equal_recursive_cuts() -> None:
    tables = [near_table(60, 12, seed) for seed in range(3)]
    expected = [costs_by_recursion(table) for table in tables]
    result = cut_costs(BlockSums(*(band_of(table, 12) for table in tables)))
    np.testing.assert_allclose(result, expected, atol=1e-9)


def test_the_similarity_band_equals_the_full_similarity_matrix() -> None:
    features = np.random.default_rng(0).normal(size=(300, 7))  # more shots than are multiplied at a time
    unit, _ = unit_features(features)
    np.testing.assert_allclose(similarity_band(unit, 5), band_of(unit @ unit.T, 5), atol=1e-5)


def test_a_reversed_video_has_the_same_evidence() -> None:
    rng = np.random.default_rng(1)
    features, lengths = rng.normal(size=(70, 9)), rng.uniform(1, 9, size=70)
    color = colors(70)
    kinds, there = cut_evidence(features, lengths, color)
    again, back = cut_evidence(features[::-1], lengths[::-1], color[::-1])
    assert kinds == again
    assert there.shape == (69, len(kinds))
    np.testing.assert_allclose(back[::-1], there, atol=1e-3)


@pytest.mark.parametrize("signed", [True, False])
def test_scaling_rotating_and_mirroring_features_does_not_change_the_evidence(signed: bool) -> None:
    rng = np.random.default_rng(4)
    features, lengths = rng.normal(size=(70, 20)), rng.uniform(1, 9, size=70)
    features = features if signed else np.maximum(features, 0)
    turn = np.linalg.qr(rng.normal(size=(30, 30)))[0][:20]  # into a larger space
    _, expected = cut_evidence(features, lengths)
    scaled = [(features * scale).astype(np.float32) for scale in (1e-30, 1e-3, 1e3, 1e30)]
    for same in (*scaled, features @ turn, -features[:, ::-1]):
        np.testing.assert_allclose(cut_evidence(same, lengths)[1], expected, atol=1e-3)


def test_only_the_numbers_of_shots_within_seconds_depend_on_the_unit_of_time() -> None:
    rng = np.random.default_rng(6)
    features, lengths = rng.normal(size=(50, 9)), rng.uniform(1, 9, size=50)
    kinds, expected = cut_evidence(features, lengths)
    _, result = cut_evidence(features, 4 * lengths)
    counts = np.array([kind.startswith("shots within") for kind in kinds])
    np.testing.assert_allclose(result[:, ~counts], expected[:, ~counts], atol=1e-3)
    assert (result[:, counts] <= expected[:, counts]).all()
    assert (result[:, counts] < expected[:, counts]).any(axis=0).all()


# Of each family of evidence, how many there are and their root mean square over a video that never changes.
LEARNED_FROM = {
    "cost": (12, 0.9691),
    "local cost": (28, 1.1659),
    "across": (18, 0.9192),
    "contrast": (16, 0.9697),
    "less alike side": (16, 0.8758),
    "more alike side": (16, 1.4022),
    "closest pair": (14, 1.8263),
    "closest pairs": (14, 1.5804),
    "less taken up": (14, 1.0679),
    "more taken up": (14, 1.3362),
    "links": (12, 2.1039),
    "nearest": (6, 1.5284),
    "association": (6, 8.8725),
    "predictive": (16, 1.8622),
    "mean plain": (4, 5.6952),
    "mean whitened": (4, 2.1094),
    "length": (1, 0.88),
    "length change": (1, 0.9719),
    "longer length": (1, 0.9197),
    "second length": (1, 0.2013),
    "shots within  s": (5, 3.2985),
}


def test_the_evidence_equals_that_of_the_training_of_the_built_in_model() -> None:
    """Weights of a model fit the evidence that it was trained on: where this changes, the model must be trained again
    (`make default-model`), and then these numbers."""
    position = np.arange(60)
    content = np.sin(np.outer(position // 7 % 4 + 1, np.arange(1, 13))) + 0.4 * np.sin(
        np.outer(position + 1, np.arange(1, 13)) ** 1.5
    )
    hues = 1 + np.cos(np.outer(position // 5, np.arange(1, 7)))
    kinds, table = cut_evidence(content, 2 + np.sin(position), hues / hues.sum(axis=1, keepdims=True))
    families: dict[str, list[np.ndarray]] = {}
    for kind, column in zip(kinds, table.T.astype(np.float64), strict=True):
        families.setdefault(re.sub(r"video |near | of|from|\S*\d\S*", "", kind).strip(), []).append(column)
    result = {name: (len(of), float(np.sqrt(np.square(of).mean()))) for name, of in families.items()}
    assert result == {name: (number, pytest.approx(size, abs=1e-3)) for name, (number, size) in LEARNED_FROM.items()}


@pytest.mark.parametrize("N", [1, 2, 3, 5, REACH, LONGEST_SCENE + 2])
def test_evidence_is_finite_and_moderate(N: int) -> None:
    rng = np.random.default_rng(2)
    for features in (rng.normal(size=(N, 4)), np.ones((N, 4)), np.zeros((N, 1))):
        for lengths in (rng.uniform(1, 9, size=N), np.zeros(N), np.full(N, 24)):
            _, evidence = cut_evidence(features, lengths)
            assert evidence.shape[0] == N - 1
            assert np.isfinite(evidence).all()
            assert np.abs(evidence).max(initial=0) <= 12


def colors(N: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).dirichlet(np.full(30, 0.1), size=N)


@pytest.mark.parametrize("color", [np.full((70, 5), 0.2), np.zeros((70, 180))])
def test_equal_and_unknown_colors_do_not_change_the_evidence(color: np.ndarray) -> None:
    rng = np.random.default_rng(6)
    features, lengths = rng.normal(size=(70, 9)), rng.uniform(1, 9, size=70)
    kinds, expected = cut_evidence(features, lengths)
    again, result = cut_evidence(features, lengths, color)
    assert again == kinds
    np.testing.assert_array_equal(result, expected)


def test_evidence_is_the_mean_over_color_weights_of_joined_features() -> None:
    rng = np.random.default_rng(7)
    features, lengths, color = rng.normal(size=(70, 9)), rng.uniform(1, 9, size=70), colors(70)
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    joined = [cut_evidence(np.hstack([unit, w * np.sqrt(color)]), lengths)[1] for w in COLOR_WEIGHTS]
    np.testing.assert_allclose(cut_evidence(features, lengths, color)[1], np.mean(joined, axis=0), atol=1e-4)


def test_shots_are_counted_within_seconds_of_a_cut() -> None:
    seconds = np.array([4.0, 10.0, 2.0, 2.0, 2.0])  # middles at 2, 9, 15, 17, 19; cuts at 4, 14, 16, 18
    kinds, evidence = cut_evidence(np.eye(5), seconds)
    within_8 = evidence[:, kinds.index("shots within 8 s")]
    np.testing.assert_allclose(np.expm1(within_8), [2, 4, 4, 3], rtol=1e-6)
    np.testing.assert_allclose(np.expm1(evidence[:, kinds.index("shots within 120 s")]), 5, rtol=1e-6)
