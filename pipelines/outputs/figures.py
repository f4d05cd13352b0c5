"""The figures of the paper's appendix, and training curves: numbers in, a matplotlib figure out.

What is read from files, and what is written, is the business of `stages.figure`; each figure here is drawn from
arrays alone. Colours are those of Okabe and Ito ("Color Universal Design", 2008), which the colour-blind tell apart,
and viridis; what matters differs in shape or in brightness, too, so that a print in grey says the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipelines.outputs.plots import plot_style, shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_BLACK, _BLUE, _VERMILLION, _ORANGE, _GREEN, _PURPLE, _SKY = (
    "#000000",
    "#0072b2",
    "#d55e00",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
)
_SIDES = (_BLUE, _ORANGE)  # neighbouring scenes: a dark and a light colour
_LINES = (_BLUE, _VERMILLION, _GREEN, _PURPLE, _BLACK, _ORANGE, _SKY)
_DASHES = ("-", "--", "-.", ":")
_COLUMNS = 4  # panels side by side
_WIDTH = 10.0  # inches
_FEW = 20  # points of a curve that are marked, lest one alone cannot be seen

# --- similarity of consecutive shots ----------------------------------------------------------------------------------


def similarity_figure(
    matrices: Mapping[str, NDArray[np.floating]],
    first: int,
    ends: Sequence[int] | None,
    pictures: Sequence[NDArray[np.uint8]] = (),
    title: str = "",
    own_scale: bool = False,
) -> Figure:
    """Cosine similarity of M consecutive shots under several models, side by side (appendix, "Visualization of
    similarities between consecutive shots"), below the shots' pictures.

    Args:
        matrices: (M, M) by the name of the model, at least one.
        first: number of the first shot in its film.
        ends: which of the M shots, counted from 0, end a scene: scenes are outlined; None: nobody knows.
        pictures: (H, W, 3) RGB, one a shot; none: matrices alone.
        title: above it all.
        own_scale: each matrix has a scale of colours of its own; else all share one, and colours can be compared.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    M = len(next(iter(matrices.values())))
    columns = min(len(matrices), _COLUMNS)
    rows = -(-len(matrices) // columns)
    side = min(4.5, (_WIDTH - 0.9) / columns - 0.4)  # inches, of a matrix
    under = 1.25 if own_scale else 0.75  # and of what stands above and below it
    # Higher than it need be, so that its width is what fits it to the matrices below.
    strip = 1.2 * columns * (side + 0.4) / M * _aspect(pictures) if pictures else 0.0
    with plot_style():
        size = (columns * (side + 0.4) + 0.9, rows * (side + under) + strip + 0.3)
        figure = Figure(figsize=size, layout="compressed")
        heights = [strip, *[side + under] * rows] if pictures else [1] * rows
        grid = figure.add_gridspec(len(heights), columns, height_ratios=heights)
        if title:
            figure.suptitle(shown(title, 100), fontsize=10)
        panels: list[Axes] = []
        if pictures:
            panels.append(figure.add_subplot(grid[0, :]))
            _draw_strip(panels[0], pictures, ends)
        lowest = min(float(matrix.min()) for matrix in matrices.values())
        edges = (first - 0.5, first + M - 0.5)
        image: Any = None
        for place, (name, matrix) in enumerate(matrices.items()):
            row, column = divmod(place, columns)
            panel = figure.add_subplot(grid[row + bool(pictures), column])
            bottom = float(matrix.min()) if own_scale else lowest
            image = panel.imshow(
                matrix,
                cmap="viridis",
                vmin=min(bottom, 1 - 1e-6),
                vmax=1,
                extent=(*edges, *edges[::-1]),
                interpolation="nearest",
            )
            for start, end in _scenes(M, ends):
                for colour, line in ((_BLACK, 2.6), ("white", 1.2)):  # seen on dark and on light
                    panel.add_patch(_box(first + start - 0.5, first + start - 0.5, end - start, colour, line))
            panel.set_title(shown(name), fontsize=9)
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


def _scenes(M: int, ends: Sequence[int] | None) -> list[tuple[int, int]]:
    """Half-open ranges of the scenes that M shots lie in; none where nobody knows."""
    if ends is None:
        return []
    starts = [0, *(end + 1 for end in ends if end < M - 1)]
    return list(zip(starts, [*starts[1:], M], strict=True))


def _box(x: float, y: float, side: float, colour: str, line: float) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x, y), side, side, fill=False, edgecolor=colour, linewidth=line)


