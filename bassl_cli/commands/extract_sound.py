"""``bassl extract-sound``: films in, one feature store of what their shots sound like out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bassl_cli import console
from pipelines.stages.extract_sound import SoundSettings
from pipelines.stages.extract_sound import extract_sound as extract

_defaults = SoundSettings()


def extract_sound(
    films: Annotated[
        list[Path], typer.Argument(help="Videos, folders of videos or glob patterns.", show_default=False)
    ],
    index: Annotated[Path, typer.Option(help="Index of the films, with their shots.")] = _defaults.index,
    output: Annotated[Path, typer.Option("--output", "-o", help="The feature store.")] = _defaults.output,
    workers: Annotated[
        int | None,
        typer.Option("--workers", "-j", min=1, help="Films at a time (unless given: one a core).", show_default=False),
    ] = _defaults.workers,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Listen again to films that the store has.")
    ] = _defaults.overwrite,
    quiet: console.Quiet = False,
    debug: console.Debug = False,
) -> None:
    """Store what each shot of films sounds like: log-mel energies, their mean and deviation.

    For the systems that take several kinds of features: bassl baseline lgss --extra data/features/sound.h5

    Example: bassl extract-sound movies/
    """
    settings = SoundSettings(index, output, workers, overwrite)
    with console.films_progress(quiet) as (start, progress):
        results = extract(films, settings, progress, start)
    console.conclude(results, f"wrote {output}", quiet)
