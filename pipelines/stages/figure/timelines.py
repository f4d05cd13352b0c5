"""Figures along time: the scene boundaries that several models predict for one video, and training curves of runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MultipleLocator
from numpy.typing import NDArray

from pipelines.datasets.matching import assign_scene_ends
from pipelines.datasets.scenes_json import read_scene_list
from pipelines.errors import BasslError, count
from pipelines.evaluation.metrics import boundary_match
from pipelines.outputs.plots import (
    BLACK,
    BLUE,
    COLUMNS,
    GREEN,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    WIDTH,
    aspect,
    draw_bar,
    draw_images,
    plot_style,
    scene_ranges,
    shorten,
)
from pipelines.scenes import SceneData
from pipelines.settings import Matching
from pipelines.stages.figure import BoundarySettings
from pipelines.stages.score import score
from pipelines.training.run_folder import LOG, VALIDATION, read_log
from pipelines.video.reader import StillReader

_TICKS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200)  # seconds between ticks
_TRUE = {"color": "0.35", "linestyle": (0, (4, 2)), "linewidth": 1}

_NO_CURVES = ("step", "epoch", "seed", "windows_per_second", "shots_per_second", "waiting")
_LINES = (BLUE, VERMILLION, GREEN, PURPLE, BLACK, ORANGE, SKY)
_DASHES = ("-", "--", "-.", ":")
_FEW = 20  # curves with at most this many points have markers, because a single point has no line

Curve = NDArray[np.float64]
"""(4, N): steps, and the mean, minimum and maximum over seeds."""


# --- predicted boundaries ---------------------------------------------------------------------------------------------


def boundaries(
    files: Sequence[Path], names: Sequence[str], settings: BoundarySettings
) -> tuple[Figure, tuple[str, ...]]:
    """Return the figure of `draw_boundaries`, with the ``names`` of the models, and warnings of files that seem to be
    of different videos."""
    predictions = [read_scene_list(file) for file in files]
    # One truth per file, because some may cover only a part of the video.
    truths = [_true_ends(file, settings.matching) for file in files]
    if settings.shots is None:
        figure = _over_time(predictions, names, truths, settings.matching.within)
    else:
        figure = _over_keyframes(predictions, names, truths, settings.first, settings.shots)
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


def _over_time(
    predictions: Sequence[SceneData],
    names: Sequence[str],
    truths: Sequence[NDArray[np.float64] | None],
    within: float,
) -> Figure:
    """Return the figure with a lane of scores for each prediction."""
    middles = [ends.mean(axis=1) for ends in truths if ends is not None]
    length = max(prediction.shots[-1].end for prediction in predictions)
    with plot_style():
        heights = [0.22] * bool(middles) + [1.0] * len(names)
        figure = Figure(figsize=(WIDTH, sum(heights) + 0.28 * len(names) + 0.9), layout="constrained")
        panels = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)[:, 0].tolist()
        figure.suptitle(shorten(Path(predictions[0].video.path).name, 100), fontsize=10)
        lanes = panels[-len(names) :]
        if middles:
            times = np.unique(np.concatenate(middles))
            _draw_true_scenes(panels[0], times, length)
            for lane in lanes:
                for time in times:
                    lane.axvline(time, zorder=1, label="true scene end", **_TRUE)
        for lane, name, prediction, ends in zip(lanes, names, predictions, truths, strict=True):
            _draw_lane(lane, name, prediction, ends, within)
        lanes[-1].set_xlim(0, length)
        lanes[-1].xaxis.set_major_locator(MultipleLocator(next((s for s in _TICKS if length / s <= 12), 18000)))
        lanes[-1].xaxis.set_major_formatter(lambda s, _: str(timedelta(seconds=round(s))).removeprefix("0:"))
        lanes[-1].set_xlabel("time", fontsize=8)
        keys = {
            label: handle for lane in lanes for handle, label in zip(*lane.get_legend_handles_labels(), strict=True)
        }
        figure.legend(keys.values(), keys.keys(), loc="outside lower center", ncols=len(keys), fontsize=8)
    return figure


def _over_keyframes(
    predictions: Sequence[SceneData],
    names: Sequence[str],
    truths: Sequence[NDArray[np.float64] | None],
    first: int,
    M: int,
) -> Figure:
    """Return the figure of M shots of the first prediction: middle frames, and a lane of scenes for each model and the
    truth."""
    prediction, N = predictions[0], len(predictions[0].shots)
    if first + M > N:
        raise BasslError(f"{names[0]}: has {N} shots, 0 to {N - 1}, but not all of {first} to {first + M - 1}")
    video, shots = Path(prediction.video.path), prediction.shots[first : first + M]
    middles = [(shot.start + shot.end) / 2 for shot in shots]
    with StillReader(video) as reader:
        images = [image for _, image in reader.images(middles, lambda width, height: (200, 200 * height // width))]
    bars = list(zip(names, map(_scene_ends, predictions), strict=True))
    bars += [("true", truth.mean(axis=1)) for truth in truths[:1] if truth is not None]
    height = (WIDTH - 0.7) / M * aspect(images)
    with plot_style():
        figure = Figure(figsize=(WIDTH, height + 0.17 * len(bars) + 0.4), layout="constrained")
        panel = figure.add_subplot()
        panel.set_title(shorten(f"{video.name}, shots {first} to {first + M - 1}", 130), loc="left", fontsize=9)
        draw_images(panel, images)
        for number, (name, ends) in enumerate(bars, 1):
            scene = np.searchsorted(ends, middles)
            draw_bar(panel, height, number, shorten(name, 24), scene_ranges(M, np.flatnonzero(np.diff(scene)).tolist()))
    return figure


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


def _scene_ends(prediction: SceneData) -> NDArray[np.float64]:
    """Return the seconds at which scenes end, or begin after shots of no scene, without the ends of the video."""
    shots = prediction.shots
    borders = {border for scene in prediction.scenes for border in (scene.start_shot, scene.end_shot)}
    return np.array([shots[border - 1].end for border in sorted(borders - {0, len(shots)})])


def _draw_lane(panel: Axes, name: str, prediction: SceneData, truth: NDArray[np.float64] | None, within: float) -> None:
    """Draw a prediction: each score over its whole shot, the threshold if it decided, and the scene ends."""
    shots, ends = prediction.shots, _scene_ends(prediction)
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
    edges = np.array([0.0, *times[(times > 0) & (times < length)], length])
    spans = list(zip(edges[:-1].tolist(), np.diff(edges).tolist(), strict=True))
    for side, color in enumerate(("0.45", "0.8")):
        panel.broken_barh(spans[side::2], (0, 1), facecolors=color)
    panel.set(ylim=(0, 1), yticks=[])
    panel.set_ylabel("true\nscenes", rotation=0, ha="right", va="center", fontsize=8)
    panel.tick_params(bottom=False)
    panel.spines[:].set_visible(False)


# --- training curves --------------------------------------------------------------------------------------------------


def curves(runs: Sequence[Path], names: Sequence[str]) -> Figure:
    """Return the figure of `draw_curves`, with the ``names`` of the runs."""
    panels: dict[str, dict[str, Curve]] = {}
    for name, run in zip(names, runs, strict=True):
        for quantity, curve in _curves(run).items():
            panels.setdefault(quantity, {})[name] = curve
    columns = min(len(panels), COLUMNS)
    rows = -(-len(panels) // columns)
    longest = max(float(curve[0, -1]) for lines in panels.values() for curve in lines.values())
    looks: dict[str, dict[str, Any]] = {
        name: {"color": _LINES[i % len(_LINES)], "linestyle": _DASHES[i % len(_DASHES)], "linewidth": 1.4}
        for i, name in enumerate(names)
    }
    with plot_style():
        figure = Figure(figsize=(max(2.5 * columns, 4.5), 1.9 * rows + 0.5), layout="constrained")
        for number, (quantity, lines) in enumerate(panels.items()):
            panel = figure.add_subplot(rows, columns, number + 1)
            marker = "o" if max(curve.shape[1] for curve in lines.values()) <= _FEW else ""
            for name, (steps, mean, low, high) in lines.items():
                panel.plot(steps, mean, marker=marker, markersize=3, **looks[name])
                if (low < high).any():
                    panel.fill_between(steps, low, high, color=looks[name]["color"], alpha=0.18, linewidth=0)
            panel.set_title(shorten(quantity.replace("_", " ")), fontsize=9)
            panel.set_xlim(0, longest * 1.02)
            panel.locator_params("x", nbins=4, integer=True)
            panel.xaxis.set_major_formatter("{x:,.0f}")
            if number >= len(panels) - columns:
                panel.set_xlabel("step")
        handles, labels = [Line2D([], [], **look) for look in looks.values()], [shorten(name) for name in names]
        figure.legend(handles, labels, loc="outside upper center", ncols=min(len(names), 3), handlelength=3)
    return figure


def _curves(run: Path) -> dict[str, Curve]:
    """Return the curves of a run by quantity: first from the log, then from validation."""
    if not run.is_dir():
        raise BasslError(f"{run}: no such folder of a run")
    logs = {name: read_log(run / name) for name in (LOG, VALIDATION) if (run / name).exists()}
    if LOG not in logs:
        raise BasslError(f"{run}: contains no {LOG}; give the folder of a run of pretrain or finetune")
    if not logs[LOG]:
        raise BasslError(f"{run / LOG}: has no rows yet")
    # Steps continue from seed to seed; here each seed begins at 0.
    last = {row.get("seed", 0.0): row["step"] for row in logs[LOG]}
    offsets = dict(zip(last, [0.0, *list(last.values())[:-1]], strict=True))
    curves: dict[str, Curve] = {}
    for rows in logs.values():
        for quantity in rows[0] if rows else ():
            if quantity not in _NO_CURVES:
                values: dict[float, list[float]] = {}
                for row in rows:
                    values.setdefault(row["step"] - offsets.get(row.get("seed", 0.0), 0.0), []).append(row[quantity])
                seeds = [(step, np.mean(some), min(some), max(some)) for step, some in sorted(values.items())]
                curves[quantity] = np.array(seeds).T
    return curves
