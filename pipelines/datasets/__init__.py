"""`VideoAnnotation`, the result of all label readers, and the parsing of text, numbers and JSON of label files.

Any fault of a file raises `DatasetError`: one line with the file, the number of the line if there is one, and what is
wrong.
"""

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipelines.errors import DatasetError, printable
from pipelines.files import MOST_BYTES, os_errors, read_regular
from pipelines.scenes import MAX_POSITION, MOST_SHOTS
from pipelines.video.inputs import safe_id

T = TypeVar("T")

SCENE_END = 1  # label of a shot that is the last of its scene
INSIDE = 0
"""Label of any other shot, and of the last shot of a video: the end of the video is not a scene end to predict."""
DOUBTFUL = -1  # MovieNet's label of a doubtful scene end
NOT_PINNED = -1
MOST_VALUES = 100 * MOST_SHOTS  # in a file: a scenes.json has at most 30 for each shot

Ranges = NDArray[np.int64] | NDArray[np.float64]


@dataclass(frozen=True)
class KeyframeFolder:
    """The folder of a video's keyframe files, which are named by `pipelines.datasets.movienet.keyframe_name`."""

    folder: Path
    shots: int  # number of shots, N
    images: int  # number of keyframes per shot


@dataclass(frozen=True, eq=False)
class VideoAnnotation:
    """The annotation of one video by one source, with N shots and M scenes. Sources label shots (`shots`, `scene_end`)
    or the time line (`scenes_frames`, `scenes_seconds`), some both. All ranges are half-open, in order and do not
    overlap; gaps are allowed. Raises DatasetError: the id or a range is invalid."""

    video_id: str  # name of the video, without slashes; `safe_id` makes it an id
    source: Path  # file or folder of the record, for messages
    shots: NDArray[np.int64] | None = None  # (N, 2) int64, frame range of each shot
    shots_seconds: NDArray[np.float64] | None = None  # (N, 2) float64, the same in seconds, if the source has it
    # (N,) int8: `SCENE_END`, `DOUBTFUL` (MovieNet) or `INSIDE`, as the last shot always is
    scene_end: NDArray[np.int8] | None = None
    scenes_frames: NDArray[np.int64] | None = None  # (M, 2) int64, frame range of each scene
    scenes_seconds: NDArray[np.float64] | None = None  # (M, 2) float64, the scenes in seconds
    keyframes: KeyframeFolder | None = None  # the keyframe files of its shots
    split: str | None = None  # split of the data set ("train", "val", "test", "pretrain"), if the source has it
    frame_rate: float | None = None  # frames per second, if the source has it or it is known for the data set
    # (N,) float64, 0 to 1, predicted scores of scene ends, if the source is a prediction
    scores: NDArray[np.float64] | None = None
    # (N,) int8, of a prediction that a person reviewed: `SCENE_END` or `INSIDE` as pinned, `NOT_PINNED` elsewhere
    pins: NDArray[np.int8] | None = None
    part: bool = False  # whether the shots cover only a part of the video
    open_end: bool = False  # whether the last scene has no end in the source: it ends with the video

    def __post_init__(self) -> None:
        if not self.video_id.strip() or re.search(r"[/\\\0]|^\.+$", self.video_id):
            raise fault(self.source, f"{quote(self.video_id)} is not usable as the id of a video")
        object.__setattr__(self, "video_id", safe_id(self.video_id))
        scenes = ("scene", self.scenes_frames), ("scene", self.scenes_seconds)
        for unit, ranges in (("shot", self.shots), ("shot", self.shots_seconds), *scenes):
            if ranges is not None:
                check_ranges(ranges, unit, self.source)

    @property
    def number_of_shots(self) -> int | None:
        """Return N, or None if the source labels only the time line."""
        if self.keyframes is not None:
            return self.keyframes.shots
        per_shot = self.scene_end if self.shots is None else self.shots
        return None if per_shot is None else len(per_shot)


def check_ranges(ranges: Ranges, unit: str, path: Path, lines: Sequence[int] | None = None) -> None:
    """Check (M, 2) half-open ranges in frames or seconds; `unit` ("shot") and `lines` are for the message. Raises
    DatasetError: none or too many, or one is outside the video, not finite, empty or overlaps the one before."""
    if not len(ranges):
        raise fault(path, f"lists no {unit}s")
    if len(ranges) > MOST_SHOTS:
        raise fault(path, f"lists more than {MOST_SHOTS:,} {unit}s")
    start, end = ranges[:, 0], ranges[:, 1]
    # All comparisons with NaN are false, so that NaN fails too.
    valid = (start >= 0) & (end <= MAX_POSITION) & (start < end)
    in_order = np.concatenate([[True], start[1:] >= end[:-1]])
    if (valid & in_order).all():
        return
    i = int(np.flatnonzero(~(valid & in_order))[0])
    problem = f"{unit} {i}, from {start[i]} to {end[i]},"
    if not ((ranges[i] >= 0) & (ranges[i] <= MAX_POSITION)).all():
        problem += " is outside the valid range"
    elif start[i] >= end[i]:
        problem += " is empty or ends before it starts"
    else:
        problem += f" starts before the end of {unit} {i - 1} at {end[i - 1]}"
    raise fault(path, problem, lines[i] if lines is not None else None)


