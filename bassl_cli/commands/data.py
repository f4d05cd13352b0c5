"""Commands that make the data to train on: keyframes, sound and the index of all shots."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from typing import Annotated

import typer

from bassl_cli import console
from bassl_cli.options import Videos, with_settings
from pipelines.errors import BasslError
from pipelines.stages.extract_keyframes import ExtractSettings, extract_keyframes as extract
from pipelines.stages.settings import IndexSettings, SoundSettings
from pipelines.video.inputs import find_videos


@with_settings()
def extract_keyframes(videos: Videos, settings: ExtractSettings, as_json: console.Json = False) -> None:
    """Detect the shots of videos and store the keyframes of each shot.

    Finished videos are kept, so a stopped run continues.

    Example: bassl extract-keyframes movies/
    """
    videos = find_videos(videos)
    with console.videos_progress(len(videos)) as progress:
        results = extract(videos, settings, progress)
    console.show_videos(results, ("frames", "shots"), f"stores in {console.display_path(settings.run.output)}", as_json)
    if not as_json:
        console.suggest_next("extract-keyframes", settings.run.output)


@with_settings()
def extract_sound(videos: Videos, settings: SoundSettings) -> None:
    """Store sound features of each shot: mean and deviation of log-mel energies.

    For the systems that take several kinds of features: bassl baseline lgss --extra data/sound

    Example: bassl extract-sound movies/
    """
    from pipelines.stages.extract_sound import extract_sound as extract  # start-up time: NumPy, PyAV

    videos = find_videos(videos)
    with console.videos_progress(len(videos)) as progress:
        results = extract(videos, settings, progress)
    console.print_summary(results, f"features in {console.display_path(settings.run.output)}")


_KEYFRAMES = ExtractSettings().run.output


@with_settings(spellings={"split": "SHARES|FILE", "feature_folder": "FOLDER"}, repeated=("labels",))
def build_index(
    settings: IndexSettings,
    sources: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Folders of keyframe stores, MovieNet, BBC, OVSD, .npz features or scenes.json files "
            f"(default: {_KEYFRAMES}).",
            show_default=False,
        ),
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Only show the existing index.")] = False,
    as_json: console.Json = False,
) -> None:
    """Index all shots of all videos for training.

    Example: bassl build-index data/keyframes --labels labels/ --split 0.6,0.2,0.2
    """
    output = settings.run.output
    if show and (sources or settings.labels):
        raise BasslError("--show reads the existing index; pass it with --output")
    if show and not output.exists():
        raise BasslError(f"{output}: no such file; run `bassl build-index`, or name an index with `output`")
    from pipelines.datasets.matching import describe_matches  # start-up time: NumPy, h5py, as the next one
    from pipelines.stages.build_index import build_index as stage, describe_index

    report = describe_index(output) if show else stage(sources or [_KEYFRAMES], settings)
    if as_json:
        console.print_json({**vars(report), "index": report.index.path})
        return
    rows = []
    for split, *counts, hours in map(astuple, report.splits):
        rows.append((split, *map("{:,}".format, counts), "" if hours is None else f"{hours:.1f}"))
    console.show_table(("split", "videos", "labeled", "scenes", "shots", "hours"), rows)
    console.note(*report.notes)
    if report.matches:
        console.print_info(f"labels: {describe_matches(report.matches.values())}")
    if not show:
        console.print_info(f"wrote {console.display_path(output)}")
        console.suggest_next("build-index", output)
