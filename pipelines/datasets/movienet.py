"""Readers of MovieNet's annotations and keyframes (Huang et al., "MovieNet", ECCV 2020; scene labels: Rao et al., "A
Local-to-Global Approach to Multi-modal Movie Scene Segmentation", CVPR 2020), and of the keyframes of an index, which
are in such folders or in keyframe stores. One root folder with any of:

    240P_frames/<imdb id>/shot_0000_img_0.jpg       keyframes
    scene318/shot_movie318/<imdb id>.txt            `49 329 119 189 259`: first and last frame, then the keyframes
    scene318/label318/<imdb id>.txt                 `0003 1`: shot and label 0, 1 or -1
    scene318/meta/split318.json                     {"train": [ids], "val": [...], "test": [...]}
    anno/anno.{train,val,test,trainvaltest,pretrain}.ndjson     of the BaSSL release, one shot per line
                                                    (`num_shot`: number of shots or index of the last)
"""

from __future__ import annotations

import os
import re
import zlib
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipelines.datasets import (
    DOUBTFUL,
    INSIDE,
    SCENE_END,
    KeyframeFolder,
    VideoAnnotation,
    convert,
    fault,
    list_files,
    list_names,
    parse_int,
    quote,
    read_inclusive_ranges,
    read_json,
    text_lines,
)
from pipelines.errors import DatasetError, StoreError
from pipelines.files import os_errors, read_regular
from pipelines.stores.index import Index, read_index

FRAME_RATE = 24.0  # frames per second, by convention in the literature; MovieNet's files do not have it
SPLITS = ("train", "val", "test")
MAX_UNLABELED = 2
"""Maximum number of shots without a label per video: the last one in 316 videos of MovieNet, two in one."""

_KEYFRAMES = Path("240P_frames")
_LABELS = Path("scene318/label318")
_SHOTS = Path("scene318/shot_movie318")
_SPLIT = Path("scene318/meta/split318.json")
_JPEG_TAIL = 4096  # bytes at the end of a file in which the JPEG must end: some programs append data
_MOST_LIST_BYTES = 256 * 2**20  # of a list of the release, which has the shots of all videos
_LIST_FILES = {part: Path(f"anno/anno.{part}.ndjson") for part in (*SPLITS, "trainvaltest", "pretrain")}


def is_movienet(root: Path) -> bool:
    """Return whether the folder has any of MovieNet's files, at the paths in the module's docstring."""
    return any(_is_there(root / part) for part in (_KEYFRAMES, _LABELS, _SHOTS, *_LIST_FILES.values()))


def videos_with_keyframes(root: Path) -> set[str]:
    """Return the videos that have a folder of keyframes."""
    # Links to folders count too, so is_dir is called for each of about a thousand names.
    return {name for name in list_names(root / _KEYFRAMES) if (root / _KEYFRAMES / name).is_dir()}


def read_movienet(root: Path, left_out: dict[str, str] | None = None) -> list[VideoAnnotation]:
    """Read every video with keyframes, a shot list or labels. Videos whose files are damaged, contradict each other or
    lack a keyframe go into ``left_out``, with the reason by video id, or else are errors.

    Shots and labels come from `scene318` if it has the video, else from the ndjson lists; shots without a label, at
    most `MAX_UNLABELED` at the ends of a video, are `INSIDE`. Doubtful ends stay -1. Raises DatasetError: there are no
    files of MovieNet, or such a fault of a video.
    """
    if not is_movienet(root):
        raise fault(root, "has neither 240P_frames nor scene318 nor anno/anno.*.ndjson; name MovieNet's folder")
    entries, splits = _read_lists(root), read_movienet_splits(root)
    files = {*list_files(root / _SHOTS, ".txt"), *list_files(root / _LABELS, ".txt")}
    ids = files | videos_with_keyframes(root) | {video_id for video_id, video in entries.items() if video.labeled}
    if not ids:
        raise fault(root, "has the folders or lists of MovieNet, but no video's keyframes, shots or labels")
    videos = []
    for video_id in ids:
        try:
            videos.append(_video(root, video_id, entries.get(video_id), splits.get(video_id)))
        except DatasetError as error:
            if left_out is None:
                raise
            left_out[video_id] = str(error)
    return sorted(videos, key=attrgetter("video_id"))


