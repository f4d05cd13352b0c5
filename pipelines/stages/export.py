"""The scenes of a video in the formats of other tools."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.errors import BasslError
from pipelines.files import check_inputs_kept, make_folder, output_path
from pipelines.options import with_options
from pipelines.outputs.exports import FORMATS, export as write_export, format_of
from pipelines.outputs.opening import open_scenes
from pipelines.outputs.results import beside
from pipelines.scenes import NO_VIDEO, SceneData
from pipelines.stages.settings import ExportSettings


@dataclass(frozen=True)
class ExportResult:
    """The files that were written, how many scenes, or shots, they list, and lines on what may be wrong with them."""

    paths: tuple[Path, ...]
    listed: int
    warnings: tuple[str, ...] = ()


def export(source: SceneData | Path | str, settings: ExportSettings | None = None, **options: Any) -> ExportResult:
    """Write scenes in one or more other formats. ``source``: scenes, a ``scenes.json``, or a video with a result;
    ``options`` by name, such as ``to``, override ``settings``. Raises BasslError, one line, for a ``scenes.json`` that
    cannot be read, a named video that is another one, an extension of no format or of several, a separator without
    CSV, or a path that cannot be written, is the video or is the ``scenes.json``."""
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
    opened = open_scenes(source, settings.listed.video)
    paths = tuple(output_path(output, beside(opened.result, FORMATS[name].extension)) for name in names)
    check_inputs_kept(paths, (opened.file, settings.listed.video))
    warnings: tuple[str, ...] = ()
    for name, path in zip(names, paths, strict=True):
        write_export(opened.scenes, path, name, settings.listed.shots, separator)
        warnings += FORMATS[name].warnings(opened.scenes, settings.listed.shots)
        if FORMATS[name].media and opened.video is None:
            warnings += (f"{opened.scenes.video.path}: {NO_VIDEO}; {path} refers to it all the same",)
    listed = opened.scenes.shots if settings.listed.shots else opened.scenes.scenes
    return ExportResult(paths, len(listed), tuple(dict.fromkeys(warnings)))  # formats may warn of the same
