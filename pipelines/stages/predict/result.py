"""Result for one video of several."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class VideoScenes:
    """Result for one video of several.

    ``status`` is ``done``, ``kept`` (its result existed) or ``failed`` with one line in ``error``. The duration is in
    seconds.
    """

    video_id: str
    video: Path
    output: Path
    status: Literal["done", "kept", "failed"]
    scenes: int = 0
    shots: int = 0
    duration: float = 0.0
    warnings: tuple[str, ...] = ()
    error: str = ""
