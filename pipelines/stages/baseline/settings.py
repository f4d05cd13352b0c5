"""Settings of the systems that the paper compares with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipelines.options import accept_text, check_at_least
from pipelines.stages.score.settings import check_frame_rate, check_resamples


@dataclass(frozen=True)
class BaselineSettings:
    """Which system, on which videos."""

    system: str = "graph-cut"
    """graph-cut, scsa, dp, story-graph, grouping, siamese, lgss, lgss-movienet (lgss in its release's sizes, for about
    two hundred videos) or fixed-length."""
    index: Path = Path("data/index.h5")
    """Index of the videos, with labels."""
    features: tuple[Path, ...] = ()
    """Feature store, or several of one encoder, with all videos of the index.
    Default: the index's own, or those that bassl encode made."""
    extra: tuple[Path, ...] = ()
    """Stores of more feature sets (sound, place, cast), for the systems that take several: grouping and lgss."""
    splits: tuple[str, ...] = ("train", "val")
    """Splits with the labels that settings are chosen by and networks learn from."""
    split: str = "test"
    """Split to score."""
    frame_rate: float | None = None
    """Frames per second of videos whose index has no times."""
    seeds: int = 5
    """Training runs of siamese and lgss, each with another seed."""
    resamples: int = 0
    """Draws of videos for confidence intervals; 0 for none."""

    def __post_init__(self) -> None:
        accept_text(self)
        check_at_least(self, 1, "seeds")
        check_resamples(self.resamples)
        check_frame_rate(self.frame_rate)
