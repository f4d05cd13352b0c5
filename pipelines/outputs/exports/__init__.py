"""Scenes and shots in the formats of other tools: editing tools, players, tables, labeling tools."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pipelines.errors import BasslError
from pipelines.files import EXPORT_EXTENSIONS, check_inputs_kept, write_atomically
from pipelines.outputs.exports import editing, lists
from pipelines.outputs.exports.timeline import Content
from pipelines.results.finding import is_scenes_json
from pipelines.scenes import SceneData


@dataclass(frozen=True)
class Format:
    """One format: its name, its purpose, and the function from scenes, and whether their shots are listed instead, to
    its content. ``media``: whether the file refers to the video file."""

    name: str
    purpose: str
    content: Callable[..., Content]
    media: bool = False

    @property
    def extension(self) -> str:
        """Return the extension of new files."""
        return EXPORT_EXTENSIONS[self.name][0]


_FCP7 = "Final Cut Pro 7 XML, for Premiere Pro and DaVinci Resolve"
_FCPXML_MARKERS, _FCP7_MARKERS = partial(editing.fcpxml, markers=True), partial(editing.fcp7, markers=True)

FORMATS = {
    form.name: form
    for form in (
        Format("csv", "table with PySceneDetect's columns", lists.table),
        Format("edl", "edit decision list, CMX 3600", editing.edl, media=True),
        Format("otio", "OpenTimelineIO", editing.otio, media=True),
        Format("fcpxml", "Final Cut Pro", editing.fcpxml, media=True),
        Format("fcp7", _FCP7, editing.fcp7, media=True),
        Format("resolve-markers", "markers for DaVinci Resolve", editing.marker_edl),
        Format("fcpxml-markers", "Final Cut Pro, markers", _FCPXML_MARKERS, media=True),
        Format("fcp7-markers", "Premiere Pro, markers", _FCP7_MARKERS, media=True),
        Format("kdenlive", "guides for Kdenlive", editing.kdenlive),
        Format("losslesscut", "LosslessCut", editing.lossless_cut),
        Format("youtube", "chapters for YouTube", lists.youtube),
        Format("kodi", "scene markers for Kodi", lists.kodi),
        Format("matroska", "chapters for mkvmerge", lists.matroska_chapters),
        Format("ffmetadata", "chapters for FFmpeg, into MP4 and others", lists.ffmetadata),
        Format("webvtt", "chapters for web pages", lists.webvtt),
        Format("jsonl", "JSON Lines", lists.json_lines),
        Format("label-studio", "task for Label Studio", lists.label_studio),
        Format("activitynet", "annotations of ActivityNet", lists.activitynet),
        Format("cvat", "tags for CVAT", lists.cvat),
        Format("elan", "annotations for ELAN: scenes, shots, subtitles, credits", lists.elan, media=True),
        Format("subtitle-edit", "shot changes for Subtitle Edit", lists.shot_changes),
        Format("qpfile", "key frames for x264 and x265", lists.qp_file),
    )
}
"""By the name for ``--to``."""
EDITORS = {
    "DaVinci Resolve": ("edl", "fcp7", "otio", "resolve-markers"),
    "Premiere Pro": ("fcp7", "edl", "fcp7-markers"),
    "Final Cut Pro": ("fcpxml", "fcpxml-markers"),
    "Kdenlive": ("kdenlive", "otio"),
    "Avid Media Composer": ("edl",),
}
"""By the name of an editing program, the formats that it reads."""
# Two formats have .xml.
_EXTENSIONS = {end: name for name, ends in EXPORT_EXTENSIONS.items() for end in ends if end != ".xml"}


def _format_by_extension(path: Path) -> str | None:
    """Return the format of the longest extension that a path has, if there is one."""
    extensions = filter(path.name.lower().endswith, _EXTENSIONS)
    return _EXTENSIONS.get(max(extensions, key=len, default=""))


def format_of(path: Path) -> str:
    """Return the format of a path by its extension, the longest that matches. Raises BasslError: no format has that
    extension, or (``.xml``) two have."""
    if name := _format_by_extension(path):
        return name
    if is_scenes_json(path):
        raise BasslError(f"{path}: can be any format; give one with `to`")
    if path.suffix.lower() == ".xml":
        raise BasslError(f"{path}: two formats have the extension .xml; give `to=fcp7` or `to=matroska`")
    raise BasslError(f"{path}: unknown extension {path.suffix}; supported: .json {' '.join(_EXTENSIONS)}")


def format_named(name: str) -> Format:
    """Return a format by its name. Raises BasslError for an unknown one."""
    if name not in FORMATS:
        raise BasslError(f"unknown format {name!r}; choose from {', '.join(FORMATS)}")
    return FORMATS[name]


def export(
    scenes: SceneData, path: Path | str, format: str | None = None, shots: bool = False, **options: Any
) -> tuple[str, ...]:
    """Write scenes, or ``shots``, in a format of ``FORMATS``; None: by the extension of ``path``. ``options`` are the
    format's own: the ``separator`` of csv, and ``fields`` of jsonl. Returns warnings, one line each. Raises BasslError
    if the format is unknown, the path cannot be written or is the video itself."""
    path = Path(path)
    kind = format_named(format or format_of(path))
    check_inputs_kept((path,), (Path(scenes.video.path),))
    content = kind.content(scenes, shots, **options)
    write_atomically(path, content.text.encode("utf-8"))
    return content.warnings


def check_extension(path: Path, to: str | None = None) -> None:
    """Check before the work that there is a format for ``path``, or that the extension does not contradict the
    format ``to``. Raises BasslError for an unknown extension, or the extension of another format."""
    if is_scenes_json(path):
        return
    name = format_of(path) if to is None else _format_by_extension(path)
    if to is not None and name not in (None, to):
        raise BasslError(f"{path}: the extension means {name}, but `to` is {to}")
