"""Settings of prediction: which model, and which scenes."""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from annotated_doc import Doc

from pipelines.models.encoders.options import EncoderOptions, check_encoder
from pipelines.options import Settings, nested
from pipelines.settings import Compute, Grouping, Reading


@dataclass(frozen=True)
class PredictSettings(Settings):
    """Everything that determines which scenes are found."""

    reading: Annotated[
        Reading, Doc("How the video is read. The model's own detector is the one that its keyframes were made with.")
    ] = nested(Reading(), defaults={"detector": "the model's own, or transitions"})
    encoder: Annotated[
        str | None,
        Doc("""Shot encoder: efficientnet_lite0; an ONNX file of an image network; resnet50 or timm:NAME, which
        download weights; or a pre-trained run. Default: the model's own, or efficientnet_lite0."""),
    ] = None
    model: Annotated[Path | None, Doc("A fine-tuned run or model file. Default: the built-in model.")] = None
    grouping: Annotated[Grouping, Doc("Which scenes the scores make.")] = nested(Grouping())
    describe: Annotated[
        str | None,
        Doc("""A program that names scenes: it is run for each scene without a name by hand, with JSON on stdin
        (the path of an image with keyframes, and what is said), and prints the name. No shell is used."""),
    ] = None
    compute: Compute = nested(Compute(), without=("workers", "precision"))
    encoder_options: Annotated[EncoderOptions, Doc("Values missing from the ONNX metadata.")] = nested(
        EncoderOptions(), advanced=True
    )

    @property
    def files(self) -> tuple[Path | None, ...]:
        """Return the files that are read besides videos."""
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
