"""Plots: what all share (file formats, style, colors, atomic writing), and the curves of scores.

Figures are drawn without pyplot, so no display is needed and no global state changes.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import BasslError, check_installed
from pipelines.files import write_atomically

if TYPE_CHECKING:  # start-up time: matplotlib takes half a second, and a path is checked without it
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from pipelines.evaluation.metrics import VideoScores

FORMATS = (".png", ".svg", ".pdf")
_DOTS = 150  # per inch
_MAX_DOTS = 2**16 - 1  # on a side: matplotlib's limit
# With a date, equal plots would be different files.
_METADATA: dict[str, dict[str, Any]] = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}

# Colors by Okabe and Ito ("Color Universal Design", 2008), safe for color blindness. Shapes or brightness differ too,
# so that a print in gray is readable.
BLACK, BLUE, VERMILLION, ORANGE = "#000000", "#0072b2", "#d55e00", "#e69f00"
GREEN, PURPLE, SKY = "#009e73", "#cc79a7", "#56b4e9"
SIDES = (BLUE, ORANGE)  # of neighboring scenes: a dark and a light color
COLUMNS = 4  # panels side by side
WIDTH = 10.0  # of a figure, in inches
_CURVE_COLORS = ("#1f5fa8", "#d1622b")  # safe for color blindness, and different in gray
_LEVELS = (0.2, 0.4, 0.6, 0.8)  # lines of equal F1


def check_plot(path: Path) -> None:
    """Check the name of a plot before anything is computed. Raises BasslError: its extension is not .png, .svg or .pdf,
    or matplotlib is not installed."""
    check_installed("matplotlib", "a plot")
    if path.suffix.lower() not in FORMATS:
        raise BasslError(f"{path}: unknown extension {path.suffix}; a plot is a .png, .svg or .pdf file")


@contextmanager
def plot_style() -> Iterator[None]:
    """Set the style in which plots are drawn and saved, regardless of the user's matplotlibrc."""
    from matplotlib import style  # start-up time: matplotlib

    settings = {
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],  # the first ships with matplotlib; an SVG names all
        "font.size": 9,
        # A name with dollar signs is not a formula.
        "text.parse_math": False,
        # Text stays text, to be searched and edited. The salt makes equal plots equal files.
        "svg.fonttype": "none",
        "svg.hashsalt": "bassl",
        "pdf.fonttype": 42,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.frameon": False,
    }
    with style.context(["default", settings]):
        yield


def shorten(name: str, limit: int = 48) -> str:
    """Return a name that can be drawn: on one line, unprintable characters replaced, shortened in the middle."""
    text = "".join(c if c.isprintable() else " " if c.isspace() else "\ufffd" for c in name)
    return text if len(text) <= limit else f"{text[: limit // 2 - 1]}…{text[-(limit // 2) :]}"


def save_plot(path: Path, figure: Figure) -> tuple[str, ...]:
    """Write a figure in the format of the path's extension; equal figures are equal files, byte for byte. Returns a
    warning if characters could not be drawn (in an SVG the viewer's font draws them). ``path``: after `check_plot`.
    Raises BasslError for a figure that is too large, or a path that cannot be written."""
    if max(figure.get_size_inches()) * _DOTS > _MAX_DOTS:
        raise BasslError(f"{path}: too much to draw in one figure; draw less in each")
    kind = path.suffix.lower().removeprefix(".")
    buffer = BytesIO()
    with plot_style(), warnings.catch_warnings(record=True) as caught:
        figure.savefig(buffer, format=kind, dpi=_DOTS, metadata=_METADATA.get(kind))
    missing = set()
    for warning in caught:
        if glyph := re.match(r"Glyph (\d+) ", str(warning.message)):
            missing.add(chr(int(glyph[1])))
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    write_atomically(path, buffer.getvalue())
    if not missing or kind == "svg":
        return ()
    return (f"{path}: its font has no {' '.join(sorted(missing))}; an .svg leaves the font to the viewer",)


def scene_ranges(M: int, ends: Sequence[int] | None) -> list[tuple[int, int]]:
    """Return half-open ranges of the scenes of M shots; none without labels."""
    if ends is None:
        return []
    starts = [0, *(end + 1 for end in ends if end < M - 1)]
    return list(zip(starts, [*starts[1:], M], strict=True))


def aspect(images: Sequence[NDArray[np.uint8]]) -> float:
    """Return the height over width of the first image; all images of a video have one size."""
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


