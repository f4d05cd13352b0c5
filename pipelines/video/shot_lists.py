"""Lists of shots in files, in place of a detector."""

from __future__ import annotations

import csv
import json
import re
from collections import deque
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from pipelines.errors import DatasetError
from pipelines.files import read_regular
from pipelines.scenes import MOST_SHOTS, parse_time
from pipelines.video.frames import RGBImage


class KnownCuts:
    """A shot detector that reports the cuts of a list.

    Args:
        cuts: where shots begin, in order: frames (int), or seconds (float), which mean the frame nearest to them.
        source: the file, for errors.
        times: seconds of each frame; filled as frames are pushed.
        whole: whether the video is read to its end, so that no cut may be left.
    """

    lag, side = 1, 48

    def __init__(self, cuts: Sequence[float], source: Path, times: Sequence[float], whole: bool = True) -> None:
        self._cuts = deque(cuts)
        self._source = source
        self._times = times
        self._whole = whole
        self.first = 0
        """Frame number in the video of the first frame that is pushed."""

    def prepare(self, images: RGBImage) -> Sequence[None]:
        return [None] * len(images)

    def push(self, index: int, prepared: None) -> list[int]:
        cuts = []
        number = index + self.first
        while self._cuts and self._cuts[0] <= (number if isinstance(self._cuts[0], int) else self._times[index]):
            cut = self._cuts.popleft()
            before = not isinstance(cut, int) and cut - self._times[index - 1] < self._times[index] - cut
            cuts.append(index - before)
        return cuts

    def finish(self, frames: int) -> list[int]:
        if not self._cuts or not self._whole:
            return []
        last = self._times[frames - 1]
        if isinstance(self._cuts[0], int):
            fault = f"lists frame {self._cuts[0]}, but the video has {frames + self.first} frames"
        else:
            fault = f"lists {self._cuts[0]:.3f} s, but the video's last frame is at {last:.3f} s"
        raise DatasetError(f"{self._source}: {fault}: is it for another video?")


def read_cuts(path: Path, frame_rate: float) -> list[int] | list[float]:
    """The start of each shot except the first, in order, from a file of shots or cuts: frames (int) or seconds (float).

    Formats: one position per line, the start of a shot; two or more per line, first the start and
    end of a shot, as in MovieNet, BBC and OVSD, separated by spaces, a comma, or a semicolon or tab (and decimals with
    commas); PySceneDetect's ``list-scenes`` CSV; a ``scenes.json``. Positions are
    frames, and the end is the last frame of the shot or the one after it; but if one of them has a decimal point or a
    colon, all are seconds or timecodes (``MM:SS``, ``HH:MM:SS.mmm``, ``HH:MM:SS:FF``). Frames between two listed shots
    belong to the earlier one.

    Args:
        path: the file.
        frame_rate: frames per second, for timecodes that end in a frame number.

    Raises:
        DatasetError: one line that names the wrong line of the file.
    """
    try:
        text = read_regular(path).decode("utf-8-sig")
    except FileNotFoundError as error:
        raise DatasetError(f"{path}: no such file") from error
    except (OSError, UnicodeDecodeError) as error:
        raise DatasetError(f"{path}: is not a readable text file") from error
    shots: list[tuple[str, float]]  # the place of each in the file, and its start
    if text.lstrip().startswith("{"):
        shots = _of_json(path, text)
    elif "Start Frame" in text:
        shots = _of_scenedetect(path, text)
    else:
        shots = _of_lines(path, text, frame_rate)
    if not shots:
        raise DatasetError(f"{path}: lists no shots")
    if len(shots) > MOST_SHOTS:
        raise DatasetError(f"{path}: lists more than {MOST_SHOTS:,} shots")
    last = -1.0
    for place, start in shots:
        if start < 0 or start <= last:
            raise DatasetError(f"{path}, {place}: a shot that begins at {start} after one at {last}, or before 0")
        last = start
    starts = [start for _, start in shots]
    return starts[1:] if starts[0] == 0 else starts


def _of_json(path: Path, text: str) -> list[tuple[str, float]]:
    try:
        return [(f"shot {i}", int(shot["start_frame"])) for i, shot in enumerate(json.loads(text)["shots"])]
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise DatasetError(f"{path}: is JSON, but not a scenes.json with shots") from error


def _of_scenedetect(path: Path, text: str) -> list[tuple[str, float]]:
    lines = text.splitlines()
    header = next(i for i, line in enumerate(lines) if "Start Frame" in line)
    rows = csv.DictReader(lines[header:], delimiter=max(",;\t", key=lines[header].count))
    shots: list[tuple[str, float]] = []
    try:
        for row in islice(rows, MOST_SHOTS + 1):  # PySceneDetect counts frames from 1 in its lists
            shots.append((f"line {header + rows.line_num}", int(row["Start Frame"]) - 1))
    except (ValueError, TypeError, KeyError, csv.Error) as error:
        place = f"line {header + rows.line_num}"
        raise DatasetError(f"{path}, {place}: its column 'Start Frame' is not a frame number") from error
    return shots


def _of_lines(path: Path, text: str, frame_rate: float) -> list[tuple[str, float]]:
    lines = enumerate(map(str.strip, text.splitlines()), 1)
    lists = ((f"line {number}", _fields(line)) for number, line in lines if line and not line.startswith("#"))
    fields = list(islice(((place, positions) for place, positions in lists if positions), MOST_SHOTS + 1))
    in_seconds = any(sign in position for _, positions in fields for position in positions for sign in ".:")
    shots: list[tuple[str, float]] = []
    last_end = -1.0
    hint = "; write decimals with a point" if "," in text else ""
    for place, positions in fields:
        if len(positions) != len(fields[0][1]):
            raise DatasetError(f"{path}, {place}: mixes lines of one number (cuts) with lines of two (shots)")
        values = [_position(position, in_seconds, frame_rate, f"{path}, {place}") for position in positions]
        if len(values) == 2:
            if values[0] < last_end or values[1] < values[0] or (in_seconds and values[1] == values[0]):
                raise DatasetError(f"{path}, {place}: shot {positions[0]} to {positions[1]} is empty or overlaps{hint}")
            last_end = values[1]
        shots.append((place, values[0]))
    if shots and len(fields[0][1]) == 2:
        shots[0] = (shots[0][0], min(0, shots[0][1]))  # frames before the first listed shot belong to it
    return shots


# A line with decimal commas, as a German Excel saves it: numbers between semicolons or tabs, or two with commas.
_DECIMAL_COMMAS = re.compile(r"\s*(\d+,\d+\s+\d+,\d+|\d+(,\d+)?\s*[;\t]\s*(\d+(,\d+)?)?)\s*([;\t]|$)", re.ASCII)


def _fields(line: str) -> list[str]:
    """The first two fields of a line."""
    line = re.sub(r"(:[0-9]{2}),([0-9]+)(?![0-9:])", r"\1.\2", line)  # of a timecode
    comma = "." if _DECIMAL_COMMAS.match(line) else " "
    return line.replace(",", comma).replace(";", " ").split()[:2]


def _position(text: str, in_seconds: bool, frame_rate: float, place: str) -> float:
    try:
        return parse_time(text, frame_rate) if in_seconds else int(text)
    except ValueError as error:
        wrong = error if in_seconds else "is not a frame number, seconds or a timecode"
        raise DatasetError(f"{place}: {text[:40]!r} {wrong}") from error
