"""Precision-recall curve and reliability diagram of scores, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from sklearn.metrics import precision_recall_curve

from pipelines.errors import BasslError
from pipelines.evaluation.bootstrap import measure
from pipelines.evaluation.metrics import VideoScores, pooled_shots, reliability
from pipelines.outputs.plots import plot_style, save_plot, shorten

_COLORS = ("#1f5fa8", "#d1622b")  # safe for color blindness, and different in gray
_LEVELS = (0.2, 0.4, 0.6, 0.8)  # lines of equal F1


def save_curves(path: Path, scored: Mapping[str, Sequence[VideoScores]], threshold: float | None) -> tuple[str, ...]:
    """Draw the scores of one or two models, by their names. Returns warnings, as `save_plot`.

    Left: precision over recall, with the operating point, lines of equal F1 and the chance level. Right: the share of
    scene ends among shots by their score (reliability diagram), above the number of these shots. ``path``: after
    `check_plot`. Raises BasslError if it cannot be written, or without scores or scene ends to draw.
    """
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

        for color, (name, videos) in zip(_COLORS, scored.items(), strict=False):
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