def read_movienet_splits(root: Path) -> dict[str, str]:
    """Read the split of each video, {} without a `split318.json`. Raises DatasetError if it is damaged."""
    path = root / _SPLIT
    if not _is_there(path):
        return {}
    splits: dict[str, str] = {}
    for split, video_ids in vars(convert(read_json(path), _Splits, path)).items():
        for video_id in video_ids:
            if video_id in splits:
                raise fault(path, f"lists the video {quote(video_id)} in {splits[video_id]} and again in {split}")
            splits[video_id] = split
    return splits


@dataclass(frozen=True)
class _Splits:
    """What is read of `split318.json`, which has other keys too."""

    train: list[str]
    val: list[str]
    test: list[str]


@dataclass(frozen=True)
class _ListedShot:
    """A line of an ndjson list."""

    video_id: str
    shot_id: int | str
    num_shot: int
    boundary_label: float | None = None


@dataclass
class _ListEntry:
    """A video in an ndjson list."""

    path: Path
    line: int  # its first line
    part: str
    shots: int = 0  # number of shots: `num_shot`, or one more, as this may also be the index of the last shot
    labels: dict[int, int | None] = field(default_factory=dict)  # by shot

    @property
    def labeled(self) -> bool:
        """Return whether the list has labels of the video: of all listed shots, or of none."""
        return None not in self.labels.values()


def _video(root: Path, video_id: str, entry: _ListEntry | None, split: str | None) -> VideoAnnotation:
    shot_file, label_file = (root / folder / f"{video_id}.txt" for folder in (_SHOTS, _LABELS))
    keyframe_folder = root / _KEYFRAMES / video_id
    shots = read_inclusive_ranges(shot_file, "shot", extra=True) if _is_there(shot_file) else None
    keyframes = _read_keyframe_folder(keyframe_folder) if keyframe_folder.is_dir() else None
    counts = [(len(shots), shot_file)] if shots is not None else []
    counts += [(keyframes.shots, keyframe_folder)] if keyframes is not None else []
    counts += [(entry.shots, entry.path)] if entry is not None else []
    if not counts:
        raise fault(label_file, f"labels shots, but {root} has neither a shot list nor keyframes of {video_id}")
    number, counted = counts[0]
    if keyframes is not None and keyframes.shots != number:
        raise fault(keyframes.folder, f"has keyframes of {keyframes.shots} shots, but {counted} lists {number} shots")
    if entry is not None and not number - MAX_UNLABELED <= entry.shots <= number:
        raise fault(entry.path, f"lists {entry.shots} shots of {video_id}, but {counted} has {number}", line=entry.line)

    source, scene_end = counted, None
    if _is_there(label_file):
        source, scene_end = label_file, _spread(_read_labels(label_file), number, label_file, video_id, counted)
    elif entry is not None and entry.labeled:
        labels = {shot: label for shot, label in entry.labels.items() if label is not None}
        scene_end = _spread(labels, number, entry.path, video_id, counted)

    if split is None and entry is not None and entry.part != "trainvaltest":
        split = entry.part
    return VideoAnnotation(
        video_id, source, shots, scene_end=scene_end, keyframes=keyframes, split=split, frame_rate=FRAME_RATE
    )


def _spread(labels: dict[int, int], number: int, path: Path, video_id: str, counted: Path) -> NDArray[np.int8]:
    """Return labels (N,) of all shots of the file ``counted``, from labels of a range that lacks few at its ends."""
    first, last = min(labels, default=0), max(labels, default=0)
    is_contiguous = last - first + 1 == len(labels)
    if not is_contiguous or first > 1 or last >= number or len(labels) < number - MAX_UNLABELED:
        labeled = f"has {len(labels)} labels of {video_id}, from shot {first} to {last}"
        raise fault(path, f"{labeled}, but {counted} has {number} shots")
    scene_end = np.full(number, INSIDE, dtype=np.int8)
    scene_end[first : last + 1] = [labels[shot] for shot in range(first, last + 1)]
    scene_end[-1] = INSIDE
    return scene_end


