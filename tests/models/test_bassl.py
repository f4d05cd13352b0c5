"""The file that pre-training, fine-tuning and the import of a checkpoint share."""

from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from pipelines.models.bassl import KIND, PARTS, BasslSettings, BasslWeights, load_bassl_model, save_bassl_model
from pipelines.models.checkpoints import save_model
from pipelines.models.networks import CRNSettings
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


def test_a_header_that_does_not_fit_the_weights_is_refused(tmp_path: Path, weights: BasslWeights) -> None:
    tensors = {f"crn.{name}": tensor for name, tensor in weights.crn.items()}
    good = {"encoder": "resnet50", "crn": asdict(CRN), "training": {}}
    save_model(tmp_path / "good", tensors, KIND, good)
    load_bassl_model(tmp_path / "good")
    for content, change in (
        (tensors, {"encoder": 5}),
        (tensors, {"training": 5}),
        (tensors, {"crn": {}}),
        (tensors, {"crn": {**asdict(CRN), "neighbors": 10**18}}),
        (tensors, {"crn": {**asdict(CRN), "heads": "8"}}),
        ({}, {}),
    ):
        save_model(tmp_path / "bad", content, KIND, {**good, **change})
        refusal(lambda: load_bassl_model(tmp_path / "bad"), tmp_path / "bad", "do not fit each other")
