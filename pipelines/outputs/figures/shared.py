"""Colours and elements that figures share.

The colours are those of Okabe and Ito ("Color Universal Design", 2008), which people with colour-blindness can tell
apart. What matters also differs in shape or in brightness, so that a print in grey says the same.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

BLACK, BLUE, VERMILLION, ORANGE = "#000000", "#0072b2", "#d55e00", "#e69f00"
GREEN, PURPLE, SKY = "#009e73", "#cc79a7", "#56b4e9"
SIDES = (BLUE, ORANGE)
"""Of neighbouring scenes: a dark and a light colour."""
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


def aspect(pictures: Sequence[NDArray[np.uint8]]) -> float:
    """Height over width of the first image; all images of a video have one size."""
    height, width = pictures[0].shape[:2]
    return float(height / width)


def draw_images(panel: Axes, pictures: Sequence[NDArray[np.uint8]]) -> None:
    """Draw image i from i to i + 1 on the x axis, with its aspect ratio."""
    height, gap = aspect(pictures), 0.03
    for i, picture in enumerate(pictures):
        panel.imshow(picture, extent=(i + gap, i + 1 - gap, gap, height - gap), interpolation="antialiased")
    panel.set_xlim(0, len(pictures))
    panel.set_ylim(0, height)
    panel.set_aspect("equal")
    panel.set_axis_off()
