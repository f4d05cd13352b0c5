"""`VideoAnnotation`, the result of all label readers, and the parsing of text, numbers and JSON of label files.

A reader is a function from a path to a list of `VideoAnnotation`, sorted by video id. Any fault of a file raises
`DatasetError`, one line with the file, the line number if there is one, and the fault. Every record is checked.
"""

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import DatasetError, printable
from pipelines.files import MOST_BYTES, check_regular, os_errors, read_regular
from pipelines.scenes import MAX_POSITION, MOST_SHOTS
from pipelines.video.inputs import safe_id

T = TypeVar("T")

SCENE_END = 1  # label of a shot that is the last of its scene
INSIDE = 0
"""Label of any other shot, and of the last shot of a video: the end of the video is not a scene end to predict."""
DOUBTFUL = -1  # MovieNet's label of a doubtful scene end
NOT_PINNED = -1
MOST_VALUES = 100 * MOST_SHOTS  # in a file: a scenes.json has at most 30 for each shot
MAX_LINE_BYTES = 2**16  # maximum length of a line in files that are read line by line

Ranges = NDArray[np.int64] | NDArray[np.float64]


@dataclass(frozen=True)
class KeyframeFolder:
    """The folder of a video's keyframe files, which are named by `pipelines.datasets.movienet.keyframe_name`."""

    folder: Path
    shots: int  # number of shots, N
    images: int  # number of keyframes per shot


@dataclass(frozen=True, eq=False)
class VideoAnnotation:
    """The annotation of one video by one source, with N shots and M scenes.

    Sources label shots (`shots`, `scene_end`) or the time line (`scenes_frames`, `scenes_seconds`), some both.
    All ranges are half-open, in order and do not overlap; gaps are allowed (gradual transitions, unlabeled stretches).

    Readers give arrays whose lengths agree. Raises DatasetError: the id, a range or the frame rate is invalid.
    """

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
        if self.frame_rate is not None and not 0 < self.frame_rate <= MAX_POSITION:
            raise fault(self.source, f"{self.frame_rate} is not a number of frames per second")

    @property
    def number_of_shots(self) -> int | None:
        """Return N, or None if the source labels only the time line."""
        if self.keyframes is not None:
            return self.keyframes.shots
        per_shot = self.scene_end if self.shots is None else self.shots
        return None if per_shot is None else len(per_shot)


def by_id(annotations: Iterable[VideoAnnotation]) -> list[VideoAnnotation]:
    """Return the records sorted by video id. Raises DatasetError: two records have the same id."""
    ordered = sorted(annotations, key=lambda annotation: annotation.video_id)
    for first, second in pairwise(ordered):
        if first.video_id == second.video_id:
            raise fault(second.source, f"has the same video {second.video_id} as {first.source}; remove one of them")
    return ordered


def check_ranges(ranges: Ranges, unit: str, path: Path, lines: Sequence[int] | None = None) -> None:
    """Check (M, 2) half-open ranges in frames or seconds; `unit` ("shot") and `lines` are for the message. Raises
    DatasetError: none or too many, or one is negative, not finite, too large, empty or overlaps the one before."""
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
    if not (ranges[i] <= MAX_POSITION).all() or np.isinf(ranges[i]).any():
        problem += " is outside the valid range"
    elif start[i] < 0:
        problem += " starts before the video"
    elif start[i] >= end[i]:
        problem += " is empty or ends before it starts"
    else:
        problem += f" starts before the end of {unit} {i - 1} at {end[i - 1]}"
    raise fault(path, problem, lines[i] if lines is not None else None)


def labels_from_ends(last_shots: Iterable[int], number_of_shots: int) -> NDArray[np.int8]:
    """Return labels (N,) int8 of shots from the indices of the last shot of each scene; the video's last shot stays
    0."""
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
    for number, line in islice(text_lines(path), MOST_SHOTS + 1):
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


# --- parsing --------------------------------------------------------------------------------------------------------


def fault(path: Path, what: str, line: int | None = None) -> DatasetError:
    """Return a `DatasetError` about a file: one line of printable characters, others escaped."""
    message = f"{path}: {what}" if line is None else f"{path}, line {line}: {what}"
    return DatasetError(printable(message))


def quote(text: str) -> str:
    """Return the beginning of a text from a file, for a message."""
    return repr(text if len(text) <= 40 else text[:37] + "...")


