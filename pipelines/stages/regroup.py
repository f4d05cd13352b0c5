"""Other scenes from the scores of a ``scenes.json``, by other options or a person's answers, without the video."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar, Unpack

import numpy as np

from pipelines.datasets.scenes_json import read_scene_list
from pipelines.errors import BasslError, CorrectedError, count, name_input
from pipelines.files import as_paths, check_inputs_kept, check_writable, output_path, real
from pipelines.models.scenes.review import WINDOW, Review, expected_f1, review
from pipelines.models.scenes.scene_ends import with_grouping, with_scenes
from pipelines.models.scenes.scene_names import with_automatic_names
from pipelines.options import resolve_settings
from pipelines.outputs.exports import is_scenes_json
from pipelines.outputs.opening import open_scenes
from pipelines.outputs.results import (
    check_replaceable,
    find_result,
    make_output_folder,
    names_and_pins,
    note_on_views,
    replace_result,
    result_version,
)
from pipelines.progress import ReportVideo, VideoResult
from pipelines.scenes import DROP_SHORT_ALONE, SceneData, credit_cuts, group_shots, shot_ranges
from pipelines.settings import GROUPING, Grouping
from pipelines.stages.settings import RegroupSettings
from pipelines.video_jobs import VideoTask, run_video_tasks

if TYPE_CHECKING:  # types of options for editors and mypy
    from pipelines.stages.option_types import RegroupOptions

S = TypeVar("S", bound=SceneData)


@dataclass(frozen=True)
class Look:
    """Range of shots for a person to look at next: the window whose answers are expected to raise F1 most."""

    start_shot: int
    end_shot: int  # half-open: a cut is between each two shots of the range
    ends: tuple[int, ...]  # shots that end scenes now, except for the last one: the answers, if nobody corrects them
    expected_f1: float  # of all scenes as they are now, 0 to 1, estimated from scores and pins, see docs/review.md


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


def regroup(
    source: Path | str, settings: RegroupSettings = RegroupSettings(), **options: Unpack[RegroupOptions]
) -> SceneData:
    """Choose scene ends again, as `predict` would with these settings, and write the result, by default in place.

    Names of scenes with the same shots are kept; ``notes`` of the result names a page and storyboard beside it that
    show the scenes before. ``source``: a ``scenes.json``, or a video with a result; ``options`` by name, such as
    ``min_scene``, override ``settings``. Raises BasslError, one line, for a ``scenes.json`` that cannot be read, scenes
    that the shots do not allow, or an output that cannot be written or is the video; CorrectedError if scenes that were
    corrected by hand would be lost."""
    settings, result = resolve_settings(RegroupSettings, settings, options), find_result(Path(source))
    return _write(Path(source), output_path(settings.run.output, result), settings)


def regroup_videos(
    sources: Path | str | Sequence[Path | str],
    settings: RegroupSettings = RegroupSettings(),
    progress: ReportVideo | None = None,
    **options: Unpack[RegroupOptions],
) -> list[VideoResult]:
    """Regroup several files as :func:`regroup` does: in place, or into the folder ``output``. Returns one result per
    source, in their order: failed, with the reason; or kept, if scenes in the output were corrected by hand. Raises
    BasslError, one line, for two that would have the same output, or a folder that cannot be written."""
    settings, paths = resolve_settings(RegroupSettings, settings, options), as_paths(sources)
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
    version = result_version(output)
    opened = open_scenes(source)
    before = opened.scenes
    check_inputs_kept((output,), (Path(before.video.path),))
    try:
        result = regrouped(before, settings.grouping)
    except BasslError as error:
        raise BasslError(name_input(error, opened.result)) from error
    is_same = real(output) == real(opened.result)
    is_changed = shot_ranges(before.scenes) != shot_ranges(result.scenes)
    if settings.run.discard_corrections and is_changed:  # with names, the scenes would count as corrected
        unnamed = (replace(scene, name=None) if scene.named_by is None else scene for scene in result.scenes)
        result = with_automatic_names(replace(result, scenes=tuple(unnamed)))
    # Pins hold in any case, but who named a scene looked at all of them.
    lasting = names_and_pins(replace(result, scenes=()) if is_same and is_changed else before)
    check_replaceable(output, Path(before.video.path), before.video.fingerprint, settings.run, lasting)
    replace_result(output, result, version)
    return replace(result, notes=note_on_views(output)) if is_same and is_changed else result


def next_look(scenes: SceneData, shots: int = WINDOW) -> Look | None:
    """Return the next look, of at most so many shots, or None if all cuts are pinned. Raises BasslError for less than
    two shots."""
    if shots < 2:
        raise BasslError(f"a look shows two shots or more, not {shots}")
    state = _review(scenes, shots)
    if state.window is None:
        return None
    start, stop = state.window
    ends = sorted(shot - 1 for shot in _group_starts(scenes) if shot > 0)
    f1 = expected_f1(state.probabilities, np.isin(np.arange(len(state.probabilities)), ends))
    return Look(start, stop, tuple(shot for shot in ends if start <= shot < stop - 1), f1)


def pinned(scenes: S, ends: Iterable[int], joined: Iterable[int], by: Literal["program"] | None = None) -> S:
    """Return the scenes after answers, which no setting changes any more: scenes end with the shots ``ends``, by index,
    and none with ``joined``. A program's answers leave a person's as they are. The threshold moves to the one with the
    best expected F1, given all pins. Scenes of a fixed number, or corrected by hand beyond pins, change only at the
    answers. Raises BasslError for a shot in both, or that is not before another shot."""
    answers = {int(shot): True for shot in ends}
    refused = {int(shot) for shot in joined}
    if both := sorted(refused & set(answers)):
        raise BasslError(f"shot {both[0]} cannot both end a scene and be joined to the next shot")
    answers |= dict.fromkeys(refused, False)
    last = len(scenes.shots) - 1
    if outside := [shot for shot in answers if not 0 <= shot < last]:
        reason = "the video ends with it" if outside[0] == last else f"the video has {count(last + 1, 'shot')}, from 0"
        raise BasslError(f"shot {outside[0]} cannot be pinned: {reason}")
    if by is not None:
        answers = {shot: is_end for shot, is_end in answers.items() if not scenes.shots[shot].is_pinned_by_hand}
    starts = _group_starts(scenes)
    by_hand = scenes.settings.get("scenes") is not None or scenes.settings.get("edited_by_hand") is True
    shots = tuple(
        replace(shot, pinned=answers[i], pinned_by=by) if i in answers else shot for i, shot in enumerate(scenes.shots)
    )
    scenes = replace(scenes, shots=shots)
    if not by_hand:
        return regrouped(scenes, Grouping(threshold=_review(scenes).threshold))
    for shot, is_end in answers.items():
        if is_end:
            starts.setdefault(shot + 1, True)
        else:
            starts.pop(shot + 1, None)
    groups = group_shots(shots, [*(shot - 1 for shot in sorted(starts) if shot > 0), last])
    changed = [group for group in groups if starts[group.start_shot]]
    by_rule = regrouped(scenes, Grouping())
    if shot_ranges(by_rule.scenes) == shot_ranges(changed):
        return by_rule
    numbered = tuple(replace(scene, index=index) for index, scene in enumerate(changed))
    return with_scenes(scenes, numbered, {**by_rule.settings, "edited_by_hand": True})


def _review(scenes: SceneData, shots_per_look: int = WINDOW) -> Review:
    answers = {i: shot.pinned for i, shot in enumerate(scenes.shots[:-1]) if shot.pinned is not None}
    credits = credit_cuts(scenes.shots, scenes.segments)
    return review([shot.score for shot in scenes.shots], answers, shots_per_look, credits=credits)


def _group_starts(scenes: SceneData) -> dict[int, bool]:
    """Return the first shot of each scene, and of each group of shots in no scene, with whether it is a scene."""
    starts, stop = {}, 0
    for scene in scenes.scenes:
        if scene.start_shot > stop:
            starts[stop] = False
        starts[scene.start_shot], stop = True, scene.end_shot
    if stop < len(scenes.shots):
        starts[stop] = False
    return starts
