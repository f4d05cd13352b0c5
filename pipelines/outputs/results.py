"""The result of a video, ``NAME.scenes.json``, and the files that belong to it: their names."""

from __future__ import annotations

from pathlib import Path

from pipelines.files import STDIO
from pipelines.video.inputs import safe_id


def result_name(video_id: str) -> str:
    """The name of the ``scenes.json`` of a video."""
    return f"{video_id}.scenes.json"


def result_path(video: Path) -> Path:
    """The path of the ``scenes.json`` of one video, in the working folder."""
    return Path(result_name(safe_id(video.stem)))


def beside(result: Path, extension: str) -> Path:
    """The path of what belongs to a ``scenes.json``, such as a page or an export: it has the same stem. In the working
    folder if the ``scenes.json`` is read from stdin."""
    return result.with_name(("scenes" if result == STDIO else result.stem) + extension)
