"""`VideoAnnotation`, the result of all label readers, and their shared parsing of text, numbers, JSON and ranges.

A reader is a function from a path to a list of `VideoAnnotation`, sorted by video id. Any fault of a file raises a
`DatasetError` of one line with the file, the line number if there is one, and the fault. Every record has passed all
checks.
"""

import json
import math
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import DatasetError, printable
from pipelines.files import read_regular
from pipelines.video.films import safe_id

SCENE_END = 1  # label of a shot that is the last of its scene
INSIDE = 0
"""Label of any other shot, and of the last shot of a video: the end of the film is not a scene end to predict."""
DOUBTFUL = -1  # MovieNet's label of a doubtful scene end

MAX_POSITION = 2**31 - 1  # largest valid frame number, count or time in seconds; more is taken as damage
MAX_TEXT_BYTES = 64 * 2**20  # maximum size of a file that is read at once
MAX_LINE_BYTES = 2**16  # maximum length of a line in files that are read line by line

Ranges = NDArray[np.int64] | NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class VideoAnnotation:
    """The annotation of one video by one source, with N shots and M scenes.

    Sources label shots (`shots`, `scene_end`) or the time line (`scenes_frames`, `scenes_seconds`), some both.
    All ranges are half-open, in order and do not overlap; gaps are allowed (gradual transitions, unlabelled stretches).

    Raises DatasetError: the values are invalid or inconsistent.
    """

    video_id: str  # name of the video, without slashes; made an id by `safe_id`, as the name of a film is
    source: Path  # file or folder of the record, for messages
    shots: NDArray[np.int64] | None = None  # (N, 2) int64, frame range of each shot
    shots_seconds: NDArray[np.float64] | None = None  # (N, 2) float64, the same in seconds, if the source has it
    # (N,) int8: `SCENE_END` at the last shot of a scene, `DOUBTFUL` at a doubtful one of MovieNet, else `INSIDE`. The
    # last shot is always `INSIDE`, whatever the source has.
    scene_end: NDArray[np.int8] | None = None
    scenes_frames: NDArray[np.int64] | None = None  # (M, 2) int64, frame range of each scene
    scenes_seconds: NDArray[np.float64] | None = None  # (M, 2) float64, the scenes in seconds
    keyframe_files: Sequence[tuple[Path, ...]] | None = None  # the keyframe files of each shot, in order of time
    split: str | None = None  # split of the data set ("train", "val", "test", "pretrain"), if the source has it
    frame_rate: float | None = None  # frames per second, if the source has it or it is known for the data set
    # (N,) float64, 0 to 1, predicted scores of scene ends, if the source is a prediction
    scores: NDArray[np.float64] | None = None

    def __post_init__(self) -> None:
        if not self.video_id.strip() or re.search(r"[/\\]|^\.+$", self.video_id):
            raise fault(self.source, f"{quote(self.video_id)} is not usable as the id of a video")
        object.__setattr__(self, "video_id", safe_id(self.video_id))
        for shots in (self.shots, self.shots_seconds):
            if shots is not None:
                check_ranges(shots, "shot", self.source)
        for scenes in (self.scenes_frames, self.scenes_seconds):
            if scenes is not None:
                check_ranges(scenes, "scene", self.source)
        for name, first, second in (
            ("shots in seconds", self.shots_seconds, self.shots),
            ("scenes in seconds", self.scenes_seconds, self.scenes_frames),
            ("labels", self.scene_end, self.shots),
            ("shots with keyframes", self.keyframe_files, self.shots),
            ("labels", self.scene_end, self.keyframe_files),
            ("scores", self.scores, self.scene_end),
        ):
            if first is not None and second is not None and len(first) != len(second):
                raise fault(self.source, f"{len(first)} {name}, but {len(second)} entries that they belong to")
        if self.number_of_shots is None and self.scenes_frames is None and self.scenes_seconds is None:
            raise fault(self.source, f"holds neither shots nor scenes of {self.video_id}")
        if self.scene_end is not None:
            check_labels(self.scene_end, self.source)
        if self.frame_rate is not None and not 0 < self.frame_rate <= MAX_POSITION:
            raise fault(self.source, f"{self.frame_rate} is not a number of frames a second")
        if self.split is not None and (not self.split or not self.split.isprintable()):
            raise fault(self.source, f"{quote(self.split)} is not the name of a split")

    @property
    def number_of_shots(self) -> int | None:
        """N; None if the source labels only the time line."""
        for per_shot in (self.shots, self.keyframe_files, self.scene_end):
            if per_shot is not None:
                return len(per_shot)
        return None


