"""Scenes that a person corrected, which no command replaces without being told to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from pipelines.datasets.parsing import MAX_SCENES_BYTES, read_json
from pipelines.errors import DatasetError, StoreError
from pipelines.scenes import SCHEMA


def check_replaceable(
    path: Path, film: str | Path, is_same: Callable[[Mapping[str, Any]], bool], names: Collection[str] = ()
) -> None:
    """Check that a new result may replace the file at ``path``, so that nobody's work is lost.

    Args:
        path: may be missing.
        film: of the new result.
        is_same: whether the ``video`` of a ``scenes.json`` is that film.
        names: names of scenes that the new result has, too; others were given by hand.

    Raises:
        StoreError: one line, where it is no prediction of this film, or was corrected by hand.
    """
    if not path.exists():
        return
    try:
        content = read_json(path, MAX_SCENES_BYTES)
        settings = content["settings"]
        named = {scene["name"] for scene in content["scenes"] if "name" in scene}
        corrected = settings.get("edited_by_hand") is True or not named <= set(names)
        predicted = content["schema"] == SCHEMA and "threshold" in settings
        same = is_same(content["video"])
    except (DatasetError, ValueError, KeyError, TypeError, AttributeError):
        predicted = False
    remedy = "name another file, or replace it with --overwrite"
    if not predicted:
        raise StoreError(f"{path}: was not made by `bassl predict`; {remedy}")
    if corrected:
        raise StoreError(f"{path}: was corrected by hand (`bassl report` makes its page); {remedy}")
    if not same:
        raise StoreError(f"{path}: holds the scenes of another film than {film}; {remedy}")
