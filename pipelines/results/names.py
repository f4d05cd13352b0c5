"""Names of scenes, and of the files of one video, from a template in PySceneDetect's syntax."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path, PureWindowsPath
from string import Template

from pipelines.errors import BasslError
from pipelines.files import safe_name
from pipelines.scenes import Scene, SceneData, Shot

_BREAKS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_UNENCODABLE = re.compile("[\ud800-\udfff\ufffe\uffff]")


def name_of(item: Scene | Shot) -> str:
    """Return the name of a scene on one line; without a name, and for a shot, its kind and number."""
    name = one_line(item.name or "") if isinstance(item, Scene) else ""
    return name or f"{type(item).__name__} {item.index + 1}"


def video_name(scenes: SceneData) -> str:
    """Return the file name of the video, without its folder, on one line."""
    return one_line(PureWindowsPath(scenes.video.path).name)


def one_line(text: str) -> str:
    """Make text safe on a line and in XML 1.0: line ends, control characters and halves of surrogate pairs
    (Python's form of file names that are not UTF-8) become spaces or U+FFFD."""
    return _UNENCODABLE.sub("\ufffd", _BREAKS.sub(" ", text)).strip()


def check_template(template: str, names: Collection[str]) -> None:
    """Raise ValueError, one line, if the template contains a variable that is not one of ``names``."""
    parsed = Template(template)
    if not parsed.is_valid() or not set(parsed.get_identifiers()) <= set(names):
        supported = ", ".join(f"${name}" for name in names)
        raise ValueError(f"`filename` {template!r} has an unknown variable; choose from {supported} ($$ is a $)")


def file_names(template: str, rows: Iterable[Mapping[str, object]], suffix: str, variable: str) -> list[str]:
    """Return a name for each row of values, safe for every file system. Raises BasslError if two are equal; the message
    suggests to add ``variable`` to the template."""
    names = [safe_name(Template(template).substitute(row)) + suffix for row in rows]
    if duplicates := [name for name, times in Counter(map(str.casefold, names)).items() if times > 1]:
        raise BasslError(f"{duplicates[0]}: several files would have this name; add {variable} to `filename`")
    return names


def image_folder(video_id: str) -> Path:
    """Return the folder where `save-images` saves the images of a video, unless another folder is named."""
    return Path(f"{video_id}-images")


def padded_number(index: int, count: int) -> str:
    """Return the number ``index + 1`` with as many digits as ``count`` has, but at least three."""
    return f"{index + 1:0{max(3, len(str(count)))}d}"
