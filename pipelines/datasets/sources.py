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
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.datasets import (
    VideoAnnotation,
    check_ranges,
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
from pipelines.errors import DatasetError, first_line
from pipelines.files import check_regular
from pipelines.stores.index import ASSUMED_FRAME_RATE
from pipelines.video.inputs import files_below

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
    `read_scenes_of_video`; if a video has a scenes.json and another list, the scenes.json. Return the records by video
    id, sorted, and a message for each file that could not be read. Raises DatasetError for a folder without any such
    file, and for a damaged file of BBC or OVSD, which are read as a whole."""
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
    """Read label files of any format: a file of one video, or a folder. Raises DatasetError for a damaged file."""
    if not source.is_dir():
        return [read_scenes_of_video(source, frame_rate)]
    records, problems = read_scenes_of_folder(source, annotator, frame_rate)
    if problems:
        raise DatasetError(problems[0])
    return list(records.values())


# --- BBC and OVSD -----------------------------------------------------------------------------------------------------


def is_bbc(root: Path) -> bool:
    """Return whether the folder contains `annotations/shots` and `annotations/scenes/annotator_*`, or is that one."""
    folder = _annotations(root)
    return (folder / "shots").is_dir() and any(child.is_dir() for child in folder.glob("scenes/annotator_*"))


def read_bbc(root: Path, annotator: int = 0) -> list[VideoAnnotation]:
    """Read all videos of BBC with the scenes of one annotator (0 to 4 in the full set), named by their files. Raises
    DatasetError: a file is missing or damaged, or a list of scenes or shots is truncated."""
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
    """Read all videos of a folder of OVSD, with scenes as frame ranges and, if there is a shot list, labeled shots:
    scenes were annotated by eye, and a scene ends with the shot with the nearest end. Raises DatasetError: a file is
    missing or damaged, or truncated, so that scenes and shots do not begin and end together."""
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


# --- features of shots with labels in .npz files, on which the built-in model is trained ------------------------------

ARRAYS = ("features", "shots", "scene_end")
OPTIONAL_ARRAYS = ("color", "frame_rate")
# ValueError: arrays of Python objects, which need a pickle. RuntimeError: encrypted members, unknown compression.
_UNREADABLE = (OSError, EOFError, ValueError, KeyError, RuntimeError, MemoryError, zlib.error, zipfile.BadZipFile)

# Ten thousand shots of 25,000 numbers: only a forged compressed file claims more.
_LARGEST_ARRAY = 2**30


@dataclass(frozen=True)
class ShotFeatures:
    """The shots of one video, with features and labels."""

    video_id: str  # name of the file's folder and its stem, such as `bbc/01`
    features: NDArray[np.float32]  # (N, D) float32, one encoding per shot
    shots: NDArray[np.int64]  # (N, 2), half-open frame ranges in order; gradual transitions may lie between them
    scene_end: NDArray[np.uint8]  # (N,) uint8, 1 at the last shot of a scene
    # (N, H) float32 hue histograms, each of sum 1 (`pipelines.models.encoders.shot_encoder`); None if the file has none
    color: NDArray[np.float32] | None = None
    frame_rate: float | None = None  # frames per second; None if unknown

    @property
    def seconds(self) -> NDArray[np.float64]:
        """Return length of each shot in seconds, (N,); by `ASSUMED_FRAME_RATE` if the frame rate is unknown."""
        return np.asarray(np.diff(self.shots)[:, 0] / (self.frame_rate or ASSUMED_FRAME_RATE))


def read_shot_features(path: Path) -> ShotFeatures:
    """Read one `.npz` file. Raises DatasetError if it is damaged or its arrays are not as in `ShotFeatures`."""
    arrays = _read_arrays(path)
    features, shots, scene_end = (arrays[name] for name in ARRAYS)
    if features.ndim != 2 or 0 in features.shape or features.dtype.kind != "f":
        raise fault(path, f"features must be floating point (N, D), not {features.dtype} {features.shape}")
    N = len(features)
    for name, shape, dtype in (("shots", (N, 2), np.dtype(np.int64)), ("scene_end", (N,), np.dtype(np.uint8))):
        if (arrays[name].shape, arrays[name].dtype) != (shape, dtype):
            raise fault(path, f"{name} must be {dtype} {shape}, not {arrays[name].dtype} {arrays[name].shape}")
    with np.errstate(over="ignore"):  # float64 beyond the range of float32 becomes inf, which the check below finds
        features = features.astype(np.float32)
    if len(bad := np.flatnonzero(~np.isfinite(features).all(axis=1))):
        raise fault(path, f"features of shot {bad[0]} are not all finite ({len(bad)} such shots)")
    # TransNetV2's shot lists sometimes count the frame of a cut twice: it belongs to the later shot.
    shots[:-1, 1] -= shots[:-1, 1] == shots[1:, 0] + 1
    check_ranges(shots, "shot", path)
    if len(bad := np.flatnonzero(scene_end > 1)):
        raise fault(path, f"scene_end of shot {bad[0]} is {scene_end[bad[0]]}, not 0 or 1")
    color, rate = arrays.get("color"), arrays.get("frame_rate")
    if color is not None:
        if color.ndim != 2 or len(color) != N or color.dtype.kind != "f":
            raise fault(path, f"color must be floating point of the shape ({N}, H), not {color.dtype} {color.shape}")
        sums = color.sum(axis=1, keepdims=True, dtype=np.float64)
        if not np.isfinite(sums).all() or (color < 0).any() or (sums <= 0).any():
            raise fault(path, "color must be histograms: finite, not negative, each with a sum above 0")
        color = np.asarray(color / sums, np.float32)
    if rate is not None and (rate.shape != () or rate.dtype.kind not in "iuf" or not 0 < rate <= 1000):
        raise fault(path, f"frame_rate must be one number of frames per second, not {rate}")
    return ShotFeatures(_video_id(path), features, shots, scene_end, color, None if rate is None else float(rate))


def shot_feature_files(folder: Path) -> Iterator[Path]:
    """Return the `.npz` files below a folder, unsorted."""
    return (path for path in files_below(folder) if path.suffix == ".npz" and path.is_file())


def read_shot_feature_folder(folder: Path, left_out: dict[str, str] | None = None) -> list[ShotFeatures]:
    """Read every `.npz` below a folder, sorted by path. Raises DatasetError: there is none, two files have the same
    video id, or a file cannot be read; with ``left_out`` that goes there, with the reason by video id."""
    paths = sorted(shot_feature_files(folder))
    if not paths:
        raise fault(folder, "contains no .npz file; name the folder of the feature files")
    videos: dict[str, ShotFeatures] = {}
    for path in paths:
        try:
            video = read_shot_features(path)
        except DatasetError as error:
            if left_out is None:
                raise
            left_out[_video_id(path)] = str(error)
            continue
        if videos.setdefault(video.video_id, video) is not video:
            raise fault(path, f"has the same video id as another file, {video.video_id}; rename one of them")
    return list(videos.values())


def _video_id(path: Path) -> str:
    return f"{path.resolve().parent.name}/{path.stem}"


def _read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    check_regular(path)
    if not zipfile.is_zipfile(path):  # np.load reads a file that is not a zip as a pickle or a single array
        raise fault(path, "not an .npz file, or truncated")
    arrays: dict[str, NDArray[Any]] = {}
    try:
        with np.load(path, allow_pickle=False) as archive:
            for name in (*ARRAYS, *(name for name in OPTIONAL_ARRAYS if name in archive.files)):
                if name not in archive.files:
                    raise fault(path, f"array '{name}' is missing")
                if archive.zip.getinfo(f"{name}.npy").file_size > _LARGEST_ARRAY:
                    raise fault(path, f"array '{name}' is larger than {_LARGEST_ARRAY // 2**30} GiB")
                arrays[name] = archive[name]
    except _UNREADABLE as error:
        raise fault(path, f"cannot be read as an .npz file: {first_line(error)}") from error
    return arrays


def _from_features(path: Path) -> VideoAnnotation:
    video = read_shot_features(path)
    scene_end = labels_from_ends(np.flatnonzero(video.scene_end).tolist(), len(video.shots))
    seconds = None if video.frame_rate is None else video.shots / video.frame_rate
    return VideoAnnotation(path.stem, path, video.shots, seconds, scene_end, frame_rate=video.frame_rate)
