"""Settings of a page that shows the scenes of a film, and what making it returns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pipelines.options import Seconds, accept_text
from pipelines.stages.score import ScoreSettings
from pipelines.stages.score.settings import check_frame_rate, check_seconds


@dataclass(frozen=True)
class ReportSettings:
    """What a page shows, and where it is written."""

    output: Path | None = None
    """The page; for several files a folder. Unless given: beside the ``scenes.json``, with the ending ``.html``."""
    film: Path | None = None
    """The film. Unless given: at the path in the ``scenes.json``, from its folder or absolute."""
    truth: Path | None = None
    """True scenes, in any format that `bassl score` reads; or a folder with those of this film among others."""
    tolerance: Seconds = ScoreSettings.tolerance
    """Greatest distance, in seconds, of a true scene end from the end of its shot."""
    frame_rate: float | None = None
    """Frames per second of true scenes whose file does not say."""
    keyframes: Path = Path("data/keyframes")
    """Folder of keyframe stores, from which images are taken if it has the film; else they are read from the film."""

    def __post_init__(self) -> None:
        accept_text(self)
        check_seconds("tolerance", self.tolerance)
        check_frame_rate(self.frame_rate)


@dataclass(frozen=True)
class ReportResult:
    """The page that was written, or of several files one that was not."""

    path: Path  # of the page
    scenes: int = 0
    shots: int = 0
    pictures: Literal["film", "store", "none"] = "none"  # where the images of the shots came from
    warnings: tuple[str, ...] = ()  # lines on what is missing from the page or damaged in the film
    notes: tuple[str, ...] = ()  # lines on how the truth was matched
    error: str = ""  # why there is no page

    @property
    def status(self) -> Literal["done", "failed"]:
        return "failed" if self.error else "done"
