"""``bassl reproduce``: a table of the paper, measured, with the paper's numbers beside the measured ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from bassl_cli import console
from pipelines.errors import BasslError
from pipelines.options import words
from pipelines.stages.reproduce import NAMES, PlannedRow, ReproduceSettings, RowProgress
from pipelines.stages.reproduce import plan as plan_rows
from pipelines.stages.reproduce import reproduce as run
from pipelines.training.machines import STOPPED

_defaults = ReproduceSettings()


def reproduce(
    table: Annotated[str, typer.Argument(help=f"One of {', '.join(NAMES)}.", show_default=False)],
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="MovieNet, labelled features, or films with their labels beside them (unless given: data/movienet, or "
            "films that are generated).",
            show_default=False,
        ),
    ] = _defaults.data,
    rows: Annotated[
        str | None,
        typer.Option(metavar="ROWS", help="Rows to run, by name or pattern, by commas.", show_default=False),
    ] = None,
    gpus: Annotated[
        int | None,
        typer.Option(help="GPUs to train on; 0 is the CPU (unless given: one where there is one).", show_default=False),
    ] = _defaults.gpus,
    epochs: Annotated[
        int | None,
        typer.Option(help="Epochs of pre-training where the paper has 10; others in proportion.", show_default=False),
    ] = _defaults.epochs,
    seeds: Annotated[int, typer.Option(help="Fine-tuning runs for each number.")] = _defaults.seeds,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Folder of the tables and of what they are made from.")
    ] = _defaults.output,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only show the stages, and what MovieNet at full size costs.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Do again what is done.")] = _defaults.overwrite,
    quiet: console.Quiet = False,
    debug: console.Debug = False,
) -> None:
    """Measure a table of the paper: every system, on one data set.

    With MovieNet (data/README.md) it is the paper's table. On other data the numbers are of that data, and not
    comparable with the paper's. Finished rows are kept; a table that was stopped goes on.

    Example: bassl reproduce table1
    """
    try:
        settings = ReproduceSettings(table, data, words(rows), gpus, epochs, seeds, output, overwrite)
    except ValueError as error:
        raise BasslError(str(error)) from error
    if plan:
        _show_plan(plan_rows(settings), settings)
        return
    with _progress(quiet) as progress:
        result = run(settings, progress)

    from pipelines.stages.reproduce.tables import heading, shown

    if not result.comparable and not quiet:
        console.warn(
            f"MovieNet is not here: this is measured on {result.data}, and the paper's column is not comparable with it"
        )
    for one in result.tables:
        cells = shown(one)
        console.show_table(cells.header, cells.rows, title=heading(result, one))
    for line in result.failed:
        console.complain(line)
    if not quiet:
        console.say(f"wrote {', '.join(map(str, result.files))}")
    if result.stopped:
        console.complain("stopped; run it again to go on")
        raise typer.Exit(STOPPED)
    if result.failed:
        raise typer.Exit(1)


def _show_plan(planned: list[PlannedRow], settings: ReproduceSettings) -> None:
    from pipelines.stages.reproduce.cost import costs, disk

    said: set[str] = set()
    for row in planned:
        protocol = f", {row.protocol}" if row.protocol else ""
        typer.echo(f"# {row.table}{protocol}: {row.label}" + (f" ({row.absent})" if row.absent else ""))
        for line in (step.line(settings.gpus) for step in row.steps):
            if line not in said:
                typer.echo(line)
                said.add(line)
    found = costs(settings)
    total = sum(cost.hours for cost in found)
    typer.echo()
    console.show_table(
        ("stage", "V100 hours", "how it is reckoned"),
        [
            *((cost.stage, _number(cost.hours, 10), cost.how) for cost in found),
            ("all", f"{total:,.0f}", f"{total / 16 / 24:.1f} days on 16 GPUs"),
        ],
        text=(0, 2),
        title="What it costs on MovieNet at full size, from the paper's 16 V100 GPUs for two days, scaled:",
    )
    typer.echo()
    console.show_table(
        ("what", "GB", "how it is reckoned"),
        [(need.what, _number(need.gigabytes, 1), need.how) for need in disk(settings)],
        text=(0, 2),
        title="Disk:",
    )


def _number(value: float, whole: float) -> str:
    """Without decimals from a value on."""
    return f"{value:,.0f}" if value >= whole else f"{value:.1f}"


@contextmanager
def _progress(quiet: bool) -> Iterator[RowProgress]:
    """A bar over the stage in hand; plain lines, one for each thing that is begun, where output is no terminal."""
    before = ("", "")
    if quiet or not console.err.is_terminal:

        def line(row: str, doing: str, done: float, total: float | None) -> None:
            nonlocal before
            if not quiet and (row, doing) != before:
                console.say(f"{row}: {doing}")
            before = (row, doing)

        yield line
        return
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TimeRemainingColumn(compact=True))
    with Progress(*columns, console=console.err, transient=True) as bars:
        task = bars.add_task("", total=None)

        def show(row: str, doing: str, done: float, total: float | None) -> None:
            nonlocal before
            if (row, doing) != before:  # another stage has another pace
                bars.reset(task, total=None)
            before = (row, doing)
            bars.update(task, description=f"{row}: {doing}", completed=done, total=total)

        yield show
