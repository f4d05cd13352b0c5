"""Settings of a page that shows the scenes of a film."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipelines.stages.score import ScoreSettings
from pipelines.stages.score.settings import check_frame_rate, check_seconds


@dataclass(frozen=True)
class ReportSettings:
    """What a page shows, and where it goes."""

    output: Path | None = None
    """The page. Unless given: beside the ``scenes.json``, with the ending ``.html``."""
    film: Path | None = None
    """The film. Unless given: the path in the ``scenes.json``, from here or from its own folder."""
    truth: Path | None = None
    """True scenes, in any format that `bassl score` reads; or a folder with those of this film among others."""
    tolerance: float = ScoreSettings.tolerance
    """Greatest distance, in seconds, of a true scene end from the end of its shot."""
    frame_rate: float | None = None
    """Frames per second of true scenes whose file does not say."""
    keyframes: Path = Path("data/keyframes")
    """Folder of keyframe stores, from which images are taken if it has the film; else they are read from the film."""

    def __post_init__(self) -> None:
        for name in ("output", "film", "truth", "keyframes"):
            value = getattr(self, name)
            object.__setattr__(self, name, None if value is None else Path(value))
        check_seconds("tolerance", self.tolerance)
        check_frame_rate(self.frame_rate)
