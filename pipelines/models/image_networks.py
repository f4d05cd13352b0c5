"""Image networks of torchvision and timm: with published weights, or to be trained."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from types import ModuleType

from torch import nn

from pipelines.errors import BasslError, first_line
from pipelines.models.encoder_options import RESNETS

Colour = tuple[float, float, float]


@dataclass(frozen=True, eq=False)
class TrainableEncoder:
    """An image network to be trained, (B, 3, H, W) to (B, D_e), with the mean and deviation of its input in 0 to 1."""

    network: nn.Module
    width: int
    mean: Colour = (0.485, 0.456, 0.406)
    std: Colour = (0.229, 0.224, 0.225)


def trainable_encoder(name: str, pretrained: bool) -> TrainableEncoder:
    """An image network by name, with random weights from torch's generator or those of ImageNet.

    The last BN of each residual branch begins at zero (release), in torchvision's ResNets by their own option and in
    timm's because that is their default.

    Args:
        name: ``resnet18``, ``resnet34``, ``resnet50``, ``resnet101``, ``resnet152`` (torchvision's) or ``timm:NAME``.
        pretrained: whether to load ImageNet weights, downloaded once.

    Raises:
        BasslError: one line, for an unknown name or weights that cannot be had.
    """
    try:
        if name in RESNETS:
            models = import_torchvision().models
            with redirect_stdout(sys.stderr):  # torch prints where weights come from
                weights = models.get_model_weights(name).IMAGENET1K_V1 if pretrained else None
                network = models.get_model(name, weights=weights, zero_init_residual=True)
            width = network.fc.in_features
            network.fc = nn.Identity()
            return TrainableEncoder(network, width)
        if name.startswith("timm:"):
            import_torchvision()
            import timm  # start-up time: a second

            if not timm.is_model(name.removeprefix("timm:").split(".")[0]):
                raise BasslError(f"timm has no model {name.removeprefix('timm:')!r}")
            network = timm.create_model(name.removeprefix("timm:"), pretrained=pretrained, num_classes=0)
            config = timm.data.resolve_model_data_config(network)
            return TrainableEncoder(network, network.num_features, tuple(config["mean"]), tuple(config["std"]))
    except BasslError:
        raise
    except Exception as error:  # a hub's client raises its own, changing types for a network that is not there
        line = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise BasslError(f"the encoder {name} cannot be had ({line})") from error
    raise BasslError(f"no encoder {name!r} can be trained; there are resnet18 to resnet152 and timm:NAME")


def load_resnet(name: str) -> tuple[nn.Module, int]:
    """A ResNet of torchvision without its classifier, with ImageNet weights, and its D_e.

    Raises:
        BasslError: one line, for weights that cannot be downloaded.
    """
    models = import_torchvision().models
    try:
        with redirect_stdout(sys.stderr):  # torch prints where the weights come from; results have stdout to themselves
            network = models.get_model(name, weights=models.get_model_weights(name).IMAGENET1K_V1, progress=False)
    except (OSError, RuntimeError) as error:
        raise BasslError(f"the weights of {name} cannot be downloaded ({first_line(error)})") from error
    width = network.fc.in_features
    network.fc = nn.Identity()
    return network, width


def load_timm(name: str) -> tuple[nn.Module, int, Colour, Colour]:
    """A model of timm without its classifier, with its published weights.

    Returns:
        The network, the side of its input, and mean and deviation of its input's channels in 0 to 1.

    Raises:
        BasslError: one line, for an unknown name or weights that cannot be had.
    """
    import_torchvision()
    import timm  # start-up time: a second

    if not timm.is_model(name):
        similar = ", ".join(timm.list_models(f"*{name}*")[:5])
        raise BasslError(f"timm has no model {name!r}" + (f"; similar: {similar}" if similar else ""))
    try:
        network = timm.create_model(name, pretrained=True, num_classes=0)
    except Exception as error:  # the hub's client raises its own, changing types for a network that is not there
        raise BasslError(f"the weights of timm:{name} cannot be had ({first_line(error)})") from error
    config = timm.data.resolve_model_data_config(network)
    return network, int(config["input_size"][-1]), tuple(config["mean"]), tuple(config["std"])


def import_torchvision() -> ModuleType:
    """torchvision, or one clear line where it was built for another torch than the one installed."""
    try:
        import torchvision  # start-up time, and it may not fit torch
    except (ImportError, RuntimeError) as error:
        raise BasslError(
            "torchvision does not fit the torch that is installed; install a pair that was built together: "
            f"pip install --upgrade torch torchvision ({first_line(error)})"
        ) from error
    return torchvision  # type: ignore[no-any-return]
