"""Scenes that a person corrected, which no command replaces without being told to."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

from pipelines.errors import BasslError, DatasetError, StoreError
from pipelines.scenes import SceneList, VideoFacts
from pipelines.settings import Grouping


def check_replaceable(
    path: Path, video: str | Path, is_same: Callable[[VideoFacts], bool], names: Collection[str] = ()
) -> None:
    """Check that a new result may replace the file at ``path``, so that nobody's work is lost.

    Args:
        path: may be missing.
        video: of the new result.
        is_same: whether the video of a ``scenes.json`` is that video.
        names: names of scenes that the new result has, too; others were given by hand.

    Raises:
        StoreError: one line, where it is not a prediction of this video, or was corrected by hand.
    """
    if not path.exists():
        return
    from pipelines.datasets.scene_list import read_scene_list  # start-up time: NumPy

    remedy = "name another file, or replace it with --overwrite"
    try:
        left = read_scene_list(path)
    except DatasetError as error:
        raise StoreError(f"{error}; {remedy}") from error
    if "threshold" not in left.settings:
        raise StoreError(f"{path}: was not made by `bassl predict`; {remedy}")
    if _is_corrected(left, names):
        raise StoreError(f"{path}: was corrected by hand (`bassl report` makes its page); {remedy}")
    if not is_same(left.video):
        raise StoreError(f"{path}: holds the scenes of another video than {video}; {remedy}")


def _is_corrected(left: SceneList, names: Collection[str]) -> bool:
    """Whether a person named scenes, or the scenes are not those that the scores make, as after an edit of the file."""
    from pipelines.models.scene_ends import choose_scenes  # start-up time: NumPy

    if left.settings.get("edited_by_hand") is True:
        return True
    if not {scene.name for scene in left.scenes if scene.name is not None} <= set(names):
        return True
    try:
        found = choose_scenes(left.shots, **Grouping().resolved(left.settings))
    except (BasslError, TypeError, ValueError):
        return True
    chosen, stored = ([(scene.start_shot, scene.end_shot) for scene in scenes] for scenes in (found, left.scenes))
    return chosen != stored
