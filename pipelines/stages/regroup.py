"""Other scenes from the scores of a ``scenes.json``, by other options or a person's answers, without the video."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar, Unpack

import numpy as np

from pipelines.errors import BasslError, CorrectedError, count, name_input
from pipelines.files import as_paths, check_output, output_path, real
from pipelines.models.calibration import WINDOW, Review, expected_f1, review
from pipelines.models.scenes import with_automatic_names, with_grouping, with_scenes
from pipelines.options import resolve_settings
from pipelines.progress import ReportVideo, VideoResult
from pipelines.results.finding import find_result, is_scenes_json, make_output_folder
from pipelines.results.opening import open_scenes
from pipelines.results.replacing import (
    is_corrected,
    note_on_page,
    read_replaceable,
    replace_result,
    result_version,
    without_corrections,
)
from pipelines.scenes import Scene, SceneData, Segment, credit_cuts, group_shots, shot_ranges, without_short
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
    Raises BasslError as `with_grouping`, and for settings that are not valid."""
    before = {name: scenes.settings[name] for name in GROUPING if name in scenes.settings and name != "scenes"}
    try:
        values = grouping.resolved(before)
    except ValueError as error:
        raise BasslError(f"its settings are not valid for a prediction ({error})") from error
    return with_grouping(scenes, values)


def regrouped_with_corrections(before: S, grouping: Grouping, segments: tuple[Segment, ...]) -> tuple[S, str]:
    """Return the scenes that the same scores make with these options and segments, in which what a person corrected
    stays; and a line on what was kept, and what could not be. Raises BasslError as `regrouped`."""
    pinned = replace(_with_edits_pinned(before), segments=segments)
    return _with_names_by_hand(before, regrouped(pinned, grouping))


def regroup(
    source: Path | str, settings: RegroupSettings | None = None, **options: Unpack[RegroupOptions]
) -> SceneData:
    """Choose scene ends again, as `predict` would with these settings, and write the result, by default in place.

    What a person corrected stays: answers; scene ends that were made or removed, which count as answers; and names, at
    the scene with most shots of the one that was named. ``notes`` of the result say what was kept, what could not be,
    and that the page shows the scenes before. ``source``: a ``scenes.json``, or a video with a result;
    ``options`` by name, such as ``min_scene``, override ``settings``. Raises BasslError, one line, for a
    ``scenes.json`` that cannot be read, scenes that the shots do not allow, an output that cannot be written, or
    another output with corrections of its own."""
    settings, source = resolve_settings(RegroupSettings, settings, options), Path(source)
    output = output_path(settings.run.output, find_result(source))
    if not is_scenes_json(output):
        raise BasslError(f"{output}: regroup writes a .json; bassl export makes other formats of it")
    version = result_version(output)
    opened = open_scenes(source)
    before = opened.scenes
    notes: tuple[str, ...] = ()
    try:
        if settings.run.discard_corrections:
            result = regrouped(without_corrections(before), settings.grouping)
        else:
            result, kept = regrouped_with_corrections(before, settings.grouping, before.segments)
            notes = (f"{output}: {kept}",) if kept else ()
    except BasslError as error:
        raise BasslError(name_input(error, opened.result)) from error
    is_same_file = real(output) == real(opened.result)
    replaced = read_replaceable(output, Path(before.video.path), before.video.fingerprint, settings.run)
    if replaced and not is_same_file and is_corrected(replaced) and not settings.run.discard_corrections:
        remedy = "name another file with `output`; `discard_corrections=True` replaces it"
        raise CorrectedError(f"{output}: was corrected by hand; {remedy}")
    replace_result(output, result, version)
    if is_same_file and shot_ranges(before.scenes) != shot_ranges(result.scenes):
        notes += note_on_page(output)
    return replace(result, notes=notes)


def regroup_videos(
    sources: Path | str | Sequence[Path | str],
    settings: RegroupSettings | None = None,
    progress: ReportVideo | None = None,
    **options: Unpack[RegroupOptions],
) -> list[VideoResult]:
    """Regroup several files as :func:`regroup` does: in place, or into the folder ``output``. Returns one result per
    source, in their order, failed ones with the reason. Raises BasslError, one line, for two that would have the same
    output, or a folder that cannot be written."""
    settings, paths = resolve_settings(RegroupSettings, settings, options), as_paths(sources)
    make_output_folder(paths, settings.run.output)
    tasks = []
    for source in paths:
        result = find_result(source)
        name = result.name.removesuffix(".json").removesuffix(".scenes")
        tasks.append(VideoTask(source, name, output_path(settings.run.output, result), settings))
    for output in {task.output.parent: task.output for task in tasks}.values():
        check_output(output)

    def regroup_one(task: VideoTask[RegroupSettings], report: ReportVideo) -> VideoResult:
        return task.result_of(regroup(task.video, task.settings), status="regrouped")

    return run_video_tasks(tasks, regroup_one, progress=progress)


