"""Settings and result of video reading: plain data, without imports of FFmpeg, OpenCV or NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pipelines.scenes import Transition

if TYPE_CHECKING:  # start-up time: settings import nothing heavy, so that --help is instant
    import numpy as np
    from numpy.typing import NDArray


class Boundary(NamedTuple):
    """Where one shot ends and the next begins.

    ``kind`` is ``cut``, ``dissolve``, ``fade`` or ``wipe``; empty if the detector does not know. The frames
    ``[start, end)`` belong to both shots or to neither; a cut has none, and both are the first frame of the new shot.
    """

    kind: str
    start: int
    end: int

    @property
    def frame(self) -> int:
        """The first frame of the new shot: the middle of the transition."""
        return (self.start + self.end) // 2


@dataclass(frozen=True)
class ReaderSettings:
    """How a video is divided into shots, and which keyframes are kept."""

    detector: str = "transitions"
    """Shot detector: one of :data:`pipelines.settings.DETECTOR_NAMES`."""
    detector_threshold: float | None = None
    """Threshold of the detector, in its own unit; None is its default."""
    min_shot: float | None = None
    """Minimum length of a shot that a detector finds, in seconds; None is 0.6, and no minimum with transnetv2."""
    shots: Path | None = None
    """A file of shots or cuts to use instead of a detector (see :func:`pipelines.video.shot_lists.read_cuts`)."""
    keyframes: int = 3
    """Keyframes per shot, N_k (the paper's appendix A: 3), at 1/(N_k+1), 2/(N_k+1), ... of it."""
    lines: int = 240
    """Height of a keyframe in pixels; a smaller video is not enlarged."""
    start: float | None = None
    """Start of the part to read, in seconds; None is the beginning. Times and frame numbers count from the beginning
    of the video all the same."""
    end: float | None = None
    """End of the part to read, in seconds; None is the end."""
    subtitles: Path | bool = False
    """A file of subtitles to read; True: the file beside the video, or else the video's own track."""
    silence: bool = False
    """Whether the sound is decoded too, to find silence."""
    threads: int | None = None
    """Maximum number of decoding threads, never more than four; None is one per core. It does not change the result."""


@dataclass(frozen=True)
class KeyframedShot:
    """A shot as the reader yields it.

    Frames and seconds are half-open ranges. ``keyframes`` are N_k upright images (H, W, 3) uint8 RGB from outside
    transitions, and ``keyframe_indices`` their frame numbers; a shot of fewer than N_k frames repeats some.
    ``transition`` is how the shot ends; None if the detector does not know, and at the end of the video.
    """

    index: int
    start_frame: int
    end_frame: int
    start: float
    end: float
    keyframes: tuple[NDArray[np.uint8], ...]
    keyframe_indices: tuple[int, ...]
    transition: Transition | None = None
