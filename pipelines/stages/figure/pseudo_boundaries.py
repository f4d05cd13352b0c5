"""Pseudo-boundaries of windows against true scene ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
from pipelines.stages.figure.videos import images_of, scene_ends, store_of, video_number
from pipelines.stores.features import features_of
from pipelines.stores.index import Index, read_index, window_rows


def pseudo_boundaries(windows: Sequence[str], settings: PseudoBoundarySettings) -> Figure:
    """The figure of :func:`pipelines.stages.figure.draw_pseudo_boundaries`."""
    index = read_index(settings.data.index)
    centers = [_center(index, window) for window in windows] or _sample_windows(index, settings)
    return pseudo_boundary_figure([_divide_window(index, center, settings) for center in centers])


def _center(index: Index, text: str) -> int:
    """The row of ``VIDEO:SHOT``."""
    name, _, number = text.rpartition(":")
    if not name or not (number.isascii() and number.isdigit()) or len(number) > 9:
        raise BasslError(f"{text!r} is not a window; give VIDEO:SHOT, for example {index.video_ids[0]}:8")
    rows = index.rows([video_number(index, name)])
    N, shot = len(rows), int(number)
    if shot >= N:
        raise BasslError(f"{index.path}: {name} has {N} shots, 0 to {N - 1}, but no shot {shot}")
    return int(rows[shot])


def _sample_windows(index: Index, settings: PseudoBoundarySettings) -> list[int]:
    """Rows of center shots of different windows with a true scene end before their last shot, in order."""
    lengths = np.diff(index.first_row)
    rows = index.rows_of()
    rows = rows[lengths[index.video_of(rows)] > 2 * settings.neighbours]
    no_window = BasslError(
        f"{index.path}: has no window of {2 * settings.neighbours + 1} shots with a labeled scene end; give windows "
        "as VIDEO:SHOT"
    )
    if not len(rows):  # every video is shorter than a window
        raise no_window
    labelled = index.rows_of(labelled=True)
    ends = labelled[index.targets(labelled) == 1]
    members = window_rows(index.first_row, rows, settings.neighbours, "shift")
    # Windows at a video's edge are moved inside, which makes some of them equal.
    members, firsts = np.unique(members, axis=0, return_index=True)
    centers = rows[firsts][np.isin(members[:, :-1], ends).any(axis=1)]
    if not len(centers):
        raise no_window
    sampled = np.random.default_rng(settings.seed).choice(centers, min(settings.windows, len(centers)), replace=False)
    return [int(row) for row in np.sort(sampled)]


def _divide_window(index: Index, center: int, settings: PseudoBoundarySettings) -> DividedWindow:
    video = int(index.video_of(np.array([center]))[0])
    name = index.video_ids[video]
    S, N = 2 * settings.neighbours + 1, len(index.rows([video]))
    if N < S:
        raise BasslError(f"{index.path}: {name} has {N} shots, fewer than a window of {S}; lower `neighbours`")
    (rows,) = window_rows(index.first_row, np.array([center]), settings.neighbours, "shift")
    shots = rows - index.first_row[video]
    store = store_of(index, video, settings.data.features)
    dense = torch.from_numpy(features_of(index, [store], [video]).features[rows].astype(np.float32))[None]
    slow = dense[:, [0, -1]]
    boundary = int(discover(settings.method, slow, dense)[0])
    ends = scene_ends(index, rows)
    title = f"{name}, shots {shots[0]} to {shots[-1]}: pseudo-boundary after shot {shots[boundary]}"
    inner = [end for end in ends or () if end < S - 1]
    if ends is not None:
        title += (
            f", scene ends after {', '.join(str(shots[end]) for end in inner)}" if inner else ", no scene end inside"
        )
    return DividedWindow(title, boundary, ends, end_similarity(slow, dense)[0].numpy(), images_of(index, rows))


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
