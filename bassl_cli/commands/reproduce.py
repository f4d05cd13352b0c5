"""``bassl reproduce``: a table of the paper, measured, with the paper's numbers beside the measured ones."""

from __future__ import annotations

from typing import Annotated

import typer

from bassl_cli import console
from bassl_cli.options import with_settings
from pipelines.stages.reproduce import PlannedRow, ReproduceSettings, plan as plan_rows, reproduce as stage
from pipelines.training.interruption import stopped_code


@with_settings(metavars={"data": "FOLDER", "rows": "ROWS"}, arguments=("table",))
def reproduce(
    settings: ReproduceSettings,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only show the stages, and what MovieNet at full size costs.")
    ] = False,
    quiet: console.Quiet = False,
) -> None:
    """Measure a table of the paper: every system, on one data set.

    With MovieNet (data/README.md) it is the paper's table. On other data the numbers are of that data, and not
    comparable with the paper's. Finished rows are kept; a stopped table goes on where it was.

    Example: bassl reproduce table1
    """
    if plan:
        _show_plan(plan_rows(settings), settings)
        return
    with console.stage_progress(quiet) as progress:
        result = stage(settings, lambda row, doing, done, total: progress(f"{row}: {doing}", done, total))

    from pipelines.stages.reproduce.tables import heading, shown  # start-up time: numpy

    if not result.comparable and not quiet:
        console.warn(f"no MovieNet: measured on {result.data}; the paper's column is not comparable with it")
    for one in result.tables:
        cells = shown(one)
        console.show_table(cells.header, cells.rows, title=heading(result, one))
    for line in result.failed:
        console.complain(line)
    if not quiet:
        console.say(f"wrote {', '.join(map(str, result.files))}")
    if result.stopped:
        console.complain("stopped; run it again to go on")
        raise typer.Exit(stopped_code())
    if result.failed:
        raise typer.Exit(1)


def _show_plan(planned: list[PlannedRow], settings: ReproduceSettings) -> None:
    from pipelines.stages.reproduce.cost import costs, disk  # start-up time: numpy

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
        ("stage", "V100 hours", "how it is estimated"),
        [
            *((cost.stage, _number(cost.hours, 10), cost.how) for cost in found),
            ("all", f"{total:,.0f}", f"{total / 16 / 24:.1f} days on 16 GPUs"),
        ],
        text=(0, 2),
        title="What it costs on MovieNet at full size, from the paper's 16 V100 GPUs for two days, scaled:",
    )
    typer.echo()
    console.show_table(
        ("what", "GB", "how it is estimated"),
        [(need.what, _number(need.gigabytes, 1), need.how) for need in disk(settings)],
        text=(0, 2),
        title="Disk:",
    )


def _number(value: float, whole: float) -> str:
    """Without decimals from ``whole`` on."""
    return f"{value:,.0f}" if value >= whole else f"{value:.1f}"
