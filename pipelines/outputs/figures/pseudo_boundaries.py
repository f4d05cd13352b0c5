"""Windows of shots with their pseudo-boundaries and true scene ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from pipelines.outputs.figures.shared import SIDES, VERMILLION, WIDTH, aspect, draw_images, scene_ranges
from pipelines.outputs.plots import plot_style, shorten


@dataclass(frozen=True, eq=False)
class DividedWindow:
    """A window of S shots and its division."""

    title: str
    boundary: int  # the last shot, counted from 0, of the left sub-sequence
    ends: Sequence[int] | None  # the shots of the window that end a true scene; None without labels
    similarity: NDArray[np.floating]  # (2, S) cosine similarity of each shot to the first and the last
    images: Sequence[NDArray[np.uint8]] = ()  # (H, W, 3) RGB, one per shot; without, the similarity is drawn


def pseudo_boundary_figure(windows: Sequence[DividedWindow]) -> Figure:
    """Windows of shots, at least one, with their two parts and the true scenes (appendix, "Pseudo-boundaries"). The
    shot at the pseudo-boundary, the last of the left part, is framed."""
    heights = []
    for window in windows:
        S = window.similarity.shape[1]
        heights.append((WIDTH - 0.7) / S * aspect(window.images) if window.images else 1.1)
    with plot_style():
        figure = Figure(figsize=(WIDTH, sum(heights) + 0.8 * len(heights) + 0.1))
        figure.set_layout_engine("constrained", h_pad=0.09)
        grid = figure.add_gridspec(len(windows), 1, height_ratios=heights)
        for row, (window, height) in enumerate(zip(windows, heights, strict=True)):
            panel = figure.add_subplot(grid[row, 0])
            panel.set_title(shorten(window.title, 130), loc="left", fontsize=9)
            if window.images:
                draw_images(panel, window.images)
                corner, tall = (window.boundary + 0.02, 0.02), aspect(window.images) - 0.04
                frame = Rectangle(corner, 0.96, tall, fill=False, edgecolor=VERMILLION, linewidth=2.5, clip_on=False)
                panel.add_patch(frame)
            else:
                _draw_end_similarity(panel, window)
            _draw_lanes(panel, window, height)
        keys = [panel.get_legend_handles_labels() for panel in figure.axes]
        handles, labels = next((key for key in keys if key[0]), ([], []))
        if handles:
            figure.legend(handles, labels, loc="outside lower center", ncols=len(handles), fontsize=8)
    return figure


def _draw_end_similarity(panel: Axes, window: DividedWindow) -> None:
    """Draw the similarity of each shot to the first and the last shot, which determines the boundary."""
    S = window.similarity.shape[1]
    at = np.arange(S) + 0.5
    for values, name, colour, marker in zip(
        window.similarity, ("similarity to the first shot", "to the last shot"), SIDES, "os", strict=True
    ):
        panel.plot(at, values, color=colour, marker=marker, markersize=4, linewidth=1.2, label=name)
    panel.axvline(window.boundary + 1, color=VERMILLION, linewidth=2, label="pseudo-boundary")
    panel.set_xlim(0, S)
    panel.set_ylabel("cosine\nsimilarity")
    panel.tick_params(bottom=False, labelbottom=False)


def _draw_lanes(panel: Axes, window: DividedWindow, height: float) -> None:
    """Below the shots: the two parts, and the true scenes."""
    S = window.similarity.shape[1]
    lanes: list[tuple[str, Sequence[int] | None]] = [("found", [window.boundary]), ("true", window.ends)]
    thick, step = 0.10 / height, 0.17 / height  # inches, as shares of the panel
    for number, (name, ends) in enumerate(lanes):
        low = -(number + 1) * step - 0.02 / height
        where = panel.get_xaxis_transform()
        if ends is None:
            panel.text(0, low + thick / 2, "no labels", transform=where, va="center", fontsize=8, color="0.4")
        for k, (start, end) in enumerate(scene_ranges(S, ends)):
            corner, wide = (start + 0.04, low), end - start - 0.08
            bar = Rectangle(corner, wide, thick, facecolor=SIDES[k % 2], transform=where, clip_on=False)
            panel.add_patch(bar)
        panel.text(-0.1, low + thick / 2, name, transform=where, ha="right", va="center", fontsize=8)
