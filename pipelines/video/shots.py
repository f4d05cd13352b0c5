"""Settings and result of film reading: plain data, without imports of FFmpeg, OpenCV or NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # start-up time: settings import nothing heavy, so that --help is instant
    import numpy as np
    from numpy.typing import NDArray


DETECTOR_NAMES = ("adaptive", "content", "histogram", "hash", "threshold", "transnetv2")
"""The keys of :data:`pipelines.video.detectors.DETECTORS`, without its imports."""


@dataclass(frozen=True)
class ReaderSettings:
    """How a film is cut into shots and what is kept of each."""

    detector: str = "adaptive"
    """Shot detector: adaptive, content, histogram, hash, threshold or transnetv2."""
    shots: Path | None = None
    """A file of shots or cuts to use instead of a detector (see :func:`pipelines.video.detectors.read_cuts`)."""
    keyframes: int = 3
    """Keyframes a shot, N_k (the paper's appendix A: 3), at 1/(N_k+1), 2/(N_k+1), ... of it."""
    lines: int = 240
    """Height of a keyframe in pixels; a smaller film is not enlarged."""
    threads: int | None = None
    """Threads that decode, at most, and never more than four; None is one a core. They change nothing of the result."""


@dataclass(frozen=True)
class FilmedShot:
    """A shot as the reader yields it.

    Frames and seconds are half-open ranges. ``keyframes`` are N_k upright images (H, W, 3) uint8 RGB, and
    ``keyframe_indices`` their frame numbers; a shot of fewer than N_k frames repeats some.
    """

    index: int
    start_frame: int
    end_frame: int
    start: float
    end: float
    keyframes: tuple[NDArray[np.uint8], ...]
    keyframe_indices: tuple[int, ...]
