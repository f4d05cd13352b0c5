"""Reuse of existing results: each is kept, regrouped from its scores, or replaced by reading the video again."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, fields, replace
from pathlib import Path
from shlex import quote
from typing import Literal

from pipelines.errors import DatasetError
from pipelines.files import real
from pipelines.models.scenes.scene_names import with_automatic_names
from pipelines.outputs.results import is_corrected, needs_name, note_on_views, read_prediction, replace_result
from pipelines.progress import Status
from pipelines.scenes import Line, SceneData, VideoFacts, encode_json
from pipelines.settings import GROUPING, Grouping, Reading
from pipelines.stages.predict.model import SceneModel
from pipelines.stages.scene_list import SceneList
from pipelines.stages.settings import PredictSettings
from pipelines.video.inputs import fingerprint, has_content, modified, subtitles_beside, video_at
from pipelines.video_jobs import VideoTask

# If one of these differs, the video is read again. A result records the end of the part that was read, not its length.
SCORE_INPUTS = {"encoder_id", "model_id", *(one.name for one in fields(Reading))} - {
    "duration",
    "subtitles",
    "subtitle_encoding",
}

Action = Literal["keep", "regroup", "read", "refuse"]
"""What happens to an existing result: ``keep`` leaves it unchanged, ``regroup`` gives it other scenes, lines or names
without new scores, ``read`` computes new scores from the video, ``refuse`` leaves it although a change was
requested."""


def choose_action(
    *, is_corrected: bool, may_discard: bool, other_scores: bool, other_grouping: bool, other_text: bool
) -> Action:
    """Choose what to do with an existing result of a video.

    Args:
        is_corrected: it was corrected by hand.
        may_discard: corrections may be lost.
        other_scores: scores may differ, or the user wants the video read again.
        other_grouping: another grouping is requested.
        other_text: there are other subtitles, or a program is to name scenes.
    """
    if is_corrected and may_discard:
        return "read"
    if is_corrected and (other_scores or other_grouping):
        return "refuse"
    if other_scores:
        return "read"
    return "regroup" if other_grouping or other_text else "keep"


@dataclass(frozen=True)
class ReusePlan:
    """An existing result of a video, and the scenes that follow from it."""

    action: Literal["keep", "regroup", "refuse"]
    scenes: SceneList  # with a note about what changed
    stored_video: VideoFacts  # ``scenes.video`` has the current path
    is_corrected: bool  # by hand, so that only subtitles and names are added
    needs_images: bool  # of the shots, for a storyboard, a page, or a program that names scenes

    @property
    def status(self) -> Status:
        """Return the status of the video's result."""
        return "regrouped" if self.action == "regroup" else "kept"


def plan_reuse(model: SceneModel, task: VideoTask[PredictSettings]) -> ReusePlan | None:
    """Plan how to make a task's scenes from an existing result; None if the video has to be read.

    Raises BasslError if the file must not be replaced, see `read_prediction`, or the shots do not allow the grouping.
    """
    if not task.output.exists():
        return None
    settings, current = task.settings, fingerprint(task.video)
    stored = read_prediction(task.output, task.video, current, task.replaces)
    if stored is None:
        return None
    has_corrections = is_corrected(stored)
    encoding = settings.reading.subtitle_encoding or stored.settings.get("subtitle_encoding")
    lines, subtitles, warnings = _subtitles(task, stored, current, encoding)
    stored_grouping = Grouping().resolved()
    stored_grouping |= {name: stored.settings[name] for name in GROUPING if name in stored.settings}
    grouping = settings.grouping.resolved()
    if has_corrections:  # only options that were set may change the grouping
        options = {name: value for name, value in vars(settings.grouping).items() if value is not None}
        grouping = stored_grouping | options
    is_stale = _may_have_other_scores(model, task, stored, current)
    action = choose_action(
        is_corrected=has_corrections,
        may_discard=task.replaces.discard_corrections,
        other_scores=is_stale,
        other_grouping=grouping != stored_grouping,
        other_text=lines != stored.lines or _needs_names(stored, settings),
    )
    if action == "read":
        return None
    scenes, changes, needs_names = SceneList(**vars(stored)), list[str](), False
    if action == "regroup":
        pairs = ((name, grouping[name], value) for name, value in stored_grouping.items())
        changes = [f"{name} {value}, was {before}" for name, value, before in pairs if value != before]
        if lines != stored.lines:
            subtitle_option = settings.reading.subtitles and str(settings.reading.subtitles)
            text_settings = {"subtitles": subtitle_option, "subtitle_encoding": encoding}
            scenes = replace(scenes, lines=lines, settings={**scenes.settings, **text_settings}, warnings=warnings)
            scenes = with_automatic_names(scenes)
            changes.append(f"the subtitles of {subtitles}")
        if grouping != stored_grouping:
            from pipelines.models.scenes.scene_ends import with_grouping  # start-up time: NumPy

            scenes = with_grouping(scenes, grouping)
        if needs_names := _needs_names(scenes, settings):
            changes.append(f"names by {settings.describe}")
    needs_images = needs_names or (task.storyboard is not None and (bool(changes) or not task.storyboard.exists()))
    if task.page is not None:
        from pipelines.outputs.page import shows  # start-up time: Jinja, Pillow

        needs_images = needs_images or not shows(task.page, scenes)
    video = _present_video(stored.video, task.video, current, is_stale)
    note = f"{task.output}: {_note(task.output, action, has_corrections, changes, needs_images)}"
    scenes = replace(scenes, video=video, notes=(note,))
    return ReusePlan(action, scenes, stored.video, has_corrections, needs_images)