def draw_bar(panel: Axes, height: float, number: int, name: str, ranges: Sequence[tuple[int, int]]) -> None:
    """Draw ranges of shots in two colors below a panel whose height is in inches, in the lane of this number."""
    from matplotlib.patches import Rectangle  # start-up time

    low, thick, place = (-0.17 * number - 0.02) / height, 0.10 / height, panel.get_xaxis_transform()
    for k, (start, end) in enumerate(ranges):
        corner, width = (start + 0.04, low), end - start - 0.08
        panel.add_patch(Rectangle(corner, width, thick, facecolor=SIDES[k % 2], transform=place, clip_on=False))
    panel.text(-0.1, low + thick / 2, name, transform=place, ha="right", va="center", fontsize=8)


def save_curves(path: Path, scored: Mapping[str, Sequence[VideoScores]], threshold: float | None) -> tuple[str, ...]:
    """Draw the scores of one or two models, by their names. Returns warnings, as `save_plot`.

    Left: precision over recall, with the operating point, lines of equal F1 and the chance level. Right: the share of
    scene ends among shots by their score (reliability diagram), above the number of these shots. ``path``: after
    `check_plot`. Raises BasslError if it cannot be written, or without scores or scene ends to draw.
    """
    import numpy as np  # start-up time, as the next ones
    from matplotlib.figure import Figure
    from sklearn.metrics import precision_recall_curve

    from pipelines.evaluation.bootstrap import measure
    from pipelines.evaluation.metrics import pooled_shots, reliability

    for name, videos in scored.items():
        if not videos:
            raise BasslError(f"{name}: only its features were scored, which have no curves to plot")
        labels, scores = pooled_shots(videos)
        if np.isnan(scores).any() or not labels.any():
            missing = "scores" if np.isnan(scores).any() else "scene ends"
            raise BasslError(f"{name}: cannot be plotted: it has no {missing}")
        if (scores < 0).any() or (scores > 1).any():
            raise BasslError(f"{name}: cannot be plotted: its scores are not between 0 and 1")

    with plot_style():
        figure = Figure(figsize=(10, 4.6), layout="constrained")
        panels = figure.subplot_mosaic([["curve", "true"], ["curve", "shots"]], height_ratios=(4, 1))
        curve, true, shots = panels["curve"], panels["true"], panels["shots"]

        for level in _LEVELS:
            recall = np.linspace(level / (2 - level), 1, 200)  # precision 1 at the left end
            curve.plot(recall, level * recall / (2 * recall - level), color="0.85", linewidth=0.8, zorder=0)
            beside: dict[str, Any] = {"textcoords": "offset points", "va": "center", "annotation_clip": False}
            curve.annotate(f"F1 {level:g}", (1, level / (2 - level)), (2, 0), color="0.6", fontsize=7, **beside)
        true.plot([0, 1], [0, 1], color="0.8", linewidth=0.8, zorder=0)

        for color, (name, videos) in zip(_CURVE_COLORS, scored.items(), strict=False):
            precision, recall, _ = precision_recall_curve(*pooled_shots(videos))
            precision[-1] = precision[-2]  # before the first shot, where scikit-learn has 1
            values = measure(videos, 0.5 if threshold is None else threshold, resamples=0)
            ap = values["ap"].pooled
            label = f"{shorten(name)}  AP {100 * (ap or 0):.1f}"
            curve.step(recall[::-1], precision[::-1], where="pre", color=color, linewidth=1.4, label=label)
            point = (values["recall"].pooled or 0.0, values["precision"].pooled or 0.0)
            curve.plot(*point, "o", color=color, markersize=6, markeredgecolor="white")
            if threshold is not None:
                text = f"{threshold:g}"
                curve.annotate(text, point, (6, 6), textcoords="offset points", color=color, fontsize=8)

            bins = reliability(videos)
            full = bins.shots > 0
            label = f"{shorten(name)}  calibration error {100 * bins.error:.1f}"
            true.plot(bins.score[full], bins.share[full], "o-", color=color, linewidth=1.4, markersize=4, label=label)
            shots.stairs(bins.shots, bins.edges, color=color, linewidth=1.2)
        chance = float(pooled_shots(next(iter(scored.values())))[0].mean())
        curve.axhline(chance, color="0.5", linewidth=0.8, linestyle=":", label=f"chance  AP {100 * chance:.1f}")

        for panel in (curve, true):
            panel.set_xlim(0, 1)
            panel.set_ylim(0, 1.02)
            panel.legend(loc="upper right" if panel is curve else "upper left")
        shots.set_xlim(0, 1)
        shots.set_yscale("symlog", linthresh=1)
        shots.set_ylim(bottom=0)
        shots.yaxis.set_major_formatter("{x:,.0f}")
        curve.set_xlabel("recall of scene ends")
        curve.set_ylabel("precision")
        true.set_ylabel("share that are scene ends")
        true.tick_params(labelbottom=False)
        shots.set_xlabel("score of the shot")
        shots.set_ylabel("shots")
    return save_plot(path, figure)
