"""``bassl split``: one clip per scene, or a copy of the video with chapters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from bassl_cli import console
from bassl_cli.options import RESULTS_HELP, named_results, with_settings
from pipelines.errors import BasslError
from pipelines.options import with_options
from pipelines.outputs.results import is_video
from pipelines.scenes import timecode
from pipelines.stages.settings import SplitSettings

if TYPE_CHECKING:  # start-up time: NumPy, PyAV
    from pipelines.stages.split import Clip


def _sources(sources: list[Path]) -> list[Path]:
    """As of other commands, but a video and a ``scenes.json`` are kept as they are: they belong together."""
    return sources if _are_pair(sources) else named_results(sources)


def _are_pair(sources: Sequence[Path]) -> bool:
    return [is_video(source) and not source.is_dir() for source in sources] == [True, False]


@with_settings(spellings={"output": "FOLDER", "filename": "-f TEMPLATE"})
def split(
    settings: SplitSettings,
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="[VIDEO|SCENES.JSON|FOLDER]...",
            help=f"{RESULTS_HELP} A video and a scenes.json: the scenes of that video.",
            show_default=False,
            callback=_sources,
        ),
    ] = [],
    chapters: Annotated[
        bool, typer.Option("--chapters", help="Do not cut: write a copy of the video with its scenes as chapters.")
    ] = False,
    as_json: console.Json = False,
) -> None:
    """Cut a video into its scenes.

    Without --exact nothing is encoded: each clip begins with the key frame before its scene.

    Examples: bassl split movie.mp4 --exact, bassl split videos/ -o clips/
    """
    from pipelines.outputs.opening import check_several, open_scenes  # start-up time: NumPy, PyAV
    from pipelines.stages.split import split as stage, write_chapters  # start-up time: NumPy, PyAV

    clip_options = {"--exact": settings.exact, "--expand": settings.expand > 0}
    clip_options["--skip-credits"] = settings.listed.skip_credits
    clip_options["--filename"] = settings.filename != SplitSettings.filename
    if chapters and any(clip_options.values()):
        flags = " and ".join(flag for flag, is_set in clip_options.items() if is_set)
        raise BasslError(f"--chapters copies the video in one piece; leave {flags} out")
    if _are_pair(sources):
        settings, sources = with_options(settings, video=sources[0]), sources[1:]
    check_several(sources, settings.filename, settings.run, settings.listed.video)
    rows: list[object] = []

    def split_one(source: Path) -> None:
        opened = open_scenes(source, settings.listed.video)
        prefix = f"{source}: " if len(sources) > 1 else ""
        with console.stage_progress(opened.existing_video().name) as progress:
            if chapters:
                copy = write_chapters(opened.scenes, settings, progress)
            else:
                clips = stage(opened.scenes, settings, progress)
        if chapters:
            rows.append({"chapters": copy})
            summary = f"{console.count(len(opened.scenes.scenes), 'chapter')}; wrote {console.display_path(copy)}"
        else:
            rows.extend(clips)
            if not as_json:
                _show(clips, settings.exact, title=prefix.removesuffix(": "))
            _warn_of_early(clips)
            summary = f"{console.count(len(clips), 'clip')}; wrote {console.display_path(clips[0].path.parent)}"
        console.print_info(prefix + summary)

    failed = console.try_each(sources, split_one)
    if as_json:
        console.print_json(rows[0] if chapters and len(sources) == 1 else rows)
    if failed:
        raise typer.Exit(1)


def _show(clips: Sequence[Clip], exact: bool, title: str) -> None:
    rows = []
    for clip in clips:
        differences = () if exact else (f"{clip.early:.3f} s", f"{clip.late:.3f} s")
        rows.append((str(clip.scene + 1), timecode(clip.start), timecode(clip.end), *differences))
    header = ("scene", "start", "end", *(() if exact else ("early", "late")))
    console.show_table(header, rows, text=(), title=title)


def _warn_of_early(clips: Sequence[Clip]) -> None:
    if early := [clip.early for clip in clips if clip.early > 0]:
        console.warn(
            f"cuts are at key frames: {console.count(len(early), 'scene')} of {len(clips)} begin early, by "
            f"{sum(early) / len(early):.2f} s on average and {max(early):.2f} s at most; --exact cuts to the frame"
        )
