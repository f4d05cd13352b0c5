"""The scenes of a video in the formats of other tools."""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pipelines.errors import BasslError
from pipelines.files import STDIO, check_inputs_kept, make_folder, output_path
from pipelines.options import with_options
from pipelines.outputs.exports import FORMATS, export as write_export, format_of
from pipelines.outputs.names import image_folder, padded_number
from pipelines.outputs.opening import OpenedScenes, open_scenes
from pipelines.outputs.results import beside
from pipelines.outputs.shot_images import encodings_from_video
from pipelines.progress import ReportProgress
from pipelines.scenes import NO_VIDEO, Scene, SceneData, Shot
from pipelines.stages.settings import ExportSettings


@dataclass(frozen=True)
class ExportResult:
    """The files that were written, how many scenes, or shots, they list, and lines on what may be wrong with them."""

    paths: tuple[Path, ...]
    listed: int
    warnings: tuple[str, ...] = ()


def export(
    source: SceneData | Path | str,
    settings: ExportSettings | None = None,
    progress: ReportProgress | None = None,
    **options: Any,
) -> ExportResult:
    """Write scenes in one or more other formats. ``source``: scenes, a ``scenes.json``, or a video with a result;
    ``options`` by name, such as ``to``, override ``settings``; ``progress`` is called with the seconds of the video
    that are read for ``vectors``. Raises BasslError, one line, for a ``scenes.json`` that cannot be read, a named video
    that is another one, an extension of no format or of several, a separator without CSV, vectors without JSON Lines,
    or a path that cannot be written, is the video or is the ``scenes.json``."""
    settings = with_options(settings or ExportSettings, **options)
    output = settings.run.output
    if len(settings.to) > 1 and output is not None:
        make_folder(output)
    if settings.to:
        names = settings.to
    else:
        assert output is not None  # checked by the settings
        if output.is_dir():
            raise BasslError(f"{output}: is a folder; give the format of the file with `to`")
        names = (format_of(output),)
    separator = "\t" if settings.csv_separator == "tab" else settings.csv_separator
    if separator != "," and "csv" not in names:
        raise BasslError("`csv_separator` is for `to=csv`")
    if settings.vectors and "jsonl" not in names:
        raise BasslError("`vectors` are for `to=jsonl`")
    opened = open_scenes(source, settings.listed.video)
    paths = tuple(output_path(output, beside(opened.result, FORMATS[name].extension)) for name in names)
    check_inputs_kept(paths, (opened.file, settings.listed.video))
    warnings: tuple[str, ...] = ()
    more: list[dict[str, Any]] = []
    if "jsonl" in names:
        more, warnings = _search_fields(opened, settings, progress or (lambda doing, done, total: None))
    for name, path in zip(names, paths, strict=True):
        write_export(opened.scenes, path, name, settings.listed.shots, separator, more)
        warnings += FORMATS[name].warnings(opened.scenes, settings.listed.shots)
        if FORMATS[name].media and opened.video is None:
            warnings += (f"{opened.scenes.video.path}: {NO_VIDEO}; {path} refers to it all the same",)
    listed = opened.scenes.shots if settings.listed.shots else opened.scenes.scenes
    return ExportResult(paths, len(listed), tuple(dict.fromkeys(warnings)))  # formats may warn of the same


def _search_fields(
    opened: OpenedScenes, settings: ExportSettings, report: ReportProgress
) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    """What JSON Lines add for search to each scene, or shot, and warnings about the video: a ``keyframe``, which is the
    path of the middle image by `save-images`, if there is one that is newer than the ``scenes.json``; and with
    ``vectors`` a ``vector``, the mean encoding of its shots by the built-in encoder."""
    scenes, shots = opened.scenes, settings.listed.shots
    listed: Sequence[Scene | Shot] = scenes.shots if shots else scenes.scenes
    more: list[dict[str, Any]] = [{} for _ in listed]
    since = opened.file.stat().st_mtime if opened.file not in (None, STDIO) else math.inf
    folder_of_images = image_folder(opened.video_id)
    images = sorted(folder_of_images.iterdir()) if folder_of_images.is_dir() else []
    names = [image.name for image in images]
    for item, fields in zip(listed, more, strict=True):
        name = f"{opened.video_id}-{'shot' if shots else 'scene'}-{padded_number(item.index, len(listed))}-"
        first, stop = bisect_left(names, name), bisect_left(names, name + chr(sys.maxunicode))
        saved = [path for path in images[first:stop] if path.stat().st_mtime >= since]
        if saved:
            fields["keyframe"] = str(saved[len(saved) // 2].absolute())
    if not settings.vectors:
        return more, ()
    with TemporaryDirectory() as folder:
        file = opened.file
        if file in (None, STDIO):  # the process that reads the video reads a file
            file = Path(folder) / "scenes.json"
            scenes.save(file)
        content, warnings = encodings_from_video(
            scenes, file, opened.existing_video(), lambda done, total: report("reading", done, total)
        )
    for item, fields in zip(listed, more, strict=True):
        rows = content[item.start_shot : item.end_shot] if isinstance(item, Scene) else content[[item.index]]
        fields["vector"] = [round(float(value), 5) for value in rows.mean(axis=0)]
    return more, warnings
