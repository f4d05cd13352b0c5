"""Shot encoders run by torch: torchvision's ResNets, timm's models, and encoders of pre-trained models."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pipelines.errors import BasslError, StoreError, first_line
from pipelines.models.encoders import INPUT_SIZE, RESNETS, EncoderPrecision, Preparation
from pipelines.models.encoders.shot_encoder import (
    KEYFRAMES,
    Color,
    ShotEncoder,
    encoder_id,
    preparation_facts,
    scale_color,
)
from pipelines.models.networks.torch_networks import one_thread

# --- image networks, with published weights or to be trained ----------------------------------------------------------

IMAGENET: tuple[Color, Color] = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean and standard deviation of red, green and blue of ImageNet, on the scale of 0 to 1."""


@dataclass(frozen=True, eq=False)
class TrainableEncoder:
    """An image network without its classifier, (B, 3, size, size) to (B, D_e), for colors on the scale of 0 to 1."""

    network: nn.Module
    width: int
    size: int
    mean: Color
    std: Color


def trainable_encoder(name: str, pretrained: bool, size: int | None = None) -> TrainableEncoder:
    """Return an image network by name, torchvision's ``resnet18`` to ``resnet152`` or ``timm:NAME``, with random
    weights from torch's generator, or ImageNet weights, downloaded once.

    The last BN of each residual branch is initialized to zero (release). `size` is the side of its input; default: as
    of its published weights. Raises BasslError for an unknown name, weights that cannot be loaded, or an unsupported
    size.
    """
    model = name.removeprefix("timm:")
    try:
        import torchvision  # start-up time, and it may not fit torch

        if name in RESNETS:
            models = torchvision.models
            with redirect_stdout(sys.stderr):  # torch prints where weights come from
                weights = models.get_model_weights(name).IMAGENET1K_V1 if pretrained else None
                network = models.get_model(name, weights=weights, progress=False, zero_init_residual=True)
            network.fc = nn.Identity()
            size, (mean, std) = size or 224, IMAGENET
        elif name.startswith("timm:"):
            import timm  # start-up time: a second

            if not timm.is_model(model.split(".")[0]):
                similar = ", ".join(timm.list_models(f"*{model}*")[:5])
                raise BasslError(f"timm has no model {model!r}" + (f"; similar: {similar}" if similar else ""))
            network = timm.create_model(model, pretrained=pretrained, num_classes=0)
            config = timm.data.resolve_model_data_config(network)
            size = size or int(config["input_size"][-1])
            mean, std = tuple(config["mean"]), tuple(config["std"])
        else:
            raise BasslError(f"no encoder {name!r} can be trained; choose resnet18 to resnet152 or timm:NAME")
        # timm's `num_features` is another number than D_e for some models.
        with torch.inference_mode():
            width = int(network.eval()(torch.zeros(1, 3, size, size)).shape[1])
        return TrainableEncoder(network.train(), width, size, mean, std)
    except BasslError:
        raise
    except Exception as error:  # the hub's client has errors of its own, and a torchvision that does not fit torch
        raise BasslError(f"the encoder {name} cannot be loaded ({first_line(error)})") from error


# --- frozen shot encoders ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class TorchEncoder(ShotEncoder):
    """A shot encoder whose network is a module of torch, (B, 3, size, size) to (B, D_e)."""

    network: nn.Module

    @torch.inference_mode()
    def features(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        B, H, W, C = images.shape
        # Whole lines of pixels: operations over three channels at a time are fifteen times slower.
        mean, std = (torch.tensor(v, device=self.device).repeat(W) for v in (self.mean, self.std))
        x = torch.from_numpy(images).to(self.device).view(B, H, W * C).float().sub_(mean).div_(std)
        # (B, H, W, 3) viewed as (B, 3, H, W) is channels-last already, the fastest layout for convolutions.
        x = x.to(getattr(torch, self.precision)).view(B, H, W, C).permute(0, 3, 1, 2)
        features: Tensor = self.network(x)
        return np.asarray(features.float().cpu().numpy())

    def one_thread_each(self) -> AbstractContextManager[None]:
        return one_thread()


def torch_encoder_id(name: str, weights: Mapping[str, Tensor], preprocessing: Mapping[str, Any]) -> str:
    """Return the id of an encoder by its state dict; see `pipelines.models.encoders.shot_encoder.encoder_id`."""

    def parts() -> Iterator[bytes]:
        for key in sorted(weights):
            tensor = weights[key].detach().cpu().contiguous()
            yield f"{key} {tensor.dtype} {tuple(tensor.shape)}\n".encode()
            yield tensor.reshape(-1).view(torch.uint8).numpy().tobytes()

    return encoder_id(name, parts(), preprocessing)


def torch_encoder(
    name: str,
    weights: Mapping[str, Tensor] | None,
    device: str = "auto",
    *,
    file: Path | None = None,
    keyframes: int = KEYFRAMES,
    size: int | None = INPUT_SIZE,
    preparation: Preparation = "center",
    precision: EncoderPrecision = "float32",
) -> TorchEncoder:
    """Return a shot encoder by the name of its network, with the ``weights`` of a model ``file``, or ImageNet weights,
    downloaded once. `size` is as for `trainable_encoder`, the others as for
    :func:`pipelines.models.encoder_loading.load_encoder`. Raises BasslError for an unknown name or device, weights that
    cannot be downloaded or do not fit the network."""
    place = choose_device(device)
    try:
        with torch.random.fork_rng(devices=[]):  # random initial weights must not change the caller's generator
            trainable = trainable_encoder(name, pretrained=weights is None, size=size)
        if weights is not None:
            trainable.network.load_state_dict(weights)
    except RuntimeError as error:
        raise StoreError(f"{file}: its shot encoder is not a {name}; train or download the model again") from error
    except BasslError as error:
        raise BasslError(f"{file}: {error}" if file else str(error)) from error
    mean, std = scale_color(trainable.mean), scale_color(trainable.std)
    dtype = torch.bfloat16 if precision == "bfloat16" or (precision == "auto" and _has_bf16(place)) else torch.float32
    network = trainable.network.eval().requires_grad_(False)
    return TorchEncoder(
        name=name,
        id=torch_encoder_id(
            name if dtype == torch.float32 else f"{name}-bfloat16",
            weights or network.state_dict(),
            preparation_facts(trainable.size, mean, std, keyframes, preparation),
        ),
        width=trainable.width,
        size=trainable.size,
        mean=mean,
        std=std,
        device=str(place),
        precision=str(dtype).removeprefix("torch."),
        keyframes=keyframes,
        preparation=preparation,
        network=network.to(place, dtype, memory_format=torch.channels_last),  # type: ignore[call-overload]
    )


def choose_device(name: str) -> torch.device:
    """Return the torch device for ``auto`` or a name. Raises BasslError for an unknown or unavailable one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.zeros(1, device=device).cpu()
    except (RuntimeError, AssertionError) as error:
        raise BasslError(f"the device {name!r} is not available: {first_line(error)}") from error
    return device


def _has_bf16(device: torch.device) -> bool:
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported(including_emulation=False))
    checks = (getattr(torch.cpu, f"_is_{feature}_supported", None) for feature in ("avx512_bf16", "amx_tile"))
    return device.type == "cpu" and any(check is not None and check() for check in checks)
