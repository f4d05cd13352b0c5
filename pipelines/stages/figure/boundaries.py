"""Scene boundaries that several models predict for one video."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipelines.datasets.matching import assign_scene_ends
from pipelines.datasets.scene_list import read_scene_list
from pipelines.errors import BasslError, count
from pipelines.evaluation.metrics import boundary_match
from pipelines.outputs.figures.boundaries import PredictedLane, boundary_figure
from pipelines.scenes import SceneList
from pipelines.stages.figure.files import check_output, model_names, save_figure
from pipelines.stages.figure.settings import BoundarySettings, FigureResult
from pipelines.stages.score import ScoreSettings, score


def boundaries(files: Sequence[Path], output: Path, settings: BoundarySettings) -> FigureResult:
    """Draw the figure, see :func:`pipelines.stages.figure.draw_boundaries`."""
    check_output(output, (*files, settings.truth))
    if not files:
        raise BasslError("nothing to draw: name a scenes.json")
    names = model_names(files, settings.labels)
    predictions = [read_scene_list(file) for file in files]
    # One truth per file, because some may cover only a part of the video.
    truths = [None if settings.truth is None else _true_ends(file, settings.truth, settings) for file in files]
    lanes = [_lane(*lane, settings.within) for lane in zip(names, predictions, truths, strict=True)]
    middles = [truth.mean(axis=1) for truth in truths if truth is not None]
    true_times = np.unique(np.concatenate(middles)) if middles else None
    title = Path(predictions[0].video.path).name
    result = save_figure(output, boundary_figure(lanes, true_times, title))
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
    return replace(result, warnings=(*result.warnings, *differences))


def _true_ends(file: Path, truth: Path, settings: BoundarySettings) -> NDArray[np.float64]:
    """(M, 2) the earliest and latest second of each true scene end, as `bassl score` reads them."""
    scoring = ScoreSettings(
        within=settings.within, frame_rate=settings.frame_rate, annotator=settings.annotator, resamples=0
    )
    (video,) = score(file, truth, scoring).videos
    if video.true_ends is not None:
        return video.true_ends
    assert video.seconds is not None  # a scenes.json has them
    ends = video.seconds[:-1, 1][video.labels[:-1] == 1]
    return np.column_stack([ends, ends])


def _lane(name: str, listed: SceneList, truth: NDArray[np.float64] | None, within: float) -> PredictedLane:
    borders = {border for scene in listed.scenes for border in (scene.start_shot, scene.end_shot)}
    ends = np.array([listed.shots[border - 1].end for border in sorted(borders - {0, len(listed.shots)})])
    threshold = listed.settings.get("threshold")
    # With --scenes N the N best ends are chosen, regardless of the threshold.
    if not isinstance(threshold, int | float) or listed.settings.get("scenes") is not None:
        threshold = None
    hits, note = None, count(len(listed.scenes), "scene")
    if truth is not None:
        hits = np.zeros(len(ends), np.bool_)
        if len(ends) and len(truth):
            assigned = assign_scene_ends(ends, truth, within)
            hits[assigned[assigned >= 0]] = True
        note += f", boundary F1 within {within:g} s: {100 * boundary_match(truth, ends, within).f1:.1f}"
    edges = np.array([*(shot.start for shot in listed.shots), listed.shots[-1].end])
    return PredictedLane(name, edges, np.array([shot.score for shot in listed.shots]), ends, threshold, hits, note)
