"""``bassl reproduce``: a table of the paper, measured, with the paper's numbers beside the measured ones."""

from __future__ import annotations

from typing import Annotated

import typer

from bassl_cli import console
from bassl_cli.options import with_settings
from pipelines.stages.reproduce import PlannedRow, ReproduceSettings, plan as plan_rows, reproduce as stage
from pipelines.training.interruption import stopped_code


@with_settings(metavars={"data": "FOLDER"}, arguments=("table",))
def reproduce(
    settings: ReproduceSettings,
    plan: Annotated[
        bool, typer.Option("--plan", help="Only show the stages, and what MovieNet at full size costs.")
    ] = False,
    timed: Annotated[
        bool, typer.Option("--time", help="With --plan: time a few steps here, and estimate hours on this machine.")
    ] = False,
    quiet: console.Quiet = False,
) -> None:
    """Measure a table of the paper: every system, on one data set.

    With MovieNet (data/README.md) it is the paper's table. On other data the numbers are of that data, and not
    comparable with the paper's. Finished rows are kept; a stopped table continues.

    Example: bassl reproduce table1
    """
    if timed and not plan:
        raise typer.BadParameter("--time is an option of --plan; add --plan")
    if plan:
        _show_plan(plan_rows(settings), settings, _seconds_per_image(settings.gpus) if timed else None)
        return
    with console.stage_progress(quiet) as progress:
        result = stage(settings, lambda row, doing, done, total: progress(f"{row}: {doing}", done, total))

    from pipelines.stages.reproduce.tables import heading, text_table  # start-up time: numpy

    if not result.comparable and not quiet:
        console.note(f"no MovieNet: measured on {result.data}; the paper's column is not comparable with it")
    for one in result.tables:
        cells = text_table(one)
        console.show_table(cells.header, cells.rows, title=heading(result, one))
    for line in result.failed:
        console.complain(line)
    if not quiet:
        console.say(f"wrote {', '.join(map(str, result.files))}")
    if result.stopped:
        console.complain("stopped; run it again to continue")
        raise typer.Exit(stopped_code())
    if result.failed:
        raise typer.Exit(1)


def _seconds_per_image(gpus: int | None) -> float:
    """Of pre-training on this machine, with so many GPUs (0: the CPU)."""
    import torch  # start-up time

    from pipelines.stages.pretrain.settings import PretrainSettings  # start-up time
    from pipelines.stages.reproduce.timing import seconds_per_image  # start-up time: torch

    gpu = torch.cuda.is_available() if gpus is None else gpus > 0
    # Few windows, because a step of the whole batch of 256 would keep a CPU busy for long.
    timed = PretrainSettings(batch=32 if gpu else 2, device="cuda" if gpu else "cpu")
    return seconds_per_image(timed) / max(1, gpus or 1)


def _show_plan(planned: list[PlannedRow], settings: ReproduceSettings, seconds_per_image: float | None) -> None:
    from pipelines.stages.reproduce.cost import needs  # start-up time: numpy

    said: set[str] = set()
    for row in planned:
        protocol = f", {row.protocol}" if row.protocol else ""
        typer.echo(f"# {row.table}{protocol}: {row.label}" + (f" ({row.absent})" if row.absent else ""))
        for line in (step.line(settings.gpus) for step in row.steps):
            if line not in said:
                typer.echo(line)
                said.add(line)
    found, space = needs(settings)
    total = sum(cost.hours for cost in found)
    typer.echo()
    rows = [["stage", "V100 hours", "how it is estimated"]]
    rows += [[cost.stage, _number(cost.hours, 10), cost.basis] for cost in found]
    rows += [["all", f"{total:,.0f}", f"{total / 16 / 24:.1f} days on 16 GPUs"]]
    if seconds_per_image is not None:
        here = [cost.images * seconds_per_image / 3600 for cost in found]
        numbers = (_number(hours, 10) for hours in (*here, sum(here)))
        for cells, number in zip(rows, ("hours here", *numbers), strict=True):
            cells.insert(2, number)
    console.show_table(
        rows[0],
        rows[1:],
        text=(0, len(rows[0]) - 1),
        title="What it costs on MovieNet at full size, from the paper's 16 V100 GPUs for two days, scaled:",
    )
    typer.echo()
    console.show_table(
        ("what", "GB", "how it is estimated"),
        [(need.what, _number(need.gigabytes, 1), need.basis) for need in space],
        text=(0, 2),
        title="Disk:",
    )


def _number(value: float, whole: float) -> str:
    """Without decimals from ``whole`` on."""
    return f"{value:,.0f}" if value >= whole else f"{value:.1f}"
