"""``bassl report``: a scenes.json into a page to look at it and to correct it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bassl_cli import console
from pipelines.errors import BasslError
from pipelines.stages.report import ReportSettings
from pipelines.stages.report import report as write_report

_defaults = ReportSettings()


def report(
    file: Annotated[
        Path, typer.Argument(metavar="SCENES.JSON", help="What predict or a page wrote.", show_default=False)
    ] = Path("scenes.json"),
    film: Annotated[
        Path | None,
        typer.Option(help="The film (unless given: where SCENES.JSON says).", show_default=False),
    ] = _defaults.film,
    truth: Annotated[
        Path | None,
        typer.Option(
            help="True scenes, to mark what was found and what was missed: any file or folder that score reads.",
            show_default=False,
        ),
    ] = _defaults.truth,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="PAGE.HTML", help="File to write (unless given: beside it).", show_default=False
        ),
    ] = _defaults.output,
    tolerance: Annotated[
        float,
        typer.Option(
            metavar="SECONDS", help="How far a true scene end may lie from the end of the shot that takes it."
        ),
    ] = _defaults.tolerance,
    frame_rate: Annotated[
        float | None, typer.Option(help="Frames a second of a truth that does not say.", show_default=False)
    ] = _defaults.frame_rate,
    keyframes: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Key-frame stores, from which pictures come without the film.")
    ] = _defaults.keyframes,
    quiet: console.Quiet = False,
    debug: console.Debug = False,
) -> None:
    """Make a page of a film's scenes: to look at them, to try thresholds, to correct and save them.

    One HTML file for any browser, without a network.

    Example: bassl report scenes.json --truth truth.csv
    """
    if not file.exists():
        raise BasslError(f"{file}: no such file; make it with: bassl predict FILM -o {file}")
    try:
        settings = ReportSettings(output, film, truth, tolerance, frame_rate, keyframes)
    except ValueError as error:
        raise BasslError(str(error)) from error
    with console.film_progress(file.name, quiet) as progress:
        result = write_report(file, settings, progress)
    for warning in result.warnings:
        console.warn(warning)
    if not quiet:
        for note in result.notes:
            console.say(f"note: {note}")
        console.say(
            f"{console.count(result.scenes, 'scene')}, {console.count(result.shots, 'shot')}; wrote {result.path}"
        )
