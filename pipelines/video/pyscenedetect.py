"""PySceneDetect's detectors, fed frame by frame.

We give all parameters, so that its defaults never change shots.
"""

from __future__ import annotations

from typing import Any

import numpy as np
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
