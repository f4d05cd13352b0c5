"""Existing results of videos: kept if they are what the settings ask for, or regrouped from their scores."""

from __future__ import annotations

import json
import os
from dataclasses import fields, replace
from pathlib import Path

from pipelines.datasets.parsing import read_json
from pipelines.datasets.scene_files import with_video
from pipelines.errors import StoreError
from pipelines.files import real, write_atomically
from pipelines.models.scene_ends import with_grouping
from pipelines.models.scene_names import with_automatic_names
from pipelines.outputs.corrections import is_corrected, is_of, read_prediction
from pipelines.outputs.results import note_on_views
from pipelines.settings import Grouping, Reading
from pipelines.stages.predict.model import SceneModel
from pipelines.stages.predict.result import Outcome
from pipelines.stages.predict.settings import PredictSettings
from pipelines.stages.scene_list import SceneList
from pipelines.video.inputs import fingerprint, has_content, modified, video_at
from pipelines.video.reader import lines_from
from pipelines.video_jobs import VideoTask

# What the scores depend on: if one of these differs, the video is read again. A result records the end of the part that
# was read, not its duration.
_DECIDING = (
    *(one.name for one in fields(Reading) if one.name not in ("duration", "subtitles")),
    *("encoder_id", "model_id"),
)


def existing_scenes(model: SceneModel, task: VideoTask[PredictSettings]) -> Outcome | None:
    """The scenes that the settings of the model ask for, if they follow from an existing result of the video: as they
    are, or regrouped from their scores. Scenes that were corrected by hand are kept, unless the task replaces them,
    whatever was asked for. None if the video is to be read. Raises BasslError if the file is not to be replaced, see
    `read_prediction`, or the shots do not allow the grouping."""
    output, replaces = task.output, task.replaces
    before = read_prediction(output, task.video, is_of(task.video), replaces)
    if before is None:
        return None
    record, grouping, now = model.record(), model.settings.grouping, fingerprint(task.video)
    is_stale = (
        replaces.overwrite
        or record["shots"] is not None  # a list of shots may change
        or now is None  # and a pipe
        or before.video.fingerprint not in (None, now)
        or any((before.settings.get(name) or None) != (record[name] or None) for name in _DECIDING)
        or not has_content(task.video, before.video.modified, before.video.sha256)
    )
    try:
        grouped = Grouping().resolved(before.settings)
    except ValueError as error:
        if replaces.discard_corrections:
            return None
        raise StoreError(
            f"{output}: its settings are not valid ({error}); `discard_corrections=True` replaces it"
        ) from error
    scenes, new_lines = SceneList(**vars(before)), ""
    subtitles = model.settings.reading.subtitles
    if subtitles is not None and not is_stale:
        lines = lines_from(subtitles, task.video, scenes.shots[0].start, scenes.shots[-1].end)
        if lines != scenes.lines:
            settings = {**scenes.settings, "subtitles": str(subtitles)}
            scenes = with_automatic_names(replace(scenes, lines=lines, settings=settings))
            new_lines = f"the subtitles of {subtitles}"
    if is_corrected(before):
        if replaces.discard_corrections:
            return None
        refused = is_stale or any(value not in (None, grouped[name]) for name, value in vars(grouping).items())
        left = "was corrected by hand and is left as it is"
        note = f"{output}: {left}; `discard_corrections=True` replaces it" if refused else f"{output}: {left}"
        if new_lines and not refused:
            return Outcome(scenes, "regrouped", f"{output}: has {new_lines}; else it {left}", corrected=True)
        return Outcome(scenes, "kept", note, corrected=True, refused=refused)
    if is_stale:
        return None
    values = grouping.resolved()
    changes = [f"{name} {values[name]}, was {grouped[name]}" for name in values if values[name] != grouped[name]]
    changes += [new_lines] if new_lines else []
    if not changes:
        return Outcome(scenes, "kept", f"{output}: is kept, as nothing changed; `overwrite=True` reads the video again")
    note = f"{output}: regrouped from its scores, without reading the video ({'; '.join(changes)})"
    return Outcome(with_grouping(scenes, values), "regrouped", note)


def has_images(existing: Outcome, task: VideoTask[PredictSettings]) -> bool:
    """Whether the storyboard and page, if they have a path, show the scenes."""
    if task.storyboard is not None and (existing.status == "regrouped" or not task.storyboard.exists()):
        return False
    if task.page is None or not task.page.exists():
        return task.page is None
    from pipelines.outputs.page import shows  # start-up time: Jinja, Pillow

    return shows(task.page, existing.scenes)


def settle(existing: Outcome, task: VideoTask[PredictSettings]) -> Outcome:
    """Write regrouped scenes, the new path of a video that was moved, so that other commands find it, and its new time,
    so that its content is compared once. Removes a storyboard of other scenes. The note of the result also names a page
    and storyboard beside it that stay old."""
    facts, now = existing.scenes.video, modified(task.video)
    moved = facts.fingerprint is not None and video_at(Path(facts.path), facts) is None
    scenes = with_video(existing.scenes, task.video) if moved else existing.scenes
    is_own = moved or real(Path(facts.path)) == real(task.video)
    touched = is_own and not existing.refused and facts.modified not in (None, now)
    if touched:
        scenes = replace(scenes, video=replace(scenes.video, modified=now))
    if existing.status == "regrouped":
        if task.storyboard is not None:
            task.storyboard.unlink(missing_ok=True)
        scenes.save(task.output)
        if views := note_on_views(task.output, (task.storyboard, task.page)):
            return replace(existing, note=f"{existing.note}; {views}")
    elif (moved or touched) and os.access(task.output, os.W_OK):  # it may be write-protected by hand
        content = read_json(task.output)  # the rest of the file stays as it is
        content["video"] |= scenes.to_dict(task.output.parent)["video"]
        write_atomically(task.output, json.dumps(content, indent=1).encode() + b"\n")
    return existing
