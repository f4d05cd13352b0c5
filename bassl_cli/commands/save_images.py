"""``bassl save-images``: images of the scenes of a video."""

from __future__ import annotations

from pathlib import Path

import typer

from bassl_cli import console
from bassl_cli.options import Results, with_settings
from pipelines.stages.settings import ImageSettings


@with_settings(
    spellings={"output": "FOLDER", "images": "-n N", "filename": "-f TEMPLATE", "width": "PIXELS", "height": "PIXELS"},
)
def save_images(settings: ImageSettings, sources: Results = [], as_json: console.Json = False) -> None:
    """Save images of the scenes of a video, or of its shots.

    Images are taken away from cuts and dissolves, by seeking if the format of the video allows it.

    Examples: bassl save-images movie.mp4 -n 1 --width 640, bassl save-images videos/ -o images/
    """
    from pipelines.outputs.opening import check_several  # start-up time: NumPy, PyAV
    from pipelines.stages.save_images import SavedImage, save_images as stage  # start-up time: NumPy, PyAV, Pillow

    check_several(sources, settings.template, settings.run, settings.listed.video)
    saved: list[SavedImage] = []

    def save(source: Path) -> None:
        with console.stage_progress() as progress:
            images = stage(source, settings, progress)
        saved.extend(images)
        whose = f"{source}: " * (len(sources) > 1)
        console.print_info(
            f"{whose}{console.count(len(images), 'image')}; wrote {console.display_path(images[0].path.parent)}"
        )

    failed = console.try_each(sources, save)
    if as_json:
        console.print_json(saved)
    if failed:
        raise typer.Exit(1)
