"""Commands of the paper: its figures and its tables, from videos, models and runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bassl_cli import console
from bassl_cli.options import with_settings
from bassl_cli.typer_internals import FriendlyCommand, FriendlyGroup
from pipelines.stages import figure as figures, reproduce as tables
from pipelines.training.jobs import stopped_code

HELP = (
    "Draw the figures of the paper from your own videos, models and runs.\n\nExample: bassl figure curves runs/a runs/b"
)
figure = typer.Typer(cls=FriendlyGroup, no_args_is_help=True, add_completion=False, help=HELP)
Output = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Figure to write: .png, .svg or .pdf.")]
Centers = Annotated[list[str], typer.Argument(metavar="VIDEO:SHOT", help="Centers of windows. Default: sampled.")]
Files = Annotated[list[Path], typer.Argument(metavar="SCENES.JSON", help="Predictions for one video.")]
Runs = Annotated[list[Path], typer.Argument(metavar="RUN", help="Runs of pretrain or finetune.")]


@figure.command("pseudo-boundaries", cls=FriendlyCommand)
@with_settings()
def pseudo_boundaries(
    settings: figures.PseudoBoundarySettings, centers: Centers = [], output: Output = Path("pseudo-boundaries.png")
) -> None:
    """Pseudo-boundaries and true ones of windows, over keyframes or similarities.

    Example: bassl figure pseudo-boundaries tt0120338:40 tt0120338:95 --features data/features/a
    """
    console.print_info(f"wrote {console.display_path(figures.draw_pseudo_boundaries(centers, output, settings))}")


@figure.command("boundaries", cls=FriendlyCommand)
@with_settings(spellings={"labels": "--label"}, repeated=("labels",))
def boundaries(files: Files, settings: figures.BoundarySettings, output: Output = Path("boundaries.png")) -> None:
    """Boundaries that several models predict for the same video, and the true ones.

    Example: bassl figure boundaries a.json b.json --truth truth.csv -o boundaries.svg
    """
    console.print_info(f"wrote {console.display_path(figures.draw_boundaries(files, output, settings))}")


@figure.command("curves", cls=FriendlyCommand)
@with_settings(spellings={"labels": "--label"}, repeated=("labels",))
def curves(runs: Runs, settings: figures.Legend, output: Output = Path("curves.png")) -> None:
    """Training curves of runs: losses, learning rate and validation metrics.

    Example: bassl figure curves runs/a runs/b --label "K = 8" --label "K = 12"
    """
    console.print_info(f"wrote {console.display_path(figures.draw_curves(runs, output, settings))}")


@with_settings(spellings={"data": "FOLDER"}, arguments=("table",))
def reproduce(
    settings: tables.ReproduceSettings,
    plan: Annotated[bool, typer.Option("--plan", help="Only print the commands, to paste into a shell.")] = False,
) -> None:
    """Measure a table of the paper: every system, on one data set.

    Only numbers on MovieNet (data/README.md) are comparable with the paper's. A stopped table continues.

    Example: bassl reproduce table1 --gpus 8
    """
    if plan:
        typer.echo(tables.plan(settings))
        return
    with console.stage_progress() as progress:
        result = tables.reproduce(settings, progress)
    from pipelines.stages.reproduce.measuring import heading, screen_tables  # start-up time: numpy

    for table in result.tables:
        paper, measured, run = screen_tables(table)
        console.show_table(*paper, title=heading(result, table))
        console.show_table(*measured)
        console.show_table(*run, text=(0, 1))
    console.print_error(*result.failed)
    console.print_info(f"wrote {', '.join(map(console.display_path, result.files))}")
    if result.stopped:
        console.print_error("stopped; run it again to continue")
        raise SystemExit(stopped_code())
    if result.failed:
        raise typer.Exit(1)
