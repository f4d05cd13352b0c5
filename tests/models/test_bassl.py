"""The file that pre-training, fine-tuning and the import of a checkpoint share."""

from dataclasses import asdict
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import Tensor

from pipelines.models.bassl import KIND, PARTS, BasslSettings, BasslWeights, load_bassl_model, save_bassl_model
from pipelines.models.checkpoints import save_model
from pipelines.models.networks import CRNSettings
from pipelines.models.networks.torch_networks import ContextualRelationNetwork, with_weights
from tests.released_layout import crn_tensors
from tests.small_stores import refusal

CRN = CRNSettings(neighbors=2, input_width=24, width=16, layers=2, heads=8, hidden=40, dropout=0.2)


@pytest.fixture
def weights() -> BasslWeights:
    encoder = {"conv.weight": torch.randn(2, 3), "bn.num_batches_tracked": torch.tensor(7)}
    heads = {"head_pp.weight": torch.randn(2, 16), "head_cgm.bias": torch.randn(2)}
    return BasslWeights(
        BasslSettings("timm:tiny", CRN), encoder, dict(crn_tensors(2)), heads, {"method": "bassl", "epochs": 10}
    )


def test_a_saved_model_is_loaded_unchanged(tmp_path: Path, weights: BasslWeights) -> None:
    save_bassl_model(tmp_path / "run" / "model.safetensors", weights)
    back = load_bassl_model(tmp_path / "run" / "model.safetensors")
    assert back.settings == weights.settings
    assert back.training == {"method": "bassl", "epochs": 10}
    for part in PARTS:
        one, other = getattr(back, part), getattr(weights, part)
        assert one.keys() == other.keys()
        assert all(one[name].dtype == other[name].dtype and torch.equal(one[name], other[name]) for name in one)


def test_a_method_without_a_crn_is_a_model_too(tmp_path: Path, weights: BasslWeights) -> None:
    simclr = BasslWeights(
        BasslSettings("resnet50", None), weights.encoder, {}, {"head_nce.model.0.bias": torch.ones(2)}
    )
    save_bassl_model(tmp_path / "model", simclr)
    back = load_bassl_model(tmp_path / "model")
    assert back.settings == BasslSettings("resnet50", None)
    assert not back.finetuned


def test_building_with_weights_draws_no_random_numbers(weights: BasslWeights) -> None:
    torch.manual_seed(0)
    with_weights(partial(ContextualRelationNetwork, CRN), weights.crn)
    drawn = torch.rand(1)
    torch.manual_seed(0)
    assert torch.equal(drawn, torch.rand(1))


def test_a_header_that_does_not_fit_the_weights_is_refused(tmp_path: Path, weights: BasslWeights) -> None:
    tensors = {f"crn.{name}": tensor for name, tensor in weights.crn.items()}
    good = {"encoder": "resnet50", "crn": asdict(CRN), "training": {}}
    save_model(tmp_path / "good", tensors, KIND, good)
    load_bassl_model(tmp_path / "good")
    wrong: list[tuple[dict[str, Tensor], dict[str, object]]] = [
        (tensors, {**good, "encoder": 5}),
        (tensors, {**good, "training": 5}),
        (tensors, {**good, "crn": 5}),
        (tensors, {**good, "crn": {}}),
        (tensors, {**good, "crn": {**asdict(CRN), "neighbors": 3}}),
        (tensors, {**good, "crn": {**asdict(CRN), "neighbors": 10**18}}),
        (tensors, {**good, "crn": {**asdict(CRN), "layers": 10**9}}),
        (tensors, {**good, "crn": {**asdict(CRN), "heads": "8"}}),
        ({}, good),
    ]
    for i, (content, settings) in enumerate(wrong):
        path = tmp_path / str(i)
        save_model(path, content, KIND, settings)
        refusal(lambda path=path: load_bassl_model(path), path, "do not fit each other")
