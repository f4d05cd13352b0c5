"""Reader of the labeled videos that the built-in model is trained on, with their color."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from pipelines.datasets.shot_features import ShotFeatures, read_shot_feature_folder
from pipelines.errors import DatasetError

COLOR_SUFFIX = "-hue"
"""The folder `NAME-hue` has the hue histograms of the videos in the folder `NAME`."""


def read_videos(folder: Path) -> list[ShotFeatures]:
    """Read a folder of labeled features, with one subfolder per set.

    The color of the videos of a set `NAME` is in their files (`color`), or in a folder `NAME-hue` beside it: files of
    the same names whose `features` are the histograms.

    Raises DatasetError: a file cannot be read, or color has no video or other shots than its video.
    """
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
