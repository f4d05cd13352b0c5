"""``bassl export``: the scenes of a film into the format of another tool."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bassl_cli import console
from pipelines.errors import BasslError
from pipelines.outputs.exports import FORMATS
from pipelines.stages.export import ExportSettings
from pipelines.stages.export import export as write_export


def export(
    file: Annotated[Path, typer.Argument(metavar="SCENES.JSON", help="What predict wrote.", show_default=False)] = Path(
        "scenes.json"
    ),
    to: Annotated[
        str | None,
        typer.Option(
            "--to", metavar="FORMAT", help=f"{', '.join(FORMATS)}; unless given, what the ending of -o means."
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="File to write (unless given: scenes.ENDING beside it).", show_default=False
        ),
    ] = None,
    shots: Annotated[bool, typer.Option("--shots", help="List the shots instead of the scenes.")] = False,
    quiet: console.Quiet = False,
    debug: console.Debug = False,
) -> None:
    """Take scenes to an editing tool, a player, a table or a labelling tool.

    Example: bassl export scenes.json --to edl
    """
    try:
        settings = ExportSettings(to, output, shots)
    except ValueError as error:
        raise BasslError(str(error)) from error
    result = write_export(file, settings)
    if not quiet:
        console.say(f"{console.count(result.listed, 'shot' if shots else 'scene')}; wrote {result.path}")
