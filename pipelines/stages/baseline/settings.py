"""Settings of the systems that the paper compares with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipelines.options import Settings, check_at_least, nested
from pipelines.settings import Matching, Resampling, TrainingData


@dataclass(frozen=True)
class BaselineSettings(Settings):
    """Which system, on which videos."""

    system: str = "graph-cut"
    """graph-cut, scsa, dp, story-graph, grouping, siamese, lgss, lgss-movienet (lgss in its release's sizes, for about
    two hundred videos) or fixed-length."""
    data: TrainingData = nested(TrainingData(splits=("train", "val")))
    """Index with labels. Settings are chosen, and networks trained, on its splits."""
    extra: tuple[Path, ...] = ()
    """Stores of more feature sets (sound, place, cast), for the systems that take several: grouping and lgss."""
    matching: Matching = nested(Matching(), without=("truth", "tolerance", "within", "annotator", "doubtful"))
    split: str = "test"
    """Split to score."""
    resampling: Resampling = nested(Resampling(0), without=("seed",))
    seeds: int = 5
    """Training runs of siamese and lgss, each with another seed."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, 1, "seeds")
