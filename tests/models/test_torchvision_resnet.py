"""Import of a ResNet-50 in torchvision's layout, such as Places365's, as a shot encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torchvision

from pipelines.errors import StoreError
from pipelines.models.bassl import BasslSettings, load_bassl_model
from pipelines.models.encoder_loading import load_encoder
from pipelines.models.encoders.torch_encoders import read_torchvision_resnet
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


def test_files_of_other_kinds_are_not_claimed(network: Any, tmp_path: Path) -> None:
    assert read_torchvision_resnet(tmp_path / "none.pth") is None
    (tmp_path / "text.pth").write_text("no weights")
    assert read_torchvision_resnet(tmp_path / "text.pth") is None
    assert read_torchvision_resnet(put(tmp_path / "other.pth", {"shot_encoder.conv1.weight": torch.zeros(1)})) is None
    short = {name: value for name, value in network.state_dict().items() if "layer4.2" not in name}
    refusal(lambda: read_torchvision_resnet(put(tmp_path / "short.pth", short)), "ResNet-50", error=StoreError)
    broken = network.state_dict() | {"bn1.bias": torch.full((64,), torch.nan)}
    refusal(lambda: read_torchvision_resnet(put(tmp_path / "nan.pth", broken)), "not finite", error=StoreError)


@pytest.mark.parametrize("kind", [torch.complex64, torch.float8_e4m3fn])
def test_weights_of_kinds_that_would_lose_their_values_are_refused(
    network: Any, tmp_path: Path, kind: torch.dtype
) -> None:
    state = network.state_dict() | {"bn1.bias": network.bn1.bias.detach().to(kind)}
    words = f"its weights bn1.bias are {kind}, which cannot be used"
    torch.save(state, tmp_path / "x.pth")
    refusal(lambda: read_torchvision_resnet(tmp_path / "x.pth"), words, error=StoreError)
