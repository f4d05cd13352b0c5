"""The relational network reads relations between shots only, and scores any video."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from pipelines.models.boundary import BoundaryModel, load_boundary_model, save_boundary_model
from pipelines.models.calibration import Calibration
from pipelines.models.checkpoints import read_arrays, save_model
from pipelines.models.networks.cut_evidence import cut_evidence, token_width
from pipelines.models.networks.kinds import RelationalSettings
from pipelines.models.networks.relational import SUPPRESSION_WEIGHT, relational_logits, shot_tokens, suppress_neighbors
from pipelines.models.networks.torch_networks import RelationalNetwork, pad_tokens, windows
from pipelines.models.opening import BUILT_IN, open_model
from tests.small_stores import refusal

SMALL = RelationalSettings(width=8, neighbors=3)


def video(N: int, D: int, seed: int = 0, signed: bool = True) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """A video whose shots resemble their neighbors."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(N, D)) + np.repeat(rng.normal(size=(N // 4 + 1, D)), 4, axis=0)[:N]
    features = features if signed else np.maximum(features, 0)
    return features.astype(np.float32), rng.uniform(0.5, 20, size=N)


def network(settings: RelationalSettings = SMALL, seed: int = 0) -> RelationalNetwork:
    """A network with a random correction instead of zeros."""
    torch.manual_seed(seed)
    random = RelationalNetwork(settings).eval()
    with torch.no_grad():
        for weight in random.parameters():
            weight.normal_(std=0.1)
    return random


def model_of(network: RelationalNetwork, calibration: Calibration = Calibration()) -> BoundaryModel:
    return BoundaryModel(crn="relational", network=network, shape=SMALL, calibration=calibration)


@pytest.fixture(scope="module")
def scorer() -> BoundaryModel:
    return model_of(network(seed=0), calibration=Calibration(slope=0.7, offset=0.1))


@pytest.fixture(scope="module")
def shipped() -> BoundaryModel:
    return open_model().boundary_model()


# What the network reads.


@pytest.mark.parametrize(("N", "K"), [(1, 2), (2, 3), (30, 3)])
def test_tokens_are_the_evidence_padded_with_zeros(N: int, K: int) -> None:
    features, durations = video(N, 5)
    tokens = shot_tokens(features, durations)
    assert tokens.shape == (N, token_width())
    assert (tokens[:-1, -1] == 1).all()
    assert not tokens[-1].any()
    np.testing.assert_array_equal(tokens[:-1, :-1], cut_evidence(features, durations)[1])
    content = windows(pad_tokens(torch.from_numpy(tokens), K), torch.arange(N), K)
    for shot in range(N):
        for place in range(2 * K + 1):
            cut = shot - K + place
            expected = tokens[cut] if 0 <= cut < N else np.zeros(token_width())
            np.testing.assert_array_equal(content[shot, place], expected)


def test_the_order_of_shots_changes_scores(scorer: BoundaryModel) -> None:
    features, durations = video(40, 12)
    shuffled = np.random.default_rng(2).permutation(40)
    assert np.abs(scorer.score(features[shuffled], durations) - scorer.score(features, durations)).max() > 1e-2


def test_logits_are_the_network_s_with_neighbors_suppressed_and_lowest_at_the_last_shot() -> None:
    tokens = shot_tokens(*video(20, 8))
    one = network()
    with torch.no_grad():
        content = windows(pad_tokens(torch.from_numpy(tokens), 3), torch.arange(20), 3)
        expected = suppress_neighbors(one(content).double().numpy()[:-1])
    logits = relational_logits(one, tokens)
    np.testing.assert_allclose(logits, [*expected, expected.min()], atol=1e-6)


def test_the_network_correction_starts_at_zero_and_is_added_to_the_linear_model() -> None:
    tokens = torch.randn(4, SMALL.window, token_width())
    new = RelationalNetwork(SMALL).eval()
    assert not new.correction(tokens).any()
    instance = network()
    linear = network(replace(SMALL, width=0))
    linear.load_state_dict({name: tensor for name, tensor in instance.state_dict().items() if "correction" not in name})
    expected = linear(tokens) + instance.correction(tokens)[:, 0]
    torch.testing.assert_close(instance(tokens), expected)
    torch.testing.assert_close(instance(tokens.flip(1)), expected)
    moved = tokens.clone()
    moved[:, 0] += 1
    assert torch.equal(linear(moved), linear(tokens))
    assert not torch.equal(instance(moved), expected)


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


