"""Hard cuts, as PySceneDetect's AdaptiveDetector finds them."""

from __future__ import annotations

from collections import deque

import cv2
import numpy as np

from pipelines.video.frames import RGBImage


class AdaptiveCuts:
    """PySceneDetect's AdaptiveDetector with its defaults, reimplemented with frame scores by one call of OpenCV.

    The score of a frame is the mean absolute difference to the frame before it over hue, saturation and luma. There is
    a cut where it is at least 15 and ``threshold`` (3) times the mean of its four neighbours, and the shot that ends
    has at least ``shortest`` frames. It takes a fifth of the time of the original, whose import alone takes as long as
    reading 10 s of film (``tests/video/test_detectors.py`` compares the two).
    """

    side = 96
    _least_score, _reach = 15.0, 2

    def __init__(self, shortest: int, threshold: float | None = None) -> None:
        self._shortest = shortest
        self._threshold = 3.0 if threshold is None else threshold
        self.lag = max(self._reach, self._shortest) + 1
        self._last_image: RGBImage | None = None
        self._scores: deque[float] = deque(maxlen=2 * self._reach + 1)
        self._last_cut = 0

    def prepare(self, images: RGBImage) -> RGBImage:
        tall = images.reshape(-1, *images.shape[2:])
        return np.asarray(cv2.cvtColor(tall, cv2.COLOR_RGB2HSV), np.uint8).reshape(images.shape)

    def push(self, index: int, prepared: RGBImage) -> list[int]:
        last, self._last_image = self._last_image, prepared
        return self.judge(index, 0.0 if last is None else cv2.norm(prepared, last, cv2.NORM_L1) / prepared.size)

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
