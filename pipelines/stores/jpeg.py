"""JPEG keyframes: encode and decode, the same way for `predict` and for stores, so that both see equal pixels."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray


def to_jpeg(image: NDArray[np.uint8], quality: int) -> bytes:
    """Encode an image (H, W, 3) uint8 RGB as JPEG. Raises ValueError for a size that JPEG does not allow."""
    encoded, jpeg = cv2.imencode(".jpg", cv2.cvtColor(image, cv2.COLOR_RGB2BGR), [cv2.IMWRITE_JPEG_QUALITY, quality])
    if not encoded:
        raise ValueError(f"{image.shape[1]} x {image.shape[0]} pixels cannot be a JPEG")
    return jpeg.tobytes()


def from_jpeg(jpeg: bytes) -> NDArray[np.uint8]:
    """Decode a JPEG to (H, W, 3) uint8 RGB. Raises ValueError when it cannot be decoded."""
    try:
        image = cv2.imdecode(np.frombuffer(jpeg, np.uint8), cv2.IMREAD_COLOR_RGB)
    except cv2.error:  # such as an impossible size
        image = None
    if image is None:
        raise ValueError("not a JPEG that can be decoded")
    return np.asarray(image, np.uint8)
