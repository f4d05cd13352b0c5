"""Result of cutting a film."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Piece:
    """One scene as a separate film.

    Times are in seconds of the whole film. ``start`` and ``end`` are the scene's, with its handles, ``early`` is by how
    much the piece begins before it and ``late`` by how much it ends after it: both are 0 in an exact cut.
    """

    scene: int
    path: Path
    start: float
    end: float
    early: float
    late: float
