"""Plots: what all share (file formats, style, colors, atomic writing), and the curves of scores. They are drawn without
pyplot, so no display is needed and no global state changes."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.errors import BasslError, BasslWarning, check_installed, printable
from pipelines.files import check_output, write_atomically

if TYPE_CHECKING:  # start-up time: matplotlib takes half a second, and a path is checked without it
    from matplotlib.figure import Figure

    from pipelines.evaluation.metrics import VideoScores

FORMATS = (".png", ".svg", ".pdf")
# Okabe and Ito, "Color Universal Design" (2008), safe for color blindness. Shapes or brightness differ too.
BLUE, VERMILLION, GREEN, PURPLE, BLACK = "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#000000"
ORANGE, SKY = "#e69f00", "#56b4e9"
LONGEST = 48  # characters of a name
_STYLE = {
    "font.size": 9,
    "axes.titlesize": 9,
    "text.parse_math": False,  # a name with dollar signs is not a formula
    "svg.fonttype": "none",  # text stays text, to be searched and edited
    "svg.hashsalt": "bassl",  # equal plots are equal files
    "pdf.fonttype": 42,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}


def check_plot(path: Path, read: Iterable[Path | None]) -> None:
    """Check, before any work, that a plot can be written, as `check_output`. Raises BasslError, also for an extension
    that is not in `FORMATS`, or if matplotlib is not installed."""
    check_installed("matplotlib", "a plot")
    if path.suffix.lower() not in FORMATS:
        raise BasslError(f"{path}: unknown extension {path.suffix}; a plot is a .png, .svg or .pdf file")
    check_output(path, read)


def plot_style() -> AbstractContextManager[None]:
    """Set the style in which plots are drawn and saved, regardless of the user's matplotlibrc."""
    from matplotlib import style  # start-up time: matplotlib

    return style.context(["default", _STYLE])


def save_plot(path: Path, figure: Figure) -> Path:
    """Write a figure, with one legend for all its panels, in the format of the path's extension, after `check_plot`;
    equal figures are equal files. Warns of characters that the font lacks. Raises BasslError for a path that cannot be
    written; returns it."""
    kind, buffer = path.suffix.lower(), BytesIO()
    dateless: dict[str, Any] = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
    entries = {line.get_label(): line for panel in figure.axes for line in panel.get_legend_handles_labels()[0]}
    with plot_style(), warnings.catch_warnings(record=True, action="always") as problems:
        figure.legend(handles=entries.values(), loc="outside lower center", ncols=4)
        figure.savefig(buffer, format=kind[1:], dpi=150, metadata=dateless.get(kind))
    write_atomically(path, buffer.getvalue())
    if kind != ".svg" and any("Glyph" in str(problem.message) for problem in problems):
        warnings.warn(BasslWarning(f"{path}: its font lacks some characters; an .svg needs none"), stacklevel=2)
    return path


def save_curves(path: Path, scored: Mapping[str, Sequence[VideoScores]], threshold: float | None) -> None:
    """Draw the scores of one or two models, by their names. Left: precision over recall, with the operating point and
    the chance level. Right: the share of scene ends among shots by their score (reliability diagram), above the number
    of these shots. Raises BasslError if the path cannot be written, or without scores or scene ends to draw."""
    from matplotlib.figure import Figure  # start-up time, as the next ones
    from sklearn.metrics import precision_recall_curve

    from pipelines.evaluation.bootstrap import evaluate
    from pipelines.evaluation.metrics import pooled_shots, reliability

    pooled = {name: pooled_shots(videos) for name, videos in scored.items() if videos}
    for name in scored:  # NaN: a list of scenes without scores
        if name not in pooled or not any(pooled[name][0]) or not all(0 <= score <= 1 for score in pooled[name][1]):
            raise BasslError(f"{name}: cannot be plotted; curves need scores between 0 and 1, and true scene ends")
    with plot_style():
        figure = Figure(figsize=(10, 4.6), layout="constrained")
        curve, true, shots = figure.subplot_mosaic("ct;cs", height_ratios=(4, 1)).values()
        true.plot([0, 1], [0, 1], color="0.8", linewidth=0.8)
        for color, (name, videos) in zip((BLUE, VERMILLION), scored.items(), strict=False):
            precision, recall, _ = precision_recall_curve(*pooled[name])
            precision[-1] = precision[-2]  # before the first shot, where scikit-learn has 1
            values, label = evaluate(videos, threshold or 0.5), printable(name, LONGEST)
            point, ap = (values["recall"], values["precision"]), f"AP {100 * values['ap']:.1f}"
            curve.step(recall[::-1], precision[::-1], where="pre", color=color, label=f"{label}  {ap}")
            curve.plot(*point, "o", color=color, markeredgecolor="white")
            if threshold is not None:
                curve.annotate(f"  {threshold:g}", point, color=color)
            bins = reliability(videos)
            full, error = bins.shots > 0, f"calibration error {100 * bins.error:.1f}"
            true.plot(bins.score[full], bins.share[full], "o-", color=color, markersize=4, label=f"{label}  {error}")
            shots.stairs(bins.shots, bins.edges, color=color)
        chance = float(pooled[name][0].mean())
        curve.axhline(chance, color="0.5", linestyle=":", label=f"chance  AP {100 * chance:.1f}")
        curve.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="recall of scene ends", ylabel="precision")
        true.set(xlim=(0, 1), ylim=(0, 1.02), ylabel="share that are scene ends")
        shots.set(xlim=(0, 1), xlabel="score of the shot", ylabel="shots", yscale="symlog")
        shots.yaxis.set_major_formatter("{x:,.0f}")
    save_plot(path, figure)
