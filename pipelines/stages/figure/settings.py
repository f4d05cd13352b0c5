"""Settings and results of the figures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipelines.options import accept_text, check_at_least, nested
from pipelines.pretext.settings import PseudoBoundary
from pipelines.settings import Matching, ScoredData

METHODS: tuple[PseudoBoundary, ...] = ("dtw", "mean", "dtw-tslearn")
"""Ways to find a pseudo-boundary that read the window; the others of Table 4a are random or know the truth."""


@dataclass(frozen=True)
class Legend:
    """How models or runs are called in a figure."""

    labels: tuple[str, ...] = ()
    """Names of the models or runs, in their order; repeat it. Default: names of their files."""

    def __post_init__(self) -> None:
        accept_text(self)


@dataclass(frozen=True)
class SimilaritySettings:
    """Which shots, and how they are drawn."""

    data: ScoredData = nested(ScoredData())
    legend: Legend = nested(Legend())
    video: str | None = None
    """Id of the video. Default: the only one of the index."""
    first: int = 0
    """Number of the first shot, counted from 0."""
    shots: int = 16
    """How many shots (appendix: 16)."""
    own_scale: bool = False
    """A colour scale for each matrix; else all share one, and colours can be compared."""

    def __post_init__(self) -> None:
        accept_text(self)
        check_at_least(self, 2, "shots")


@dataclass(frozen=True)
class PseudoBoundarySettings:
    """Which windows, and how they are divided."""

    data: ScoredData = nested(ScoredData())
    windows: int = 4
    """Number of windows to sample, of those with a true scene end in them, if none are named."""
    seed: int = 0
    """Seed of the sampling."""
    neighbours: int = 8
    """K, shots on each side of the centre (section 4.1)."""
    method: PseudoBoundary = "dtw"
    """dtw (release; section 3.3), mean (the equation of section 3.3) or dtw-tslearn (the paper's listing)."""

    def __post_init__(self) -> None:
        accept_text(self)
        if self.method not in METHODS:
            raise ValueError(f"pseudo-boundaries are found by {', '.join(METHODS)}, not {self.method!r}")
        check_at_least(self, 1, "neighbours", "windows")
        check_at_least(self, 0, "seed")


@dataclass(frozen=True)
class BoundarySettings:
    """What predictions are compared with."""

    matching: Matching = nested(Matching(), without=("tolerance", "doubtful"))
    legend: Legend = nested(Legend())

    def __post_init__(self) -> None:
        accept_text(self)


@dataclass(frozen=True)
class FigureResult:
    """What was written."""

    path: Path
    warnings: tuple[str, ...] = ()  # lines on what is missing from the figure or strange about it
