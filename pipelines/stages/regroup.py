"""Other scenes from the scores of a ``scenes.json``, without reading the video again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from pipelines.datasets.scenes_json import read_scene_list
from pipelines.errors import BasslError, CorrectedError, name_input
from pipelines.files import as_paths, check_inputs_kept, check_writable, output_path, real
from pipelines.models.scenes.scene_ends import with_grouping
from pipelines.options import with_options
from pipelines.outputs.corrections import check_replaceable, names_and_pins
from pipelines.outputs.exports import is_scenes_json
from pipelines.outputs.opening import open_scenes
from pipelines.outputs.results import find_result, make_output_folder, note_on_views
from pipelines.progress import ReportVideo, VideoResult
from pipelines.scenes import DROP_SHORT_ALONE, SceneData, shot_ranges
from pipelines.settings import GROUPING, Grouping
from pipelines.stages.settings import RegroupSettings
from pipelines.video_jobs import VideoTask, run_video_tasks

S = TypeVar("S", bound=SceneData)


def regrouped(scenes: S, grouping: Grouping) -> S:
    """Return the scenes that the same scores make with these options; other options stay, except the number of scenes.
    Raises BasslError as `with_grouping`, and for settings of ``scenes`` that are not valid."""
    before = {name: scenes.settings[name] for name in GROUPING if name in scenes.settings and name != "scenes"}
    try:
        values = grouping.resolved(before)
    except ValueError as error:
        raise BasslError(f"its settings are not valid for a prediction ({error})") from error
    if grouping.drop_short and not values["min_scene"]:
        raise BasslError(DROP_SHORT_ALONE)
    return with_grouping(scenes, values)


def regroup(source: Path | str, settings: RegroupSettings = RegroupSettings(), **options: Any) -> SceneData:
    """Choose scene ends again, as `predict` would with these settings, and write the result, by default in place.

    Names of scenes that have the same shots as before are kept; ``notes`` of the result names the page and storyboard
    beside it that show the scenes before. ``source``: a ``scenes.json``, or a video with a result; ``options`` by name,
    such as ``min_scene``, override ``settings``. Raises BasslError, one line, for a ``scenes.json`` that cannot be
    read, scenes that the shots do not allow, or an output that cannot be written or is the video; a CorrectedError for
    scenes that were corrected by hand, which would be lost."""
    settings, result = with_options(settings, **options), find_result(Path(source))
    return _write(Path(source), output_path(settings.run.output, result), settings)


def regroup_videos(
    sources: Path | str | Sequence[Path | str],
    settings: RegroupSettings = RegroupSettings(),
    progress: ReportVideo | None = None,
    **options: Any,
) -> list[VideoResult]:
    """Regroup several files as :func:`regroup` does: in place, or into the folder ``output``. Returns one result per
    source, in their order: the result of one that failed has the reason, and one is kept if scenes in the output were
    corrected by hand. Raises BasslError, one line, for two that would have the same output, or a folder that cannot be
    written."""
    settings, paths = with_options(settings, **options), as_paths(sources)
    make_output_folder(paths, settings.run.output)
    tasks = []
    for source in paths:
        result = find_result(source)
        name = result.name.removesuffix(".json").removesuffix(".scenes")
        tasks.append(VideoTask(source, name, output_path(settings.run.output, result), settings))
    for output in {task.output.parent: task.output for task in tasks}.values():
        check_writable(output)
    return run_video_tasks(tasks, _regroup, progress=progress)


def _regroup(task: VideoTask[RegroupSettings], report: ReportVideo) -> VideoResult:
    try:
        return task.result_of(_write(task.video, task.output, task.settings), status="regrouped")
    except CorrectedError:
        return task.result_of(read_scene_list(task.output), status="kept", corrected=True)


def _write(source: Path, output: Path, settings: RegroupSettings) -> SceneData:
    if not is_scenes_json(output):
        raise BasslError(f"{output}: regroup writes a .json; bassl export makes other formats of it")
    opened = open_scenes(source)
    before = opened.scenes
    check_inputs_kept((output,), (Path(before.video.path),))
    try:
        result = regrouped(before, settings.grouping)
    except BasslError as error:
        raise BasslError(name_input(error, opened.result)) from error
    is_same = real(output) == real(opened.result)
    lasting = names_and_pins(result if is_same else before)
    check_replaceable(output, Path(before.video.path), before.video.fingerprint, settings.run, lasting)
    result.save(output)
    is_changed = is_same and shot_ranges(before.scenes) != shot_ranges(result.scenes)
    return replace(result, notes=note_on_views(output)) if is_changed else result
