"""Reuse of an existing result: its shots, scores and segments stand for reading the video; what follows from these is
made anew."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from shlex import quote
from typing import Any

from pipelines.errors import CorrectedError, DatasetError
from pipelines.models.scenes.scene_names import with_automatic_names
from pipelines.results.replacing import is_corrected, needs_name, read_replaceable, without_corrections
from pipelines.scenes import SceneData
from pipelines.settings import GROUPING, Grouping, Reading
from pipelines.stages.predict.model import SceneModel
from pipelines.stages.scene_list import SceneList
from pipelines.stages.settings import PredictSettings
from pipelines.video.inputs import fingerprint, modified, subtitles_beside
from pipelines.video_jobs import VideoTask

# What decides the shots and scores. A result records the end of the part that was read, not its length.
_NOT_SCORED = {"duration", "subtitles", "subtitle_encoding"}
SCORE_INPUTS = {"encoder_id", "model_id", *(one.name for one in fields(Reading))} - _NOT_SCORED


@dataclass(frozen=True)
class Reused:
    """Scenes that follow from an existing result, without reading the video for its shots and scores."""

    stored: SceneData
    scenes: SceneList
    has_corrections: bool  # by hand, so that only subtitles and a program's names are added

    def has(self, scenes: SceneData) -> bool:
        """Return whether scenes are those of the existing result, whatever the path of the video."""
        return replace(scenes, video=self.stored.video, warnings=()) == SceneList(**vars(self.stored))

    def needs_images(self, task: VideoTask[PredictSettings]) -> bool:
        """Return whether images of the shots are needed: for a page that is missing or shows other scenes, or for a
        program that names scenes."""
        command = task.settings.describe
        if command is not None and any(needs_name(self.scenes, scene, command) for scene in self.scenes):
            return True
        if task.page is None:
            return False
        from pipelines.outputs.page import shows  # start-up time: Jinja, Pillow

        return not shows(task.page, self.scenes)

    def note(self, task: VideoTask[PredictSettings], scenes: SceneData) -> str:
        """Return one line on what became of the existing result: these scenes."""
        before, now = _grouping_of(self.stored), _grouping_of(scenes)
        changes = [f"{name} {now[name]}, was {value}" for name, value in before.items() if value != now[name]]
        if task.replaces.discard_corrections and is_corrected(self.stored):
            changes.append("corrections discarded")
        if scenes.lines != self.stored.lines:
            changes.append("other subtitles")
        if scenes.scenes != self.scenes.scenes:
            changes.append(f"names by {task.settings.describe}")
        if self.has_corrections:
            exception = f", except for {' and '.join(changes)}" if changes else ""
            return f"{task.output}: was corrected by hand and is left as it is{exception}"
        if self.has(scenes):
            return f"{task.output}: unchanged; kept (`overwrite=True` reads the video again)"
        return f"{task.output}: regrouped from its scores ({'; '.join(changes)})"


def reuse_result(model: SceneModel, task: VideoTask[PredictSettings]) -> Reused | None:
    """Return the scenes that a task's existing result gives with the task's settings, or None if the video has to be
    read: there is no result, or it is of other content, or was read with other settings.

    Scenes that a person corrected stay as they are, with the subtitles of today. Raises CorrectedError if they could
    not, StoreError for a file that must not be replaced, and BasslError if the shots do not allow the grouping."""
    current, settings = fingerprint(task.video), task.settings
    before = read_replaceable(task.output, task.video, current, task.replaces)
    if before is None:
        return None
    stored = without_corrections(before) if task.replaces.discard_corrections else before
    has_corrections = not task.replaces.discard_corrections and is_corrected(stored)
    record, facts = model.record(settings), stored.video
    is_stale = (
        task.replaces.overwrite
        or record["shots"] is not None  # a list of shots may change
        or current is None
        or facts.fingerprint not in (None, current)
        or facts.modified not in (None, modified(task.video))
        or any((stored.settings.get(name) or None) != (record[name] or None) for name in SCORE_INPUTS)
    )
    if is_stale and not has_corrections:
        return None
    stored_grouping = _grouping_of(stored)
    # Of a corrected result only options that were set ask for others.
    grouping = stored_grouping | settings.grouping.given if has_corrections else settings.grouping.resolved()
    if has_corrections and (is_stale or grouping != stored_grouping):
        others = f"other scenes from its scores: bassl regroup {quote(str(task.output))}"
        remedy = "`discard_corrections=True` replaces it"
        raise CorrectedError(f"{task.output}: was corrected by hand and is left as it is; {others}; {remedy}")
    scenes = _with_subtitles(task, stored)
    if not has_corrections and (grouping != stored_grouping or task.replaces.discard_corrections):
        from pipelines.models.scenes.scene_ends import with_grouping  # start-up time: NumPy

        scenes = with_grouping(scenes, grouping)
    scenes = replace(scenes, video=replace(scenes.video, path=str(task.video.absolute())))
    return Reused(before, SceneList(**vars(scenes)), has_corrections)


def _grouping_of(scenes: SceneData) -> dict[str, Any]:
    """Return the options of `Grouping` that scenes were grouped with."""
    stored = {name: scenes.settings.get(name) for name in GROUPING}
    return Grouping().resolved() | {name: value for name, value in stored.items() if value is not None}


def _with_subtitles(task: VideoTask[PredictSettings], stored: SceneData) -> SceneData:
    """Return the scenes with the lines of the subtitle file that the settings name, or of the one beside the video, and
    automatic names from these. Raises DatasetError if a named file cannot be read; an unreadable file beside the video
    changes nothing."""
    reading = task.settings.reading
    path = reading.subtitles or (None if stored.settings.get("subtitles") else subtitles_beside(task.video))
    if path is None:
        return stored
    from pipelines.video.reader import lines_from  # start-up time: PyAV

    encoding = reading.subtitle_encoding or stored.settings.get("subtitle_encoding")
    try:
        lines, warnings = lines_from(path, encoding, task.video, stored.shots[0].start, stored.shots[-1].end)
    except DatasetError:
        if reading.subtitles:
            raise
        return stored
    if lines == stored.lines:
        return stored
    subtitle_option = reading.subtitles and str(reading.subtitles)
    settings = {**stored.settings, "subtitles": subtitle_option, "subtitle_encoding": encoding}
    return with_automatic_names(replace(stored, lines=lines, settings=settings, warnings=warnings))
