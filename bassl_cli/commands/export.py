"""``bassl export``: the scenes of a film into the format of another tool."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from bassl_cli import console
from pipelines.errors import BasslError
from pipelines.outputs.exports import FORMATS, format_of
from pipelines.outputs.exports import export as write_export


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
    if to is None:
        if output is None:
            raise BasslError(f"give --to FORMAT ({', '.join(FORMATS)}) or -o FILE")
        to = format_of(output)
    elif to not in FORMATS:
        raise BasslError(f"'{to}' is not a format; there are {', '.join(FORMATS)}")
    if output is None:
        output = file.with_name(file.name.removesuffix(".json") + FORMATS[to].ending)
    if output.resolve() == file.resolve():
        raise BasslError(f"{output}: is what is to be exported; name another file to write")

    # Here, because `bassl --help` must not wait for numpy.
    from pipelines.datasets.scene_list import read_scene_list

    scenes = read_scene_list(file)
    beside = file.parent / scenes.video.path
    if not Path(scenes.video.path).exists() and beside.exists():  # predict was run in the folder of scenes.json
        scenes = replace(scenes, video=replace(scenes.video, path=str(beside)))
    write_export(scenes, output, to, shots)
    if not quiet:
        listed = console.count(len(scenes.shots), "shot") if shots else console.count(len(scenes.scenes), "scene")
        console.say(f"{listed}; wrote {output}")
