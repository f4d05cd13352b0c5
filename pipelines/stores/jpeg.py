"""Key-frames as JPEG: one way in and out, so that a picture from a film is what a store of its key-frames gives."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray


def to_jpeg(picture: NDArray[np.uint8], quality: int) -> bytes:
    """A picture (H, W, 3) uint8 RGB as JPEG.

    Raises:
        ValueError: for a size that no JPEG has.
    """
    worked, jpeg = cv2.imencode(".jpg", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, quality])
    if not worked:
        raise ValueError(f"{picture.shape[1]} x {picture.shape[0]} pixels cannot be a JPEG")
    return jpeg.tobytes()
