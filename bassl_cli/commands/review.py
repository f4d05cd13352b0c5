"""``bassl review``: the page of a video's scenes in the browser, in review mode."""

from __future__ import annotations

import typer

from bassl_cli import console
from bassl_cli.options import Results, with_settings
from pipelines.errors import BasslError
from pipelines.stages.settings import ReportSettings


@with_settings(spellings={"keyframes": "FOLDER"})
def review(settings: ReportSettings, sources: Results = []) -> None:
    """Review a video's scenes in the browser, where answers are worth most.

    Makes the page as bassl report does, if it is not there or shows other scenes, opens it in review mode and prints
    its address. The page shows eight shots at a time; what you confirm holds for all settings.

    Examples: bassl review movie.mp4
    """
    from pipelines.stages.review import review as stage  # start-up time: NumPy, Jinja

    if len(sources) > 1:
        raise BasslError(f"one video is reviewed at a time; name one, such as {sources[0]}")
    (source,) = sources
    with console.stage_progress(source.name) as progress:
        result = stage(source, settings, progress)
    if result.written:
        console.warn(*result.written.warnings)
    if not (result.opened and console.quiet):  # a browser that starts may still not show it
        typer.echo(result.url)
    if result.written:
        console.note(*result.written.notes)
    page = f"{'wrote ' if result.written else ''}{console.display_path(result.page)}"
    is_open = "opening it in the browser; if the review does not start there, press R"
    is_not = "no browser was found, so open the address in one"
    console.print_info(f"{page}; {is_open if result.opened else is_not}")
    console.suggest_next("review", source)
