"""Settings of scoring."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pipelines.options import Seconds, accept_text, check_at_least

ALL_SPLITS = "all"
"""Instead of a split: every labelled video."""


@dataclass(frozen=True)
class ScoreSettings:
    """What is scored, and how."""

    index: Path = Path("data/index.h5")
    """Index of the videos that a model is scored on."""
    split: str = "test"
    """Videos of this split; ``all`` takes every labelled video."""
    features: Path = Path("data/features")
    """Feature store of the model's encoder, or the folder of stores where it is looked for or made."""
    sound: Path = Path("data/sound")
    """Folder of sound (bassl extract-sound), for a model that was fine-tuned with sound."""
    threshold: float | None = None
    """A shot with at least this score ends a scene. Default: 0.5 for a model; for a list of scenes, the scenes
    that it lists.

    0.5 is that of softmax, as in the paper's release, for an imported or pre-trained model. A run of bassl finetune is
    calibrated on its validation split: 0.5 is the threshold of best F1 there, and its result.json has both.
    """
    tolerance: Seconds = 1.0
    """Greatest distance, in seconds, of a scene end from the end of its shot, where prediction and truth have different
    shots."""
    within: Seconds = 3.0
    """Greatest distance, in seconds, of a true and a predicted boundary that count as one, for boundary F1."""
    frame_rate: float | None = None
    """Frames per second of videos and label files that do not say."""
    annotator: int = 0
    """Number of the BBC annotator whose labels are read."""
    doubtful: Literal["end", "ignore"] = "end"
    """MovieNet's label -1 in TRUTH: 'end' counts as a scene end, as in the paper's release; 'ignore' leaves it out of
    all but mIoU, coverage and overflow.

    An index has a setting of its own for it.
    """
    resamples: int = 1000
    """Draws of videos for the confidence intervals; 0 for none."""
    seed: int = 0
    """Seed of the draws."""
    representation: bool = False
    """Also measure how well features group by scene: kNN precision and NMI (appendix). For a feature store, or a
    pre-trained run without a head that scores videos, only this is measured."""
    device: str = "auto"
    """Where the encoder runs if features must be computed: auto, cpu or cuda."""

    def __post_init__(self) -> None:
        accept_text(self)
        check_seconds("tolerance", self.tolerance)
        check_seconds("boundary tolerance", self.within)
        check_frame_rate(self.frame_rate)
        if self.threshold is not None and not 0 <= self.threshold <= 1:
            raise ValueError(f"a threshold is a score from 0 to 1, not {self.threshold:g}")
        check_at_least(self, 0, "seed")
        check_resamples(self.resamples)


def check_seconds(name: str, value: float) -> None:
    """Raises ValueError for a tolerance that is negative or not finite."""
    if not value >= 0 or math.isinf(value):
        raise ValueError(f"the {name} must be 0 seconds or more, not {value:g}")


def check_resamples(value: int) -> None:
    """Raises ValueError for a number of draws that is negative, or too large for the memory."""
    if not 0 <= value <= 100_000:
        raise ValueError(f"resamples must be from 0 to 100,000, not {value:,}")


def check_frame_rate(value: float | None) -> None:
    """Raises ValueError for a number that is not a frame rate; None means that none is given."""
    if value is not None and not 0 < value <= 1000:
        raise ValueError(f"{value:g} is not a number of frames per second")
