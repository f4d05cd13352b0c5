"""What making a page returns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal


@dataclass(frozen=True)
class ReportResult:
    """The page that was written.

    Attributes:
        path: of the page.
        scenes, shots: their numbers.
        pictures: where the images of the shots came from.
        warnings: lines on what is missing from the page or damaged in the film.
        notes: lines on how the truth was matched.
    """

    path: Path
    scenes: int
    shots: int
    pictures: Literal["film", "store", "none"]
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
