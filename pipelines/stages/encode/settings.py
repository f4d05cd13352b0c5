"""Settings of encoding; imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pipelines.models.encoder_options import EncoderOptions, check_device
from pipelines.options import RARE, accept_text, check_at_least


@dataclass(frozen=True)
class EncodeSettings:
    """Which shots are encoded, and by which encoder."""

    index: Path = Path("data/index.h5")
    """Index of the videos; they need keyframes."""
    encoder: str | Path = "efficientnet_lite0"
    """Shot encoder: efficientnet_lite0, an ONNX file of an image network, resnet18 to resnet152 or timm:NAME (ImageNet
    weights), or the path of a pre-trained run or model file."""
    output: Path = Path("data/features")
    """Folder of the stores, one for each encoder."""
    labelled: bool = False
    """Only videos with labels: all that fine-tuning, scoring and baselines read."""
    workers: int | None = None
    """Threads that read, decode and encode, for each process. Default: the cores are shared out; one with
    --dask."""
    device: str = "auto"
    """Where an encoder of torch runs: auto, cpu or cuda; ONNX encoders run on the CPU."""
    overwrite: bool = False
    """Replace an existing store."""
    preparation: Literal["centre", "squeeze"] | None = None
    """How a keyframe becomes the encoder's square input: centre, shorter side to 8/7 of it and the centre cut out, or
    squeeze, the whole frame. Default: centre for a pre-trained or imported encoder (release), else squeeze."""
    dask: str | None = None
    """Address of a Dask scheduler whose workers encode the videos; they must see the same files."""
    encoder_options: EncoderOptions = field(default_factory=EncoderOptions, metadata=RARE)
    """For an ONNX file, what its metadata do not say."""

    def __post_init__(self) -> None:
        accept_text(self)
        check_device(self.device)
        check_at_least(self, 1, "workers")
