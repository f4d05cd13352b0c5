"""Import of a ResNet-50 in torchvision's layout, such as Places365's, as a shot encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision

from pipelines.errors import StoreError
from pipelines.models.bassl import BasslSettings, load_bassl_model, read_checkpoint
from pipelines.models.encoder_loading import load_encoder
from pipelines.stages.models import import_checkpoint
from tests.small_stores import refusal


@pytest.fixture(scope="module")
def network() -> Any:
    torch.manual_seed(0)
    return torchvision.models.resnet50(num_classes=365).eval()


def put(path: Path, state: dict[str, Any]) -> Path:
    """As the authors of Places365 wrote it: before torch's zip files, and from several GPUs."""
    content = {"epoch": 90, "arch": "resnet50", "state_dict": state, "best_prec1": torch.tensor(54.7)}
    torch.save(content, path, _use_new_zipfile_serialization=False)
    return path


def test_the_imported_encoder_is_the_resnet_without_its_last_layer(network: Any, tmp_path: Path) -> None:
    state = {f"module.{name}": value for name, value in network.state_dict().items() if "num_batches" not in name}
    weights = import_checkpoint(put(tmp_path / "places.pth.tar", state), tmp_path / "model.safetensors")
    assert weights.settings == BasslSettings("resnet50", None)
    assert load_bassl_model(tmp_path / "model.safetensors").encoder.keys() == weights.encoder.keys()
    encoder = load_encoder(tmp_path / "model.safetensors", "cpu", keyframes=1)
    picture = np.random.default_rng(0).integers(0, 256, (224, 224, 3), np.uint8)
    mean, std = torch.tensor(encoder.mean), torch.tensor(encoder.std)
    pixels = ((torch.from_numpy(picture).float() - mean) / std).permute(2, 0, 1)[None]
    headless = torch.nn.Sequential(*list(network.children())[:-1], torch.nn.Flatten())
    with torch.inference_mode():
        expected = headless(pixels).numpy()
    result = encoder.encode([[picture]])
    assert np.linalg.norm(result - expected) < 1e-4 * np.linalg.norm(expected)


def test_other_files_and_weights_that_do_not_fit_are_refused(network: Any, tmp_path: Path) -> None:
    def refused(words: str, change: dict[str, Any], keep: str = "") -> None:
        state = {name: value for name, value in network.state_dict().items() if not keep or keep not in name}
        refusal(lambda: read_checkpoint(put(tmp_path / "x.pth", state | change)), words, error=StoreError)

    refusal(lambda: read_checkpoint(tmp_path / "none.pth"), "no such file", error=StoreError)
    (tmp_path / "text.pth").write_text("no weights")
    refusal(lambda: read_checkpoint(tmp_path / "text.pth"), "not a checkpoint that PyTorch can read", error=StoreError)
    refused("not in the layout of the paper's release or of a ResNet-50: ", {}, "layer4.2")
    for value in (torch.full((64,), torch.nan), torch.ones(64, dtype=torch.complex64), [1.0]):
        refused("'bn1.bias' among its weights is not a tensor of finite numbers", {"bn1.bias": value})
