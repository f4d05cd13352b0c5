"""Images at the input size of a network."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray


def resize_to_square(image: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """An image (H, W, 3) squeezed or stretched to (size, size, 3)."""
    # Below a factor of two bilinear interpolation sees nearly every pixel, at a quarter of the time of a true mean.
    how = cv2.INTER_AREA if max(image.shape[:2]) > 2 * size else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(image, (size, size), interpolation=how), np.uint8)
