"""``bassl baseline``: a system that the paper compares with, on the films of an index."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from bassl_cli import console
from pipelines.errors import BasslError
from pipelines.options import words
from pipelines.stages.baseline import BaselineSettings
from pipelines.stages.baseline import baseline as run

_defaults = BaselineSettings()


def baseline(
    system: Annotated[
        str,
        typer.Argument(
            help="graph-cut, scsa, dp, story-graph, grouping, siamese, lgss or fixed-length.", show_default=False
        ),
    ],
    index: Annotated[Path, typer.Option(help="Index of the films, with labels.")] = _defaults.index,
    features: Annotated[
        str | None,
        typer.Option(
            metavar="PATHS",
            help="Feature store, or several of one encoder, by commas (unless given: the index's own).",
            show_default=False,
        ),
    ] = None,
    extra: Annotated[
        str | None,
        typer.Option(
            metavar="PATHS",
            help="Stores of further feature sets, such as sound, for grouping and lgss.",
            show_default=False,
        ),
    ] = None,
    train_splits: Annotated[
        str, typer.Option(help="Splits whose labels settings are chosen by, and networks learn from.")
    ] = ",".join(_defaults.train_splits),
    split: Annotated[str, typer.Option(help="Split to score.")] = _defaults.split,
    frame_rate: Annotated[
        float | None,
        typer.Option(help="Frames a second of films whose index has no times.", show_default=False),
    ] = _defaults.frame_rate,
    seeds: Annotated[int, typer.Option(help="Networks to train, for siamese and lgss.")] = _defaults.seeds,
    resamples: Annotated[
        int, typer.Option(help="Draws of films for confidence intervals; 0 for none.")
    ] = _defaults.resamples,
    table: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the numbers as .md, .tex, .csv or .json.", show_default=False),
    ] = None,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
    debug: console.Debug = False,
) -> None:
    """Find and score scenes with one of the systems of the paper's Table 1.

    What a system's paper leaves open is chosen on the training splits, never on the films that are scored.

    Example: bassl baseline graph-cut --index data/index.h5
    """
    from pipelines.stages.score.tables import check_table, save_table, table_of

    if table is not None:
        check_table(table)
    try:
        settings = BaselineSettings(
            system,
            index,
            _paths(features),
            _paths(extra),
            words(train_splits),
            split,
            frame_rate,
            seeds,
            resamples,
        )
    except ValueError as error:
        raise BasslError(str(error)) from error
    result = run(settings)
    if as_json:
        typer.echo(json.dumps(result.to_dict(), indent=1))
    elif not quiet:
        shown = table_of(result)
        console.show_table(shown.header, shown.rows)
    if table is not None:
        save_table(table, result)
    if not quiet:
        for note in result.notes:
            console.say(f"note: {note}")
        console.say(f"{system}: {console.count(len(result.films), 'film')}")


def _paths(text: str | None) -> tuple[Path, ...]:
    return tuple(map(Path, words(text)))
