"""``bassl figure``: films, models and runs in, the figures of a paper out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from bassl_cli import console
from pipelines.errors import BasslError
from pipelines.stages.figure import (
    METHODS,
    BoundarySettings,
    CurveSettings,
    FigureResult,
    PseudoBoundarySettings,
    SimilaritySettings,
    draw_boundaries,
    draw_curves,
    draw_pseudo_boundaries,
    draw_similarity,
)

figure = typer.Typer(no_args_is_help=True)
_similarity, _pseudo, _boundaries = SimilaritySettings(), PseudoBoundarySettings(), BoundarySettings()

Output = Annotated[Path, typer.Option("--output", "-o", help="Figure to write: .png, .svg or .pdf.")]
Labels = Annotated[
    list[str] | None,
    typer.Option("--label", metavar="NAME", help="What each is called, in order; repeat it.", show_default=False),
]


@figure.callback()
def options() -> None:
    """Draw the figures of a paper from your own films, models and runs.

    Example: bassl figure curves runs/a runs/b -o curves.svg
    """


@figure.command("similarity")
def similarity(
    models: Annotated[
        list[Path],
        typer.Argument(
            metavar="STORE|RUN",
            help="Feature stores (.h5); or runs, for shots as their CRN puts them in context.",
            show_default=False,
        ),
    ],
    video: Annotated[
        str | None, typer.Option(metavar="ID", help="Film of the index (unless it has one only).", show_default=False)
    ] = _similarity.video,
    first: Annotated[int, typer.Option(metavar="N", help="First shot, counted from 0.")] = _similarity.first,
    shots: Annotated[int, typer.Option(metavar="M", help="Number of shots.")] = _similarity.shots,
    output: Output = Path("similarity.png"),
    index: Annotated[Path, typer.Option(help="Index with the film's shots, labels, key-frames.")] = _similarity.index,
    features: Annotated[
        Path, typer.Option(metavar="PATH", help="For runs: folder of feature stores, or the store to use.")
    ] = _similarity.features,
    own_scale: Annotated[
        bool, typer.Option("--own-scale", help="A scale of colours for each matrix; else all share one.")
    ] = _similarity.own_scale,
    labels: Labels = None,
    quiet: console.Quiet = False,
    debug: console.Debug = False,
) -> None:
    """Similarity of consecutive shots under several models, side by side.

    True scenes are outlined where the index has labels.

    Example: bassl figure similarity data/features/a.h5 runs/pretrain --video tt0120338 --first 40
    """
    with _refusals():
        settings = SimilaritySettings(index, video, first, shots, features, tuple(labels or ()), own_scale)
    _tell(draw_similarity(models, output, settings), quiet)


@figure.command("pseudo-boundaries")
def pseudo_boundaries(
    windows: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="VIDEO:SHOT", help="Centres of windows (unless given: drawn by lot).", show_default=False
        ),
    ] = None,
    number: Annotated[
        int, typer.Option("--windows", metavar="N", help="Windows to draw by lot, with a true scene end in each.")
    ] = _pseudo.windows,
    seed: Annotated[int, typer.Option(help="Of the lots.")] = _pseudo.seed,
    output: Output = Path("pseudo-boundaries.png"),
    index: Annotated[Path, typer.Option(help="Index with the films' shots, labels, key-frames.")] = _pseudo.index,
    features: Annotated[
        Path, typer.Option(metavar="PATH", help="Feature store, or a folder with one that has the films.")
    ] = _pseudo.features,
    neighbours: Annotated[
        int, typer.Option(metavar="K", help="Shots on each side of the centre.")
    ] = _pseudo.neighbours,
    method: Annotated[str, typer.Option(help=f"How windows are divided: {', '.join(METHODS)}.")] = _pseudo.method,
    quiet: console.Quiet = False,
    debug: console.Debug = False,
) -> None:
    """Pseudo-boundaries against true ones, with the key-frames of their windows.

    Without key-frames: with the similarity to the first and the last shot.

    Example: bassl figure pseudo-boundaries tt0120338:40 tt0120338:95 --features data/features/a.h5
    """
    with _refusals():
        settings = PseudoBoundarySettings(
            index=index,
            features=features,
            windows=number,
            seed=seed,
            neighbours=neighbours,
            method=method,  # type: ignore[arg-type]  # it is refused where it is none
        )
    _tell(draw_pseudo_boundaries(windows or [], output, settings), quiet)


@figure.command("boundaries")
def boundaries(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="SCENES.JSON", help="Predictions for one film, a lane each.", show_default=False),
    ],
    truth: Annotated[
        Path | None, typer.Option(help="True scenes: any file or folder that score reads.", show_default=False)
    ] = _boundaries.truth,
    output: Output = Path("boundaries.png"),
    within: Annotated[
        float, typer.Option(metavar="SECONDS", help="How far apart two boundaries may be to be one.")
    ] = _boundaries.within,
    frame_rate: Annotated[
        float | None, typer.Option(help="Frames a second of a truth that does not say.", show_default=False)
    ] = _boundaries.frame_rate,
    annotator: Annotated[int, typer.Option(help="Whose labels of BBC are read.")] = _boundaries.annotator,
    labels: Labels = None,
    quiet: console.Quiet = False,
    debug: console.Debug = False,
) -> None:
    """Boundaries that several models predict for the same film, and the true ones.

    Example: bassl figure boundaries a.json b.json --truth truth.csv -o boundaries.svg
    """
    with _refusals():
        settings = BoundarySettings(truth, within, frame_rate, annotator, tuple(labels or ()))
    _tell(draw_boundaries(files, output, settings), quiet)


@figure.command("curves")
def curves(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN", help="Folders of pretrain or finetune.", show_default=False)
    ],
    output: Output = Path("curves.png"),
    labels: Labels = None,
    quiet: console.Quiet = False,
    debug: console.Debug = False,
) -> None:
    """Training curves of runs: losses, learning rate and validation measures.

    Example: bassl figure curves runs/a runs/b --label "K = 8" --label "K = 12"
    """
    _tell(draw_curves(runs, output, CurveSettings(tuple(labels or ()))), quiet)


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise BasslError(str(error)) from error


def _tell(result: FigureResult, quiet: bool) -> None:
    for warning in result.warnings:
        console.warn(warning)
    if not quiet:
        console.say(f"wrote {result.path}")