def by_id(annotations: Iterable[VideoAnnotation]) -> list[VideoAnnotation]:
    """The records sorted by video id. Raises DatasetError: two records have the same id."""
    ordered = sorted(annotations, key=lambda annotation: annotation.video_id)
    for first, second in pairwise(ordered):
        if first.video_id == second.video_id:
            raise fault(second.source, f"is about the video {second.video_id}, and so is {first.source}; remove one")
    return ordered


def fault(path: Path, what: str, line: int | None = None) -> DatasetError:
    """A `DatasetError` about a file: one line of printable characters, others escaped."""
    message = f"{path}: {what}" if line is None else f"{path}, line {line}: {what}"
    return DatasetError(printable(message))


def quote(text: str) -> str:
    """The beginning of a text from a file, for a message."""
    return repr(text if len(text) <= 40 else text[:37] + "...")


def check_ranges(ranges: Ranges, unit: str, path: Path, lines: Sequence[int] | None = None) -> None:
    """Check (M, 2) half-open ranges in frames or seconds; `unit` ("shot") and `lines` are for the message. Raises
    DatasetError: no range, or one is negative, not finite, too large, empty or overlaps the one before."""
    if ranges.ndim != 2 or ranges.shape[1] != 2 or ranges.dtype not in (np.int64, np.float64):
        raise TypeError(f"ranges must be (M, 2) int64 or float64, not {ranges.shape} {ranges.dtype}")
    if not len(ranges):
        raise fault(path, f"lists no {unit}s")
    start, end = ranges[:, 0], ranges[:, 1]
    # All comparisons with NaN are false, so that NaN fails too.
    valid = (start >= 0) & (end <= MAX_POSITION) & (start < end)
    in_order = np.concatenate([[True], start[1:] >= end[:-1]])
    if (valid & in_order).all():
        return
    i = int(np.flatnonzero(~(valid & in_order))[0])
    what = f"{unit} {i}, from {start[i]} to {end[i]},"
    if not (np.isfinite(ranges[i]).all() and end[i] <= MAX_POSITION and start[i] <= MAX_POSITION):
        what += " is outside the valid range"
    elif start[i] < 0:
        what += " starts before the video"
    elif start[i] >= end[i]:
        what += " is empty or ends before it starts"
    else:
        what += f" starts before the end of {unit} {i - 1} at {end[i - 1]}"
    raise fault(path, what, lines[i] if lines is not None else None)


def check_labels(scene_end: NDArray[np.int8], path: Path) -> None:
    """Check labels of shots (N,). Raises DatasetError: a value is unknown, or the last one is not `INSIDE`."""
    if scene_end.ndim != 1 or scene_end.dtype != np.int8:
        raise TypeError(f"scene_end must be (N,) int8, not {scene_end.shape} {scene_end.dtype}")
    if not len(scene_end):
        raise fault(path, "lists no shots")
    strange = np.flatnonzero(~np.isin(scene_end, (SCENE_END, INSIDE, DOUBTFUL)))
    if len(strange):
        raise fault(path, f"label of shot {strange[0]} is {scene_end[strange[0]]}, not 0, 1 or -1")
    if scene_end[-1] != INSIDE:
        raise fault(path, f"label of the last shot is {scene_end[-1]}; by convention it is 0")