def labels_from_ends(last_shots: Iterable[int], number_of_shots: int) -> NDArray[np.int8]:
    """Return labels (N,) int8 from the last shot of each scene; the video's last shot stays 0."""
    scene_end = np.zeros(number_of_shots, dtype=np.int8)
    scene_end[list(last_shots)] = SCENE_END
    scene_end[-1] = INSIDE
    return scene_end


def read_inclusive_ranges(path: Path, unit: str, extra: bool = False) -> NDArray[np.int64]:
    """Read a file of lines `first last` (frames, inclusive), as (M, 2) half-open ranges; with `extra`, more numbers may
    follow on a line (MovieNet's keyframes). A frame of two ranges, as in a few places of BBC and OVSD, belongs to the
    later one. Raises DatasetError as `text_lines` and `check_ranges`."""
    rows: list[tuple[int, int]] = []
    lines: list[int] = []
    for number, line in islice(text_lines(path), MOST_SHOTS + 1):
        fields = line.split()
        if len(fields) < 2 or (len(fields) > 2 and not extra):
            raise fault(path, f"{quote(line)} is not the first and last frame of a {unit}", number)
        first, last = (parse_int(field, "a frame number", path, number) for field in fields[:2])
        if rows and first == rows[-1][1] - 1:
            rows[-1] = (rows[-1][0], first)
        rows.append((first, last + 1))
        lines.append(number)
    ranges = np.array(rows, dtype=np.int64).reshape(-1, 2)
    check_ranges(ranges, unit, path, lines)
    return ranges


# --- parsing --------------------------------------------------------------------------------------------------------


def fault(path: Path, what: str, line: int | None = None) -> DatasetError:
    """Return a `DatasetError` about a file: one line of printable characters, others escaped."""
    message = f"{path}: {what}" if line is None else f"{path}, line {line}: {what}"
    return DatasetError(printable(message))


def quote(text: str) -> str:
    """Return the beginning of a text from a file, for a message."""
    return repr(text if len(text) <= 40 else text[:37] + "...")


def text_lines(path: Path, most: int = MOST_BYTES) -> Iterator[tuple[int, str]]:
    """Read the non-blank lines of a UTF-8 file, stripped, with their numbers. Raises DatasetError as `read_text`."""
    for number, line in enumerate(read_text(path, most).splitlines(), start=1):
        if line := line.strip():
            yield number, line


def read_text(path: Path, most: int = MOST_BYTES, separators: str = "") -> str:
    """Read a UTF-8 file of at most ``most`` bytes. Raises DatasetError: it cannot be opened, is larger, or `decode`."""
    return decode(read_regular(path, most), path, separators)


def decode(data: bytes, path: Path, separators: str = "") -> str:
    """Decode UTF-8. Raises DatasetError for anything else, and for too many ``separators`` of values."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise fault(path, "is not UTF-8 text", data.count(b"\n", 0, error.start) + 1) from error
    if sum(map(text.count, separators)) > MOST_VALUES:
        raise fault(path, f"has more than {MOST_VALUES:,} values, too many for a file of this kind")
    return text


def parse_int(text: str, what: str, path: Path, line: int | None = None) -> int:
    """Parse a decimal integer; `what` it should be is for the message. Raises DatasetError for anything else."""
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text) or abs(int(text)) > MAX_POSITION:
        raise fault(path, f"{quote(text)} is not {what}", line)
    return int(text)


def read_json(path: Path, most: int = MOST_BYTES) -> Any:
    """Read a JSON file of at most ``most`` bytes. Raises DatasetError as `read_text` and `parse_json`."""
    return parse_json(read_regular(path, most), path)


def parse_json(data: bytes, path: Path) -> Any:
    """Parse JSON. Raises DatasetError for anything else, too many values, NaN and infinity."""
    try:
        return json.loads(decode(data, path, "[{,"), parse_constant=_finite_float, parse_float=_finite_float)
    except (ValueError, RecursionError) as error:
        raise fault(path, f"is not usable JSON: {error}") from error


def _finite_float(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{quote(text)} is not a finite number")
    return value


def convert(content: Any, kind: type[T], path: Path) -> T:
    """Return JSON as a type that msgspec knows; a whole number may be 5.0. Raises DatasetError for another type."""
    try:
        return msgspec.convert(content, kind, strict=False)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise fault(path, str(error).replace("`", "")) from error


def list_files(folder: Path, suffix: str) -> dict[str, Path]:
    """Return the files of a folder whose names end with `suffix`, by name without it, see `list_names`."""
    names = [name for name in list_names(folder) if name.endswith(suffix)]
    return {name.removesuffix(suffix): folder / name for name in names}


def list_names(folder: Path) -> list[str]:
    """Return the sorted names in a folder except hidden ones; [] without one. Raises DatasetError as `os_errors`."""
    with os_errors(folder, "cannot be listed", DatasetError), suppress(FileNotFoundError):
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))  # noqa: PTH208
    return []