def _read_labels(path: Path) -> dict[int, int]:
    labels: dict[int, int] = {}
    for number, line in text_lines(path):
        fields = line.split()
        if len(fields) != 2:
            raise fault(path, f"{quote(line)} is not a shot and its label", number)
        _add_label(labels, fields[0], parse_int(fields[1], "a label", path, number), path, number)
    return labels


def _add_label(labels: dict[int, Any], shot: str, label: float | None, path: Path, line: int) -> int:
    """Add the label of a shot, or None, and return the number of the shot."""
    number = parse_int(shot, "the number of a shot", path, line)
    if number < 0 or number in labels:
        raise fault(path, f"has a shot {number}, which does not exist or was listed already", line)
    if label not in (SCENE_END, INSIDE, DOUBTFUL, None):
        raise fault(path, f"{label} is not a label; labels are 0, 1 and -1", line)
    labels[number] = None if label is None else int(label)
    return number


def _is_there(path: Path) -> bool:
    """Return whether the path exists, or is a broken link, which is an error and not a missing file."""
    return path.exists() or path.is_symlink()


def _read_lists(root: Path) -> dict[str, _ListEntry]:
    videos: dict[str, _ListEntry] = {}
    for part, name in _LIST_FILES.items():
        path = root / name
        if not _is_there(path):
            continue
        for video_id, video in _read_list(path, part).items():
            first = videos.setdefault(video_id, video)  # `trainvaltest` repeats the three, `pretrain` may
            first.shots = max(first.shots, video.shots)
    return videos


def _read_list(path: Path, part: str) -> dict[str, _ListEntry]:
    videos: dict[str, _ListEntry] = {}
    decoder = msgspec.json.Decoder(_ListedShot)
    for number, line in text_lines(path, _MOST_LIST_BYTES):
        try:
            entry = decoder.decode(line)
        except (msgspec.MsgspecError, RecursionError) as error:
            raise fault(path, str(error).replace("`", ""), number) from error
        video = videos.setdefault(entry.video_id, _ListEntry(path, number, part))
        shot = _add_label(video.labels, str(entry.shot_id), entry.boundary_label, path, number)
        video.shots = max(video.shots, entry.num_shot, shot + 1)
    for video_id, video in videos.items():
        if video.shots - len(video.labels) > MAX_UNLABELED:
            raise fault(path, f"has {len(video.labels)} of the {video.shots} shots of {quote(video_id)}", video.line)
        unlabeled = sum(label is None for label in video.labels.values())
        if 0 < unlabeled < len(video.labels):
            raise fault(path, f"has labels of only some shots of {quote(video_id)}", video.line)
    return videos


def keyframe_name(shot: int, image: int) -> str:
    """Return the file name of a keyframe in the folder of its video."""
    return f"shot_{shot:04d}_img_{image}.jpg"


def _read_keyframe_folder(folder: Path) -> KeyframeFolder:
    names = [name for name in list_names(folder) if name.endswith(".jpg")]
    if not names:
        raise fault(folder, "has no keyframes (shot_0000_img_0.jpg)")
    shots = images = 0
    for name in names:
        numbers = re.fullmatch(r"shot_([0-9]{4,9})_img_([0-9]{1,3})\.jpg", name)
        if not numbers or name != keyframe_name(shot := int(numbers[1]), image := int(numbers[2])):
            raise fault(folder / name, "is not named like a keyframe (shot_0000_img_0.jpg)")
        shots, images = max(shots, shot + 1), max(images, image + 1)
    if len(names) != shots * images:
        # Names are distinct and in range, so one is missing, at most len(names) + 1 steps away.
        existing = set(names)
        every = ((shot, image) for shot in range(shots) for image in range(images))
        shot, image = next(pair for pair in every if keyframe_name(*pair) not in existing)
        raise fault(folder, f"lacks {keyframe_name(shot, image)}, keyframe {image} of shot {shot}")
    return KeyframeFolder(folder, shots, images)


