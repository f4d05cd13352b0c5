"""``bassl extract-keyframes``: films in, one store of key-frames each out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from bassl_cli import console
from pipelines.stages.extract_keyframes import ExtractSettings, FilmResult
from pipelines.stages.extract_keyframes import extract_keyframes as extract

_defaults = ExtractSettings()


def extract_keyframes(
    films: Annotated[
        list[Path], typer.Argument(help="Videos, folders of videos or glob patterns.", show_default=False)
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder of the stores, one a film.")
    ] = _defaults.output,
    detector: Annotated[
        str, typer.Option(help="Shot detector: adaptive, content, histogram, hash, threshold, transnetv2.")
    ] = _defaults.detector,
    keyframes: Annotated[int, typer.Option(metavar="N", help="Key-frames a shot.")] = _defaults.keyframes,
    lines: Annotated[int, typer.Option(help="Height of a key-frame in pixels.")] = _defaults.lines,
    quality: Annotated[int, typer.Option(help="JPEG quality of the key-frames, 1 to 100.")] = _defaults.quality,
    workers: Annotated[
        int | None,
        typer.Option("--workers", "-j", help="Films at a time (unless given: one a core).", show_default=False),
    ] = _defaults.workers,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Make stores again that are there.")
    ] = _defaults.overwrite,
    dask: Annotated[
        str | None,
        typer.Option(metavar="SCHEDULER", help="Have the workers of a Dask cluster do the films.", show_default=False),
    ] = _defaults.dask,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
    debug: console.Debug = False,
) -> None:
    """Cut films into shots and store the key-frames of each.

    What is done is not done again; a run that was stopped goes on where it was.

    Example: bassl extract-keyframes movies/
    """
    settings = ExtractSettings(output, detector, keyframes, lines, quality, workers, overwrite, dask)
    with console.films_progress(quiet) as (start, progress):
        results = extract(films, settings, progress, start)
    for result in results:
        for warning in result.warnings:
            console.warn(warning)
    if as_json:
        typer.echo(json.dumps([console.as_plain(result) for result in results], indent=1))
    elif not quiet:
        _show(results)
    console.conclude(results, f"stores in {output}", quiet)


def _show(results: list[FilmResult]) -> None:
    rows = []
    for result in results:
        facts = (f"{result.duration:.1f} s", f"{result.frames:,}", f"{result.shots:,}")
        rows.append((result.video_id, result.status, *(("", "", "") if result.status == "failed" else facts)))
    console.show_table(("video", "status", "length", "frames", "shots"), rows)
