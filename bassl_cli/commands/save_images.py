"""``bassl save-images``: images of the scenes of a film."""

from __future__ import annotations

from pathlib import Path

import typer

from bassl_cli import console
from bassl_cli.options import SCENES, SceneFiles, with_settings
from pipelines.errors import BasslError
from pipelines.stages.save_images import ImageSettings, SavedImage, save_images as stage


@with_settings(
    flags={"images": "--images -n", "filename": "--filename -f"},
    metavars={"output": "FOLDER", "images": "N", "filename": "TEMPLATE", "width": "PIXELS", "height": "PIXELS"},
)
def save_images(
    settings: ImageSettings,
    files: SceneFiles = [SCENES],  # noqa: B006
    as_json: console.Json = False,
    quiet: console.Quiet = False,
) -> None:
    """Save images of the scenes of a film, or of its shots.

    Images are taken away from cuts and dissolves, by seeking where the format of the film allows it.

    Examples: bassl save-images scenes.json -n 1 --width 640, bassl save-images out/*.json -o images/
    """
    if len(files) > 1 and settings.film is not None:
        raise BasslError("--film is for one scenes.json; leave it out for several")
    saved: list[SavedImage] = []

    def save(file: Path) -> None:
        with console.stage_progress(quiet) as progress:
            images = stage(file, settings, progress)
        saved.extend(images)
        if not quiet:
            console.say(f"{console.count(len(images), 'image')}; wrote {images[0].path.parent}")

    failed = console.try_each(files, save)
    if as_json:
        console.print_json([console.as_plain(image) for image in saved])
    if failed:
        raise typer.Exit(1)