def read_jpeg(path: Path) -> bytes:
    """Read the bytes of a JPEG file. Raises DatasetError if it cannot be read, is not a JPEG or is truncated."""
    content = read_regular(path)
    if not content.startswith(b"\xff\xd8"):
        raise fault(path, "is not a JPEG")
    if b"\xff\xd9" not in content[-_JPEG_TAIL:]:
        raise fault(path, "is a truncated JPEG")
    return content


# --- keyframes of an index --------------------------------------------------------------------------------------------

_NEWER = "run `bassl build-index` with `overwrite=True`, or if it is damaged, `bassl extract-keyframes` on its video"


class KeyframeReader:
    """Reads JPEGs of rows of an index. Consecutive rows of one store cost one read, without HDF5."""

    def __init__(self, index: Path | Index) -> None:
        self.index = index if isinstance(index, Index) else read_index(index)

    def read(self, rows: NDArray[np.int64], images: NDArray[np.int64]) -> list[list[bytes]]:
        """Read the JPEGs of a window, S lists of n: `images` (S, n) of the N_k keyframes of `rows` (S,) of one video,
        in ascending order. Raises StoreError or DatasetError if a keyframe is missing or damaged."""
        index = self.index
        video = int(index.video_of(rows[:1])[0])
        path = index.keyframe_sources[video]
        if path is None:
            raise StoreError(f"{index.path}: {index.video_ids[video]} has no keyframes")
        if path.suffix != ".h5":
            first = index.span(video).start
            return [
                [read_jpeg(path / keyframe_name(row - first, k)) for k in numbers]
                for row, numbers in zip(rows.tolist(), images.tolist(), strict=True)
            ]
        start, end = int(index.jpeg[rows[0], 0]), int(index.jpeg[rows[-1], -1])
        content = self._bytes(path, start, end - start)
        result = []
        for row, numbers in zip(rows.tolist(), images.tolist(), strict=True):
            bounds = (index.jpeg[row] - start).tolist()
            jpegs = [content[bounds[k] : bounds[k + 1]] for k in numbers]
            if any(zlib.crc32(jpeg) != index.jpeg_crc32[row, k] for jpeg, k in zip(jpegs, numbers, strict=True)):
                raise StoreError(f"{self.shot(row)} was made again after the index, or is damaged; {_NEWER}")
            result.append(jpegs)
        return result

    def decoded(self, row: int, jpeg: bytes) -> NDArray[np.uint8]:
        """Decode the JPEG of a row's keyframe to (H, W, 3) uint8 RGB. Raises StoreError, which names the shot."""
        from pipelines.video.images import from_jpeg  # start-up time: OpenCV, not for labels

        try:
            return from_jpeg(jpeg)
        except ValueError as error:
            raise StoreError(f"{self.shot(row)} has a keyframe that is {error}") from error

    def shot(self, row: int) -> str:
        """Return the name of a row's shot for messages: its file and its number."""
        video = int(self.index.video_of(np.array([row]))[0])
        path = self.index.keyframe_sources[video] or self.index.video_ids[video]
        return f"{path}: shot {row - self.index.span(video).start}"

    def _bytes(self, path: Path, start: int, size: int) -> bytes:
        """Read bytes of a store. The size is checked first, so that none are allocated that the file does not have."""
        with os_errors(path, kind=StoreError), path.open("rb", buffering=0) as file:
            is_whole = start + size <= os.fstat(file.fileno()).st_size
            file.seek(start)
            content = file.read(size) if is_whole else b""
        if len(content) < size:
            raise StoreError(f"{path}: is cut short, or was made again after the index; {_NEWER}")
        return content
