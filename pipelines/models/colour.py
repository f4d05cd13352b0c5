"""The colour descriptor of a shot: the hue histogram of its middle keyframe, beside the content features."""

from __future__ import annotations

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

HUES = 180  # bins: OpenCV's hue of 8-bit images counts in steps of two degrees


def hue_histogram(image: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Share of the pixels of an image (H, W, 3), RGB, at each hue, (HUES,), of sum 1. Every pixel counts once, whatever
    its saturation; gray has the hue 0, as in OpenCV."""
    counts = cv2.calcHist([cv2.cvtColor(image, cv2.COLOR_RGB2HSV)], [0], None, [HUES], [0, HUES])
    height, width = image.shape[:2]
    return np.asarray(counts.ravel() / (height * width), dtype=np.float32)


def shot_colour(keyframes: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
    """The hue histogram (HUES,) of the middle keyframe of a shot; if there are two, of the later one."""
    return hue_histogram(keyframes[len(keyframes) // 2])