def _aspect(pictures: Sequence[NDArray[np.uint8]]) -> float:
    """Height over width, of the first: those of a film are alike."""
    height, width = pictures[0].shape[:2]
    return float(height / width)


def _draw_strip(panel: Axes, pictures: Sequence[NDArray[np.uint8]], ends: Sequence[int] | None) -> None:
    """Pictures in a row, with a line between two scenes."""
    _draw_pictures(panel, pictures)
    for end in ends or ():
        if end < len(pictures) - 1:
            panel.plot([end + 1, end + 1], [-0.04, 1.04], transform=panel.get_xaxis_transform(), **_true_line())


def _draw_pictures(panel: Axes, pictures: Sequence[NDArray[np.uint8]]) -> None:
    """Picture i from i to i + 1, all 0 to their height over their width."""
    height, gap = _aspect(pictures), 0.03
    for i, picture in enumerate(pictures):
        panel.imshow(picture, extent=(i + gap, i + 1 - gap, gap, height - gap), interpolation="antialiased")
    panel.set_xlim(0, len(pictures))
    panel.set_ylim(0, height)
    panel.set_aspect("equal")
    panel.set_axis_off()


def _true_line() -> dict[str, Any]:
    return {"color": _BLACK, "linewidth": 1.8, "clip_on": False}


# --- pseudo-boundaries ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class DividedWindow:
    """A window of S shots and where it was divided.

    Attributes:
        title: which it is.
        found: the last shot, counted from 0, of the left sub-sequence.
        ends: the shots of the window that end a true scene; None where nobody knows.
        similarity: (2, S) cosine similarity of the window's first and of its last shot to each.
        pictures: (H, W, 3) RGB, one a shot; none: the similarity is drawn.
    """

    title: str
    found: int
    ends: Sequence[int] | None
    similarity: NDArray[np.floating]
    pictures: Sequence[NDArray[np.uint8]] = ()


def pseudo_boundary_figure(windows: Sequence[DividedWindow]) -> Figure:
    """Windows of shots with the two parts that were found and the true scenes (appendix, "Pseudo-boundaries").

    The shot at the pseudo-boundary, the last of the left part, has a frame.

    Args:
        windows: at least one; below each other.
    """
    from matplotlib.figure import Figure

    heights = []
    for window in windows:
        S = window.similarity.shape[1]
        heights.append((_WIDTH - 0.7) / S * _aspect(window.pictures) if window.pictures else 1.1)
    with plot_style():
        figure = Figure(figsize=(_WIDTH, sum(heights) + 0.8 * len(heights) + 0.1))
        figure.set_layout_engine("constrained", h_pad=0.09)
        grid = figure.add_gridspec(len(windows), 1, height_ratios=heights)
        for row, (window, height) in enumerate(zip(windows, heights, strict=True)):
            panel = figure.add_subplot(grid[row, 0])
            panel.set_title(shown(window.title, 130), loc="left", fontsize=9)
            if window.pictures:
                _draw_pictures(panel, window.pictures)
                tall = _aspect(window.pictures)
                _draw_frame(panel, window.found, tall, _VERMILLION)
            else:
                _draw_end_similarity(panel, window)
            _draw_lanes(panel, window, height)
        keys = [panel.get_legend_handles_labels() for panel in figure.axes]
        handles, labels = next((key for key in keys if key[0]), ([], []))
        if handles:
            figure.legend(handles, labels, loc="outside lower center", ncols=len(handles), fontsize=8)
    return figure


def _draw_frame(panel: Axes, shot: int, tall: float, colour: str) -> None:
    from matplotlib.patches import Rectangle

    panel.add_patch(
        Rectangle((shot + 0.02, 0.02), 0.96, tall - 0.04, fill=False, edgecolor=colour, linewidth=2.5, clip_on=False)
    )


def _draw_end_similarity(panel: Axes, window: DividedWindow) -> None:
    """What the division rests on: how like the first and how like the last shot each is."""
    S = window.similarity.shape[1]
    at = np.arange(S) + 0.5
    for values, name, colour, marker in zip(
        window.similarity, ("similarity to the first shot", "to the last shot"), _SIDES, "os", strict=True
    ):
        panel.plot(at, values, color=colour, marker=marker, markersize=4, linewidth=1.2, label=name)
    panel.axvline(window.found + 1, color=_VERMILLION, linewidth=2, label="pseudo-boundary")
    panel.set_xlim(0, S)
    panel.set_ylabel("cosine\nsimilarity")
    panel.tick_params(bottom=False, labelbottom=False)