@pytest.mark.parametrize("N", [1, 2, 3, 4, 9, 17, 18])
@pytest.mark.parametrize("D", [1, 2, 1280])
def test_videos_of_every_length_and_dimension_get_finite_scores(shipped: BoundaryModel, N: int, D: int) -> None:
    for signed in (True, False):
        scores = shipped.score(*video(N, D, signed=signed))
        assert scores.shape == (N,)
        assert scores.dtype == np.float64
        assert ((scores >= 0) & (scores <= 1)).all()


@pytest.mark.parametrize("value", [0.0, 3.7, -2.2, 1e30, 1e-42])
def test_a_video_of_identical_shots_is_one_scene(shipped: BoundaryModel, value: float) -> None:
    features = np.full((40, 16), value, dtype=np.float32)
    scores = shipped.score(features, np.ones(40))
    assert np.isfinite(scores).all()
    assert (scores < 0.5).all()


def test_a_shot_without_length_counts_as_the_shortest(scorer: BoundaryModel) -> None:
    features, durations = video(10, 8)
    durations[9] = 0
    expected = scorer.score(features, np.r_[durations[:9], durations[:9].min()])
    np.testing.assert_array_equal(scorer.score(features, durations), expected)
    assert np.isfinite(scorer.score(features, np.zeros(10))).all()


GOOD, LENGTHS = video(4, 3)


@pytest.mark.parametrize(
    ("features", "durations", "color", "words"),
    [
        (np.where(np.eye(4, 3) > 0, np.nan, GOOD), LENGTHS, None, "features must be finite"),
        (np.where(np.eye(4, 3) > 0, np.inf, GOOD), LENGTHS, None, "features must be finite"),
        (GOOD, np.array([1, 2, np.nan, 4]), None, "durations must be finite"),
        (GOOD, np.array([1, 2, -3, 4]), None, "durations must be finite"),
        (GOOD[:, :0], LENGTHS, None, "features must be"),
        (GOOD, LENGTHS, np.ones((3, 5)), r"color must be \(4, H\), not \(3, 5\)"),
        (GOOD, LENGTHS, np.ones(4), "color must be"),
        (GOOD, LENGTHS, np.full((4, 5), np.nan), "color must be finite"),
        (GOOD, LENGTHS, -np.eye(4), "color must be finite and not negative"),
    ],
)
def test_invalid_inputs_are_refused(
    scorer: BoundaryModel, features: Any, durations: Any, color: Any, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        scorer.score(features, durations, color)


# The model file.


def test_a_model_of_other_kinds_of_evidence_is_refused(tmp_path: Path, scorer: BoundaryModel) -> None:
    path = tmp_path / "model"
    save_boundary_model(path, scorer)
    tensors, settings = read_arrays(path, "boundary")
    tensors["networks.0.weighing.weight"] = tensors["networks.0.weighing.weight"][:, :185]
    save_model(path, tensors, "boundary", settings)
    words = "has weights for 184 kinds of evidence", "computes 219;", "train it again"
    refusal(lambda: load_boundary_model(path), *words)


def test_a_network_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="of another shape"):
        model_of(network(replace(SMALL, width=4)))


def test_the_built_in_model_file_is_small(shipped: BoundaryModel) -> None:
    assert BUILT_IN.stat().st_size < 4 * 2**20
    assert shipped.calibration.slope > 0


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


def test_scoring_needs_numpy_only() -> None:
    script = (
        "import sys, json; from pipelines.models.opening import open_model; import numpy;"
        "open_model().boundary_model().score(numpy.eye(9), numpy.ones(9));"
        "heavy = ('torch', 'timm', 'torchvision', 'sklearn', 'scipy', 'pandas', 'h5py');"
        "print(json.dumps([name for name in heavy if name in sys.modules]))"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert json.loads(result.stdout) == []
