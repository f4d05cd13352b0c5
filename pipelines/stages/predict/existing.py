"""Existing results of videos: kept if they are what the settings ask for, or regrouped from their scores."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, fields, replace
from pathlib import Path

from pipelines.datasets.parsing import read_json
from pipelines.errors import DatasetError
from pipelines.files import real, write_atomically
from pipelines.models.scenes.scene_names import with_automatic_names
from pipelines.outputs.corrections import is_corrected, read_prediction
from pipelines.outputs.results import note_on_views
from pipelines.progress import Status
from pipelines.scenes import VideoFacts
from pipelines.settings import GROUPING, Grouping, Reading
from pipelines.stages.predict.model import SceneModel
from pipelines.stages.predict.settings import PredictSettings
from pipelines.stages.scene_list import SceneList
from pipelines.video.inputs import fingerprint, has_content, modified, subtitles_beside, video_at
from pipelines.video_jobs import VideoTask

# What the scores depend on: if one of these differs, the video is read again. A result records the end of the part that
# was read, not its duration.
_DECIDING = {"encoder_id", "model_id", *(one.name for one in fields(Reading))} - {"duration", "subtitles"}


@dataclass(frozen=True)
class Existing:
    """An existing result of a video, and the scenes that the settings ask for, which follow from it."""

    scenes: SceneList  # with a note on what changed
    status: Status
    video: VideoFacts  # as in the file; ``scenes.video`` says where it is now
    corrected: bool  # by hand, so that only subtitles and names are added
    refused: bool  # corrected, though other scenes are asked for
    needs_images: bool  # of the shots, for a storyboard, a page, or a program that names scenes


def existing_scenes(model: SceneModel, task: VideoTask[PredictSettings]) -> Existing | None:
    """The scenes that the settings of the task ask for, if they follow from an existing result of the video. Scenes
    that were corrected by hand are kept, unless the task replaces them, whatever was asked for. None if the video is to
    be read. Raises BasslError if the file is not to be replaced, see `read_prediction`, or the shots do not allow the
    grouping."""
    output, settings, replaces = task.output, task.settings, task.replaces
    if not output.exists():
        return None
    now = fingerprint(task.video)
    before = read_prediction(output, task.video, now, replaces)
    if before is None:
        return None
    record, corrected = model.record(), is_corrected(before)
    lines, named = before.lines, settings.reading.subtitles
    subtitles = named or (None if before.settings.get("subtitles") else subtitles_beside(task.video))
    if subtitles is not None and now is not None and not replaces.overwrite:
        from pipelines.video.reader import lines_from  # start-up time: PyAV

        try:
            lines = lines_from(subtitles, task.video, before.shots[0].start, before.shots[-1].end)
        except DatasetError:
            if named:
                raise
    is_stale = (
        replaces.overwrite
        or record["shots"] is not None  # a list of shots may change
        or now is None  # and a pipe
        or before.video.fingerprint not in (None, now)
        or any((before.settings.get(name) or None) != (record[name] or None) for name in _DECIDING)
        or (settings.reading.speech and lines != before.lines)
        or not has_content(task.video, before.video.modified, before.video.sha256)
    )
    if replaces.discard_corrections if corrected else is_stale:
        return None
    from pipelines.models.scenes.scene_ends import with_grouping  # start-up time: NumPy

    was = Grouping().resolved() | {name: before.settings[name] for name in GROUPING if name in before.settings}
    is_other = any(value not in (None, was[name]) for name, value in vars(settings.grouping).items())
    refused = corrected and (is_stale or is_other)
    values = was if corrected else settings.grouping.resolved()
    changes = [f"{name} {value}, was {was[name]}" for name, value in values.items() if value != was[name]]
    scenes = SceneList(**vars(before))
    if lines != scenes.lines and not refused:
        scenes = replace(scenes, lines=lines, settings={**scenes.settings, "subtitles": named and str(named)})
        scenes = with_automatic_names(scenes)
        changes.append(f"the subtitles of {subtitles}")
    if values != was:
        scenes = with_grouping(scenes, values)
    is_described = settings.describe is not None and not refused and any(scene.lacks_name for scene in scenes)
    if is_described:
        changes.append(f"names by {settings.describe}")
    needs_images = is_described or (task.storyboard is not None and (bool(changes) or not task.storyboard.exists()))
    if task.page is not None:
        from pipelines.outputs.page import shows  # start-up time: Jinja, Pillow

        needs_images = needs_images or not shows(task.page, scenes)
    if corrected:
        note = "was corrected by hand and is left as it is" + f", except for {' and '.join(changes)}" * bool(changes)
        note += "; `discard_corrections=True` replaces it" * refused
    elif changes:
        how = "" if needs_images else ", without reading the video"
        note = f"regrouped from its scores{how} ({'; '.join(changes)})"
    else:
        note = "is kept, as nothing changed; `overwrite=True` reads the video again"
    video = before.video
    if video.fingerprint == now and video_at(Path(video.path), video) is None:
        video = replace(video, path=str(task.video.absolute()))  # it was moved; other commands look there
    if video.modified is not None and not is_stale and real(Path(video.path)) == real(task.video):
        video = replace(video, modified=modified(task.video))  # so that its content is compared once
    scenes = replace(scenes, video=video, notes=(f"{output}: {note}",))
    return Existing(scenes, "regrouped" if changes else "kept", before.video, corrected, refused, needs_images)


def save_existing(existing: Existing, task: VideoTask[PredictSettings]) -> SceneList:
    """Write scenes that changed, or else where the video is now; removes a storyboard of other scenes. Returns the
    scenes, with a note on a page and storyboard beside the result that stay old."""
    scenes = existing.scenes
    if existing.status == "regrouped":
        if task.storyboard is not None:
            task.storyboard.unlink(missing_ok=True)
        scenes.save(task.output)
        return replace(scenes, notes=scenes.notes + note_on_views(task.output, (task.storyboard, task.page)))
    if scenes.video != existing.video and os.access(task.output, os.W_OK):  # it may be write-protected by hand
        content = read_json(task.output)  # the rest of the file stays as it is
        content["video"] |= scenes.to_dict(task.output.parent)["video"]
        write_atomically(task.output, json.dumps(content, indent=1).encode() + b"\n")
    return scenes
