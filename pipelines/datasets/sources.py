"""Reading scene annotations of any supported format: a file of one video, or a folder of many."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pipelines.datasets.annotations import VideoAnnotation
from pipelines.datasets.frame_lists import is_bbc, is_ovsd, read_bbc, read_ovsd, read_scene_file
from pipelines.datasets.movienet import is_movienet, read_movienet
from pipelines.datasets.parsing import fault, list_names
from pipelines.datasets.scene_tables import is_chapters, read_chapters, read_scenes_csv
from pipelines.datasets.scenes_json import read_scenes_json
from pipelines.datasets.shot_features import read_shot_features, shot_feature_files
from pipelines.errors import DatasetError
from pipelines.files import real

_ENDINGS = (".json", ".csv", ".chapters.xml", ".ffmetadata", ".ffmeta")


def is_scene_files(path: Path) -> bool:
    """Return whether this is a list of scenes, by its ending."""
    return path.name.lower().endswith(_ENDINGS) and path.is_file()


def read_scenes_of_video(path: Path, frame_rate: float | None = None) -> VideoAnnotation:
    """Read the scenes of one video: a scenes.json, a CSV, an `.npz` of features and labels, chapters, or the label file
    of one video of BBC, OVSD or MovieNet in the data set's own folders (its shots are in another file there).

    `frame_rate`: for timecodes in a CSV that end in a frame number.
    Raises DatasetError for another kind of file, or a damaged one.
    """
    suffix = path.suffix.lower()
    if not path.is_file():
        raise fault(path, "no such file")
    if suffix == ".json":
        return read_scenes_json(path)
    if suffix == ".csv":
        return read_scenes_csv(path, frame_rate)
    if suffix == ".npz":
        return _from_features(path)
    if is_chapters(path):
        return read_chapters(path)
    if (record := read_scene_file(path)) is not None:
        return record
    folder = real(path).parent
    if folder.name == "label318" and (videos := read_movienet(folder.parent.parent, only=path.stem)):
        return videos[0]
    raise fault(
        path,
        "unsupported format; supported: scenes.json, .csv, .npz, chapters, "
        "or a label file in the folders of BBC, OVSD or MovieNet",
    )


def read_scenes_of_folder(
    folder: Path, annotator: int = 0, frame_rate: float | None = None
) -> tuple[dict[str, VideoAnnotation], list[str]]:
    """Read the scenes of all videos of a folder: of BBC, OVSD or MovieNet, or files for `read_scenes_of_video`.

    If a video has a scenes.json and another list (`bassl predict` can write both), the scenes.json is read.

    `annotator`: of BBC. `frame_rate`: for timecodes in a CSV that end in a frame number.
    Returns: The records by video id, sorted, and a message for each file that could not be read. (BBC and OVSD are read
        as a whole: a damaged file raises.)
    Raises DatasetError for a folder without any such file.
    """
    if is_movienet(folder):
        left_out: dict[str, str] = {}
        videos = read_movienet(folder, left_out)
        return {video.video_id: video for video in videos}, list(left_out.values())
    if is_bbc(folder) or is_ovsd(folder):
        videos = read_bbc(folder, annotator) if is_bbc(folder) else read_ovsd(folder)
        return {video.video_id: video for video in videos}, []
    files = [folder / name for name in list_names(folder) if is_scene_files(folder / name)]
    if not files:
        files = sorted(shot_feature_files(folder))
    if not files:
        raise fault(folder, "contains nothing in a supported format: scenes.json, .csv, .npz, BBC, OVSD or MovieNet")
    records: dict[str, VideoAnnotation] = {}
    problems: list[str] = []
    for path in sorted(files, key=lambda path: path.suffix.lower() != ".json"):
        try:
            record = read_scenes_of_video(path, frame_rate)
        except DatasetError as error:
            problems.append(str(error))
            continue
        first = records.setdefault(record.video_id, record)
        if first is not record and (path.suffix.lower() == ".json" or first.source.suffix.lower() != ".json"):
            problems.append(f"{path}: has the same video {record.video_id} as {first.source}; remove one of them")
    return dict(sorted(records.items())), problems


def read_annotations(source: Path, annotator: int = 0, frame_rate: float | None = None) -> list[VideoAnnotation]:
    """Read label files of any supported format: a file of one video, or a folder. Raises DatasetError if it is not
    supported or damaged."""
    if not source.exists():
        raise DatasetError(f"{source}: no such file or folder")
    if not source.is_dir():
        return [read_scenes_of_video(source, frame_rate)]
    records, problems = read_scenes_of_folder(source, annotator, frame_rate)
    if problems:
        raise DatasetError(problems[0])
    return list(records.values())


def _from_features(path: Path) -> VideoAnnotation:
    video = read_shot_features(path)
    # The video's end is not a scene end to predict.
    scene_end = np.append(video.scene_end[:-1], 0).astype(np.int8)
    seconds = None if video.frame_rate is None else video.shots / video.frame_rate
    return VideoAnnotation(path.stem, path, video.shots, seconds, scene_end, frame_rate=video.frame_rate)
