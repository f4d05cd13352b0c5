"""Hard cuts, as PySceneDetect's AdaptiveDetector finds them."""

from __future__ import annotations

from collections import deque

import cv2
import numpy as np
from numpy.typing import NDArray

from pipelines.video.frames import RGBImage


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
