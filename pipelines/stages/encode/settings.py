"""Settings of encoding; imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pipelines.models.encoder_options import EncoderOptions
from pipelines.options import RARE, accept_text, check_at_least, nested
from pipelines.settings import ONLY_TRAINING, Compute, Indexed, Parallel, RunSettings


@dataclass(frozen=True)
class EncodeSettings:
    """Which shots are encoded, and by which encoder."""

    data: Indexed = nested(Indexed())
    """Videos; they need keyframes."""
    encoder: str | Path = "efficientnet_lite0"
    """Shot encoder: efficientnet_lite0, an ONNX file of an image network, resnet18 to resnet152 or timm:NAME (ImageNet
    weights), or the path of a pre-trained run or model file."""
    run: RunSettings = nested(RunSettings(Path("data/features")), without=ONLY_TRAINING)
    """Folder of the feature stores, a folder for each encoder."""
    parallel: Parallel = nested(Parallel(), without=("jobs",))
    labelled: bool = False
    """Only videos with labels: all that fine-tuning, scoring and baselines read."""
    compute: Compute = nested(
        Compute(), without=("precision",), defaults={"workers": "the cores are shared out; one with --dask"}
    )
    preparation: Literal["centre", "squeeze"] | None = None
    """How a keyframe becomes the encoder's square input: centre, shorter side to 8/7 of it and the centre cut out, or
    squeeze, the whole frame. Default: centre for a pre-trained or imported encoder (release), else squeeze."""
    encoder_options: EncoderOptions = field(default_factory=EncoderOptions, metadata=RARE)
    """For an ONNX file, what its metadata do not say."""

    def __post_init__(self) -> None:
        accept_text(self)
        check_at_least(self.compute, 1, "workers")
