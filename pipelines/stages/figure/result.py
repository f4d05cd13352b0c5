"""What drawing a figure returns."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class FigureResult:
    """What was written.

    Attributes:
        path: the file.
        warnings: lines on what is missing from the figure or strange about it.
    """

    path: Path
    warnings: tuple[str, ...] = ()