def labels_from_ends(last_shots: Iterable[int], number_of_shots: int) -> NDArray[np.int8]:
    """Labels (N,) int8 of shots, from the indices of the last shot of each scene; the video's last shot stays 0."""
    scene_end = np.zeros(number_of_shots, dtype=np.int8)
    scene_end[list(last_shots)] = SCENE_END
    scene_end[-1] = INSIDE
    return scene_end


def read_inclusive_ranges(path: Path, unit: str, extra: bool = False) -> NDArray[np.int64]:
    """Read a file of lines `first last` (frames, inclusive, separated by white space), as (M, 2) half-open ranges.

    If a range begins on the last frame of the one before, as in a few places of BBC and OVSD, the frame belongs to the
    later one. With `extra`, more frame numbers may follow on a line, inside its range (MovieNet's keyframes). Raises
    DatasetError: the file cannot be read, or its ranges are invalid, see `check_ranges`.
    """
    rows: list[tuple[int, int]] = []
    lines: list[int] = []
    for number, line in text_lines(path):
        fields = line.split()
        if len(fields) < 2 or (len(fields) > 2 and not extra):
            raise fault(path, f"{quote(line)} is not the first and last frame of a {unit}", number)
        first, last, *inside = (parse_int(field, "a frame number", path, number) for field in fields)
        if first < 0 or last < first:
            raise fault(path, f"{unit} from frame {first} to frame {last} is impossible", number)
        if any(not first <= frame <= last for frame in inside):
            raise fault(path, f"a keyframe of {quote(line)} is outside its {unit}", number)
        if rows and first == rows[-1][1] - 1:
            rows[-1] = (rows[-1][0], first)
        rows.append((first, last + 1))
        lines.append(number)
    ranges = np.array(rows, dtype=np.int64).reshape(-1, 2)
    check_ranges(ranges, unit, path, lines)
    return ranges


def text_lines(path: Path) -> Iterator[tuple[int, str]]:
    """The non-blank lines of a UTF-8 file, stripped, with their numbers from 1, in bounded memory.

    A byte-order mark and Windows line ends are accepted. Raises DatasetError: the file cannot be opened, is not text,
    or has a line that is too long.
    """
    with _opened(path) as file:
        number = 0
        while data := file.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(data) > MAX_LINE_BYTES:
                raise fault(path, "the line is too long for a file of this kind", number)
            line = _decoded(data, path, number).strip()
            if line:
                yield number, line


def read_text(path: Path, most: int = MAX_TEXT_BYTES) -> str:
    """The content of a UTF-8 file without its byte-order mark; line ends are kept. Raises DatasetError: the file cannot
    be opened, is not text or larger than `most` bytes."""
    with _one_line_errors(path):
        return _decoded(read_regular(path, most), path, 1)


@contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    with _one_line_errors(path):
        # Reading a pipe or a device could block forever.
        if not stat.S_ISREG(path.stat().st_mode):
            raise fault(path, "is not a file")
        with path.open("rb") as file:
            yield file


@contextmanager
def _one_line_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise fault(path, "no such file") from error
    except OSError as error:
        raise fault(path, f"cannot be read: {error.strerror}") from error


def _decoded(data: bytes, path: Path, line: int) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise fault(path, "is not UTF-8 text", line + data.count(b"\n", 0, error.start)) from error
    return text.removeprefix("\ufeff") if line == 1 else text


def parse_int(text: str, what: str, path: Path, line: int | None = None) -> int:
    """Parse a decimal integer; `what` it should be is for the message. Raises DatasetError: another text (Python's
    `int` also takes `1_000` and digits of other scripts), or too large."""
    if not re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        raise fault(path, f"{quote(text)} is not {what}", line)
    return as_int(int(text), what, path, line)


def read_json(path: Path, most: int = MAX_TEXT_BYTES) -> Any:
    """The content of a JSON file of at most so many bytes; see `parse_json`."""
    return parse_json(read_text(path, most), path)


