"""``bassl export``: the scenes of a video into the format of another tool."""

from __future__ import annotations

from pathlib import Path

import typer

from bassl_cli import console
from bassl_cli.options import SCENES, SceneFiles, with_settings
from pipelines.errors import BasslError
from pipelines.files import check_names_folder
from pipelines.options import with_options
from pipelines.outputs.exports import FORMATS
from pipelines.stages.settings import ExportSettings
from pipelines.video.inputs import video_ids


@with_settings(
    metavars={"to": "FORMAT"},
    notes="Formats:\n\n" + "\n".join(f"{name}: {known.purpose}" for name, known in FORMATS.items()),
)
def export(settings: ExportSettings, files: SceneFiles = [SCENES], quiet: console.Quiet = False) -> None:  # noqa: B006
    """Convert scenes for an editing tool, a player, a table or a labelling tool.

    Examples: bassl export scenes.json --to edl, bassl export out/*.json --to youtube -o chapters/
    """
    from pipelines.stages.export import export as stage  # start-up time: NumPy, PyAV

    each = {files[0]: settings}
    if len(files) > 1:
        if settings.to is None or settings.listed.video is not None:
            raise BasslError("several files are exported with --to FORMAT, and without --video; -o names a folder")
        if settings.run.output is not None:
            check_names_folder(settings.run.output)
        names = [None if settings.run.output is None else settings.run.output / name for name in video_ids(files)]
        extension = FORMATS[settings.to].extension
        paths = [name and name.with_name(name.name + extension) for name in names]
        each = {file: with_options(settings, output=path) for file, path in zip(files, paths, strict=True)}

    def export_one(file: Path) -> None:
        result = stage(file, each[file])
        for warning in result.warnings:
            console.warn(warning)
        if not quiet:
            console.say(
                f"{console.count(result.listed, 'shot' if settings.listed.shots else 'scene')}; wrote {result.path}"
            )

    if console.try_each(files, export_one):
        raise typer.Exit(1)
