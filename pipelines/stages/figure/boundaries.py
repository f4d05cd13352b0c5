"""Scene boundaries that several models predict for one video."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
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


def boundaries(
    files: Sequence[Path], names: Sequence[str], settings: BoundarySettings
) -> tuple[Figure, tuple[str, ...]]:
    """The figure of :func:`pipelines.stages.figure.draw_boundaries`, with the ``names`` of the models, and warnings of
    files that seem to be of different videos."""
    predictions = [read_scene_list(file) for file in files]
    # One truth per file, because some may cover only a part of the video.
    truths = [_true_ends(file, settings.matching) for file in files]
    lanes = [_lane(*lane, settings.matching.within) for lane in zip(names, predictions, truths, strict=True)]
    middles = [ends.mean(axis=1) for ends in truths if ends is not None]
    true_times = np.unique(np.concatenate(middles)) if middles else None
    title = Path(predictions[0].video.path).name
    figure = boundary_figure(lanes, true_times, title)
    ends = [
        (file, prediction.shots[-1].end)
        for file, prediction in zip(files, predictions, strict=True)
        if prediction.settings.get("end") is None
    ]
    differences = tuple(
        f"{file} lasts {end:.1f} s and {ends[0][0]} {ends[0][1]:.1f} s; are they of the same video?"
        for file, end in ends[1:]
        if abs(end - ends[0][1]) > max(5.0, 0.02 * ends[0][1])
    )
    return figure, differences


def _true_ends(file: Path, matching: Matching) -> NDArray[np.float64] | None:
    """(M, 2) the earliest and latest second of each true scene end, as `bassl score` reads them; None without truth."""
    if matching.truth is None:
        return None
    (video,) = score(file, matching.truth, matching=replace(matching, truth=None), resamples=0).videos
    if video.true_ends is not None:
        return video.true_ends
    assert video.seconds is not None  # a scenes.json has them
    ends = video.seconds[:-1, 1][video.labels[:-1] == 1]
    return np.column_stack([ends, ends])


def _lane(name: str, listed: SceneData, truth: NDArray[np.float64] | None, within: float) -> PredictedLane:
    borders = {border for scene in listed.scenes for border in (scene.start_shot, scene.end_shot)}
    ends = np.array([listed.shots[border - 1].end for border in sorted(borders - {0, len(listed.shots)})])
    threshold = listed.settings.get("threshold")
    # With --scenes N the N best ends are chosen, regardless of the threshold.
    if not isinstance(threshold, int | float) or listed.settings.get("scenes") is not None:
        threshold = None
    hits, note = np.ones(len(ends), np.bool_), count(len(listed.scenes), "scene")
    if truth is not None:
        hits[:] = False
        if len(ends) and len(truth):
            assigned = assign_scene_ends(ends, truth, within)
            hits[assigned[assigned >= 0]] = True
        note += f", boundary F1 within {within:g} s: {100 * boundary_match(truth, ends, within).f1:.1f}"
    edges = np.array([*(shot.start for shot in listed.shots), listed.shots[-1].end])
    return PredictedLane(name, edges, np.array([shot.score for shot in listed.shots]), ends, threshold, hits, note)


@dataclass(frozen=True, eq=False)
class PredictedLane:
    """Prediction of one model for a video, on its own N shots."""

    name: str
    edges: NDArray[np.float64]  # (N + 1,) seconds: starts of the shots, and the end of the last
    scores: NDArray[np.float64]  # (N,) of a scene end at each shot
    ends: NDArray[np.float64]  # (L,) seconds of the scene ends, without the end of the video
    threshold: float | None  # a score that ends a scene; None if another rule decided
    hits: NDArray[np.bool_]  # (L,) whether a true scene end is near; without a truth True
    note: str  # a line with its result


def boundary_figure(lanes: Sequence[PredictedLane], truth: NDArray[np.float64] | None, title: str) -> Figure:
    """Scores and scene ends of several models over one video (appendix, "Predicted scene boundaries"). A score is drawn
    over its whole shot; ``truth`` (M,), seconds of the true scene ends without the video's end, as lines through all
    lanes."""
    length = max(float(lane.edges[-1]) for lane in lanes)
    heights = ([0.22] if truth is not None else []) + [1.0] * len(lanes)
    with plot_style():
        figure = Figure(figsize=(WIDTH, sum(heights) + 0.28 * len(lanes) + 0.9), layout="constrained")
        panels = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0].tolist()
        figure.suptitle(shorten(title, 100), fontsize=10)
        if truth is not None:
            _draw_true_scenes(panels[0], truth, length)
        for panel, lane in zip(panels[-len(lanes) :], lanes, strict=True):
            for time in () if truth is None else truth.tolist():
                panel.axvline(time, color="0.35", linestyle=(0, (4, 2)), linewidth=1, zorder=1)
            panel.stairs(lane.scores, lane.edges, fill=True, color=SKY, alpha=0.6, zorder=0)
            panel.stairs(lane.scores, lane.edges, color=BLUE, linewidth=0.7, zorder=2)
            if lane.threshold is not None:
                panel.axhline(lane.threshold, color=BLUE, linestyle=":", linewidth=1)
            panel.vlines(lane.ends, 0, 1, color=VERMILLION, linewidth=1.4, zorder=3)
            for selected, filled in ((lane.hits, True), (~lane.hits, False)):
                if selected.any():  # a line without points would take space in the layout
                    panel.plot(lane.ends[selected], np.full(int(selected.sum()), 1.07), **_end_marker(filled))
            panel.set_ylim(0, 1)
            panel.set_yticks([0, 0.5, 1])
            panel.set_ylabel("score", fontsize=8)
            panel.set_title(shorten(lane.name), loc="left", fontsize=9, pad=13)
            panel.set_title(lane.note, loc="right", fontsize=8, pad=13)
        panels[-1].set_xlim(0, length)
        _set_time_axis(panels[-1], length)

        handles: list[Any] = [Patch(facecolor=SKY, alpha=0.6, edgecolor=BLUE, label="score of the shot")]
        if any(lane.threshold is not None for lane in lanes):
            handles.append(Line2D([], [], color=BLUE, linestyle=":", linewidth=1, label="threshold"))
        if truth is None:
            handles.append(Line2D([], [], label="predicted scene end", **_end_marker(True)))
        else:
            handles += [
                Line2D([], [], label="predicted, near a true end", **_end_marker(True)),
                Line2D([], [], label="predicted, near no true end", **_end_marker(False)),
                Line2D([], [], color="0.35", linestyle=(0, (4, 2)), linewidth=1, label="true scene end"),
            ]
        figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), fontsize=8)
    return figure


def _end_marker(filled: bool) -> dict[str, Any]:
    shape = {"marker": "v", "markersize": 6, "linestyle": "", "clip_on": False}
    return {**shape, "color": VERMILLION, "markerfacecolor": VERMILLION if filled else "white"}


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

    def label(seconds: float, position: float | None = None) -> str:
        minutes, rest = divmod(round(seconds), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours}:{minutes:02}:{rest:02}" if length >= 3600 else f"{minutes}:{rest:02}"

    panel.set_xticks(np.arange(0, length + 1e-9, step))
    panel.xaxis.set_major_formatter(label)
    panel.set_xlabel("time", fontsize=8)
