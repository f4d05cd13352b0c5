"""``bassl predict``: a video in, its scenes out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from bassl_cli import console
from pipelines.errors import BasslError
from pipelines.predict import PredictSettings
from pipelines.predict import predict as find_scenes
from pipelines.scenes import SceneList, check_writable

_defaults = PredictSettings()


def predict(
    video: Annotated[
        Path, typer.Argument(help="The video: any file that FFmpeg's libraries read.", show_default=False)
    ],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="File to write (without --json: scenes.json).", show_default=False),
    ] = None,
    threshold: Annotated[
        float, typer.Option(help="A shot with at least this score ends a scene; lower gives more scenes.")
    ] = _defaults.threshold,
    min_scene: Annotated[
        float, typer.Option(metavar="SECONDS", help="No scene shorter than this.")
    ] = _defaults.min_scene,
    scenes: Annotated[
        int | None, typer.Option(metavar="N", help="Exactly N scenes, the best ones, whatever the threshold.")
    ] = _defaults.scenes,
    detector: Annotated[
        str, typer.Option(help="Shot detector: adaptive, content, histogram, hash, threshold, transnetv2.")
    ] = _defaults.detector,
    shots: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A list of shots or cuts to use instead of a detector.", show_default=False),
    ] = _defaults.shots,
    encoder: Annotated[
        str, typer.Option(help="Shot encoder: efficientnet_lite0, resnet50 or timm:NAME (these two download weights).")
    ] = _defaults.encoder,
    model: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A relational model instead of the one in the box.", show_default=False),
    ] = _defaults.model,
    device: Annotated[str, typer.Option(help="Where the encoder runs: auto, cpu, cuda, ...")] = _defaults.device,
    storyboard: Annotated[
        Path | None,
        typer.Option(metavar="FILE.png", help="Draw the scenes with their key-frames.", show_default=False),
    ] = None,
    as_json: console.Json = False,
    quiet: console.Quiet = False,
    debug: console.Debug = False,
) -> None:
    """Find the scenes of a video.

    Shows a table of them and writes scenes.json.

    Example: bassl predict movie.mp4 -o scenes.json
    """
    if output is None and not as_json:
        output = Path("scenes.json")
    for path in (output, storyboard):
        if path is not None:
            if path.resolve() == video.resolve():
                raise BasslError(f"{path}: is the video itself; name another file to write")
            check_writable(path)
    thumbnails: list[bytes] = []
    if storyboard is not None:
        from pipelines.reports.storyboard import save_storyboard, thumbnail

    settings = PredictSettings(detector, shots, encoder, model, threshold, min_scene, scenes, device)
    with console.film_progress(video.name, quiet) as progress:
        result = find_scenes(
            video,
            settings,
            progress,
            None
            if storyboard is None
            else lambda shot: thumbnails.append(thumbnail(shot.keyframes[len(shot.keyframes) // 2])),
        )
    for warning in result.warnings:
        console.warn(warning)
    if output is not None:
        result.save(output)
    if storyboard is not None:
        save_storyboard(storyboard, result, thumbnails)
    if as_json:
        typer.echo(json.dumps(result.to_dict(), indent=1))
    elif not quiet:
        console.out.print(_table(result))
        written = ", ".join(str(path) for path in (output, storyboard) if path is not None)
        console.say(
            f"{console.count(len(result.scenes), 'scene')}, {console.count(len(result.shots), 'shot')}; wrote {written}"
        )


def _table(result: SceneList) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("scene", justify="right")
    for name in ("start", "end", "length", "shots", "confidence"):
        table.add_column(name, justify="right")
    for scene in result.scenes:
        table.add_row(
            str(scene.index + 1),
            scene.start_timecode,
            scene.end_timecode,
            f"{scene.end - scene.start:.1f} s",
            str(scene.end_shot - scene.start_shot),
            f"{scene.confidence:.2f}",
        )
    return table
