"""Colors and elements that figures share.

The colors, by Okabe and Ito ("Color Universal Design", 2008), are safe for color blindness. Shapes or brightness differ
as well, so that a print in gray is readable.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

BLACK, BLUE, VERMILLION, ORANGE = "#000000", "#0072b2", "#d55e00", "#e69f00"
GREEN, PURPLE, SKY = "#009e73", "#cc79a7", "#56b4e9"
SIDES = (BLUE, ORANGE)
"""Of neighboring scenes: a dark and a light color."""
COLUMNS = 4
"""Panels side by side."""
WIDTH = 10.0
"""Of a figure, in inches."""


def scene_ranges(M: int, ends: Sequence[int] | None) -> list[tuple[int, int]]:
    """Half-open ranges of the scenes of M shots; none without labels."""
    if ends is None:
        return []
    starts = [0, *(end + 1 for end in ends if end < M - 1)]
    return list(zip(starts, [*starts[1:], M], strict=True))


def aspect(images: Sequence[NDArray[np.uint8]]) -> float:
    """Height over width of the first image; all images of a video have one size."""
    height, width = images[0].shape[:2]
    return float(height / width)


def draw_images(panel: Axes, images: Sequence[NDArray[np.uint8]]) -> None:
    """Draw image i from i to i + 1 on the x axis, with its aspect ratio."""
    height, gap = aspect(images), 0.03
    for i, image in enumerate(images):
        panel.imshow(image, extent=(i + gap, i + 1 - gap, gap, height - gap), interpolation="antialiased")
    panel.set_xlim(0, len(images))
    panel.set_ylim(0, height)
    panel.set_aspect("equal")
    panel.set_axis_off()
