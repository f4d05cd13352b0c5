"""Scenes and shots in the formats of other tools: editing tools, players, tables, labelling tools."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pipelines.errors import BasslError
from pipelines.files import check_inputs_kept, write_atomically
from pipelines.outputs.exports.chapters import ffmetadata, matroska_chapters, webvtt
from pipelines.outputs.exports.editing import edl, fcp7, fcpxml, otio
from pipelines.outputs.exports.lists import json_lines, label_studio, table
from pipelines.scenes import SceneList

__all__ = ["FORMATS", "Format", "check_ending", "export", "format_of", "save"]


@dataclass(frozen=True)
class Format:
    """One format: its purpose, its file endings, and the function that makes its content.

    ``ending`` is that of a file without a given name; ``known_by`` are the endings that select the format. ``media``:
    whether the file refers to that of the film.
    """

    purpose: str
    ending: str
    known_by: tuple[str, ...]
    content: Callable[[SceneList, bool], str]
    media: bool = False


FORMATS: dict[str, Format] = {
    "csv": Format("table with PySceneDetect's columns", ".csv", (".csv",), table),
    "edl": Format("edit decision list, CMX 3600", ".edl", (".edl",), edl, media=True),
    "otio": Format("OpenTimelineIO", ".otio", (".otio",), otio, media=True),
    "fcpxml": Format("Final Cut Pro", ".fcpxml", (".fcpxml",), fcpxml, media=True),
    "fcp7": Format("Final Cut Pro 7 XML, for Premiere Pro and DaVinci Resolve", ".xml", (".xmeml",), fcp7, media=True),
    "matroska": Format("chapters for mkvmerge", ".chapters.xml", (".chapters.xml",), matroska_chapters),
    "ffmetadata": Format(
        "chapters for FFmpeg, into MP4 and others", ".ffmetadata", (".ffmetadata", ".ffmeta"), ffmetadata
    ),
    "webvtt": Format("chapters for web pages", ".vtt", (".vtt",), webvtt),
    "jsonl": Format("JSON Lines", ".jsonl", (".jsonl", ".ndjson"), json_lines),
    "label-studio": Format("task for Label Studio", ".label-studio.json", (".label-studio.json",), label_studio),
}
"""By the name for ``--to``."""


def format_of(path: Path) -> str:
    """The format that the ending of a path means. Raises BasslError: no format has that ending, or (``.xml``) two
    have."""
    name = path.name.lower()
    found = [key for key, known in FORMATS.items() if name.endswith(known.known_by)]
    if found:
        return found[0]
    if name.endswith(".xml"):
        raise BasslError(f"{path}: .xml is the ending of two formats; give --to fcp7 or --to matroska")
    endings = " ".join(ending for known in FORMATS.values() for ending in known.known_by)
    raise BasslError(f"{path}: no format is known by that ending; known are {endings}")


def export(scene_list: SceneList, path: Path | str, format: str | None = None, shots: bool = False) -> None:
    """Write scenes, or ``shots``, in a format of ``FORMATS``, None for the one that the ending of ``path`` means.
    Raises BasslError where the format is not known, the path cannot be written or is the film itself."""
    path = Path(path)
    known = FORMATS.get(format or format_of(path))
    if known is None:
        raise BasslError(f"'{format}' is not a format; there are {', '.join(FORMATS)}")
    check_inputs_kept((path,), (Path(scene_list.video.path),))
    write_atomically(path, known.content(scene_list, shots).encode("utf-8"))


def check_ending(path: Path) -> None:
    """Check that :func:`save` has a format for ``path``, before hours of work end there. Raises BasslError where its
    ending is neither ``.json`` nor that of one format."""
    if not is_scenes_json(path):
        format_of(path)


def save(scene_list: SceneList, path: Path) -> None:
    """Write ``scenes.json`` to a path that ends in ``.json``, else the format of its ending. Raises BasslError as
    :func:`export`."""
    if is_scenes_json(path):
        scene_list.save(path)
    else:
        export(scene_list, path)


def is_scenes_json(path: Path) -> bool:
    """Whether :func:`save` writes ``scenes.json`` to a path of this ending."""
    name = path.name.lower()
    return name.endswith(".json") and not name.endswith(FORMATS["label-studio"].known_by)
