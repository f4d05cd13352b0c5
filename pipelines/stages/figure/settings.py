"""Settings of the figures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pipelines.pretext.settings import PseudoBoundary
from pipelines.stages.score import ScoreSettings
from pipelines.stages.score.settings import check_frame_rate, check_seconds

METHODS: tuple[PseudoBoundary, ...] = ("dtw", "mean", "dtw-tslearn")
"""Ways to find a pseudo-boundary that read the window; the others of Table 4a are random or know the truth."""


@dataclass(frozen=True)
class SimilaritySettings:
    """Which shots, and how they are drawn."""

    index: Path = Path("data/index.h5")
    """Index of the film: its shots, labels and keyframes."""
    video: str | None = None
    """Id of the film. Unless given: the only one of the index."""
    first: int = 0
    """Number of the first shot, counted from 0."""
    shots: int = 16
    """How many shots (appendix: 16)."""
    features: Path = Path("data/features")
    """For runs: folder of feature stores where those of their encoder are looked for, or the store to use."""
    labels: tuple[str, ...] = ()
    """Names of the models, in their order; repeat it. Unless given: names of their files."""
    own_scale: bool = False
    """A colour scale for each matrix; else all share one, and colours can be compared."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", Path(self.index))
        object.__setattr__(self, "features", Path(self.features))
        if self.shots < 2:
            raise ValueError(f"a figure of similarities needs at least 2 shots, not {self.shots}")


@dataclass(frozen=True)
class PseudoBoundarySettings:
    """Which windows, and how they are divided."""

    index: Path = Path("data/index.h5")
    """Index of the films: their shots, labels and keyframes."""
    features: Path = Path("data/features")
    """Feature store, or a folder with one that has the films; those that the index names come first."""
    windows: int = 4
    """Number of windows to sample, of those with a true scene end in them, if none are named."""
    seed: int = 0
    """Seed of the sampling."""
    neighbours: int = 8
    """K, shots on each side of the centre (section 4.1)."""
    method: PseudoBoundary = "dtw"
    """dtw (release; section 3.3), mean (the equation of section 3.3) or dtw-tslearn (the paper's listing)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "index", Path(self.index))
        object.__setattr__(self, "features", Path(self.features))
        if self.method not in METHODS:
            raise ValueError(f"pseudo-boundaries are found by {', '.join(METHODS)}, not {self.method!r}")
        if self.neighbours < 1:
            raise ValueError(f"a window needs at least 1 neighbour on each side, not {self.neighbours}")
        if self.windows < 1:
            raise ValueError(f"a figure needs at least 1 window, not {self.windows}")
        if self.seed < 0:
            raise ValueError(f"a seed is 0 or more, not {self.seed}")


@dataclass(frozen=True)
class BoundarySettings:
    """What predictions are compared with."""

    truth: Path | None = None
    """True scenes, in any format that `bassl score` reads; or a folder with those of this film among others."""
    within: float = ScoreSettings.within
    """Greatest distance, in seconds, of a true and a predicted boundary that count as one."""
    frame_rate: float | None = None
    """Frames per second of true scenes whose file does not say."""
    annotator: int = ScoreSettings.annotator
    """Number of the BBC annotator whose labels are read."""
    labels: tuple[str, ...] = ()
    """Names of the models, in their order; repeat it. Unless given: names of their files."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "truth", None if self.truth is None else Path(self.truth))
        check_seconds("boundary tolerance", self.within)
        check_frame_rate(self.frame_rate)


@dataclass(frozen=True)
class CurveSettings:
    """How runs are drawn."""

    labels: tuple[str, ...] = ()
    """Names of the runs, in their order; repeat it. Unless given: names of their folders."""
