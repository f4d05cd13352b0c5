"""The relational network reads relations between shots only, and scores any video."""

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from pipelines.models.boundary import BoundaryModel, load_boundary_model, save_boundary_model
from pipelines.models.calibration import Calibration
from pipelines.models.checkpoints import read_arrays, save_model
from pipelines.models.networks import RelationalSettings
from pipelines.models.networks.cut_evidence import cut_evidence, token_width
from pipelines.models.networks.relational import (
    SUPPRESSION_WEIGHT,
    LinearModel,
    relational_logits,
    shot_tokens,
    suppress_neighbors,
)
from pipelines.models.networks.torch_networks import RelationalNetwork
from pipelines.models.opening import open_model
from tests.small_stores import refusal


def video(N: int, D: int, seed: int = 0, signed: bool = True) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """A video whose shots resemble their neighbors."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(N, D)) + np.repeat(rng.normal(size=(N // 4 + 1, D)), 4, axis=0)[:N]
    features = features if signed else np.maximum(features, 0)
    return features.astype(np.float32), rng.uniform(0.5, 20, size=N)


@pytest.fixture(scope="module")
def scorer() -> BoundaryModel:
    weight = np.random.default_rng(0).normal(scale=0.1, size=token_width()).astype(np.float32)
    return BoundaryModel(
        crn="relational",
        network=LinearModel(weight, 0.05),
        shape=RelationalSettings(),
        calibration=Calibration(slope=0.7, offset=0.1),
    )


@pytest.fixture(scope="module")
def shipped() -> BoundaryModel:
    return open_model().boundary_model()


# What the network reads.


@pytest.mark.parametrize("N", [1, 2, 30])
def test_tokens_are_the_evidence_and_zeros_for_the_last_shot(N: int) -> None:
    features, durations = video(N, 5)
    tokens = shot_tokens(features, durations)
    assert tokens.shape == (N, token_width())
    assert (tokens[:-1, -1] == 1).all()
    assert not tokens[-1].any()
    np.testing.assert_array_equal(tokens[:-1, :-1], cut_evidence(features, durations)[1])


def test_the_network_to_be_trained_and_the_linear_model_give_the_same_logits(scorer: BoundaryModel) -> None:
    tokens, linear = shot_tokens(*video(20, 8)), scorer.network
    network = RelationalNetwork(RelationalSettings())
    network.load_state_dict({name: torch.from_numpy(array) for name, array in linear.arrays().items()})
    plain = tokens @ linear.weight + linear.bias
    expected = suppress_neighbors(plain[:-1].astype(np.float64))
    for one in (network, linear):
        np.testing.assert_allclose(relational_logits(one, tokens), [*expected, expected.min()], atol=1e-5)


def test_a_cut_is_suppressed_only_by_a_nearby_cut_with_a_greater_logit() -> None:
    logits = np.array([0.0, 2.0, 1.0, 2.0, 0.0, 0.0, -1.0, 3.0])
    lost = logits - suppress_neighbors(logits)

    def share(logit: float) -> float:
        return float(1 / (1 + np.exp(-logit)))

    expected = [share(2), 0, share(2), 0, share(2), share(3), share(3), 0]
    np.testing.assert_allclose(lost, SUPPRESSION_WEIGHT * np.array(expected))
    for N in (1, 2):
        assert suppress_neighbors(np.zeros(N)).tolist() == [0.0] * N


# Any video.


@pytest.mark.parametrize(("N", "D"), [(1, 1280), (2, 1), (3, 2), (18, 1280)])
@pytest.mark.parametrize("signed", [True, False])
def test_videos_of_every_length_and_dimension_get_finite_scores(
    shipped: BoundaryModel, N: int, D: int, signed: bool
) -> None:
    scores = shipped.score(*video(N, D, signed=signed))
    assert scores.shape == (N,)
    assert scores.dtype == np.float64
    assert ((scores >= 0) & (scores <= 1)).all()


@pytest.mark.parametrize("value", [0.0, -2.2, 1e30, 1e-42])
def test_a_video_of_identical_shots_is_one_scene(shipped: BoundaryModel, value: float) -> None:
    assert (shipped.score(np.full((40, 16), value, dtype=np.float32), np.ones(40)) < 0.5).all()


def test_a_shot_without_length_counts_as_the_shortest(scorer: BoundaryModel) -> None:
    features, durations = video(10, 8)
    durations[9] = 0
    expected = scorer.score(features, np.r_[durations[:9], durations[:9].min()])
    np.testing.assert_array_equal(scorer.score(features, durations), expected)
    assert np.isfinite(scorer.score(features, np.zeros(10))).all()


# The model file.


def test_a_model_of_other_kinds_of_evidence_is_refused(tmp_path: Path, scorer: BoundaryModel) -> None:
    path = tmp_path / "model"
    save_boundary_model(path, scorer)
    tensors, settings = read_arrays(path, "boundary")
    tensors["networks.0.weighing.weight"] = tensors["networks.0.weighing.weight"][:, :185]
    save_model(path, tensors, "boundary", settings)
    words = "do not fit the 219 kinds of evidence that this version computes", "train it again"
    refusal(lambda: load_boundary_model(path), *words)


def test_the_built_in_model_finds_clear_scenes_of_an_unseen_encoder(shipped: BoundaryModel) -> None:
    """Ten scenes, each of two settings that alternate, in Gaussian features: unlike the training data."""
    rng = np.random.default_rng(0)
    scenes = []
    for _ in range(10):
        common, sides = rng.normal(size=300), rng.normal(size=(2, 300))
        scenes.append(np.stack([common + sides[i % 2] + 0.7 * rng.normal(size=300) for i in range(8)]))
    scores = shipped.score(np.concatenate(scenes).astype(np.float32), rng.uniform(2, 6, size=80))
    best = sorted(np.argsort(-scores[:-1])[:9].tolist())
    assert len(set(best) & set(range(7, 79, 8))) >= 8
