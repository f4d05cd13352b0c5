"""The scenes of a video in the formats of other tools."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from pipelines.errors import BasslError
from pipelines.files import STDIO, check_inputs_kept, make_folder, output_path
from pipelines.options import resolve_settings
from pipelines.outputs.exports import FORMATS, export as write_export, format_of
from pipelines.outputs.exports.timeline import listed
from pipelines.progress import ReportProgress, no_progress
from pipelines.results.finding import beside, image_folder
from pipelines.results.opening import OpenedScenes, open_scenes
from pipelines.scenes import NO_VIDEO, Scene, SceneData
from pipelines.stages.settings import ExportSettings

if TYPE_CHECKING:  # types of options for editors and mypy
    from pipelines.stages.option_types import ExportOptions

_SEPARATORS = {"comma": ",", "semicolon": ";", "tab": "\t"}


@dataclass(frozen=True)
class ExportResult:
    """Files that were written, the number of scenes or shots in them, and lines on what may be wrong with them."""

    paths: tuple[Path, ...]
    listed: int
    warnings: tuple[str, ...] = ()


def export(
    source: SceneData | Path | str,
    settings: ExportSettings | None = None,
    progress: ReportProgress | None = None,
    **options: Unpack[ExportOptions],
) -> ExportResult:
    """Write scenes in one or more other formats. ``source``: scenes, a ``scenes.json``, or a video with a result;
    ``progress`` is called with the seconds of the video that are read for ``vectors``. Raises BasslError, one line, for
    a ``scenes.json`` that cannot be read, another video, unusable options, or a path that cannot be written."""
    settings = resolve_settings(ExportSettings, settings, options)
    output, names, shots = settings.run.output, settings.to, settings.selection.shots
    if len(names) > 1 and output is not None:
        make_folder(output)
    if output is not None and not output.is_dir():
        names = (format_of(output, *names),)
    elif not names:
        raise BasslError(f"{output}: is a folder; give the format of the file with `to`")
    if settings.csv_separator != "comma" and "csv" not in names:
        raise BasslError("`csv_separator` is for `to=csv`")
    if settings.vectors and "jsonl" not in names:
        raise BasslError("`vectors` are for `to=jsonl`")
    opened = open_scenes(source, settings.selection.video)
    paths = tuple(output_path(output, beside(opened.result, FORMATS[name].extension)) for name in names)
    check_inputs_kept(paths, (opened.file, settings.selection.video))
    warnings: tuple[str, ...] = ()
    format_options: dict[str, dict[str, Any]] = {"csv": {"separator": _SEPARATORS[settings.csv_separator]}}
    if "jsonl" in names:
        fields, warnings = _search_fields(opened, settings, progress or no_progress)
        format_options["jsonl"] = {"fields": fields}
    for name, path in zip(names, paths, strict=True):
        warnings += write_export(opened.scenes, path, name, shots, **format_options.get(name, {}))
        if FORMATS[name].media and opened.video is None:
            warnings += (f"{opened.scenes.video.path}: {NO_VIDEO}; {path} still references it",)
    return ExportResult(paths, len(listed(opened.scenes, shots)), tuple(dict.fromkeys(warnings)))  # each once


def _search_fields(
    opened: OpenedScenes, settings: ExportSettings, report: ReportProgress
) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """Return for each scene or shot its search fields in JSON Lines, and warnings: ``keyframe``, the middle image by
    `save-images` if it is newer than the ``scenes.json``, and with ``vectors`` the mean encoding of its shots."""
    scenes, shots, video = opened.scenes, settings.selection.shots, opened.name
    items = listed(scenes, shots)
    since = opened.file.stat().st_mtime if opened.file not in (None, STDIO) else math.inf
    name = re.compile(rf"{re.escape(video)}-{'shot' if shots else 'scene'}-([0-9]+)-")
    images: dict[int, list[Path]] = {}
    for image in sorted(image_folder(video).glob("*")):
        if (match := name.match(image.name)) and image.stat().st_mtime >= since:
            images.setdefault(int(match[1]) - 1, []).append(image)
    middle = {index: str(paths[len(paths) // 2].absolute()) for index, paths in images.items()}
    fields: list[dict[str, Any]] = [{"keyframe": middle[item.index]} if item.index in middle else {} for item in items]
    if not settings.vectors:
        return fields, ()
    from pipelines.outputs.images import encodings_from_video  # start-up time: Pillow

    content, warnings = encodings_from_video(scenes, opened.existing_video(), partial(report, "reading"))
    for item, added in zip(items, fields, strict=True):
        rows = content[item.start_shot : item.end_shot] if isinstance(item, Scene) else content[[item.index]]
        added["vector"] = [round(float(value), 5) for value in rows.mean(axis=0)]
    return fields, warnings
