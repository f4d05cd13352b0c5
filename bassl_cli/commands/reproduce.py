"""``bassl reproduce``: a table of the paper, measured, with the paper's numbers beside the measured ones."""

from __future__ import annotations

from typing import Annotated

import typer

from bassl_cli import console
from bassl_cli.options import with_settings
from pipelines.stages.reproduce import ReproduceSettings, plan as plan_rows, reproduce as stage
from pipelines.training.jobs import stopped_code


@with_settings(metavars={"data": "FOLDER"}, arguments=("table",), panels={"machines": "Machines"})
def reproduce(
    settings: ReproduceSettings,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only show the commands, and the disk space of MovieNet at full size.")
    ] = False,
) -> None:
    """Measure a table of the paper: every system, on one data set.

    With MovieNet (data/README.md) it is the paper's table. Numbers on other data are not comparable with the paper's.
    Finished rows are kept; a stopped table continues. On several machines run the same command on each, in a folder
    that they share; the first one shows and writes the tables.

    Example: bassl reproduce table1 --gpus 16 --nodes 2 --node-rank 0 --rdzv-endpoint HOST:29500
    """
    if plan:
        _show_plan(settings)
        return
    with console.stage_progress() as progress:
        result = stage(settings, lambda row, doing, done, total: progress(f"{row}: {doing}", done, total))

    if not result.tables:  # the first machine has them
        if result.stopped:
            raise typer.Exit(stopped_code())
        return
    from pipelines.stages.reproduce.tables import heading, text_table  # start-up time: numpy

    if not result.comparable:
        console.note(f"no MovieNet: measured on {result.data}; the paper's column is not comparable with it")
    for table in result.tables:
        console.show_table(*text_table(table), title=heading(result, table))
    console.complain(*result.failed)
    console.say(f"wrote {', '.join(map(console.shown, result.files))}")
    if result.stopped:
        console.complain("stopped; run it again to continue")
        raise typer.Exit(stopped_code())
    if result.failed:
        raise typer.Exit(1)


def _show_plan(settings: ReproduceSettings) -> None:
    shown: set[str] = set()
    for row in plan_rows(settings):
        protocol, absent = f", {row.protocol}" if row.protocol else "", f" ({row.absent})" if row.absent else ""
        lines = [line for step in row.steps if (line := step.line(settings.machines)) not in shown]
        typer.echo("\n".join([f"# {row.table}{protocol}: {row.row.label}{absent}", *lines]))
        shown.update(lines)
    from pipelines.stages.reproduce.planning import disk_space  # start-up time: PyAV, SciPy

    typer.echo()
    console.show_table(
        ("what", "GB", "how it is estimated"),
        [(what, f"{space:.1f}" if space < 1 else f"{space:,.0f}", how) for what, space, how in disk_space(settings)],
        text=(0, 2),
        title="Disk space of MovieNet at full size:",
    )
