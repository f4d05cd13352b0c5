"""PySceneDetect's detectors, fed frame by frame, and its adaptive one written faster.

We give all parameters, so that its defaults never change shots.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from scenedetect import FrameTimecode
from scenedetect.detector import FlashFilter, SceneDetector
from scenedetect.detectors import ContentDetector, HashDetector, HistogramDetector, ThresholdDetector

from pipelines.video.frames import RGBImage

# Detector -> its class, and all parameters except `min_scene_len`, which depends on the frame rate.
PARAMETERS: dict[str, tuple[type[SceneDetector], dict[str, Any]]] = {
    "content": (
        ContentDetector,
        {
            "threshold": 27.0,
            "weights": ContentDetector.Components(delta_hue=1.0, delta_sat=1.0, delta_lum=1.0, delta_edges=0.0),
            "luma_only": False,
            "kernel_size": None,
            "filter_mode": FlashFilter.Mode.MERGE,
        },
    ),
    "histogram": (HistogramDetector, {"threshold": 0.2, "bins": 128}),
    "hash": (HashDetector, {"threshold": 0.35, "size": 8, "lowpass": 2}),
    "threshold": (
        ThresholdDetector,
        {
            "threshold": 12,
            "fade_bias": 0.0,
            "add_final_scene": False,
            "method": ThresholdDetector.Method.FLOOR,
            "block_size": None,
            "min_out_length": 0,
        },
    ),
}


class PySceneDetectCuts:
    """A detector of PySceneDetect.

    Its thresholds are on averages over the image, so that images may be smaller than the 256 pixels of its own command
    line: on the videos measured, the cuts are the same (``tests/video/test_detectors.py``).

    Args:
        detector: of PySceneDetect.
        frame_rate: frames per second.
        shortest: minimum number of frames of a shot.
    """

    side = 96

    def __init__(self, detector: SceneDetector, frame_rate: float, shortest: int) -> None:
        self._detector = detector
        self._clock = FrameTimecode(0, fps=frame_rate)  # timecodes made from another one are faster
        self.lag = max(detector.event_buffer_length, shortest) + 1

    def prepare(self, images: RGBImage) -> RGBImage:
        return np.ascontiguousarray(images[..., ::-1])

    def push(self, index: int, prepared: RGBImage) -> list[int]:
        cuts = self._detector.process_frame(FrameTimecode(index, fps=self._clock), prepared)
        return [cut.frame_num for cut in cuts]

    def finish(self, frames: int) -> list[int]:
        last = FrameTimecode(max(0, frames - 1), fps=self._clock)
        return [cut.frame_num for cut in self._detector.post_process(last)]


def pyscenedetect(name: str, frame_rate: float, shortest: int, threshold: float | None) -> PySceneDetectCuts:
    """The detector of a name in :data:`PARAMETERS`; None is the threshold given there."""
    kind, parameters = PARAMETERS[name]
    own = {} if threshold is None else {"threshold": threshold}
    return PySceneDetectCuts(kind(**parameters | own, min_scene_len=shortest), frame_rate, shortest)


class AdaptiveCuts:
    """PySceneDetect's AdaptiveDetector, reimplemented with frame scores by one call of OpenCV.

    The score of a frame is the mean absolute difference to the frame before it over hue, saturation and luma. A shot
    begins at a frame whose score is at least 15 and ``threshold`` (default: 3) times the mean of its four neighbors,
    if the shot before has at least ``shortest`` frames. It takes a fifth of the time of the original, whose import
    alone takes as long as reading 10 s of video (``tests/video/test_detectors.py`` compares the two).
    """

    side = 96
    _least_score, _reach = 15.0, 2

    def __init__(self, shortest: int, threshold: float | None = None) -> None:
        self._shortest = shortest
        self._threshold = 3.0 if threshold is None else threshold
        self.lag = max(self._reach, self._shortest) + 1
        self._last_image: NDArray[np.uint8] | None = None
        self._scores: deque[float] = deque(maxlen=2 * self._reach + 1)
        self._last_cut = 0

    def prepare(self, images: RGBImage) -> list[tuple[NDArray[np.uint8], float | None]]:
        """Each image in HSV, as one row, and its score; None for the first, as the frame before it is not here."""
        # All pixels in one row: OpenCV converts the pixels at the end of each row one by one.
        rows = np.asarray(cv2.cvtColor(images.reshape(1, -1, 3), cv2.COLOR_RGB2HSV), np.uint8).reshape(len(images), -1)
        scores: list[float] = []
        if len(rows) > 1:
            sums = cv2.reduce(cv2.absdiff(rows[1:], rows[:-1]), 1, cv2.REDUCE_SUM, dtype=cv2.CV_32S)
            scores = (sums.ravel() / rows.shape[1]).tolist()
        return list(zip(rows, [None, *scores], strict=True))

    def push(self, index: int, prepared: tuple[NDArray[np.uint8], float | None]) -> list[int]:
        (image, score), last = prepared, self._last_image
        self._last_image = image
        if score is None:
            score = 0.0 if last is None else cv2.norm(image, last, cv2.NORM_L1) / image.size
        return self.judge(index, score)

    def judge(self, index: int, score: float) -> list[int]:
        """:meth:`push` with the score of frame ``index``."""
        self._scores.append(score)
        if len(self._scores) < 2 * self._reach + 1:
            return []
        frame, middle = index - self._reach, self._scores[self._reach]
        if middle < self._least_score or frame - self._last_cut < self._shortest:
            return []
        average = sum(score for at, score in enumerate(self._scores) if at != self._reach) / (2.0 * self._reach)
        if average >= 0.00001 and middle / average < self._threshold:  # without motion around it, any score is a cut
            return []
        self._last_cut = frame
        return [frame]

    def finish(self, frames: int) -> list[int]:
        return []
