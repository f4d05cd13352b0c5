"""Settings and results of extracting features of sound. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pipelines.options import accept_text


@dataclass(frozen=True)
class SoundSettings:
    """Which films' sound, and where the features go."""

    index: Path = Path("data/index.h5")
    """Index of the films, with their shots."""
    output: Path = Path("data/features/sound.h5")
    """The feature store. Features of other films in it are kept."""
    workers: int | None = None
    """Films at a time. Unless given: one for each core."""
    overwrite: bool = False
    """Extract again the features of films that the store has."""

    def __post_init__(self) -> None:
        accept_text(self)
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"there must be at least one worker, not {self.workers}")


@dataclass(frozen=True)
class SoundResult:
    """The result of one film: ``done``, ``kept`` (the store had it) or ``failed`` with one line in ``error``."""

    video_id: str
    film: Path
    status: Literal["done", "kept", "failed"]
    shots: int = 0
    error: str = ""
