"""Similarity matrices of consecutive shots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from pipelines.outputs.figures.shared import BLACK, COLUMNS, WIDTH, aspect, draw_images, scene_ranges
from pipelines.outputs.plots import plot_style, shorten


def similarity_figure(
    matrices: Mapping[str, NDArray[np.floating]],
    first: int,
    ends: Sequence[int] | None,
    images: Sequence[NDArray[np.uint8]] = (),
    title: str = "",
    own_scale: bool = False,
) -> Figure:
    """Cosine similarity (M, M) of M consecutive shots, from number ``first``, under several models, side by side
    (appendix, "Visualization of similarities between consecutive shots"), below the shots' images (H, W, 3). ``ends``:
    the shots that end a scene, from 0 to M - 1; None without labels. With ``own_scale`` the colors of matrices cannot
    be compared."""
    M = len(next(iter(matrices.values())))
    columns = min(len(matrices), COLUMNS)
    rows = -(-len(matrices) // columns)
    side = min(4.5, (WIDTH - 0.9) / columns - 0.4)  # inches, of a matrix
    margin = 1.25 if own_scale else 0.75  # above and below it
    # Higher than necessary, so that its width determines its size.
    strip = 1.2 * columns * (side + 0.4) / M * aspect(images) if images else 0.0
    with plot_style():
        size = (columns * (side + 0.4) + 0.9, rows * (side + margin) + strip + 0.3)
        figure = Figure(figsize=size, layout="compressed")
        heights = [strip, *[side + margin] * rows] if images else [1] * rows
        grid = figure.add_gridspec(len(heights), columns, height_ratios=heights)
        if title:
            figure.suptitle(shorten(title, 100), fontsize=10)
        panels: list[Axes] = []
        if images:
            panels.append(figure.add_subplot(grid[0, :]))
            _draw_strip(panels[0], images, ends)
        lowest = min(float(matrix.min()) for matrix in matrices.values())
        edges = (first - 0.5, first + M - 0.5)
        image: Any = None
        for number, (name, matrix) in enumerate(matrices.items()):
            row, column = divmod(number, columns)
            panel = figure.add_subplot(grid[row + bool(images), column])
            bottom = float(matrix.min()) if own_scale else lowest
            shades: dict[str, Any] = {"cmap": "viridis", "vmin": min(bottom, 1 - 1e-6), "vmax": 1}
            image = panel.imshow(matrix, **shades, extent=(*edges, *edges[::-1]), interpolation="nearest")
            for start, end in scene_ranges(M, ends):
                for colour, line in ((BLACK, 2.6), ("white", 1.2)):  # visible on dark and light
                    corner, side = (first + start - 0.5,) * 2, end - start
                    panel.add_patch(Rectangle(corner, side, side, fill=False, edgecolor=colour, linewidth=line))
            panel.set_title(shorten(name), fontsize=9)
            panel.spines[:].set_visible(False)
            for axis in (panel.xaxis, panel.yaxis):
                axis.set_major_locator(MaxNLocator(5, integer=True))
            if column == 0:
                panel.set_ylabel("shot")
            panel.set_xlabel("shot")
            if own_scale:
                figure.colorbar(image, ax=panel, location="bottom", fraction=0.05, label="cosine similarity")
            panels.append(panel)
        if not own_scale:
            figure.colorbar(image, ax=panels, label="cosine similarity", fraction=0.03, pad=0.02, panchor=False)
    return figure


def _draw_strip(panel: Axes, images: Sequence[NDArray[np.uint8]], ends: Sequence[int] | None) -> None:
    """Images in a row, with a line between scenes."""
    draw_images(panel, images)
    for end in ends or ():
        if end < len(images) - 1:
            line: dict[str, Any] = {"color": BLACK, "linewidth": 1.8, "clip_on": False}
            panel.plot([end + 1, end + 1], [-0.04, 1.04], transform=panel.get_xaxis_transform(), **line)