def _with_edits_pinned(scenes: S) -> S:
    """Return scenes in which each end that a person made or removed is an answer: where they differ from the scenes
    that scores, answers and stored settings give. Scenes that `predict` did not make have no edits."""
    if "threshold" not in scenes.settings:
        return scenes
    as_stored = Grouping(scenes=scenes.settings.get("scenes"))
    ends, expected = _scene_ends(scenes.scenes), _scene_ends(regrouped(scenes, as_stored).scenes)
    shots = list(scenes.shots)
    for shot in ends ^ expected:
        if not shots[shot].is_pinned_by_hand:
            shots[shot] = replace(shots[shot], pinned=shot in ends, pinned_by=None)
    return replace(scenes, shots=tuple(shots))


def _with_names_by_hand(before: SceneData, scenes: S) -> tuple[S, str]:
    """Return scenes with the names that a person gave to earlier ones, each at the scene with most of its shots; and a
    line on what was kept, and what could not be."""
    names: dict[int, str | None] = {}
    by_hand = [scene for scene in before.scenes if scene.is_named_by_hand]
    for old in sorted(by_hand, key=lambda scene: scene.start_shot - scene.end_shot):  # of two the longer one
        overlaps = [min(old.end_shot, new.end_shot) - max(old.start_shot, new.start_shot) for new in scenes.scenes]
        if max(overlaps) > 0:
            names.setdefault(int(np.argmax(overlaps)), old.name)
    renamed = []
    for scene in scenes.scenes:
        if scene.index in names or scene.is_named_by_hand:
            scene = replace(scene, name=names.get(scene.index), named_by=None)
        renamed.append(scene)
    kept = {"answer": sum(shot.is_pinned_by_hand for shot in scenes.shots), "name": len(names)}
    counts = [count(number, what) for what, number in kept.items() if number]
    lines = [f"kept what was corrected by hand: {' and '.join(counts)}"] if counts else []
    if lost := len(by_hand) - len(names):
        lines.append(f"{count(lost, 'name')} could not be kept, because scenes were joined")
    scenes = with_automatic_names(replace(scenes, scenes=tuple(renamed)), made_again=False)
    return scenes, "; ".join(lines)


def _scene_ends(scenes: Sequence[Scene]) -> set[int]:
    """Return the shots with which scenes end, and those before scenes, without the video's last shot."""
    return {shot - 1 for scene in scenes for shot in (scene.start_shot, scene.end_shot)} - {-1}


def next_look(scenes: SceneData, shots: int = WINDOW) -> Look | None:
    """Return the next look, see `SceneList.next_look`. Raises BasslError for less than two shots."""
    if shots < 2:
        raise BasslError(f"a look shows two shots or more, not {shots}")
    state = _review(scenes, shots)
    if state.window is None:
        return None
    start, stop = state.window
    ends = sorted(_scene_ends(scenes.scenes) - {len(scenes.shots) - 1})
    f1 = expected_f1(state.probabilities, np.isin(np.arange(len(state.probabilities)), ends))
    return Look(start, stop, tuple(shot for shot in ends if start <= shot < stop - 1), f1)


def pinned(scenes: S, ends: Iterable[int], joined: Iterable[int], by: Literal["program"] | None = None) -> S:
    """Return the scenes after answers, see `SceneList.pin`. Raises BasslError for a shot in both, or that is not before
    another shot."""
    answers = {int(shot): True for shot in ends}
    refused = {int(shot) for shot in joined}
    if both := sorted(refused & set(answers)):
        raise BasslError(f"shot {both[0]} cannot both end a scene and be joined to the next shot")
    answers |= dict.fromkeys(refused, False)
    last = len(scenes.shots) - 1
    if outside := [shot for shot in answers if not 0 <= shot < last]:
        raise BasslError(f"shot {outside[0]} cannot be pinned, as no other shot follows it")
    if by is not None:
        answers = {shot: is_end for shot, is_end in answers.items() if not scenes.shots[shot].is_pinned_by_hand}
    by_hand = scenes.settings.get("scenes") is not None or scenes.settings.get("edited_by_hand") is True
    shots = tuple(
        replace(shot, pinned=answers[i], pinned_by=by) if i in answers else shot for i, shot in enumerate(scenes.shots)
    )
    scenes = replace(scenes, shots=shots)
    if not by_hand:  # the threshold moves to the one with the best expected F1, given all pins
        return regrouped(scenes, Grouping(threshold=_review(scenes).threshold))
    scene_ends = _scene_ends(scenes.scenes) | {shot for shot, is_end in answers.items() if is_end}
    scene_ends = scene_ends - {shot for shot, is_end in answers.items() if not is_end} | {last}
    by_rule = regrouped(scenes, Grouping())
    groups = group_shots(shots, sorted(scene_ends))
    if by_rule.settings["drop_short"]:
        groups = without_short(groups, by_rule.settings["min_scene"])
    if shot_ranges(by_rule.scenes) == shot_ranges(groups):
        return by_rule
    return with_scenes(scenes, groups, {**by_rule.settings, "edited_by_hand": True})


def _review(scenes: SceneData, shots_per_look: int = WINDOW) -> Review:
    answers = {i: shot.pinned for i, shot in enumerate(scenes.shots[:-1]) if shot.pinned is not None}
    credits = credit_cuts(scenes.shots, scenes.segments)
    return review([shot.score for shot in scenes.shots], answers, shots_per_look, credits=credits)
