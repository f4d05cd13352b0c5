"""``bassl split``: a film into one film for each scene, or into a copy with chapters."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bassl_cli import console
from bassl_cli.options import SCENES, SceneFile, with_settings
from pipelines.errors import BasslError
from pipelines.scenes import timecode
from pipelines.stages.split import Piece, SplitSettings, split as stage, write_chapters


@with_settings(
    flags={"folder": "--output -o", "filename": "--filename -f"},
    metavars={"folder": "FOLDER", "filename": "TEMPLATE"},
)
def split(
    film: Annotated[Path, typer.Argument(help="The film.", show_default=False)],
    settings: SplitSettings,
    scenes: SceneFile = SCENES,
    chapters: Annotated[
        bool, typer.Option("--chapters", help="Do not cut: write a copy of the film with its scenes as chapters.")
    ] = False,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
) -> None:
    """Cut a film into its scenes.

    Without --exact nothing is encoded: each piece begins with the key frame before its scene.

    Example: bassl split movie.mp4 scenes.json --exact
    """
    if settings.exact and chapters:
        raise BasslError("--chapters copies the film in one piece; leave --exact out")
    if not scenes.exists():
        raise BasslError(f"{scenes}: no such file; make it with: bassl predict {film} -o {scenes}")

    from pipelines.datasets.scene_list import read_scene_list  # start-up time: numpy

    listed = read_scene_list(scenes)
    with console.stage_progress(quiet, film.name) as progress:
        if chapters:
            written = write_chapters(film, listed, settings, progress)
            pieces: tuple[Piece, ...] = ()
        else:
            pieces = stage(film, listed, settings, progress)
            written = pieces[0].path.parent
    if as_json:
        rows = [console.as_plain(piece) for piece in pieces]
        console.print_json({"chapters": str(written)} if chapters else rows)
    elif not quiet and pieces:
        _show(pieces, settings.exact)
    early = [piece.early for piece in pieces if piece.early > 0]
    if early:
        console.warn(
            f"cuts are at key frames: {console.count(len(early), 'scene')} of {len(pieces)} begin early, by "
            f"{sum(early) / len(early):.2f} s on average and {max(early):.2f} s at most; --exact cuts to the frame"
        )
    if not quiet:
        what = console.count(len(listed.scenes), "chapter") if chapters else console.count(len(pieces), "film")
        console.say(f"{what}; wrote {written}")


def _show(pieces: tuple[Piece, ...], exact: bool) -> None:
    rows = [
        (
            str(piece.scene + 1),
            timecode(piece.start),
            timecode(piece.end),
            *(() if exact else (f"{piece.early:.3f} s", f"{piece.late:.3f} s")),
        )
        for piece in pieces
    ]
    console.show_table(("scene", "start", "end", *(() if exact else ("early", "late"))), rows, text=())
