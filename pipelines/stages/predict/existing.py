"""Existing results of videos: kept if they are what the settings ask for, or regrouped from their scores."""

from __future__ import annotations

import json
import os
from dataclasses import fields
from pathlib import Path

from pipelines.datasets.parsing import MAX_SCENES_BYTES, read_json
from pipelines.datasets.scene_files import with_video
from pipelines.errors import StoreError
from pipelines.files import write_atomically
from pipelines.models.scene_ends import with_grouping
from pipelines.outputs.corrections import is_corrected, is_of, read_prediction
from pipelines.settings import Grouping, Reading
from pipelines.stages.predict.model import SceneModel
from pipelines.stages.predict.result import Outcome
from pipelines.stages.scene_list import SceneList
from pipelines.video.inputs import fingerprint, video_at

# What the scores depend on: if one of these differs, the video is read again. A result records the end of the part that
# was read, not its duration.
_DECIDING = (*(one.name for one in fields(Reading) if one.name != "duration"), "encoder_id", "model_id")


def existing_scenes(
    model: SceneModel, video: Path, output: Path, overwrite: bool, discard_corrections: bool
) -> Outcome | None:
    """The scenes that the settings of the model ask for, if they follow from an existing result of the video: as they
    are, or regrouped from their scores. Scenes that were corrected by hand are kept, without ``discard_corrections``,
    whatever was asked for. None if the video is to be read.

    Raises:
        BasslError: the file is not to be replaced, see `read_prediction`, or the shots do not allow the grouping.
    """
    before = read_prediction(output, video, is_of(video), overwrite=overwrite, discard_corrections=discard_corrections)
    if before is None:
        return None
    record, grouping, now = model.record(), model.settings.grouping, fingerprint(video)
    is_stale = (
        overwrite
        or record["shots"] is not None  # a list of shots may change
        or now is None  # and a pipe
        or before.video.fingerprint not in (None, now)
        or any((before.settings.get(name) or None) != (record[name] or None) for name in _DECIDING)
    )
    try:
        grouped = Grouping().resolved(before.settings)
    except ValueError as error:
        if discard_corrections:
            return None
        raise StoreError(
            f"{output}: its settings are not valid ({error}); `discard_corrections=True` replaces it"
        ) from error
    scenes = SceneList(**vars(before))
    if is_corrected(before):
        if discard_corrections:
            return None
        refused = is_stale or any(value not in (None, grouped[name]) for name, value in vars(grouping).items())
        left = "was corrected by hand and is left as it is"
        note = f"{output}: {left}; `discard_corrections=True` replaces it" if refused else f"{output}: {left}"
        return Outcome(scenes, "kept", note, corrected=True, refused=refused)
    if is_stale:
        return None
    values = grouping.resolved()
    changes = [f"{name} {values[name]}, was {grouped[name]}" for name in values if values[name] != grouped[name]]
    if not changes:
        return Outcome(scenes, "kept", f"{output}: is kept, as nothing changed; `overwrite=True` reads the video again")
    note = f"{output}: regrouped from its scores, without reading the video ({'; '.join(changes)})"
    return Outcome(with_grouping(scenes, values), "regrouped", note)


def has_images(existing: Outcome, storyboard: Path | None, page: Path | None) -> bool:
    """Whether the storyboard and page, if they have a path, show the scenes."""
    if storyboard is not None and (existing.status == "regrouped" or not storyboard.exists()):
        return False
    if page is None or not page.exists():
        return page is None
    from pipelines.outputs.page import shows  # start-up time: Jinja, Pillow

    return shows(page, existing.scenes)


def settle(existing: Outcome, video: Path, output: Path, storyboard: Path | None) -> None:
    """Write regrouped scenes, and the new path of a video that was moved, so that other commands find it. Removes a
    storyboard of other scenes."""
    moved = (
        existing.scenes.video.fingerprint is not None
        and video_at(Path(existing.scenes.video.path), existing.scenes.video) is None
    )
    scenes = with_video(existing.scenes, video) if moved else existing.scenes
    if existing.status == "regrouped":
        if storyboard is not None:
            storyboard.unlink(missing_ok=True)
        scenes.save(output)
    elif moved and os.access(output, os.W_OK):  # it may be write-protected by hand
        content = read_json(output, MAX_SCENES_BYTES)  # the rest of the file stays as it is
        content["video"] |= scenes.to_dict(output.parent)["video"]
        write_atomically(output, json.dumps(content, indent=1).encode() + b"\n")
