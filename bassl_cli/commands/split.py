"""``bassl split``: one clip per scene, or a copy of the video with chapters."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from bassl_cli import console
from bassl_cli.options import SCENES, leave_out_exports, with_settings
from pipelines.errors import BasslError
from pipelines.files import STDIO
from pipelines.outputs.names import check_several
from pipelines.scenes import SceneData, timecode
from pipelines.stages.settings import Clip, SplitSettings
from pipelines.video.inputs import listed_id, video_at


@with_settings(flags={"filename": "--filename -f"}, metavars={"output": "FOLDER", "filename": "TEMPLATE"})
def split(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="[VIDEO] SCENES.JSON",
            help="A video and its scenes.json; or one or several scenes.json, each with the path of its video.",
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

    Without --exact nothing is encoded: each clip begins with the key frame before its scene.

    Examples: bassl split movie.mp4 movie.scenes.json --exact, bassl split out/*.json -o clips/
    """
    from pipelines.stages.split import split as stage, write_chapters  # start-up time: PyAV

    clip_options = {"--exact": settings.exact, "--expand": settings.expand > 0}
    clip_options["--filename"] = settings.filename != SplitSettings.filename
    if chapters and any(clip_options.values()):
        flags = " and ".join(flag for flag, is_set in clip_options.items() if is_set)
        raise BasslError(f"--chapters copies the video in one piece; leave {flags} out")
    video = None if files[0] == STDIO or files[0].suffix.lower() == ".json" else files[0]
    if video is not None:
        predicted = Path(f"{video.stem}.scenes.json")
        files = files[1:] or [predicted if predicted.exists() else SCENES]
        if len(files) > 1:
            raise BasslError(f"{video}: one video, but {len(files)} files of scenes; leave the video out")
    elif others := [file for file in files if file != STDIO and file.suffix.lower() != ".json"]:
        raise BasslError(f"{others[0]}: is not a scenes.json; give the video before its scenes")
    if len(files) > 1 and not chapters:
        check_several(settings.filename, settings.run.output, settings.run.overwrite)
    rows: list[object] = []
    files_by_name: dict[str, Path] = {}

    def split_one(file: Path) -> None:
        path, scenes = _read(video, file)
        if (other := files_by_name.setdefault(listed_id(scenes.video, path), file)) != file:
            raise BasslError(f"{file}: its clips would have the same names as the clips of {other}; split it alone")
        prefix = f"{file}: " if len(files) > 1 else ""
        with console.stage_progress(quiet, path.name) as progress:
            if chapters:
                copy = write_chapters(path, scenes, settings, progress)
            else:
                clips = stage(path, scenes, settings, progress)
        if chapters:
            rows.append({"chapters": str(copy)})
            summary = f"{console.count(len(scenes.scenes), 'chapter')}; wrote {copy}"
        else:
            rows.extend(console.as_plain(clip) for clip in clips)
            if not (quiet or as_json):
                _show(clips, settings.exact, title=prefix.removesuffix(": "))
            _warn_of_early(clips)
            summary = f"{console.count(len(clips), 'clip')}; wrote {clips[0].path.parent}"
        if not quiet:
            console.say(prefix + summary)

    failed = console.try_each(files, split_one)
    if as_json:
        console.print_json(rows[0] if chapters and len(files) == 1 else rows)
    if failed:
        raise typer.Exit(1)


def _read(video: Path | None, file: Path) -> tuple[Path, SceneData]:
    """The scenes of a file, and their video: ``video``, or the video at the path in the file."""
    if file != STDIO and not file.exists():
        raise BasslError(f"{file}: no such file; make it with: bassl predict {video or 'VIDEO'} -o {file}")

    from pipelines.datasets.scene_files import read_scene_list  # start-up time: numpy

    scenes = read_scene_list(file)
    path = video or video_at(Path(scenes.video.path), scenes.video)
    if path is None:
        raise BasslError(f"{scenes.video.path}: the video is missing or has changed; give it before {file}")
    return path, scenes


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
