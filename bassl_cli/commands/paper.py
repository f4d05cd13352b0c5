"""Commands about models: which there are, the paper's figures and tables of them, and its authors' checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bassl_cli import console
from bassl_cli.options import with_settings
from bassl_cli.typer_internals import FriendlyCommand, FriendlyGroup
from pipelines.outputs.tables import percent_with_deviation
from pipelines.settings import OutputSettings
from pipelines.stages import figure as figures, reproduce as tables
from pipelines.stages.models import ListedModel, import_checkpoint as convert, list_models, model_path
from pipelines.training import stopped_code

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

    Example: bassl figure pseudo-boundaries tt0120338:40 tt0120338:95 --features data/features/a"""
    console.print_info(f"wrote {console.display_path(figures.draw_pseudo_boundaries(centers, output, settings))}")


@figure.command("boundaries", cls=FriendlyCommand)
@with_settings(spellings={"labels": "--label"}, repeated=("labels",))
def boundaries(files: Files, settings: figures.BoundarySettings, output: Output = Path("boundaries.png")) -> None:
    """Boundaries that several models predict for the same video, and the true ones.

    Example: bassl figure boundaries a.json b.json --truth truth.csv -o boundaries.svg"""
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

    Example: bassl reproduce table1 --gpus 8"""
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


_METRIC_LABELS = {"ap": "AP", "f1": "F1", "miou": "mIoU", "knn@1": "kNN@1", "ap_pp": "AP of PP"}  # the JSON has all


@with_settings()
def models(
    runs: Annotated[Path, typer.Argument(help="Folder of runs.")] = Path("runs"), as_json: console.Json = False
) -> None:
    """List the built-in model and the models under runs/, with training data and scores.

    Example: bassl models"""
    entries = list_models(runs)
    if as_json:
        console.print_json(entries)
    else:
        rows = [_row(model) for model in entries if model.stage != "damaged"]
        console.show_table(("model", "what it is", "scores in %"), rows, text=(0, 1, 2))
    damaged = [model.error for model in entries if model.stage == "damaged"]
    console.print_error(*damaged)
    if damaged:
        raise typer.Exit(1)


def _row(model: ListedModel) -> tuple[str, str, str]:
    name = "(the default)" if model.stage == "built-in" else str(model.path)
    reads = f" on {model.encoder}" if model.encoder else ""
    what = f"{model.stage}: {model.method}{reads}" if model.method else model.stage
    scores = [
        f"{label} {percent_with_deviation(model.scores[metric], model.deviations.get(metric))}"
        for metric, label in _METRIC_LABELS.items()
        if metric in model.scores
    ]
    return name, f"{what}\n{model.data}".strip(), f"{', '.join(scores)}\n{model.scored_on}" if scores else ""


@with_settings()
def import_checkpoint(
    file: Annotated[Path, typer.Argument(help="A released checkpoint (.ckpt), or a ResNet-50.")],
    settings: OutputSettings,
) -> None:
    """Convert a checkpoint of the paper's authors, or a ResNet-50, to a model.

    The model is runs/NAME/model.safetensors by default. A checkpoint whose reading would run code is refused.

    Example: bassl import-checkpoint bassl.ckpt -o runs/released/model.safetensors"""
    output = settings.output or model_path(file)
    convert(file, output, overwrite=settings.overwrite)
    console.print_info(f"wrote {console.display_path(output)}")
