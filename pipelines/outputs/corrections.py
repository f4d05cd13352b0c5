"""Scenes corrected by hand, which no command replaces unless asked to."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from pipelines.errors import BasslError, DatasetError, StoreError
from pipelines.scenes import SceneData, VideoFacts
from pipelines.settings import Grouping


def check_replaceable(
    path: Path, video: str | Path, is_same: Callable[[VideoFacts], bool], names: Collection[str] = ()
) -> None:
    """Check that a new result, of ``video``, may replace the file at ``path``, which may be missing, so that no
    correction is lost. ``is_same``: whether the video of a ``scenes.json`` is that video; ``names``: names of scenes in
    the new result, any other name was given by hand. Raises StoreError if the file is not a prediction of this video,
    or was corrected by hand."""
    if not path.exists():
        return
    from pipelines.datasets.scene_files import read_scene_list  # start-up time: NumPy

    remedy = "name another file, or replace it with `overwrite=True`"
    try:
        existing = read_scene_list(path)
    except DatasetError as error:
        raise StoreError(f"{error}; {remedy}") from error
    if "threshold" not in existing.settings:
        raise StoreError(f"{path}: was not made by `bassl predict`; {remedy}")
    if is_corrected(existing, names):
        raise StoreError(f"{path}: was corrected by hand (`bassl report` makes its page); {remedy}")
    if not is_same(existing.video):
        raise StoreError(f"{path}: contains the scenes of another video, not of {video}; {remedy}")


def is_corrected(existing: SceneData, names: Collection[str] = ()) -> bool:
    """Whether scenes were named by hand, except by ``names``, or do not follow from the scores, as after an edit of the
    file."""
    from pipelines.models.scene_ends import choose_scenes  # start-up time: NumPy

    if existing.settings.get("edited_by_hand") is True:
        return True
    if not {scene.name for scene in existing.scenes if scene.name is not None} <= set(names):
        return True
    try:
        predicted = choose_scenes(existing.shots, **Grouping().resolved(existing.settings))
    except (BasslError, TypeError, ValueError):
        return True
    ranges = ([(scene.start_shot, scene.end_shot) for scene in scenes] for scenes in (predicted, existing.scenes))
    return next(ranges) != next(ranges)
