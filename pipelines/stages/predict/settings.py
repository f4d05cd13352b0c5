"""Settings of prediction: which model, and which scenes."""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path

from pipelines.models.encoders.options import EncoderOptions, check_encoder
from pipelines.options import Settings, nested
from pipelines.settings import Compute, Grouping, Reading


@dataclass(frozen=True)
class PredictSettings(Settings):
    """Everything that determines which scenes are found."""

    reading: Reading = nested(Reading(), defaults={"detector": "the model's own, or transitions"})
    """How the video is read. The model's own detector is the one that its keyframes were made with."""
    encoder: str | None = None
    """Shot encoder: efficientnet_lite0; an ONNX file of an image network; resnet50 or timm:NAME, which download
    weights; or a pre-trained run. Default: the model's own, or efficientnet_lite0."""
    model: Path | None = None
    """A fine-tuned run or model file. Default: the built-in model."""
    grouping: Grouping = nested(Grouping())
    """Which scenes the scores make."""
    describe: str | None = None
    """A program that names scenes: it is run for each scene without a name by hand, with JSON on stdin (the path of an
    image with keyframes, and what is said), and prints the name. No shell is used."""
    compute: Compute = nested(Compute(), without=("workers", "precision"))
    encoder_options: EncoderOptions = nested(EncoderOptions(), rare=True)
    """For an ONNX file, what its metadata do not say."""

    @property
    def files(self) -> tuple[Path | None, ...]:
        """The files that are read besides videos."""
        return self.reading.shots, self.reading.subtitles, self.model

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "encoder", None if self.encoder is None else str(self.encoder))
        if self.describe is not None:
            words = shlex.split(self.describe, posix=os.name == "posix")
            if not words or shutil.which(words[0]) is None:
                raise ValueError(f"describe: there is no program {words[0] if words else ''!r}")
        if self.encoder is not None:
            check_encoder(self.encoder)
