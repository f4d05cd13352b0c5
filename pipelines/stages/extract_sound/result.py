"""What extracting features of sound returns. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class SoundResult:
    """The result of one film: ``done``, ``kept`` (the store had it) or ``failed`` with one line in ``error``."""

    video_id: str
    film: Path
    status: Literal["done", "kept", "failed"]
    shots: int = 0
    error: str = ""
