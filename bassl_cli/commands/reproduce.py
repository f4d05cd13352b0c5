"""``bassl reproduce``: a table of the paper, measured, with the paper's numbers beside the measured ones."""

from __future__ import annotations

from typing import Annotated

import typer

from bassl_cli import console
from bassl_cli.options import with_settings
from pipelines.stages.reproduce import ReproduceSettings, plan as plan_rows, reproduce as stage
from pipelines.training.jobs import stopped_code


@with_settings(spellings={"data": "FOLDER"}, arguments=("table",), panels={"machines": "Machines"})
def reproduce(
    settings: ReproduceSettings,
    plan: Annotated[
        bool,
        typer.Option("--plan", help="Only print the commands, to paste into a shell, and MovieNet's disk space."),
    ] = False,
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
    """Print the lines of all rows, and the disk space in comments."""
    rows = plan_rows(settings)
    from pipelines.stages.reproduce.measuring import script  # start-up time: numpy
    from pipelines.stages.reproduce.planning import disk_space  # start-up time: PyAV, SciPy

    typer.echo(script([(row.table, row.protocol, row.label, row.text(settings.machines)) for row in rows]))
    typer.echo("# Disk space of MovieNet at full size, in GB:")
    for what, space, estimate in disk_space(settings):
        typer.echo(f"# {what:18}{space:8,.{int(space < 1)}f}  {estimate}")
