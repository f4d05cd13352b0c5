"""Scene boundaries that several models predict for one video."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator
from numpy.typing import NDArray

from pipelines.datasets.matching import assign_scene_ends
from pipelines.datasets.scenes_json import read_scene_list
from pipelines.errors import count
from pipelines.evaluation.metrics import boundary_match
from pipelines.outputs.plots import BLUE, SKY, VERMILLION, WIDTH, plot_style, shorten
from pipelines.scenes import SceneData
from pipelines.settings import Matching
from pipelines.stages.figure import BoundarySettings
from pipelines.stages.score import score

_TICKS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200)  # seconds between ticks
_TRUE = {"color": "0.35", "linestyle": (0, (4, 2)), "linewidth": 1}


def boundaries(
    files: Sequence[Path], names: Sequence[str], settings: BoundarySettings
) -> tuple[Figure, tuple[str, ...]]:
    """Return the figure of :func:`pipelines.stages.figure.draw_boundaries`, with the ``names`` of the models, and
    warnings of files that seem to be of different videos."""
    predictions = [read_scene_list(file) for file in files]
    # One truth per file, because some may cover only a part of the video.
    truths = [_true_ends(file, settings.matching) for file in files]
    middles = [ends.mean(axis=1) for ends in truths if ends is not None]
    length = max(prediction.shots[-1].end for prediction in predictions)
    with plot_style():
        heights = [0.22] * bool(middles) + [1.0] * len(files)
        figure = Figure(figsize=(WIDTH, sum(heights) + 0.28 * len(files) + 0.9), layout="constrained")
        panels = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0].tolist()
        figure.suptitle(shorten(Path(predictions[0].video.path).name, 100), fontsize=10)
        lanes = panels[-len(files) :]
        if middles:
            times = np.unique(np.concatenate(middles))
            _draw_true_scenes(panels[0], times, length)
            for lane in lanes:
                for time in times:
                    lane.axvline(time, zorder=1, label="true scene end", **_TRUE)
        for lane, name, prediction, ends in zip(lanes, names, predictions, truths, strict=True):
            _draw_lane(lane, name, prediction, ends, settings.matching.within)
        lanes[-1].set_xlim(0, length)
        lanes[-1].xaxis.set_major_locator(MultipleLocator(next((s for s in _TICKS if length / s <= 12), 18000)))
        lanes[-1].xaxis.set_major_formatter(lambda s, _: str(timedelta(seconds=round(s))).removeprefix("0:"))
        lanes[-1].set_xlabel("time", fontsize=8)
        keys = {
            label: handle for lane in lanes for handle, label in zip(*lane.get_legend_handles_labels(), strict=True)
        }
        figure.legend(keys.values(), keys.keys(), loc="outside lower center", ncols=len(keys), fontsize=8)
    seconds = [
        (file, prediction.shots[-1].end)
        for file, prediction in zip(files, predictions, strict=True)
        if prediction.settings.get("end") is None
    ]
    differences = tuple(
        f"{file} lasts {end:.1f} s and {seconds[0][0]} {seconds[0][1]:.1f} s; are they of the same video?"
        for file, end in seconds[1:]
        if abs(end - seconds[0][1]) > max(5.0, 0.02 * seconds[0][1])
    )
    return figure, differences


def _true_ends(file: Path, matching: Matching) -> NDArray[np.float64] | None:
    """Return (M, 2) the earliest and latest second of each true scene end, as `bassl score` reads them, or None."""
    if matching.truth is None:
        return None
    (video,) = score(file, matching.truth, matching=replace(matching, truth=None), resamples=0).videos
    if video.true_ends is not None:
        return video.true_ends
    assert video.seconds is not None  # a scenes.json has them
    ends = video.seconds[:-1, 1][video.labels[:-1] == 1]
    return np.column_stack([ends, ends])


def _draw_lane(panel: Axes, name: str, prediction: SceneData, truth: NDArray[np.float64] | None, within: float) -> None:
    """Draw a prediction: each score over its whole shot, the threshold if it decided, and the scene ends."""
    shots = prediction.shots
    borders = {border for scene in prediction.scenes for border in (scene.start_shot, scene.end_shot)}
    ends = np.array([shots[border - 1].end for border in sorted(borders - {0, len(shots)})])
    note, hits = count(len(prediction.scenes), "scene"), np.full(len(ends), truth is None)
    if truth is not None:
        if len(ends) and len(truth):
            matched = assign_scene_ends(ends, truth, within)
            hits[matched[matched >= 0]] = True
        note += f", boundary F1 within {within:g} s: {100 * boundary_match(truth, ends, within).f1:.1f}"
    scores, edges = [shot.score for shot in shots], [*(shot.start for shot in shots), shots[-1].end]
    panel.stairs(scores, edges, fill=True, color=SKY, alpha=0.6, zorder=0, label="score of the shot")
    panel.stairs(scores, edges, color=BLUE, linewidth=0.7, zorder=2)
    threshold = prediction.settings.get("threshold")
    # With --scenes N the N best ends are chosen, regardless of the threshold.
    if isinstance(threshold, int | float) and prediction.settings.get("scenes") is None:
        panel.axhline(threshold, color=BLUE, linestyle=":", linewidth=1, label="threshold")
    panel.vlines(ends, 0, 1, color=VERMILLION, linewidth=1.4, zorder=3)
    near = "predicted scene end" if truth is None else "predicted, near a true end"
    for selected, fill, label in ((hits, VERMILLION, near), (~hits, "white", "predicted, near no true end")):
        if selected.any():  # a line without points would take space in the layout
            look: dict[str, Any] = {"color": VERMILLION, "markerfacecolor": fill, "clip_on": False, "label": label}
            panel.plot(ends[selected], np.full(int(selected.sum()), 1.07), "v", **look)
    panel.set(ylim=(0, 1), yticks=[0, 0.5, 1], ylabel="score")
    panel.set_title(shorten(name), loc="left", fontsize=9, pad=13)
    panel.set_title(note, loc="right", fontsize=8, pad=13)


def _draw_true_scenes(panel: Axes, times: NDArray[np.float64], length: float) -> None:
    edges = [0.0, *(time for time in times.tolist() if 0 < time < length), length]
    spans = [(start, end - start) for start, end in pairwise(edges)]
    for side, color in enumerate(("0.45", "0.8")):
        panel.broken_barh(spans[side::2], (0, 1), facecolors=color)
    panel.set(ylim=(0, 1), yticks=[])
    panel.set_ylabel("true\nscenes", rotation=0, ha="right", va="center", fontsize=8)
    panel.tick_params(bottom=False)
    panel.spines[:].set_visible(False)
