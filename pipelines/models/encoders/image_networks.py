"""Image networks of torchvision and timm: with published weights, or to be trained."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from types import ModuleType

import torch
from torch import nn

from pipelines.errors import BasslError, first_line
from pipelines.models.encoders.options import RESNETS
from pipelines.models.encoders.shot_encoder import Color

IMAGENET: tuple[Color, Color] = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Mean and standard deviation of red, green and blue of ImageNet, on the scale of 0 to 1."""


@dataclass(frozen=True, eq=False)
class TrainableEncoder:
    """An image network without its classifier, (B, 3, size, size) to (B, D_e). ``mean`` and ``std`` of its input are on
    the scale of 0 to 1."""

    network: nn.Module
    width: int
    size: int
    mean: Color
    std: Color


def trainable_encoder(name: str, pretrained: bool, size: int | None = None) -> TrainableEncoder:
    """An image network by name, torchvision's ``resnet18`` to ``resnet152`` or ``timm:NAME``, with random weights from
    torch's generator, or ImageNet weights, downloaded once.

    The last BN of each residual branch is initialized to zero (release): an option of torchvision's ResNets, and the
    default of timm. `size` is the side of its input. Default: the size that its published weights were trained with.
    Raises BasslError for an unknown name, weights that cannot be loaded, or an unsupported size.
    """
    torchvision, model = import_torchvision(), name.removeprefix("timm:")
    try:
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
        return TrainableEncoder(network, _width(network, size), size, mean, std)
    except BasslError:
        raise
    except Exception as error:  # the hub's client has errors of its own for a missing network
        raise BasslError(f"the encoder {name} cannot be loaded ({first_line(error)})") from error


def _width(network: nn.Module, size: int) -> int:
    """D_e, measured on an output: timm's `num_features` is another number for some models."""
    with torch.inference_mode():
        width = int(network.eval()(torch.zeros(1, 3, size, size)).shape[1])
    network.train()
    return width


def import_torchvision() -> ModuleType:
    """torchvision. Raises BasslError if it was built for another version of torch."""
    try:
        import torchvision  # start-up time, and it may not fit torch
    except (ImportError, RuntimeError) as error:
        raise BasslError(
            "torchvision does not fit the installed torch; install a pair that was built together: "
            f"pip install --upgrade torch torchvision ({first_line(error)})"
        ) from error
    return torchvision  # type: ignore[no-any-return]
