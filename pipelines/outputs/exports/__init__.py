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
from pipelines.outputs.exports.timeline import Content
from pipelines.scenes import SceneData


@dataclass(frozen=True)
class Format:
    """One format: its name, its extensions, of which new files have the first, its purpose, and the function from
    scenes, and whether their shots are listed instead, to its content. ``media``: whether the file refers to the video
    file."""

    name: str
    extensions: tuple[str, ...]
    purpose: str
    content: Callable[..., Content]
    media: bool = False

    @property
    def extension(self) -> str:
        """Return the extension of new files."""
        return self.extensions[0]


_FCPXML_MARKERS, _FCP7_MARKERS = partial(editing.fcpxml, markers=True), partial(editing.fcp7, markers=True)

FORMATS = {
    form.name: form
    for form in (  # in the order of the page's menu: what most people want from a program comes first
        Format("fcp7", (".xml", ".xmeml"), "Timeline for DaVinci Resolve and Premiere Pro", editing.fcp7, media=True),
        Format("fcpxml", (".fcpxml",), "Timeline for Final Cut Pro", editing.fcpxml, media=True),
        Format("otio", (".otio",), "Timeline for Kdenlive, OpenTimelineIO", editing.otio, media=True),
        Format("edl", (".edl",), "Timeline for Avid and others, CMX 3600", editing.edl, media=True),
        Format("losslesscut", (".llc",), "Segments for LosslessCut", editing.lossless_cut),
        Format("resolve-markers", (".markers.edl",), "Markers for DaVinci Resolve", editing.marker_edl),
        Format("fcp7-markers", (".markers.xml",), "Markers for Premiere Pro", _FCP7_MARKERS, media=True),
        Format("fcpxml-markers", (".markers.fcpxml",), "Markers for Final Cut Pro", _FCPXML_MARKERS, media=True),
        Format("kdenlive", (".guides.json",), "Guides for Kdenlive", editing.kdenlive),
        Format("kodi", (".kodi.edl",), "Markers for Kodi", lists.kodi),
        Format("youtube", (".youtube.txt",), "Chapters for YouTube", lists.youtube),
        Format("webvtt", (".vtt",), "Chapters for web pages", lists.webvtt),
        Format("matroska", (".chapters.xml",), "Chapters for MKV files, by mkvmerge", lists.matroska_chapters),
        Format("ffmetadata", (".ffmetadata", ".ffmeta"), "Chapters for MP4 files, by FFmpeg", lists.ffmetadata),
        Format("csv", (".csv",), "Table with PySceneDetect's columns", lists.table),
        Format("jsonl", (".jsonl", ".ndjson"), "JSON Lines, for search", lists.json_lines),
        Format("label-studio", (".label-studio.json",), "Task for Label Studio", lists.label_studio),
    )
}
"""By the name for ``--to``."""
_SHARED_EXTENSIONS = (".json", ".xml")  # alone, .json is that of a scenes.json
_EXTENSIONS = {end: form.name for form in FORMATS.values() for end in form.extensions if end not in _SHARED_EXTENSIONS}


def format_of(path: Path, to: str | None = None) -> str:
    """Return the format of a path: ``to``, or the one with its extension. Raises BasslError for an unknown
    extension, and for one that several formats have, or only others than ``to``."""
    endings = filter(path.name.lower().endswith, (*_EXTENSIONS, *_SHARED_EXTENSIONS))
    extension = max(endings, key=len, default="")
    fitting = [form.name for form in FORMATS.values() if any(end.endswith(extension) for end in form.extensions)]
    if to is not None:
        if to not in fitting:
            meaning = "scenes.json" if extension == ".json" else " or ".join(fitting)
            raise BasslError(f"{path}: the extension means {meaning}, but `to` is {to}")
        return to
    if path == STDIO:
        raise BasslError(f"{path}: can be any format; give one with `to`")
    if not extension:
        raise BasslError(f"{path}: unknown extension {path.suffix}; supported: .json {' '.join(_EXTENSIONS)}")
    if extension in _SHARED_EXTENSIONS:
        raise BasslError(f"{path}: {' and '.join(fitting)} have the extension {extension}; choose one with `to`")
    return _EXTENSIONS[extension]


def format_named(name: str) -> Format:
    """Return a format by its name. Raises BasslError for an unknown one."""
    if name not in FORMATS:
        raise BasslError(f"unknown format {name!r}; choose from {', '.join(FORMATS)}")
    return FORMATS[name]


def export(scenes: SceneData, path: Path, name: str, shots: bool = False, **options: Any) -> tuple[str, ...]:
    """Write scenes, or ``shots``, in the format of this name. ``options`` are the format's own: the ``separator`` of
    csv, and ``fields`` of jsonl. Returns warnings, one line each. Raises BasslError if the path cannot be written or is
    the video itself."""
    check_inputs_kept((path,), (Path(scenes.video.path),))
    content = FORMATS[name].content(scenes, shots, **options)
    write_atomically(path, content.text.encode("utf-8"))
    return content.warnings