def _needs_names(scenes: SceneData, settings: PredictSettings) -> bool:
    command = settings.describe
    return command is not None and any(needs_name(scenes, scene, command) for scene in scenes.scenes)


def _subtitles(
    task: VideoTask[PredictSettings], stored: SceneData, current: str | None, encoding: str | None
) -> tuple[tuple[Line, ...], Path | None, tuple[str, ...]]:
    """Read a result's lines again, from the subtitle file that the settings name or the one beside the video; return
    also its path, and warnings. Raises DatasetError if a named file cannot be read; an unreadable file beside the video
    changes nothing."""
    subtitle_option = task.settings.reading.subtitles
    path = subtitle_option or (None if stored.settings.get("subtitles") else subtitles_beside(task.video))
    if path is None or current is None or task.replaces.overwrite:
        return stored.lines, path, ()
    from pipelines.video.reader import lines_from  # start-up time: PyAV

    try:
        lines, warnings = lines_from(path, encoding, task.video, stored.shots[0].start, stored.shots[-1].end)
        return lines, path, warnings
    except DatasetError:
        if subtitle_option:
            raise
        return stored.lines, path, ()


def _may_have_other_scores(
    model: SceneModel, task: VideoTask[PredictSettings], stored: SceneData, current: str | None
) -> bool:
    """Return whether scores made now may differ from the stored ones."""
    record, video = model.record(), stored.video
    return (
        task.replaces.overwrite
        or record["shots"] is not None  # a list of shots may change
        or current is None  # so may a pipe
        or video.fingerprint not in (None, current)
        or bool(stored.settings.get("speech"))  # an option of earlier versions changed its scores
        or any((stored.settings.get(name) or None) != (record[name] or None) for name in SCORE_INPUTS)
        or not has_content(task.video, video.modified, video.sha256)
    )


def _present_video(stored: VideoFacts, video: Path, current: str | None, is_stale: bool) -> VideoFacts:
    """Return the facts with the video's current path, and its current time so that its content is compared only
    once."""
    if stored.fingerprint == current and video_at(Path(stored.path), stored) is None:
        stored = replace(stored, path=str(video.absolute()))  # it was moved; other commands look there
    if stored.modified is not None and not is_stale and real(Path(stored.path)) == real(video):
        stored = replace(stored, modified=modified(video))
    return stored


def _note(path: Path, action: Action, is_corrected: bool, changes: list[str], reads_video: bool) -> str:
    if is_corrected:
        exception = f", except for {' and '.join(changes)}" if changes else ""
        others = f"; other scenes from its scores: bassl regroup {quote(str(path))} `output=FILE`"
        remedy = f"{others}; `discard_corrections=True` replaces it" if action == "refuse" else ""
        return f"was corrected by hand and is left as it is{exception}{remedy}"
    if not changes:
        return "unchanged; kept (`overwrite=True` reads the video again)"
    without_reading = "" if reads_video else ", without reading the video"
    return f"regrouped from its scores{without_reading} ({'; '.join(changes)})"


def save_reused(plan: ReusePlan, task: VideoTask[PredictSettings], version: str) -> SceneList:
    """Write changed scenes, or else the video's new path, and remove a storyboard that shows the old scenes. Return the
    scenes, with a note about an outdated page or storyboard beside the result. ``version``: of the result before it was
    read; see `replace_result`."""
    scenes = plan.scenes
    if plan.action == "regroup":
        replace_result(task.output, scenes, version)
        if task.storyboard is not None:
            task.storyboard.unlink(missing_ok=True)
        return replace(scenes, notes=scenes.notes + note_on_views(task.output, (task.storyboard, task.page)))
    # The file may be write-protected by hand, and its folder read-only.
    is_writable = all(os.access(path, os.W_OK) for path in (task.output, task.output.parent))
    if scenes.video != plan.stored_video and is_writable:
        content = json.loads(task.output.read_bytes())  # the rest of the file stays as it is
        content["video"] |= scenes.to_dict(task.output.parent)["video"]
        replace_result(task.output, encode_json(content, task.output), version)
    return scenes
