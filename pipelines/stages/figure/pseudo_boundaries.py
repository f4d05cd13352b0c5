"""Pseudo-boundaries of windows against true scene ends."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray

from pipelines.errors import BasslError
from pipelines.outputs.plots import SIDES, VERMILLION, WIDTH, aspect, draw_images, plot_style, scene_ranges, shorten
from pipelines.pretext.pseudo_boundary import discover, end_similarity
from pipelines.stages.figure import PseudoBoundarySettings
from pipelines.stages.figure.videos import features_in, images_of, scene_ends, store_of, video_number
from pipelines.stores.index import Index, read_index, window_rows


def pseudo_boundaries(windows: Sequence[str], settings: PseudoBoundarySettings) -> Figure:
    """Return the figure of :func:`pipelines.stages.figure.draw_pseudo_boundaries`. Shots have their keyframes, or
    without these their similarity to the first and the last shot; the shot at the pseudo-boundary is framed."""
    index = read_index(settings.data.index)
    centers = [_center(index, window) for window in windows] or _sample_centers(index, settings)
    divided = [_divide_window(index, center, settings) for center in centers]
    S = 2 * settings.neighbors + 1
    heights = [(WIDTH - 0.7) / S * aspect(images) if images else 1.1 for *_, images in divided]
    with plot_style():
        figure = Figure(figsize=(WIDTH, sum(heights) + 0.8 * len(heights) + 0.1))
        figure.set_layout_engine("constrained", h_pad=0.09)
        grid = figure.add_gridspec(len(heights), 1, height_ratios=heights)
        for row, (title, boundary, ends, similarity, images) in enumerate(divided):
            panel = figure.add_subplot(grid[row, 0])
            panel.set_title(shorten(title, 130), loc="left", fontsize=9)
            if images:
                draw_images(panel, images)
                corner, tall = (boundary + 0.02, 0.02), aspect(images) - 0.04
                frame = Rectangle(corner, 0.96, tall, fill=False, edgecolor=VERMILLION, linewidth=2.5, clip_on=False)
                panel.add_patch(frame)
            else:
                middles = np.arange(S) + 0.5
                panel.plot(middles, similarity[0], "o-", color=SIDES[0], label="similarity to the first shot")
                panel.plot(middles, similarity[1], "s-", color=SIDES[1], label="to the last shot")
                panel.axvline(boundary + 1, color=VERMILLION, linewidth=2, label="pseudo-boundary")
                panel.set(xlim=(0, S), ylabel="cosine\nsimilarity", xticks=[])
            _draw_bar(panel, heights[row], 1, "found", scene_ranges(S, [boundary]))
            _draw_bar(panel, heights[row], 2, "true" if ends is not None else "no labels", scene_ranges(S, ends))
        with_lines = next((panel for panel in figure.axes if panel.lines), None)
        if with_lines is not None:
            figure.legend(*with_lines.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
    return figure


def _draw_bar(panel: Axes, height: float, number: int, name: str, ranges: Sequence[tuple[int, int]]) -> None:
    """Draw ranges of shots in two colors below a panel whose height is in inches, in the lane of this number."""
    low, thick, place = (-0.17 * number - 0.02) / height, 0.10 / height, panel.get_xaxis_transform()
    for k, (start, end) in enumerate(ranges):
        corner, width = (start + 0.04, low), end - start - 0.08
        panel.add_patch(Rectangle(corner, width, thick, facecolor=SIDES[k % 2], transform=place, clip_on=False))
    panel.text(-0.1, low + thick / 2, name, transform=place, ha="right", va="center", fontsize=8)


def _center(index: Index, text: str) -> int:
    """Return the row of ``VIDEO:SHOT``."""
    name, _, number = text.rpartition(":")
    if not name or not (number.isascii() and number.isdigit()) or len(number) > 9:
        raise BasslError(f"{text!r} is not a window; give VIDEO:SHOT, for example {index.video_ids[0]}:8")
    rows = index.rows([video_number(index, name)])
    N, shot = len(rows), int(number)
    if shot >= N:
        raise BasslError(f"{index.path}: {name} has {N} shots, 0 to {N - 1}, but no shot {shot}")
    return int(rows[shot])


def _sample_centers(index: Index, settings: PseudoBoundarySettings) -> list[int]:
    """Return rows of center shots of different windows with a true scene end before their last shot, in order."""
    rows = index.rows_of()
    rows = rows[np.diff(index.first_row)[index.video_of(rows)] > 2 * settings.neighbors]
    centers = rows[:0]
    if len(rows):
        labeled = index.rows_of(labeled=True)
        ends = labeled[index.targets(labeled) == 1]
        # Windows at a video's edge are moved inside, which makes some of them equal.
        windows = window_rows(index.first_row, rows, settings.neighbors, "shift")
        windows, firsts = np.unique(windows, axis=0, return_index=True)
        centers = rows[firsts][np.isin(windows[:, :-1], ends).any(axis=1)]
    if not len(centers):
        raise BasslError(
            f"{index.path}: has no window of {2 * settings.neighbors + 1} shots with a labeled scene end; give "
            "windows as VIDEO:SHOT"
        )
    sample = np.random.default_rng(settings.seed).choice(centers, min(settings.windows, len(centers)), replace=False)
    return [int(row) for row in np.sort(sample)]


Division = tuple[str, int, list[int] | None, NDArray[np.floating], list[NDArray[np.uint8]]]
"""Of a window of S shots: a title, the last shot of the left part, the shots that end a true scene or None, cosine
similarity (2, S) of each shot to the first and the last, and images (H, W, 3) of the shots or none."""


def _divide_window(index: Index, center: int, settings: PseudoBoundarySettings) -> Division:
    video = int(index.video_of(np.array([center]))[0])
    name, S, N = index.video_ids[video], 2 * settings.neighbors + 1, len(index.rows([video]))
    if N < S:
        raise BasslError(f"{index.path}: {name} has {N} shots, fewer than a window of {S}; lower `neighbors`")
    (rows,) = window_rows(index.first_row, np.array([center]), settings.neighbors, "shift")
    shots = rows - index.first_row[video]
    dense = torch.from_numpy(features_in(store_of(index, video, settings.data.features), index, video)[shots])[None]
    slow = dense[:, [0, -1]]
    boundary, ends = int(discover(settings.method, slow, dense)[0]), scene_ends(index, rows)
    title = f"{name}, shots {shots[0]} to {shots[-1]}: pseudo-boundary after shot {shots[boundary]}"
    if ends is not None:
        inner = ", ".join(str(shots[end]) for end in ends if end < S - 1)
        title += f", scene ends after {inner}" if inner else ", no scene end inside"
    return title, boundary, ends, end_similarity(slow, dense)[0].numpy(), images_of(index, rows)
