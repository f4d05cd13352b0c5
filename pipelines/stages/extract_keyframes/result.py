"""What extracting keyframes returns. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class FilmResult:
    """The result of one film.

    ``status`` is ``done``, ``kept`` (its store was there) or ``failed`` with one line in ``error``; ``duration`` is in
    seconds.
    """

    video_id: str
    film: Path
    store: Path
    status: Literal["done", "kept", "failed"]
    shots: int = 0
    frames: int = 0
    duration: float = 0.0
    warnings: tuple[str, ...] = ()
    error: str = ""