def _draw_lanes(panel: Axes, window: DividedWindow, height: float) -> None:
    """Below the shots: the parts that were found, and the true scenes."""
    from matplotlib.patches import Rectangle

    S = window.similarity.shape[1]
    lanes: list[tuple[str, Sequence[int] | None]] = [("found", [window.found]), ("true", window.ends)]
    thick, step = 0.10 / height, 0.17 / height  # inches, as shares of the panel
    for number, (name, ends) in enumerate(lanes):
        low = -(number + 1) * step - 0.02 / height
        where = panel.get_xaxis_transform()
        if ends is None:
            panel.text(0, low + thick / 2, "no labels", transform=where, va="center", fontsize=8, color="0.4")
        for k, (start, end) in enumerate(_scenes(S, ends)):
            panel.add_patch(
                Rectangle(
                    (start + 0.04, low),
                    end - start - 0.08,
                    thick,
                    facecolor=_SIDES[k % 2],
                    transform=where,
                    clip_on=False,
                )
            )
        panel.text(-0.1, low + thick / 2, name, transform=where, ha="right", va="center", fontsize=8)


# --- predicted boundaries ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PredictedLane:
    """What one model says of a film of N shots of its own.

    Attributes:
        name: of the model.
        edges: (N + 1,) seconds: where the shots begin, and where the last one ends.
        scores: (N,) how likely a scene ends with each.
        ends: (L,) seconds, where its scenes end, but for the end of the film.
        threshold: a score that ends a scene; None where another rule decided.
        hits: (L,) whether a true scene end is near; None where nobody knows.
        note: a line on how well it does.
    """

    name: str
    edges: NDArray[np.float64]
    scores: NDArray[np.float64]
    ends: NDArray[np.float64]
    threshold: float | None = None
    hits: NDArray[np.bool_] | None = None
    note: str = ""


