"""Images at the input size of a network."""

from __future__ import annotations

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image


def resize_to_square(image: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """An image (H, W, 3) squeezed or stretched to (size, size, 3)."""
    # Below a factor of two bilinear interpolation reads nearly every pixel, in a quarter of the time of area averaging.
    method = cv2.INTER_AREA if max(image.shape[:2]) > 2 * size else cv2.INTER_LINEAR
    return np.asarray(cv2.resize(image, (size, size), interpolation=method), np.uint8)


def resize_and_crop(image: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """The center square of an image (H, W, 3), its shorter side resized to 8/7 of ``size``: (size, size, 3).

    The paper's release at test time (shorter side to 256, bicubic, center 224), as torchvision does it by Pillow.
    """
    height, width = image.shape[:2]
    shorter = round(size * 256 / 224)
    scaled = (shorter, shorter * height // width) if width <= height else (shorter * width // height, shorter)
    left, top = (round((side - size) / 2) for side in scaled)
    resized = Image.fromarray(image).resize(scaled, Image.Resampling.BICUBIC)
    return np.asarray(resized.crop((left, top, left + size, top + size)), np.uint8)