def text_lines(path: Path, most: int = MOST_BYTES) -> Iterator[tuple[int, str]]:
    """Read the non-blank lines of a UTF-8 file of at most ``most`` bytes, stripped, with their numbers from 1, in
    bounded memory.

    A byte-order mark and Windows line ends are accepted. Raises DatasetError: the file cannot be opened, is not text,
    too large, or has a line that is too long.
    """
    check_regular(path, most)
    with os_errors(path, kind=DatasetError), path.open("rb") as file:
        for number, data in enumerate(iter(lambda: file.readline(MAX_LINE_BYTES + 1), b""), start=1):
            if len(data) > MAX_LINE_BYTES:
                raise fault(path, "the line is too long for a file of this kind", number)
            if line := _decode_text(data, path, number).strip():
                yield number, line


def read_text(path: Path, most: int = MOST_BYTES, separators: str = "") -> str:
    """Read a UTF-8 file without its byte-order mark; line ends are kept. Raises DatasetError: the file cannot be
    opened, is not text, larger than ``most`` bytes, or has so many ``separators`` of values that these would take many
    times its size in memory."""
    text = _decode_text(read_regular(path, most), path, 1)
    if sum(map(text.count, separators)) > MOST_VALUES:
        raise fault(path, f"has more than {MOST_VALUES:,} values, too many for a file of this kind")
    return text


def _decode_text(data: bytes, path: Path, line: int) -> str:
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
    return check_type(int, int(text), what, path, line)


def read_json(path: Path, most: int = MOST_BYTES) -> Any:
    """Read the content of a JSON file; see `read_text` and `parse_json`."""
    return parse_json(read_text(path, most, "[{,"), path)


def parse_json(text: str, path: Path, line: int | None = None) -> Any:
    """Parse JSON strictly: no NaN, no infinity, no duplicate keys. Raises DatasetError otherwise."""
    try:
        return json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_finite_float,
            parse_int=_bounded_int,
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


def _finite_float(text: str) -> float:
    if not math.isfinite(value := float(text)):
        raise ValueError(f"{quote(text)} is too large a number")
    return value


def _bounded_int(text: str) -> int:
    if len(text) > 20:  # more than 64 bits
        raise ValueError(f"{quote(text)} is too large a number")
    return int(text)


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("a key appears twice in one object")
    return values


def member(value: Any, key: str, what: str, path: Path, line: int | None = None) -> Any:
    """Return `value[key]` of a JSON object called `what` in messages.

    Raises DatasetError: `value` is not an object, or lacks the key.
    """
    if not isinstance(value, dict):
        raise fault(path, f"{what} is not an object", line)
    if key not in value:
        raise fault(path, f"{what} has no {key!r}", line)
    return value[key]


def check_type(
    kind: type[T], value: Any, what: str, path: Path, line: int | None = None, most: float = MAX_POSITION
) -> T:
    """Return a JSON value as `kind`: int, float, bool, str or list. An integer may be written as 5.0. `what` it should
    be is for the message. Raises DatasetError: another type, or a number beyond `most`."""
    if kind is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    valid = isinstance(value, (int, float) if kind is float else kind) and isinstance(value, bool) == (kind is bool)
    if not valid or (isinstance(value, int | float) and not abs(value) <= most):
        raise fault(path, f"{_describe(value)} is not {what}", line)
    return kind(value)  # type: ignore[call-arg]


def read_field(
    kind: type[T], value: Any, key: str, of: str, path: Path, line: int | None = None, most: float = MAX_POSITION
) -> T:
    """Return `value[key]` of a JSON object called `of` in messages, see `check_type`. Raises DatasetError also if
    `value` is not an object, or lacks the key."""
    return check_type(kind, member(value, key, of, path, line), f"the {key} of {of}", path, line, most)


def _describe(value: Any) -> str:
    """Return a JSON value for a message. Containers are not printed, as they can be huge or deeply nested."""
    if isinstance(value, list):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, str):
        return quote(value)
    large = isinstance(value, int | float) and abs(value) > MAX_POSITION
    return "a number that large" if large else json.dumps(value)


def list_files(folder: Path, suffix: str) -> dict[str, Path]:
    """Return the files of a folder whose names end with `suffix`, by name without it; {} if there is no folder.
    Hidden files are left out. Raises DatasetError if the folder cannot be listed."""
    names = [name for name in list_names(folder) if name.endswith(suffix)]
    return {name.removesuffix(suffix): folder / name for name in names}


def list_names(folder: Path) -> list[str]:
    """Return the sorted names in a folder except hidden ones, without a stat of each; [] if there is no folder.
    Raises DatasetError: the folder cannot be listed."""
    with os_errors(folder, "cannot be listed", DatasetError), suppress(FileNotFoundError):
        return sorted(name for name in os.listdir(folder) if not name.startswith("."))  # noqa: PTH208
    return []
