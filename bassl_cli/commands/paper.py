"""Commands of the paper: its figures and its tables, from videos, models and runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bassl_cli import console
from bassl_cli.options import with_settings
from bassl_cli.typer_internals import FriendlyCommand, FriendlyGroup
from pipelines.stages.figure import (
    BoundarySettings,
    Legend,
    PseudoBoundarySettings,
    draw_boundaries,
    draw_curves,
    draw_pseudo_boundaries,
)
from pipelines.stages.reproduce import ReproduceSettings, plan as plan_rows, reproduce as stage
from pipelines.training.jobs import stopped_code

figure = typer.Typer(cls=FriendlyGroup, no_args_is_help=True, add_completion=False)
Output = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Figure to write: .png, .svg or .pdf.")]


@figure.callback()
def options() -> None:
    """Draw the figures of the paper from your own videos, models and runs.

    Example: bassl figure curves runs/a runs/b -o curves.svg
    """


@figure.command("pseudo-boundaries", cls=FriendlyCommand)
@with_settings()
def pseudo_boundaries(
    settings: PseudoBoundarySettings,
    centers: Annotated[
        list[str] | None,
        typer.Argument(metavar="VIDEO:SHOT", help="Centers of windows. Default: sampled.", show_default=False),
    ] = None,
    output: Output = Path("pseudo-boundaries.png"),
) -> None:
    """Pseudo-boundaries and true ones, with the keyframes of their windows.

    Without keyframes: with the similarity to the first and the last shot.

    Example: bassl figure pseudo-boundaries tt0120338:40 tt0120338:95 --features data/features/a
    """
    _print_written(draw_pseudo_boundaries(centers or [], output, settings))


@figure.command("boundaries", cls=FriendlyCommand)
@with_settings(spellings={"labels": "--label"}, repeated=("labels",))
def boundaries(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="SCENES.JSON", help="Predictions for one video, a lane for each.", show_default=False),
    ],
    settings: BoundarySettings,
    output: Output = Path("boundaries.png"),
) -> None:
    """Boundaries that several models predict for the same video, and the true ones.

    Example: bassl figure boundaries a.json b.json --truth truth.csv -o boundaries.svg
    """
    _print_written(draw_boundaries(files, output, settings))


@figure.command("curves", cls=FriendlyCommand)
@with_settings(spellings={"labels": "--label"}, repeated=("labels",))
def curves(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="Folders of pretrain or finetune.", show_default=False)
    ],
    settings: Legend,
    output: Output = Path("curves.png"),
) -> None:
    """Training curves of runs: losses, learning rate and validation metrics.

    Example: bassl figure curves runs/a runs/b --label "K = 8" --label "K = 12"
    """
    _print_written(draw_curves(runs, output, settings))


def _print_written(path: Path) -> None:
    console.print_info(f"wrote {console.display_path(path)}")


@with_settings(spellings={"data": "FOLDER"}, arguments=("table",), panels={"machines": "Machines"})
def reproduce(
    settings: ReproduceSettings,
    plan: Annotated[bool, typer.Option("--plan", help="Only print the commands, to paste into a shell.")] = False,
) -> None:
    """Measure a table of the paper: every system, on one data set.

    With MovieNet (data/README.md) it is the paper's table. Numbers on other data are not comparable with the paper's.
    Finished rows are kept; a stopped table continues.

    Example: bassl reproduce table1 --gpus 8
    """
    if plan:
        _print_plan(settings)
        return
    with console.stage_progress() as progress:
        result = stage(settings, lambda row, doing, done, total: progress(f"{row}: {doing}", done, total))
    from pipelines.stages.reproduce.measuring import heading, text_table  # start-up time: numpy

    if not result.comparable:
        console.note(f"no MovieNet: measured on {result.data}; the paper's column is not comparable with it")
    for table in result.tables:
        console.show_table(*text_table(table), title=heading(result, table))
    console.print_error(*result.failed)
    console.print_info(f"wrote {', '.join(map(console.display_path, result.files))}")
    if result.stopped:
        console.print_error("stopped; run it again to continue")
        raise typer.Exit(stopped_code())
    if result.failed:
        raise typer.Exit(1)


def _print_plan(settings: ReproduceSettings) -> None:
    """Print the lines of all rows."""
    rows = plan_rows(settings)
    from pipelines.stages.reproduce.measuring import script  # start-up time: numpy

    typer.echo(script([(row.table, row.protocol, row.label, row.text(settings.machines)) for row in rows]))
