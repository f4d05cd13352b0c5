"""Scenes and shots in the formats of other tools: editing tools, players, tables, labelling tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pipelines.errors import BasslError
from pipelines.files import STDIO, check_inputs_kept, write_atomically
from pipelines.outputs.exports.editing import FASTEST_EDL, edl, fcp7, fcpxml, kdenlive, lossless_cut, marker_edl, otio
from pipelines.outputs.exports.lists import (
    activitynet,
    cvat,
    elan,
    ffmetadata,
    json_lines,
    kodi,
    label_studio,
    matroska_chapters,
    qp_file,
    shot_changes,
    table,
    webvtt,
    youtube,
    youtube_warnings,
)
from pipelines.outputs.exports.timeline import timeline_warnings
from pipelines.scenes import SceneData


@dataclass(frozen=True)
class Format:
    """One format: its purpose, the extension of its files, and the function that makes its content.

    A file with the ``extension``, or one of ``others``, has this format, except ``.xml``, which two formats have.
    ``media``: whether the file refers to the video file. ``warnings``: why readers of the format may refuse the file.
    """

    purpose: str
    extension: str
    content: Callable[[SceneData, bool], str]
    others: tuple[str, ...] = ()
    media: bool = False
    warnings: Callable[[SceneData, bool], tuple[str, ...]] = lambda scenes, shots: ()


_edl_warnings = partial(timeline_warnings, fastest=FASTEST_EDL)

FORMATS: dict[str, Format] = {
    "csv": Format("table with PySceneDetect's columns", ".csv", table),
    "edl": Format("edit decision list, CMX 3600", ".edl", edl, media=True, warnings=_edl_warnings),
    "otio": Format("OpenTimelineIO", ".otio", otio, media=True, warnings=timeline_warnings),
    "fcpxml": Format("Final Cut Pro", ".fcpxml", fcpxml, media=True, warnings=timeline_warnings),
    "fcp7": Format(
        "Final Cut Pro 7 XML, for Premiere Pro and DaVinci Resolve",
        ".xml",
        fcp7,
        (".xmeml",),
        media=True,
        warnings=timeline_warnings,
    ),
    "resolve-markers": Format("markers for DaVinci Resolve", ".markers.edl", marker_edl, warnings=_edl_warnings),
    "fcpxml-markers": Format(
        "Final Cut Pro, markers",
        ".markers.fcpxml",
        partial(fcpxml, markers=True),
        media=True,
        warnings=timeline_warnings,
    ),
    "fcp7-markers": Format(
        "Premiere Pro, markers", ".markers.xml", partial(fcp7, markers=True), media=True, warnings=timeline_warnings
    ),
    "kdenlive": Format("guides for Kdenlive", ".guides.json", kdenlive, warnings=timeline_warnings),
    "losslesscut": Format("LosslessCut", ".llc", lossless_cut),
    "youtube": Format("chapters for YouTube", ".youtube.txt", youtube, warnings=youtube_warnings),
    "kodi": Format("scene markers for Kodi", ".kodi.edl", kodi),
    "matroska": Format("chapters for mkvmerge", ".chapters.xml", matroska_chapters),
    "ffmetadata": Format("chapters for FFmpeg, into MP4 and others", ".ffmetadata", ffmetadata, (".ffmeta",)),
    "webvtt": Format("chapters for web pages", ".vtt", webvtt),
    "jsonl": Format("JSON Lines", ".jsonl", json_lines, (".ndjson",)),
    "label-studio": Format("task for Label Studio", ".label-studio.json", label_studio),
    "activitynet": Format("annotations of ActivityNet", ".activitynet.json", activitynet),
    "cvat": Format("tags for CVAT", ".cvat.xml", cvat),
    "elan": Format("annotations for ELAN: scenes, shots, subtitles, credits", ".eaf", elan, media=True),
    "subtitle-edit": Format("shot changes for Subtitle Edit", ".shotchanges", shot_changes),
    "qpfile": Format("key frames for x264 and x265", ".qp", qp_file, (".qpfile",)),
}
"""By the name for ``--to``."""
_EXTENSIONS = {
    extension: name
    for name, format in FORMATS.items()
    for extension in (format.extension, *format.others)
    if extension != ".xml"
}


def format_of(path: Path) -> str:
    """The format of a path by its extension, the longest that matches. Raises BasslError: no format has that extension,
    or (``.xml``) two have."""
    if formats := _formats_by_extension(path):
        return formats[max(formats, key=len)]
    if is_scenes_json(path):
        raise BasslError(f"{path}: can be any format; give one with `to`")
    if path.suffix.lower() == ".xml":
        raise BasslError(f"{path}: two formats have the extension .xml; give `to=fcp7` or `to=matroska`")
    raise BasslError(f"{path}: unknown extension {path.suffix}; supported: .json {' '.join(_EXTENSIONS)}")


def _formats_by_extension(path: Path) -> dict[str, str]:
    """The formats that match a path, by extension."""
    return {extension: name for extension, name in _EXTENSIONS.items() if path.name.lower().endswith(extension)}


def export(
    scene_list: SceneData,
    path: Path | str,
    format: str | None = None,
    shots: bool = False,
    csv_separator: str = ",",
    more: Sequence[Mapping[str, object]] = (),
) -> None:
    """Write scenes, or ``shots``, in a format of ``FORMATS``; None: by the extension of ``path``. Raises BasslError if
    the format is unknown, the path cannot be written or is the video itself."""
    path = Path(path)
    name = format or format_of(path)
    writer = FORMATS.get(name)
    if writer is None:
        raise BasslError(f"unknown format {format!r}; supported: {', '.join(FORMATS)}")
    check_inputs_kept((path,), (Path(scene_list.video.path),))
    if name == "csv":
        content = table(scene_list, shots, csv_separator)
    elif name == "jsonl":
        content = json_lines(scene_list, shots, more)
    else:
        content = writer.content(scene_list, shots)
    write_atomically(path, content.encode("utf-8"))


def check_extension(path: Path, to: str | None = None) -> None:
    """Check before the work that :func:`save` has a format for ``path``, or that the extension does not contradict the
    format ``to``. Raises BasslError for an unknown extension, or the extension of another format."""
    if is_scenes_json(path):
        return
    if to is None:
        format_of(path)
    elif _formats_by_extension(path) and format_of(path) != to:
        raise BasslError(f"{path}: the extension means {format_of(path)}, but `to` is {to}")


def save(scene_list: SceneData, path: Path) -> None:
    """Write ``scenes.json`` if the extension of the path is ``.json``, else the format of the extension. Raises
    BasslError as :func:`export`."""
    if is_scenes_json(path):
        scene_list.save(path)
    else:
        export(scene_list, path)


def is_scenes_json(path: Path) -> bool:
    """Whether :func:`save` writes ``scenes.json`` to this path: ``.json`` or stdout."""
    return path == STDIO or (path.name.lower().endswith(".json") and not _formats_by_extension(path))
