"""Scoring videos with each network, and the files that models come from."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from pipelines.errors import BasslError
from pipelines.models.bassl import BasslSettings, BasslWeights, save_bassl_model
from pipelines.models.boundary import KIND, BoundaryModel, save_boundary_model
from pipelines.models.calibration import Calibration
from pipelines.models.checkpoints import read_arrays, save_model
from pipelines.models.networks import (
    CRNSettings,
    MLPSettings,
    MSLSTMSettings,
    RelationalSettings,
    Shape,
    torch_networks,
)
from pipelines.models.networks.torch_networks import ContextualRelationNetwork, build_network, with_weights
from pipelines.models.opening import open_model
from tests.released_layout import crn_tensors
from tests.small_stores import refusal

WIDTH = 12
SHAPES: dict[str, Shape] = {
    "transformer": CRNSettings(2, WIDTH, 8, 1, 2, 16),
    "mlp": MLPSettings(2, WIDTH, 8),
    "ms-lstm": MSLSTMSettings(2, WIDTH, 4, 5),
    "relational": RelationalSettings(),
}
KINDS = list(SHAPES)


def model_of(crn: Any, **more: Any) -> BoundaryModel:
    torch.manual_seed(0)
    return BoundaryModel(crn=crn, network=build_network(crn, SHAPES[crn]), shape=SHAPES[crn], **more)


def video(shots: int, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(shots, WIDTH)).astype(np.float32), rng.uniform(1, 9, shots)


# Scoring


@pytest.mark.parametrize("crn", ["transformer", "mlp"])
@pytest.mark.parametrize("shots", [1, 23])
def test_each_shot_is_scored_by_its_window(crn: str, shots: int) -> None:
    model, (features, durations) = model_of(crn), video(shots)
    expected = []
    for i in range(shots):
        window = np.stack([features[min(max(i + k, 0), shots - 1)] for k in range(-2, 3)])
        logits = model.network(torch.from_numpy(window)[None])[0].softmax(dim=0)
        expected.append(float(logits[1].detach()))
    np.testing.assert_allclose(model.score(features, durations), expected, rtol=1e-4)


@pytest.mark.parametrize("shots", [1, 4, 6])
def test_the_ms_lstm_reads_a_video_in_sequences(shots: int) -> None:
    model, (features, durations) = model_of("ms-lstm"), video(shots)
    length = min(5, shots)
    expected = np.full(shots, np.nan)
    begins = list(range(0, shots - length + 1, length))
    begins += [shots - length] if begins[-1] != shots - length else []
    for begin in begins:
        cuts = [
            [features[min(max(begin + i + k, 0), shots - 1)] for k in (-1, 0, 1, 2)] for i in range(length)
        ]  # two shots up to the cut and two after it
        logits = model.network(torch.from_numpy(np.array(cuts))[None])[0].detach()
        expected[begin : begin + length] = (logits[:, 1] - logits[:, 0]).numpy()
    np.testing.assert_allclose(model.logits(features, durations), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("crn", KINDS)
def test_limiting_memory_does_not_change_scores(crn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, (features, durations) = model_of(crn), video(40)
    whole = model.logits(features, durations)
    monkeypatch.setattr(torch_networks, "WINDOWS_AT_A_TIME", 7)
    np.testing.assert_allclose(model.logits(features, durations), whole, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("crn", KINDS)
def test_scores_are_deterministic_without_dropout_calibrated_and_do_not_change_their_input(crn: str) -> None:
    model, (features, durations) = model_of(crn, calibration=Calibration(3.0, -0.2)), video(9)
    scores = model.score(features, durations)
    for array, same in zip((features, durations), video(9), strict=True):
        np.testing.assert_array_equal(array, same)
    assert scores.dtype == np.float64
    assert ((scores > 0) & (scores < 1)).all()
    np.testing.assert_array_equal(model.score(features, durations), scores)
    np.testing.assert_allclose(scores, 1 / (1 + np.exp(-3.0 * (model.logits(features, durations) + 0.2))))


@pytest.mark.parametrize("crn", KINDS)
def test_half_precision_features_whole_seconds_and_networks_in_double_precision_are_accepted(crn: str) -> None:
    model, half, seconds = model_of(crn), video(9)[0].astype(np.float16), np.arange(1, 10)
    expected = model.logits(half.astype(np.float32), seconds.astype(np.float64))
    np.testing.assert_array_equal(model.logits(half, seconds), expected)
    model.network.double()
    np.testing.assert_allclose(model.logits(half, seconds), expected, rtol=1e-4, atol=1e-6)


def test_features_of_another_encoder_are_refused() -> None:
    model = model_of("mlp", encoder="resnet50-0123456789ab")
    model.check("resnet50-0123456789ab", WIDTH)
    refusal(lambda: model.check("other", WIDTH), "features of resnet50-0123456789ab", "other", error=BasslError)
    refusal(lambda: model.check("resnet50-0123456789ab", 7), "width 12", "7", error=BasslError)
    built_in = open_model().boundary_model()
    assert (built_in.crn, built_in.encoder, built_in.width) == ("relational", None, None)
    built_in.check("anything", 3)


@pytest.mark.parametrize(
    ("crn", "change"),
    [
        *(("transformer", change) for change in ({"neighbors": 0}, {"width": 7}, {"hidden": -1}, {"dropout": -0.1})),
        ("mlp", {"dropout": 1.0}),
        ("ms-lstm", {"width": 0}),
        ("relational", {"dropout": 1.0}),
    ],
)
def test_settings_that_no_network_can_have_are_refused(crn: str, change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"not the shape of a network|cannot be shared|is not between 0 and 1"):
        replace(SHAPES[crn], **change)


# Files


def full(crn: str) -> BoundaryModel:
    return model_of(
        crn,
        calibration=Calibration(1.5, 0.25),
        encoder="resnet18-0123456789ab",
        encoder_name="resnet18",
        encoder_weights={"bn.num_batches_tracked": torch.tensor(3), "conv1.weight": torch.ones(2, 3)},
        keyframes=3,
        input_size=32,
        keyframe_facts={"detector": "adaptive"},
        training={"stage": "finetune", "test": {"ap": 0.5}},
    )


@pytest.mark.parametrize("crn", KINDS)
def test_a_saved_model_is_loaded_unchanged(crn: str, tmp_path: Path) -> None:
    model, (features, durations) = full(crn), video(9)
    save_boundary_model(tmp_path / "run" / "model.safetensors", model)
    for path in (tmp_path / "run", tmp_path / "run" / "model.safetensors"):
        back = open_model(path).boundary_model()
        exact = 0 if crn != "relational" else 1e-6  # which was trained in single precision, and is read in double
        np.testing.assert_allclose(back.score(features, durations), model.score(features, durations), rtol=exact)
        for name in ("crn", "shape", "calibration", "encoder", "encoder_name", "keyframes", "input_size"):
            assert getattr(back, name) == getattr(model, name)
        assert (back.keyframe_facts, back.training) == (model.keyframe_facts, model.training)
        assert back.encoder_weights.keys() == model.encoder_weights.keys()
        assert back.encoder_weights["bn.num_batches_tracked"].dtype == torch.int64


def test_an_imported_checkpoint_scores_as_the_release_does(tmp_path: Path) -> None:
    shape = CRNSettings(neighbors=2, input_width=24, width=16, layers=2, heads=8, hidden=40)
    heads = {"head_sbd.weight": torch.randn(2, 16), "head_sbd.bias": torch.randn(2), "head_pp.bias": torch.zeros(2)}
    weights = BasslWeights(BasslSettings("features of mine", shape), {}, dict(crn_tensors(2)), heads)
    save_bassl_model(tmp_path / "model.safetensors", weights)
    model = open_model(tmp_path).boundary_model()
    assert (model.crn, model.encoder, model.width, model.keyframes) == ("transformer", "features of mine", 24, None)
    features = np.random.default_rng(0).normal(size=(6, 24)).astype(np.float32)
    crn = with_weights(partial(ContextualRelationNetwork, shape), weights.crn).eval()
    contextualised, _ = crn(torch.from_numpy(features[[1, 2, 3, 4, 5]])[None])
    logits = contextualised[0, 2] @ heads["head_sbd.weight"].T + heads["head_sbd.bias"]
    result = model.score(features, np.ones(6))[3]
    assert result == pytest.approx(float(logits.softmax(0)[1].detach()), rel=1e-4)


def test_a_path_without_a_model_that_can_score_is_refused(tmp_path: Path) -> None:
    def message(path: Path | str, *words: str) -> None:
        refusal(lambda: open_model(path).boundary_model(), *words)

    message(tmp_path, "no such run or model")
    (tmp_path / "state.pt").touch()
    message(tmp_path, "its run is unfinished; continue with `resume=True`")
    message(tmp_path / "none", "no such run or model")
    message("a" * 300, "no such run or model")
    (tmp_path / "text").write_text("nothing")
    message(tmp_path / "text", "not a safetensors file")
    save_model(tmp_path / "strange", {}, "strange", {})
    message(tmp_path / "strange", "'strange', but a fine-tuned model is needed")
    settings, heads = BasslSettings("x", CRNSettings(2, 24, 16, 2, 8, 40)), {"head_pp.bias": torch.ones(2)}
    save_bassl_model(tmp_path / "model.safetensors", BasslWeights(settings, {}, dict(crn_tensors(2)), heads))
    message(tmp_path, "pre-trained only", "bassl finetune` with `init=")


def test_a_header_that_does_not_fit_the_weights_is_refused(tmp_path: Path) -> None:
    save_boundary_model(tmp_path / "good", full("transformer"))
    tensors, good = read_arrays(tmp_path / "good", KIND)

    def refused(weights: dict[str, Any], change: dict[str, Any]) -> None:
        save_model(tmp_path / "bad", weights, KIND, {**good, **change})
        refusal(lambda: open_model(tmp_path / "bad").boundary_model(), "do not fit each other")

    for name, value in (
        *(("crn", crn) for crn in ("mlp", "other")),
        ("networks", 2),
        ("shape", None),
        *(("calibration", calibration) for calibration in ({"slope": "1", "offset": 0}, None)),
        ("encoder", 5),
        ("keyframes", "3"),
        ("pictures", None),
        ("training", 5),
        ("sound", "log-mel-64"),  # of an earlier version, which could read it
    ):
        refused(tensors, {name: value})
    for name, value in (
        *(("dropout", dropout) for dropout in (1, "half", True)),
        *(("width", width) for width in (10**18, "wide", -1)),
        ("layers", 10**9),
        ("neighbors", 3),
    ):
        refused(tensors, {"shape": {**good["shape"], name: value}})
    less = {name: tensor for name, tensor in tensors.items() if name != "networks.0.head_sbd.weight"}
    for weights in ({**tensors, "networks.0.weight": torch.ones(1)}, less, {}):
        refused(weights, {})
