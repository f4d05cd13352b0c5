"""Make the built-in model: ``python -m recipes.default_model FEATURES``.

Reads a folder of labeled per-shot features (`pipelines.datasets.sources`) and writes the files that ship with
the package: the model, trained on all videos, and its model card, whose figures are measured here by cross-validation
over videos and by training on one data set and testing on the other. ``bassl models`` shows the main ones.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from pipelines.datasets.sources import ShotFeatures, read_shot_feature_folder
from pipelines.errors import BasslError, DatasetError
from pipelines.files import write_atomically
from pipelines.models.boundary import BoundaryModel, save_boundary_model
from pipelines.models.networks import RelationalSettings
from pipelines.models.opening import BUILT_IN
from recipes.default_model.card import model_card, training_facts
from recipes.default_model.fitting import DRAWS, UNCHANGED, Report, fit, prepare
from recipes.default_model.study import measure

COLOR_SUFFIX = "-hue"  # the folder `NAME-hue` has the hue histograms of the videos in the folder `NAME`


def read_videos(folder: Path) -> list[ShotFeatures]:
    """Read a folder of labeled features, with one subfolder per set. The color of the videos of a set `NAME` is in
    their files (`color`), or in a folder `NAME-hue` beside it: files of the same names whose `features` are the
    histograms. Raises DatasetError: a file cannot be read, or color has no video or other shots than its video."""
    everything = {video.video_id: video for video in read_shot_feature_folder(folder)}
    colors = {name: video for name, video in everything.items() if name.partition("/")[0].endswith(COLOR_SUFFIX)}
    videos = {name: video for name, video in everything.items() if name not in colors}
    for name, color in colors.items():
        video_name = name.replace(f"{COLOR_SUFFIX}/", "/", 1)
        if video_name not in videos or not np.array_equal(videos[video_name].shots, color.shots):
            raise DatasetError(
                f"{folder}: color {name} has other shots than {video_name}, or no such video; leave it out"
            )
        sums = color.features.sum(axis=1, keepdims=True)
        if (color.features < 0).any() or (sums <= 0).any():
            raise DatasetError(f"{folder}: color {name} has rows that are not histograms; compute them again")
        videos[video_name] = replace(videos[video_name], color=color.features / sums)
    return list(videos.values())


def make_default_model(folder: Path, output: Path, report: Report) -> None:
    """Measure, train on all videos of a folder, and write the model with `MODEL_CARD.md` beside it. ``report`` is
    called with one line when each part of the work starts. Raises BasslError: a file cannot be read or written.
    ValueError: fewer than two videos, or a training set without scene ends."""
    videos = read_videos(folder)
    draws = prepare(videos, DRAWS, report)
    study = measure(videos, draws, report)
    plain = [forms[UNCHANGED] for forms in draws[0]]
    network = fit(plain, study.penalty)
    model = BoundaryModel(
        crn="relational",
        network=network,
        shape=RelationalSettings(),
        calibration=study.calibration,
        training=training_facts(study),
    )
    save_boundary_model(output, model)
    write_atomically(output.with_name("MODEL_CARD.md"), model_card(study).encode())


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m recipes.default_model", description=__doc__)
    parser.add_argument("features", type=Path, help="folder of labeled per-shot features, one .npz per video")
    parser.add_argument("--output", type=Path, default=BUILT_IN, help="model file to write (default: %(default)s)")
    options = parser.parse_args(arguments)
    began = time.monotonic()

    def report(line: str) -> None:
        print(f"{(time.monotonic() - began) / 60:5.1f} min  {line}", file=sys.stderr, flush=True)

    try:
        make_default_model(options.features, options.output, report)
        report(f"written: {options.output} and MODEL_CARD.md")
    except BasslError as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from error


if __name__ == "__main__":
    main()