def parse_json(text: str, path: Path, line: int | None = None) -> Any:
    """Parse JSON strictly: no NaN, no infinity, no duplicate keys. Raises DatasetError otherwise."""
    try:
        return json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_moderate,
            object_pairs_hook=_unique_keys,
        )
    except RecursionError as error:
        raise fault(path, "is not usable JSON: nested too deeply", line) from error
    except json.JSONDecodeError as error:
        raise fault(path, f"is not JSON: {error.msg} at column {error.colno}", line or error.lineno) from error
    except ValueError as error:
        raise fault(path, f"is not usable JSON: {error}", line) from error


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{quote(text)} is too large a number")
    return value


def _moderate(text: str) -> int:
    if len(text) > 20:  # would not fit into 64 bits, nor some of them into a float
        raise ValueError(f"{quote(text)} is too large a number")
    return int(text)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("a key appears twice in one object")
    return values


def member(value: Any, key: str, what: str, path: Path, line: int | None = None) -> Any:
    """`value[key]` of a JSON object called `what` in messages.

    Raises DatasetError: `value` is no object, or lacks the key.
    """
    if not isinstance(value, dict):
        raise fault(path, f"{what} is not an object", line)
    if key not in value:
        raise fault(path, f"{what} has no {key!r}", line)
    return value[key]


def as_int(value: Any, what: str, path: Path, line: int | None = None) -> int:
    """Check that a JSON value is an integer of valid size. Raises DatasetError otherwise."""
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > MAX_POSITION:
        raise fault(path, f"{_shown(value)} is not {what}", line)
    return value


def as_number(value: Any, what: str, path: Path, line: int | None = None) -> float:
    """Check that a JSON value is a finite number of valid size. Raises DatasetError otherwise."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not abs(value) <= MAX_POSITION:
        raise fault(path, f"{_shown(value)} is not {what}", line)
    return float(value)


def int_at(value: Any, key: str, of: str, path: Path) -> int:
    """`value[key]`, an integer, of a JSON object called `of` in messages. Raises DatasetError as `as_int`, `member`."""
    return as_int(member(value, key, of, path), f"the {key} of {of}", path)


def number_at(value: Any, key: str, of: str, path: Path) -> float:
    """`value[key]`, a number, of a JSON object called `of` in messages. Raises DatasetError as `int_at`."""
    return as_number(member(value, key, of, path), f"the {key} of {of}", path)


def as_text(value: Any, what: str, path: Path, line: int | None = None) -> str:
    """Check that a JSON value is a string. Raises DatasetError otherwise."""
    if not isinstance(value, str):
        raise fault(path, f"{_shown(value)} is not {what}", line)
    return value


def as_list(value: Any, what: str, path: Path, line: int | None = None) -> list[Any]:
    """Check that a JSON value is a list. Raises DatasetError otherwise."""
    if not isinstance(value, list):
        raise fault(path, f"{_shown(value)} is not {what}", line)
    return value


def _shown(value: Any) -> str:
    """A JSON value for a message. Containers are not printed, as they can be huge or deeply nested."""
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "a number that large" if abs(value) > MAX_POSITION else str(value)
    return quote(value) if isinstance(value, str) else {True: "true", False: "false"}.get(value, "null")


def listed_files(folder: Path, suffix: str) -> dict[str, Path]:
    """The files of a folder whose names end with `suffix`, by name without it; {} if there is no folder. Hidden files,
    such as those of operating systems, are left out. Raises DatasetError: the folder cannot be listed."""
    names = [name for name in listed_names(folder) if name.endswith(suffix)]
    return {name.removesuffix(suffix): folder / name for name in names}


def listed_names(folder: Path) -> list[str]:
    """The sorted names in a folder without hidden ones, without a stat of each; [] if there is no folder. Raises
    DatasetError: the folder cannot be listed."""
    try:
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))  # noqa: PTH208
    except FileNotFoundError:
        return []
    except OSError as error:
        raise fault(folder, f"cannot be listed: {error.strerror}") from error
