"""Settings of scoring."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.options import Settings, nested
from pipelines.settings import Compute, Grouping, Matching, Resampling, ScoredData

ALL_SPLITS = "all"
"""Instead of a split: every labelled video."""


@dataclass(frozen=True)
class ScoreSettings(Settings):
    """What is scored, and how.

    A threshold of 0.5 is softmax's, as in the paper's release, for an imported or pre-trained model. A run of `bassl
    finetune` is calibrated on its validation split: 0.5 is the threshold of best F1 there, and its result.json has
    both. The setting for doubtful labels is for the truth; an index has its own.
    """

    data: ScoredData = nested(ScoredData())
    """Index of the videos that a model is scored on. Features that are missing are computed into the folder."""
    split: str = "test"
    """Videos of this split; ``all`` takes every labelled video."""
    sound: Path = Path("data/sound")
    """Folder of sound (bassl extract-sound), for a model that was fine-tuned with sound."""
    grouping: Grouping = nested(
        Grouping(),
        without=("min_scene", "max_scene", "drop_short", "scenes"),
        defaults={"threshold": "0.5 for a model; for a list of scenes, the scenes that it lists"},
    )
    matching: Matching = nested(Matching(), without=("truth",))
    resampling: Resampling = nested(Resampling(1000))
    representation: bool = False
    """Also measure how well features group by scene: kNN precision and NMI (appendix). For a feature store, or a
    pre-trained run without a head that scores videos, only this is measured."""
    compute: Compute = nested(Compute(), without=("workers", "precision"))

    @property
    def measuring(self) -> dict[str, Any]:
        """The arguments of `pipelines.evaluation.bootstrap.measure`."""
        threshold = 0.5 if self.grouping.threshold is None else self.grouping.threshold
        resampling = {"resamples": self.resampling.resamples, "seed": self.resampling.seed}
        return {"threshold": threshold, "within": self.matching.within, **resampling}
