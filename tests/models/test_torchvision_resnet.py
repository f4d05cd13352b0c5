"""Import of a ResNet-50 in torchvision's layout, such as Places365's, as a shot encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision

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


def test_a_part_of_a_resnet_is_refused(network: Any, tmp_path: Path) -> None:
    state = {name: value for name, value in network.state_dict().items() if "layer4.2" in name or "1." in name}
    path = put(tmp_path / "x.pth", state)
    refusal(lambda: read_checkpoint(path), path, "not in the layout of the paper's release or of a ResNet-50: ")
