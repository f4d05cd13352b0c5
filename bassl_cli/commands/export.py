"""``bassl export``: the scenes of videos in the formats of other tools."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import typer

from bassl_cli import console
from bassl_cli.options import Results, with_settings
from pipelines.errors import BasslError
from pipelines.outputs.exports import FORMATS
from pipelines.outputs.results import check_one_video, make_output_folder
from pipelines.stages.settings import ExportSettings


@with_settings(
    spellings={"to": "FORMAT,..."},
    notes="Formats:\n\n" + "\n".join(f"{name}: {known.purpose}" for name, known in FORMATS.items()),
)
def export(settings: ExportSettings, sources: Results = []) -> None:
    """Convert scenes for an editing tool, a player, a table or a labelling tool.

    Examples: bassl export movie.mp4 --to edl,youtube, bassl export videos/ --to csv -o tables/
    """
    from pipelines.stages.export import export as stage  # start-up time: NumPy, PyAV

    check_one_video(sources, settings.listed.video)
    if len(sources) > 1 and not settings.to:
        raise BasslError("several results are exported with --to FORMAT; -o names a folder")
    make_output_folder(sources, settings.run.output)

    def export_one(source: Path) -> None:
        with console.stage_progress(source.name) if settings.vectors else nullcontext() as progress:
            result = stage(source, settings, progress)
        console.warn(*result.warnings)
        counted = console.count(result.listed, "shot" if settings.listed.shots else "scene")
        console.print_info(f"{counted}; wrote {', '.join(map(console.display_path, result.paths))}")

    if console.try_each(sources, export_one):
        raise typer.Exit(1)