def boundary_figure(
    lanes: Sequence[PredictedLane], truth: NDArray[np.float64] | None = None, title: str = ""
) -> Figure:
    """Scores and scene ends of several models over one film (appendix, "Predicted scene boundaries").

    Each score stands over the whole of its shot, at whose end it would end a scene. True scene ends are lines through
    all lanes.

    Args:
        lanes: at least one.
        truth: (M,) seconds, where true scenes end, but for the end of the film; None: nobody knows.
        title: above it all.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    length = max(float(lane.edges[-1]) for lane in lanes)
    heights = ([0.22] if truth is not None else []) + [1.0] * len(lanes)
    with plot_style():
        figure = Figure(figsize=(_WIDTH, sum(heights) + 0.28 * len(lanes) + 0.9), layout="constrained")
        panels = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0].tolist()
        if title:
            figure.suptitle(shown(title, 100), fontsize=10)
        if truth is not None:
            _draw_true_scenes(panels[0], truth, length)
        for panel, lane in zip(panels[-len(lanes) :], lanes, strict=True):
            for time in () if truth is None else truth.tolist():
                panel.axvline(time, color="0.35", linestyle=(0, (4, 2)), linewidth=1, zorder=1)
            panel.stairs(lane.scores, lane.edges, fill=True, color=_SKY, alpha=0.6, zorder=0)
            panel.stairs(lane.scores, lane.edges, color=_BLUE, linewidth=0.7, zorder=2)
            if lane.threshold is not None:
                panel.axhline(lane.threshold, color=_BLUE, linestyle=":", linewidth=1)
            panel.vlines(lane.ends, 0, 1, color=_VERMILLION, linewidth=1.4, zorder=3)
            hits = np.ones(len(lane.ends), np.bool_) if lane.hits is None else lane.hits
            for some, filled in ((hits, True), (~hits, False)):
                if some.any():  # a line without points would take room in the layout
                    panel.plot(lane.ends[some], np.full(int(some.sum()), 1.07), **_end_marker(filled))
            panel.set_ylim(0, 1)
            panel.set_yticks([0, 0.5, 1])
            panel.set_ylabel("score", fontsize=8)
            panel.set_title(shown(lane.name), loc="left", fontsize=9, pad=13)
            panel.set_title(lane.note, loc="right", fontsize=8, pad=13)
        panels[-1].set_xlim(0, length)
        _set_time_axis(panels[-1], length)

        handles: list[Any] = [
            Patch(facecolor=_SKY, alpha=0.6, edgecolor=_BLUE, label="score of the shot"),
            Line2D([], [], color=_BLUE, linestyle=":", linewidth=1, label="threshold"),
        ]
        if truth is None:
            handles.append(Line2D([], [], label="predicted scene end", **_end_marker(True)))
        else:
            handles += [
                Line2D([], [], label="predicted, near a true one", **_end_marker(True)),
                Line2D([], [], label="predicted, near none", **_end_marker(False)),
                Line2D([], [], color="0.35", linestyle=(0, (4, 2)), linewidth=1, label="true scene end"),
            ]
        if all(lane.threshold is None for lane in lanes):
            del handles[1]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=8)
    return figure


def _end_marker(filled: bool) -> dict[str, Any]:
    return {
        "marker": "v",
        "markersize": 6,
        "color": _VERMILLION,
        "markerfacecolor": _VERMILLION if filled else "white",
        "linestyle": "",
        "clip_on": False,
    }


def _draw_true_scenes(panel: Axes, truth: NDArray[np.float64], length: float) -> None:
    edges = [0.0, *(time for time in truth.tolist() if 0 < time < length), length]
    spans = [(start, end - start) for start, end in pairwise(edges)]
    for side, colour in enumerate(("0.45", "0.8")):
        panel.broken_barh(spans[side::2], (0, 1), facecolors=colour)
    panel.set_ylim(0, 1)
    panel.set_yticks([])
    panel.set_ylabel("true\nscenes", rotation=0, ha="right", va="center", fontsize=8)
    panel.tick_params(bottom=False)
    panel.spines[:].set_visible(False)


def _set_time_axis(panel: Axes, length: float) -> None:
    """Ticks at round times, as m:ss or h:mm:ss."""
    steps = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 18000)
    step = next((step for step in steps if length / step <= 12), steps[-1])

    def label(seconds: float, place: float | None = None) -> str:
        minutes, rest = divmod(round(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02}:{rest:02}" if length >= 3600 else f"{minutes}:{rest:02}"

    panel.set_xticks(np.arange(0, length + 1e-9, step))
    panel.xaxis.set_major_formatter(label)
    panel.set_xlabel("time", fontsize=8)


# --- training curves --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Curve:
    """One quantity of one run.

    Attributes:
        steps: (N,) of training, rising.
        values: (N,); of several seeds their mean.
        low, high: (N,) the least and the greatest of the seeds.
    """

    steps: NDArray[np.float64]
    values: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def curve_figure(panels: Mapping[str, Mapping[str, Curve]], runs: Sequence[str]) -> Figure:
    """Training curves, a panel a quantity and a line a run; of several seeds, a band from the least to the greatest.

    Args:
        panels: of each quantity, at least one, its curves by the name of the run.
        runs: the names, in the order of the key to the lines.
    """
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import MaxNLocator

    columns = min(len(panels), _COLUMNS)
    rows = -(-len(panels) // columns)
    longest = max(float(curve.steps[-1]) for curves in panels.values() for curve in curves.values())
    looks: dict[str, dict[str, Any]] = {
        run: {"color": _LINES[i % len(_LINES)], "linestyle": _DASHES[i % len(_DASHES)], "linewidth": 1.4}
        for i, run in enumerate(runs)
    }
    with plot_style():
        figure = Figure(figsize=(max(2.5 * columns, 4.5), 1.9 * rows + 0.5), layout="constrained")
        for place, (quantity, curves) in enumerate(panels.items()):
            panel = figure.add_subplot(rows, columns, place + 1)
            few = max(len(curve.steps) for curve in curves.values()) <= _FEW
            for run, curve in curves.items():
                panel.plot(curve.steps, curve.values, marker="o" if few else "", markersize=3, **looks[run])
                if (curve.low < curve.high).any():
                    panel.fill_between(
                        curve.steps, curve.low, curve.high, color=looks[run]["color"], alpha=0.18, linewidth=0
                    )
            panel.set_title(shown(quantity.replace("_", " ")), fontsize=9)
            panel.set_xlim(0, longest * 1.02)
            panel.xaxis.set_major_locator(MaxNLocator(4, integer=True))
            panel.xaxis.set_major_formatter("{x:,.0f}")
            panel.tick_params(labelsize=8)
            if place >= len(panels) - columns:
                panel.set_xlabel("step", fontsize=8)
        handles = [Line2D([], [], **look) for look in looks.values()]
        figure.legend(
            handles, [shown(run) for run in runs], loc="outside upper center", ncols=min(len(runs), 3), handlelength=3
        )
    return figure
