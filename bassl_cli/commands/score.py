"""Commands that score: a model, lists of scenes, or a system that the paper compares with."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bassl_cli import console
from bassl_cli.options import with_settings
from pipelines.errors import BasslError, check_installed
from pipelines.files import VIDEO_ENDINGS
from pipelines.outputs.tables import check_table
from pipelines.results.finding import existing_result
from pipelines.stages.settings import BaselineSettings, ScoreSettings

if TYPE_CHECKING:  # start-up time: numpy
    from pipelines.stages.score import ScoreResult

Subject = Annotated[
    Path | None,
    typer.Argument(
        metavar="RUN|SCENES",
        help="A run, a model file or 'default' (the built-in model), scored on an index; or, with TRUTH, a "
        "scenes.json, a video with one, another list of scenes, or a folder of them.",
        show_default=False,
    ),
]
Truth = Annotated[
    Path | None,
    typer.Argument(
        help="True scenes: scenes.json, CSV, chapters, EDL or .npz; or a folder of these, or BBC, OVSD or MovieNet.",
        show_default=False,
    ),
]


@with_settings()
def score(
    settings: ScoreSettings,
    subject: Subject = None,
    truth: Truth = None,
    table: console.Table = None,
    as_json: console.Json = False,
) -> None:
    """Measure how well scenes are found.

    Metrics are percentages, with confidence intervals by bootstrap over videos.

    Example: bassl score runs/x --split test"""
    if settings.representation:
        check_installed("sklearn", "--representation")  # now, not after hours of work
    if subject is None:
        raise BasslError("nothing to score: pass a run, 'default' for the built-in model, or a scenes.json")
    if subject.suffix.lower() in VIDEO_ENDINGS:
        subject = existing_result(subject)
    if table is not None:
        check_table(table, (subject, truth, settings.data.index))
    from pipelines.stages.score import score as stage  # start-up time: numpy

    with console.stage_progress() as progress:
        result = stage(subject, truth, settings, progress)
    _show(result, table, as_json)


def _show(result: ScoreResult, table: Path | None, as_json: bool) -> None:
    """Show a result and write its table. Raises typer.Exit with 1 if a file or video could not be scored."""
    from pipelines.stages.score import save_table, table_of  # start-up time: numpy

    console.print_error(*result.problems)
    if table is not None:
        save_table(table, result)
    if as_json:
        console.print_json(result.to_dict())
    else:
        console.note(*result.notes)
        console.show_table(*table_of(result))
        if result.videos:
            numbers = {"video": len(result.videos), "shot": result.shots, "true scene end": result.scene_ends}
            cut = "" if result.threshold is None else f"; a score of {result.threshold:g} ends a scene"
            console.print_info(", ".join(console.count(number, thing) for thing, number in numbers.items()) + cut)
    if table is not None and not as_json:
        console.print_info(f"wrote {console.display_path(table)}")
    if result.problems:
        raise typer.Exit(1)


@with_settings(arguments=("system",))
def baseline(settings: BaselineSettings, table: console.Table = None, as_json: console.Json = False) -> None:
    """Find and score scenes with one of the systems of the paper's Table 1.

    Settings that the paper of a system leaves open are chosen on the training splits, never on the videos that are
    scored.

    Example: bassl baseline graph-cut --index data/index.h5"""
    from pipelines.stages.baseline import baseline as stage  # start-up time: numpy

    if table is not None:
        check_table(table, (settings.data.index, *settings.data.features, *settings.extra))
    with console.stage_progress() as progress:
        result = stage(settings, progress)
    _show(result, table, as_json)
