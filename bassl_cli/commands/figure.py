"""``bassl figure``: the figures of the paper, from videos, models and runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bassl_cli import console
from bassl_cli.options import with_settings
from bassl_cli.typer_internals import FriendlyCommand, FriendlyGroup
from pipelines.stages.figure import (
    BoundarySettings,
    FigureResult,
    Legend,
    PseudoBoundarySettings,
    SimilaritySettings,
    draw_boundaries,
    draw_curves,
    draw_pseudo_boundaries,
    draw_similarity,
)

figure = typer.Typer(cls=FriendlyGroup, no_args_is_help=True, add_completion=False)
Output = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Figure to write: .png, .svg or .pdf.")]


@figure.callback()
def options() -> None:
    """Draw the figures of the paper from your own videos, models and runs.

    Example: bassl figure curves runs/a runs/b -o curves.svg
    """


@figure.command("similarity", cls=FriendlyCommand)
@with_settings(spellings={"labels": "--label", "video": "ID"}, repeated=("labels",))
def similarity(
    models: Annotated[
        list[Path],
        typer.Argument(
            metavar="STORE|RUN",
            help="Feature stores (folders); or runs, for shots as their CRN puts them in context.",
            show_default=False,
        ),
    ],
    settings: SimilaritySettings,
    output: Output = Path("similarity.png"),
) -> None:
    """Similarity of consecutive shots under several models, side by side.

    True scenes are outlined if the index has labels.

    Example: bassl figure similarity data/features/a runs/pretrain --video tt0120338 --first 40
    """
    _print_result(draw_similarity(models, output, settings))


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
    _print_result(draw_pseudo_boundaries(centers or [], output, settings))


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
    _print_result(draw_boundaries(files, output, settings))


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
    _print_result(draw_curves(runs, output, settings))


def _print_result(result: FigureResult) -> None:
    console.warn(*result.warnings)
    console.print_info(f"wrote {console.display_path(result.path)}")
