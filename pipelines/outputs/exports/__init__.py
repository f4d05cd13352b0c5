"""Scenes and shots in the formats of other tools: editing tools, players, tables, labeling tools."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pipelines.errors import BasslError
from pipelines.files import STDIO, check_inputs_kept, write_atomically
from pipelines.outputs.exports import editing, lists
from pipelines.outputs.exports.content import Content
from pipelines.scenes import SceneData


@dataclass(frozen=True)
class Format:
    """One format: its purpose, the extension of its files, and the function from scenes, and whether their shots are
    listed instead, to its content.

    A file with the ``extension``, or one of ``others``, has this format, except ``.xml``, which two formats have.
    ``media``: whether the file refers to the video file.
    """

    purpose: str
    extension: str
    content: Callable[..., Content]
    others: tuple[str, ...] = ()
    media: bool = False


_FCP7 = "Final Cut Pro 7 XML, for Premiere Pro and DaVinci Resolve"
_FCPXML_MARKERS, _FCP7_MARKERS = partial(editing.fcpxml, markers=True), partial(editing.fcp7, markers=True)

FORMATS: dict[str, Format] = {
    "csv": Format("table with PySceneDetect's columns", ".csv", lists.table),
    "edl": Format("edit decision list, CMX 3600", ".edl", editing.edl, media=True),
    "otio": Format("OpenTimelineIO", ".otio", editing.otio, media=True),
    "fcpxml": Format("Final Cut Pro", ".fcpxml", editing.fcpxml, media=True),
    "fcp7": Format(_FCP7, ".xml", editing.fcp7, (".xmeml",), media=True),
    "resolve-markers": Format("markers for DaVinci Resolve", ".markers.edl", editing.marker_edl),
    "fcpxml-markers": Format("Final Cut Pro, markers", ".markers.fcpxml", _FCPXML_MARKERS, media=True),
    "fcp7-markers": Format("Premiere Pro, markers", ".markers.xml", _FCP7_MARKERS, media=True),
    "kdenlive": Format("guides for Kdenlive", ".guides.json", editing.kdenlive),
    "losslesscut": Format("LosslessCut", ".llc", editing.lossless_cut),
    "youtube": Format("chapters for YouTube", ".youtube.txt", lists.youtube),
    "kodi": Format("scene markers for Kodi", ".kodi.edl", lists.kodi),
    "matroska": Format("chapters for mkvmerge", ".chapters.xml", lists.matroska_chapters),
    "ffmetadata": Format("chapters for FFmpeg, into MP4 and others", ".ffmetadata", lists.ffmetadata, (".ffmeta",)),
    "webvtt": Format("chapters for web pages", ".vtt", lists.webvtt),
    "jsonl": Format("JSON Lines", ".jsonl", lists.json_lines, (".ndjson",)),
    "label-studio": Format("task for Label Studio", ".label-studio.json", lists.label_studio),
    "activitynet": Format("annotations of ActivityNet", ".activitynet.json", lists.activitynet),
    "cvat": Format("tags for CVAT", ".cvat.xml", lists.cvat),
    "elan": Format("annotations for ELAN: scenes, shots, subtitles, credits", ".eaf", lists.elan, media=True),
    "subtitle-edit": Format("shot changes for Subtitle Edit", ".shotchanges", lists.shot_changes),
    "qpfile": Format("key frames for x264 and x265", ".qp", lists.qp_file, (".qpfile",)),
}
"""By the name for ``--to``."""
_EXTENSIONS = {
    extension: name
    for name, format in FORMATS.items()
    for extension in (format.extension, *format.others)
    if extension != ".xml"
}


def _format_by_extension(path: Path) -> str | None:
    """The format of the longest extension that a path has, if there is one."""
    extensions = filter(path.name.lower().endswith, _EXTENSIONS)
    return _EXTENSIONS.get(max(extensions, key=len, default=""))


def format_of(path: Path) -> str:
    """The format of a path by its extension, the longest that matches. Raises BasslError: no format has that extension,
    or (``.xml``) two have."""
    if name := _format_by_extension(path):
        return name
    if is_scenes_json(path):
        raise BasslError(f"{path}: can be any format; give one with `to`")
    if path.suffix.lower() == ".xml":
        raise BasslError(f"{path}: two formats have the extension .xml; give `to=fcp7` or `to=matroska`")
    raise BasslError(f"{path}: unknown extension {path.suffix}; supported: .json {' '.join(_EXTENSIONS)}")


def export(
    scenes: SceneData, path: Path | str, format: str | None = None, shots: bool = False, **options: Any
) -> tuple[str, ...]:
    """Write scenes, or ``shots``, in a format of ``FORMATS``; None: by the extension of ``path``. ``options`` are the
    format's own: the ``separator`` of csv, and ``fields`` of jsonl. Returns warnings, one line each. Raises BasslError
    if the format is unknown, the path cannot be written or is the video itself."""
    path = Path(path)
    name = format or format_of(path)
    if name not in FORMATS:
        raise BasslError(f"unknown format {name!r}; supported: {', '.join(FORMATS)}")
    check_inputs_kept((path,), (Path(scenes.video.path),))
    content = FORMATS[name].content(scenes, shots, **options)
    write_atomically(path, content.text.encode("utf-8"))
    return content.warnings


def check_extension(path: Path, to: str | None = None) -> None:
    """Check before the work that :func:`save` has a format for ``path``, or that the extension does not contradict the
    format ``to``. Raises BasslError for an unknown extension, or the extension of another format."""
    if is_scenes_json(path):
        return
    name = format_of(path) if to is None else _format_by_extension(path)
    if to is not None and name not in (None, to):
        raise BasslError(f"{path}: the extension means {name}, but `to` is {to}")


def save(scenes: SceneData, path: Path) -> None:
    """Write ``scenes.json`` if the extension of the path is ``.json``, else the format of the extension. Raises
    BasslError as :func:`export`."""
    if is_scenes_json(path):
        scenes.save(path)
    else:
        export(scenes, path)


def is_scenes_json(path: Path) -> bool:
    """Whether :func:`save` writes ``scenes.json`` to this path: ``.json`` or stdout."""
    return path == STDIO or (path.name.lower().endswith(".json") and not _format_by_extension(path))
