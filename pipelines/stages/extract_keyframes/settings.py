"""Settings and results of extracting keyframes. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pipelines.options import Seconds, accept_text
from pipelines.video.shots import check_detector, part_of


@dataclass(frozen=True)
class ExtractSettings:
    """How films are cut into shots and what is kept of each shot."""

    output: Path = Path("data/keyframes")
    """Folder of the keyframe stores, one for each film."""
    detector: str = "transitions"
    """Shot detector: transitions (cuts, dissolves, fades and wipes); adaptive (cuts), content, histogram, hash and
    threshold, all PySceneDetect's; transnetv2, a network that reads 60 to 120 frames per second on two cores."""
    detector_threshold: float | None = None
    """Threshold of the shot detector, in its own unit; a lower one gives more shots. Unless given: its own."""
    min_shot: Seconds | None = None
    """Shortest shot, in seconds or as a timecode. Unless given: 0.6; with transnetv2 any."""
    keyframes: int = 3
    """Keyframes for each shot, N_k (appendix A)."""
    lines: int = 240
    """Height of a keyframe in pixels (MovieNet's 240P); smaller films are not enlarged."""
    quality: int = 90
    """JPEG quality of the keyframes, 1 to 100."""
    start: Seconds | None = None
    """Start of the part of each film to read, in seconds or as a timecode. Unless given: the beginning."""
    end: Seconds | None = None
    """End of the part. Unless given: the end."""
    duration: Seconds | None = None
    """Length of the part, instead of its end."""
    workers: int | None = None
    """Films at a time. Unless given: one for each core."""
    overwrite: bool = False
    """Replace existing stores."""
    dask: str | None = None
    """Address of a Dask scheduler whose workers process the films; they must see the same files."""

    def __post_init__(self) -> None:
        accept_text(self)
        _ = self.part  # raises ValueError for an impossible one
        check_detector(self.detector, self.detector_threshold, self.min_shot)
        if not 1 <= self.keyframes <= 100:
            raise ValueError(f"a shot can have 1 to 100 keyframes, not {self.keyframes}")
        if not 16 <= self.lines <= 4320:
            raise ValueError(f"a keyframe can have 16 to 4320 lines, not {self.lines}")
        if not 1 <= self.quality <= 100:
            raise ValueError(f"JPEG quality goes from 1 to 100, not {self.quality}")
        if self.workers is not None and self.workers < 1:
            raise ValueError(f"there must be at least one worker, not {self.workers}")

    @property
    def part(self) -> tuple[float | None, float | None]:
        """Where the part that is read begins and ends, in seconds; None is the film's beginning or end."""
        return part_of(self.start, self.end, self.duration)


@dataclass(frozen=True)
class FilmResult:
    """The result of one film.

    ``status`` is ``done``, ``kept`` (its store existed) or ``failed`` with one line in ``error``; ``duration`` is in
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
