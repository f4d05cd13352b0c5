"""Scenes corrected by hand, which a command replaces only with `discard_corrections`."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path, PureWindowsPath

from pipelines.errors import BasslError, CorrectedError, DatasetError, StoreError
from pipelines.files import STDIO, real
from pipelines.outputs.exports import is_scenes_json
from pipelines.scenes import SceneData, shot_ranges
from pipelines.settings import Grouping, ScenesOutput


def read_prediction(path: Path, video: Path, fingerprint: str | None, replaces: ScenesOutput) -> SceneData | None:
    """The prediction of ``video`` at ``path``; None if there is no ``scenes.json``, or one that ``overwrite`` replaces.

    A prediction is of the video with its fingerprint or path: a video that was changed at its path is the same. One
    without a fingerprint is of any video with the name. Raises StoreError for a file that may not be replaced: without
    ``overwrite`` anything else than a prediction of this video; scenes of another video that were corrected by hand,
    also without ``discard_corrections``.
    """
    if path == STDIO or not is_scenes_json(path) or not path.exists():
        return None
    from pipelines.datasets.scenes_json import read_scene_list  # start-up time: NumPy

    remedy = "name another file, or replace it with `overwrite=True`"
    try:
        existing = read_scene_list(path)
        if "threshold" not in existing.settings:
            raise DatasetError(f"{path}: was not made by `bassl predict`")
    except DatasetError as error:
        if replaces.overwrite:
            return None
        raise StoreError(f"{error}; {remedy}") from error
    facts = existing.video
    if facts.fingerprint is None:
        is_same = PureWindowsPath(facts.path).name == PureWindowsPath(video).name
    else:
        is_same = facts.fingerprint == fingerprint or real(Path(facts.path)) == real(video)
    if is_same:
        return existing
    is_kept = is_corrected(existing) and not replaces.discard_corrections
    if replaces.overwrite and not is_kept:
        return None
    remedy += " and `discard_corrections=True`: it was corrected by hand" if is_kept else ""
    raise StoreError(f"{path}: contains the scenes of another video, not of {video}; {remedy}")


def check_replaceable(
    path: Path, video: Path, fingerprint: str | None, replaces: ScenesOutput, lasting: Collection[object] = ()
) -> None:
    """Check that a new result, of ``video``, may replace the file at ``path``, which may be missing, so that no
    correction is lost. ``lasting``: `names_and_pins` that are not lost. Raises StoreError as `read_prediction`, and
    CorrectedError, without ``discard_corrections``, for scenes that were corrected by hand."""
    existing = read_prediction(path, video, fingerprint, replaces)
    if existing is not None and not replaces.discard_corrections and is_corrected(existing, lasting):
        raise CorrectedError(
            f"{path}: was corrected by hand (`bassl report` makes its page); name another file, or replace it with "
            "`discard_corrections=True`"
        )


def names_and_pins(scenes: SceneData) -> set[object]:
    """What a person added to a result: names of scenes, and pins as (end of the shot in frames, whether a scene ends
    there)."""
    pins = {(shot.end_frame, shot.pinned) for shot in scenes.shots if shot.pinned is not None}
    return pins | {scene.name for scene in scenes.scenes if scene.name is not None and scene.named_by is None}


def is_corrected(scenes: SceneData, lasting: Collection[object] = ()) -> bool:
    """Whether there are names or pins other than ``lasting``, or scenes that do not follow from scores and pins, as
    after an edit of the file."""
    from pipelines.models.scenes.scene_ends import choose_scenes  # start-up time: NumPy

    if scenes.settings.get("edited_by_hand") is True:
        return True
    if not names_and_pins(scenes) <= set(lasting):
        return True
    try:
        predicted = choose_scenes(scenes.shots, **Grouping().resolved(scenes.settings))
    except (BasslError, TypeError, ValueError):
        return True
    return shot_ranges(predicted) != shot_ranges(scenes.scenes)
