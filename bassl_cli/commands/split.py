"""``bassl split``: a video into one video for each scene, or into a copy with chapters."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bassl_cli import console
from bassl_cli.options import SCENES, leave_out_exports, with_settings
from pipelines.errors import BasslError
from pipelines.files import STDIO
from pipelines.outputs.names import check_several
from pipelines.scenes import SceneList, timecode
from pipelines.stages.split import SplitSettings, split as stage, write_chapters
from pipelines.video.inputs import listed_id, video_at


@with_settings(flags={"filename": "--filename -f"}, metavars={"output": "FOLDER", "filename": "TEMPLATE"})
def split(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="[VIDEO] SCENES.JSON",
            help="The video and its scenes (scenes.json); or only scenes, of one or several videos, each found at the "
            "path in its scenes.json.",
            show_default=False,
            callback=leave_out_exports,
        ),
    ],
    settings: SplitSettings,
    chapters: Annotated[
        bool, typer.Option("--chapters", help="Do not cut: write a copy of the video with its scenes as chapters.")
    ] = False,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
) -> None:
    """Cut a video into its scenes.

    Without --exact nothing is encoded: each piece begins with the key frame before its scene.

    Examples: bassl split movie.mp4 movie.scenes.json --exact, bassl split out/*.json -o clips/
    """
    of_pieces = {"--exact": settings.exact, "--expand": settings.expand > 0}
    of_pieces["--filename"] = settings.filename != SplitSettings.filename
    if chapters and any(of_pieces.values()):
        without = " and ".join(flag for flag, given in of_pieces.items() if given)
        raise BasslError(f"--chapters copies the video in one piece; leave {without} out")
    named = None if files[0] == STDIO or files[0].suffix.lower() == ".json" else files[0]
    if named is not None:
        left = Path(f"{named.stem}.scenes.json")  # by `bassl predict`
        files = files[1:] or [left if left.exists() else SCENES]
        if len(files) > 1:
            raise BasslError(f"{named}: is one video, but {len(files)} files of scenes are given; leave the video out")
    elif others := [file for file in files if file != STDIO and file.suffix.lower() != ".json"]:
        raise BasslError(f"{others[0]}: is no file of scenes; name the video before its scenes")
    if len(files) > 1 and not chapters:
        check_several(settings.filename, settings.run.output, settings.run.overwrite)
    rows: list[object] = []
    done: dict[str, Path] = {}

    def cut(scenes: Path) -> None:
        video, listed = _video_of(named, scenes)
        if (other := done.setdefault(listed_id(listed.video, video), scenes)) != scenes:
            raise BasslError(f"{scenes}: its clips would have the names of those of {other}; split it alone, with -o")
        title = str(scenes) if len(files) > 1 else ""
        rows.extend(_cut(video, listed, settings, chapters, quiet or as_json, quiet, title))

    failed = console.try_each(files, cut)
    if as_json:
        console.print_json(rows[0] if chapters and len(files) == 1 else rows)
    if failed:
        raise typer.Exit(1)


def _video_of(named: Path | None, scenes: Path) -> tuple[Path, SceneList]:
    """A video, and the list of its scenes in a file."""
    if scenes != STDIO and not scenes.exists():
        raise BasslError(f"{scenes}: no such file; make it with: bassl predict {named or 'VIDEO'} -o {scenes}")

    from pipelines.datasets.scene_list import read_scene_list  # start-up time: numpy

    listed = read_scene_list(scenes)
    video = named or video_at(Path(listed.video.path), listed.video)
    if video is None:
        raise BasslError(f"{listed.video.path}: the video was not found, or was changed since; name it before {scenes}")
    return video, listed


def _cut(
    video: Path, listed: SceneList, settings: SplitSettings, chapters: bool, no_table: bool, quiet: bool, title: str
) -> list[dict[str, object]]:
    """Cut a video into the scenes of a list; return the written files as plain JSON values. With a title, the table and
    the line with the count have it."""
    whose = f"{title}: " * bool(title)
    with console.stage_progress(quiet, video.name) as progress:
        if chapters:
            copy = write_chapters(video, listed, settings, progress)
        else:
            pieces = stage(video, listed, settings, progress)
    if chapters:
        if not quiet:
            console.say(f"{whose}{console.count(len(listed.scenes), 'chapter')}; wrote {copy}")
        return [{"chapters": str(copy)}]
    if not no_table:
        rows = []
        for piece in pieces:
            beyond = () if settings.exact else (f"{piece.early:.3f} s", f"{piece.late:.3f} s")
            rows.append((str(piece.scene + 1), timecode(piece.start), timecode(piece.end), *beyond))
        header = ("scene", "start", "end", *(() if settings.exact else ("early", "late")))
        console.show_table(header, rows, text=(), title=title)
    if early := [piece.early for piece in pieces if piece.early > 0]:
        console.warn(
            f"cuts are at key frames: {console.count(len(early), 'scene')} of {len(pieces)} begin early, by "
            f"{sum(early) / len(early):.2f} s on average and {max(early):.2f} s at most; --exact cuts to the frame"
        )
    if not quiet:
        console.say(f"{whose}{console.count(len(pieces), 'clip')}; wrote {pieces[0].path.parent}")
    return [console.as_plain(piece) for piece in pieces]
