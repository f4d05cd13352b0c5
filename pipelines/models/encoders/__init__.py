"""Names of shot encoders, and options for the input of an ONNX encoder; imports nothing heavy."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from annotated_doc import Doc

from pipelines.errors import BasslError
from pipelines.options import Settings

DEFAULT_ENCODER = "efficientnet_lite0"
INPUT_SIZE = 224  # side of the input of a pre-trained encoder whose file does not contain it (appendix A)
EncoderPrecision = Literal["float32", "auto", "bfloat16"]
Preparation = Literal["squeeze", "center"]
"""How an image becomes the square input of a network: `resize_to_square` or `resize_and_crop`."""
RESNETS = ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152")


def is_published(encoder: str | Path) -> bool:
    """Return whether an encoder is the name of a network of torchvision or timm with published weights."""
    return isinstance(encoder, str) and (encoder in RESNETS or encoder.startswith("timm:"))


def named_encoder(identity: str) -> str | None:
    """Return the name, as on the command line, of the encoder with this id; None for an id of another form."""
    parts = re.fullmatch(r"(.+?)(-bfloat16)?-[0-9a-f]{12}", identity)
    name = re.sub("^timm-", "timm:", parts[1]) if parts else ""
    return name if name == DEFAULT_ENCODER or is_published(name) else None


def precision_of(identity: str) -> EncoderPrecision:
    """Return the precision in which the features of the encoder with this id are computed."""
    return "bfloat16" if re.search(r"-bfloat16-[0-9a-f]{12}\Z", identity) else "float32"


def check_download(encoder: str, requested: str | Path | None, asker: object) -> None:
    """Raise BasslError if an encoder that the file ``asker`` names has to be downloaded, and was not requested."""
    name = named_encoder(encoder) or encoder
    if is_published(name) and requested not in (encoder, name):
        raise BasslError(
            f"{asker}: names the encoder {name}, whose weights would be downloaded; allow that with `encoder={name}`, "
            f"or run `bassl encode` with `encoder={name}` and name its store with `features`"
        )


def check_encoder(encoder: str | Path) -> None:
    """Check that an encoder has a known name or id, or is an existing file or folder. Raises BasslError."""
    if encoder == DEFAULT_ENCODER or is_published(encoder) or named_encoder(str(encoder)) is not None:
        return
    if str(encoder) and Path(encoder).exists():
        return
    if isinstance(encoder, Path) or Path(encoder).suffix:
        raise BasslError(f"{encoder}: no such run, model or ONNX file; check the path")
    raise BasslError(
        f"unknown encoder {encoder!r}; choose {DEFAULT_ENCODER}, resnet50, timm:NAME, an ONNX file (*.onnx) or "
        "the folder of a pre-trained run"
    )


@dataclass(frozen=True)
class EncoderOptions(Settings):
    """How images are given to the network of ``--encoder FILE.onnx``; each field overrides the file's metadata."""

    heading = "Model and device"
    encoder_mean: Annotated[
        tuple[float, ...] | None,
        Doc("""Mean of red, green and blue that an ONNX encoder was trained with, on the scale of 0 to 1. Default:
        that in the file's metadata."""),
    ] = None
    encoder_std: Annotated[
        tuple[float, ...] | None,
        Doc("Standard deviation of red, green and blue, on the scale of 0 to 1. Default: that in the file's metadata."),
    ] = None
    encoder_size: Annotated[int | None, Doc("Side of its square input in pixels. Default: as in the file.")] = None
    encoder_output: Annotated[
        str | None, Doc("Which of its outputs to read. Default: that in the file's metadata, or the only one.")
    ] = None
