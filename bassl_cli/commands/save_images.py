"""``bassl save-images``: images of the scenes of a video."""

from __future__ import annotations

from pathlib import Path, PureWindowsPath

import typer

from bassl_cli import console
from bassl_cli.options import SCENES, SceneFiles, with_settings
from pipelines.errors import BasslError
from pipelines.outputs.names import check_several
from pipelines.stages.settings import ImageSettings
from pipelines.video.inputs import listed_id


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
    """Save images of the scenes of a video, or of its shots.

    Images are taken away from cuts and dissolves, by seeking if the format of the video allows it.

    Examples: bassl save-images scenes.json -n 1 --width 640, bassl save-images out/*.json -o images/
    """
    from pipelines.stages.save_images import SavedImage, save_images as stage  # start-up time: NumPy, PyAV, Pillow

    if len(files) > 1 and settings.listed.video is not None:
        raise BasslError("--video is for one scenes.json; leave it out for several")
    if len(files) > 1:
        check_several(settings.template, settings.run.output, settings.run.overwrite)
    saved: list[SavedImage] = []
    done: dict[str, Path] = {}

    def save(file: Path) -> None:
        if len(files) > 1:
            from pipelines.datasets.scene_files import read_scene_list  # start-up time: NumPy

            video = read_scene_list(file).video
            if (other := done.setdefault(listed_id(video, PureWindowsPath(video.path)), file)) != file:
                raise BasslError(
                    f"{file}: its images would have the same names as images of {other}; save them alone, with -o"
                )
        with console.stage_progress(quiet) as progress:
            images = stage(file, settings, progress)
        saved.extend(images)
        if not quiet:
            whose = f"{file}: " * (len(files) > 1)
            console.say(f"{whose}{console.count(len(images), 'image')}; wrote {images[0].path.parent}")

    failed = console.try_each(files, save)
    if as_json:
        console.print_json([console.as_plain(image) for image in saved])
    if failed:
        raise typer.Exit(1)
