"""``bassl extract-keyframes``: films in, one keyframe store for each out."""

from __future__ import annotations

import json

import typer

from bassl_cli import console
from bassl_cli.options import Films, with_settings
from pipelines.stages.extract_keyframes import ExtractSettings, FilmResult, extract_keyframes as stage


@with_settings(
    flags={"output": "--output -o", "workers": "--workers -j"}, metavars={"keyframes": "N", "dask": "SCHEDULER"}
)
def extract_keyframes(
    films: Films,
    settings: ExtractSettings,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
    debug: console.Debug = False,
) -> None:
    """Cut films into shots and store the keyframes of each shot.

    Finished films are not done again; a stopped run goes on where it was.

    Example: bassl extract-keyframes movies/
    """
    with console.films_progress(quiet) as (start, progress):
        results = stage(films, settings, progress, start)
    for result in results:
        for warning in result.warnings:
            console.warn(warning)
    if as_json:
        typer.echo(json.dumps([console.as_plain(result) for result in results], indent=1))
    elif not quiet:
        _show(results)
    console.conclude(results, f"stores in {settings.output}", quiet)


def _show(results: list[FilmResult]) -> None:
    rows = []
    for result in results:
        facts = (f"{result.duration:.1f} s", f"{result.frames:,}", f"{result.shots:,}")
        rows.append((result.video_id, result.status, *(("", "", "") if result.status == "failed" else facts)))
    console.show_table(("video", "status", "length", "frames", "shots"), rows)
