"""Reading scene annotations of any supported format: a file of one video, or a folder of many.

The data sets BBC Planet Earth (Baraldi, Grana and Cucchiara, "A Deep Siamese Network for Scene Detection in Broadcast
Videos", ACM MM 2015) and Open Video Scene Detection (OVSD; Rotman, Porat and Ashour, "Robust and Efficient Video Scene
Detection Using Optimal Sequential Grouping", ISM 2016) are read here:

    annotations/shots/bbc_01.txt                 `0 632`: first and last frame of each shot, inclusive
    annotations/scenes/annotator_0/bbc_01.txt    `0,1,...,445`: the first shot of each scene, then the number of shots
    02_scenes.txt, 02_shots.txt                  `0 3169`: first and last frame of each scene or shot of OVSD, inclusive
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from pipelines.datasets.annotations import (
    VideoAnnotation,
    fault,
    labels_from_ends,
    list_files,
    list_names,
    parse_int,
    read_inclusive_ranges,
    read_text,
)
from pipelines.datasets.matching import assign_scene_ends
from pipelines.datasets.movienet import is_movienet, read_movienet
from pipelines.datasets.scene_tables import CHAPTER_ENDINGS, file_id, read_chapters, read_scenes_csv
from pipelines.datasets.scenes_json import read_scenes_json
from pipelines.datasets.shot_features import read_shot_features, shot_feature_files
from pipelines.errors import DatasetError

BBC_FRAME_RATE = 25.0  # frames per second of the series as broadcast; the files do not have it
MAX_DIFFERENCE = 48  # frames, about two seconds, between the bounds of scenes and shots of an OVSD video

_SCENES = "_scenes.txt"
_SHOTS = "_shots.txt"

_ENDINGS = (".json", ".csv", ".chapters.xml", ".ffmetadata", ".ffmeta", ".youtube.txt", ".scenes.vtt", ".scenes.edl")


def read_scenes_of_video(path: Path, frame_rate: float | None = None) -> VideoAnnotation:
    """Read the scenes of one video: a scenes.json, a CSV, an `.npz` of features and labels, or chapters. ``frame_rate``
    is for timecodes that end in a frame number. Raises DatasetError for another kind of file, or a damaged one."""
    suffix = path.suffix.lower()
    if not path.is_file():
        raise fault(path, "no such file")
    if suffix == ".json":
        return read_scenes_json(path)
    if suffix == ".csv":
        return read_scenes_csv(path, frame_rate)
    if suffix == ".npz":
        return _from_features(path)
    if suffix in CHAPTER_ENDINGS:
        return read_chapters(path, frame_rate)
    supported = "scenes.json, .csv, .edl, .npz, chapters, or the folder of BBC, OVSD or MovieNet"
    raise fault(path, f"unsupported format; supported: {supported}")


def read_scenes_of_folder(
    folder: Path, annotator: int = 0, frame_rate: float | None = None
) -> tuple[dict[str, VideoAnnotation], list[str]]:
    """Read the scenes of all videos of a folder: of BBC (by one ``annotator``), OVSD or MovieNet, or files for
    `read_scenes_of_video`; if a video has a scenes.json and another list, the scenes.json.

    Returns: The records by video id, sorted, and a message for each file that could not be read. Raises DatasetError
        for a folder without any such file, and for a damaged file of BBC or OVSD, which are read as a whole.
    """
    if is_movienet(folder):
        left_out: dict[str, str] = {}
        videos = read_movienet(folder, left_out)
        return {video.video_id: video for video in videos}, list(left_out.values())
    if is_bbc(folder) or is_ovsd(folder):
        videos = read_bbc(folder, annotator) if is_bbc(folder) else read_ovsd(folder)
        return {video.video_id: video for video in videos}, []
    files = [folder / name for name in list_names(folder) if name.lower().endswith(_ENDINGS)]
    if not files:
        files = sorted(shot_feature_files(folder))
    if not files:
        raise fault(folder, "contains nothing in a supported format: scenes.json, .csv, .npz, BBC, OVSD or MovieNet")
    records: dict[str, VideoAnnotation] = {}
    problems: list[str] = []
    results = {file_id(path) for path in files if path.suffix.lower() == ".json"}
    for path in sorted(files, key=lambda path: path.suffix.lower() != ".json"):
        if path.suffix.lower() != ".json" and file_id(path) in results:
            continue
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
    """Read label files of any supported format: a file of one video, or a folder. Raises DatasetError as these do, and
    for a folder with a damaged file."""
    if not source.is_dir():
        return [read_scenes_of_video(source, frame_rate)]
    records, problems = read_scenes_of_folder(source, annotator, frame_rate)
    if problems:
        raise DatasetError(problems[0])
    return list(records.values())


def _from_features(path: Path) -> VideoAnnotation:
    video = read_shot_features(path)
    scene_end = labels_from_ends(np.flatnonzero(video.scene_end).tolist(), len(video.shots))
    seconds = None if video.frame_rate is None else video.shots / video.frame_rate
    return VideoAnnotation(path.stem, path, video.shots, seconds, scene_end, frame_rate=video.frame_rate)


def is_bbc(root: Path) -> bool:
    """Return whether the folder contains `annotations/shots` and `annotations/scenes/annotator_*`, or is that
    folder."""
    folder = _annotations(root)
    return (folder / "shots").is_dir() and any(child.is_dir() for child in folder.glob("scenes/annotator_*"))


def read_bbc(root: Path, annotator: int = 0) -> list[VideoAnnotation]:
    """Read all videos of BBC with the scenes of one annotator (0 to 4 in the full set), named by their files. Raises
    DatasetError: a file is missing or damaged, or a list of scenes does not run from shot 0 to the number of shots,
    because it or the shot list is truncated."""
    folder = _annotations(root)
    scene_folder = folder / "scenes" / f"annotator_{annotator}"
    shot_files, scene_files = list_files(folder / "shots", ".txt"), list_files(scene_folder, ".txt")
    if unpaired := sorted({*shot_files} ^ {*scene_files}):
        raise fault(folder, f"has {unpaired[0]}.txt in only one of shots and {scene_folder.name}")
    return [_bbc_video(video_id, shot_file, scene_files[video_id]) for video_id, shot_file in shot_files.items()]


def _bbc_video(video_id: str, shot_file: Path, scene_file: Path) -> VideoAnnotation:
    shots = read_inclusive_ranges(shot_file, "shot")
    fields = read_text(scene_file).strip().split(",")
    firsts = [parse_int(field.strip(), "the number of a shot", scene_file) for field in fields]
    if firsts[0] != 0 or firsts[-1] != len(shots) or firsts != sorted({*firsts}):
        ends = f"from {firsts[0]} to {firsts[-1]}"
        raise fault(scene_file, f"lists {ends}, not from 0 to the {len(shots)} shots of {shot_file}, in order")
    scene_end = labels_from_ends((first - 1 for first in firsts[1:]), len(shots))
    return VideoAnnotation(video_id, scene_file, shots, scene_end=scene_end, frame_rate=BBC_FRAME_RATE)


def _annotations(root: Path) -> Path:
    return root / "annotations" if (root / "annotations").is_dir() else root


def is_ovsd(root: Path) -> bool:
    """Return whether the folder contains a file `<id>_scenes.txt`."""
    return root.is_dir() and any(root.glob(f"[!.]*{_SCENES}"))


def read_ovsd(root: Path) -> list[VideoAnnotation]:
    """Read all videos of a folder of OVSD, with scenes as frame ranges and, if there is a shot list, labeled shots.

    Scenes were annotated by eye: most ends differ from the nearest shot end, often by some frames and sometimes by many
    seconds, and there may be gaps between scenes. A scene ends with the shot with the nearest end, one shot per scene.
    Raises DatasetError: a file is missing or damaged, or scenes and shots do not begin and end together, because one of
    the files is truncated.
    """
    scene_files, shot_files = list_files(root, _SCENES), list_files(root, _SHOTS)
    if unpaired := sorted({*shot_files} - {*scene_files}):
        raise fault(shot_files[unpaired[0]], f"has no {unpaired[0]}{_SCENES} beside it")
    return [_ovsd_video(video_id, path, shot_files.get(video_id)) for video_id, path in scene_files.items()]


def _ovsd_video(video_id: str, scene_file: Path, shot_file: Path | None) -> VideoAnnotation:
    scenes = read_inclusive_ranges(scene_file, "scene")
    if shot_file is None:
        return VideoAnnotation(video_id, scene_file, scenes_frames=scenes)
    shots = read_inclusive_ranges(shot_file, "shot")
    for does, frame, other in (("begins", scenes[0, 0], shots[0, 0]), ("ends", scenes[-1, 1], shots[-1, 1])):
        if abs(int(frame) - int(other)) > MAX_DIFFERENCE:
            raise fault(scene_file, f"{does} at frame {frame}, but {shot_file} at {other}; one of them is cut off")
    last_shots = assign_scene_ends(shots[:, 1], scenes[:, 1], tolerance=math.inf)
    scene_end = labels_from_ends(last_shots.tolist(), len(shots))
    return VideoAnnotation(video_id, scene_file, shots, scene_end=scene_end, scenes_frames=scenes)
