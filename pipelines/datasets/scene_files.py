"""Readers of scene lists: `scenes.json` of bassl, chapters, and CSV files made by hand or by other tools."""

import csv
import io
import os
import re
from pathlib import Path, PureWindowsPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.datasets.annotations import VideoAnnotation, check_ranges, labels_from_ends
from pipelines.datasets.parsing import (
    MAX_SCENES_BYTES,
    as_int,
    as_list,
    as_number,
    as_text,
    fault,
    int_at,
    member,
    number_at,
    parse_int,
    quote,
    read_json,
    read_text,
)
from pipelines.scenes import SCHEMA, SCHEMA_VERSION, parse_time

TIME_ROUNDING = 0.002  # maximum difference in seconds between equal times in a scenes.json, due to rounding

_ENDINGS = (".json", ".csv", ".chapters.xml", ".ffmetadata", ".ffmeta")
# Names of CSV columns, in lower case with "_" for anything but letters and digits; the first match is used.
_FRAMES = (("start_frame",), ("end_frame",))
_TIMES = (
    ("start_time_seconds", "start_seconds", "start_s", "start", "start_time", "start_timecode"),
    ("end_time_seconds", "end_seconds", "end_s", "end", "end_time", "end_timecode"),
)
# Two of these columns identify a list of PySceneDetect; a table with the names of scenes.json has none.
_SCENEDETECT = {"start_time_seconds", "end_time_seconds", "scene_number"}
_SCENEDETECT |= {"length_frames", "length_timecode", "length_seconds"}


def is_scene_files(path: Path) -> bool:
    """Whether this is a list of scenes, by its ending."""
    return path.name.lower().endswith(_ENDINGS) and path.is_file()


def read_scenes_json(path: Path) -> VideoAnnotation:
    """Read a `scenes.json`, version 1: shots in frames and seconds, their labels and optional scores.

    The id is the video's own, or else the stem of the video's file name. Raises DatasetError: it is not a scenes.json,
    of another version, or inconsistent: shots and scenes must be contiguous from frame 0 to the end of the video, and
    scenes begin and end with their shots. With the setting ``start`` shots may begin later, with ``drop_short`` scenes
    may have gaps.
    """
    return annotation_of(read_json(path, MAX_SCENES_BYTES), path)


def annotation_of(content: Any, path: Path) -> VideoAnnotation:
    """The annotation of the content of a `scenes.json`. Raises DatasetError as `read_scenes_json`."""
    schema = content.get("schema") if isinstance(content, dict) else None
    if schema != SCHEMA:
        raise fault(path, f"is not a scenes.json: its 'schema' is not '{SCHEMA}'")
    version = as_int(member(content, "version", "the file", path), "a version", path)
    if version != SCHEMA_VERSION:
        raise fault(path, f"is a scenes.json of version {version}; this bassl reads version {SCHEMA_VERSION}")

    video = member(content, "video", "the file", path)
    name = as_text(member(video, "path", "the video", path), "the path of a video", path)
    if "\0" in name or not _is_file_name(name):
        raise fault(path, f"{quote(name)} is not the path of a video")
    video_id = as_text(video.get("id", PureWindowsPath(name).stem), "the id of a video", path)
    length = as_int(member(video, "frames", "the video", path), "a number of frames", path)
    frame_rate = as_number(member(video, "frame_rate", "the video", path), "a frame rate", path)

    shots = as_list(member(content, "shots", "the file", path), "the list of shots", path)
    scenes = as_list(member(content, "scenes", "the file", path), "the list of scenes", path)
    shot_frames, shot_times = _frames_and_times(shots, "shot", path)
    settings = content.get("settings")
    start, end, gaps = (isinstance(settings, dict) and settings.get(name) for name in ("start", "end", "drop_short"))
    if (shot_frames[0, 0] != 0 and not start) or shot_frames[-1, 1] != length:
        raise fault(path, f"its shots go from frame {shot_frames[0, 0]} to {shot_frames[-1, 1]}, the video to {length}")
    firsts, ends = _integers(scenes, "scene", ("start_shot", "end_shot"), path).T
    scene_frames, scene_times = _frames_and_times(scenes, "scene", path, bool(gaps))
    apart = firsts[0] != 0 or ends[-1] != len(shots) or (firsts[1:] != ends[:-1]).any()
    outside = firsts[0] < 0 or ends[-1] > len(shots) or (firsts[1:] < ends[:-1]).any()
    if (outside if gaps else apart) or (ends <= firsts).any():
        raise fault(path, f"its scenes do not follow one another from shot 0 to the end of its {len(shots)} shots")
    for of_scenes, of_shots in ((scene_frames, shot_frames), (scene_times, shot_times)):
        should_be = np.column_stack([of_shots[firsts, 0], of_shots[ends - 1, 1]])
        wrong = np.flatnonzero((np.abs(of_scenes - should_be) > TIME_ROUNDING).any(axis=1))
        if len(wrong):
            (start, end), m = of_scenes[wrong[0]], wrong[0]
            raise fault(path, f"scene {m}, {start} to {end}, is not where its shots {firsts[m]} to {ends[m] - 1} are")
    return VideoAnnotation(
        video_id,
        path,
        shots=shot_frames,
        shots_seconds=shot_times,
        # a scene that was dropped as too short ends at the next scene
        scene_end=labels_from_ends(sorted({*ends - 1, *firsts[firsts > 0] - 1, len(shots) - 1}), len(shots)),
        frame_rate=frame_rate,
        scores=_scores(shots, path),
        part=bool(start or end),
    )


def _is_file_name(text: str) -> bool:
    try:
        os.fsencode(text)
    except UnicodeEncodeError:  # a half of a surrogate pair
        return False
    return True


def _scores(shots: list[Any], path: Path) -> NDArray[np.float64] | None:
    """The scores of the shots of a scenes.json; None if no shot has one."""
    if not any("score" in shot for shot in shots):
        return None
    scores = np.array([number_at(shot, "score", f"shot {i}", path) for i, shot in enumerate(shots)])
    invalid = np.flatnonzero((scores < 0) | (scores > 1))
    if len(invalid):
        raise fault(path, f"the score of shot {invalid[0]} is {scores[invalid[0]]:g}, not between 0 and 1")
    return scores


def read_scenes_csv(path: Path, frame_rate: float | None = None) -> VideoAnnotation:
    """Read a table of scenes: a header line, then one scene per line, in order.

    Columns: `start` and `end` (seconds, or timecodes `H:MM:SS`, `MM:SS`, `HH:MM:SS.mmm`, `HH:MM:SS:FF`), or
    `start_frame` and `end_frame` (counted from zero, end exclusive), or both. Case, blanks and units in a name ("Start
    Time (seconds)") and other columns are ignored. The separator is a comma, semicolon or tab.

    The output of PySceneDetect's `list-scenes` is recognized by its columns, with or without the list of cuts
    ("Timecode List:") as its first line; it counts frames from one, and its End Frame is inclusive.

    The id is the file name without `.csv` and without `-Scenes`, which PySceneDetect appends, or `.scenes`.

    `frame_rate`: frames per second, only for timecodes that end in a frame number (non-drop-frame).
    Raises DatasetError: the file is not such a table, or a cell is wrong; the line is named.
    """
    header, rows = _table(path)
    lines = [line for _, line in rows]
    video_id = re.sub(r"(?i)([-_.]scenes)?$", "", path.stem, count=1)
    frames = times = None
    if columns := _columns(header, _FRAMES):
        numbers = [[parse_int(row[column], "a frame number", path, line) for column in columns] for row, line in rows]
        frames = np.array(numbers, dtype=np.int64).reshape(-1, 2)
        if len({*header} & _SCENEDETECT) >= 2:
            frames[:, 0] -= 1
            lengths = [row[header.index("length_frames")] for row, _ in rows] if "length_frames" in header else []
            for (start, end), length, line in zip(frames.tolist(), lengths, lines, strict=False):
                if parse_int(length, "a number of frames", path, line) != end - start:
                    raise fault(path, f"the scene has {end - start} frames, but another number as its length", line)
        check_ranges(frames, "scene", path, lines)
    if columns := _columns(header, _TIMES):
        seconds = [[_seconds(row[column], frame_rate, path, line) for column in columns] for row, line in rows]
        times = np.array(seconds, dtype=np.float64).reshape(-1, 2)
        check_ranges(times, "scene", path, lines)
    return VideoAnnotation(video_id, path, scenes_frames=frames, scenes_seconds=times)


def _frames_and_times(
    entries: list[Any], unit: str, path: Path, gaps_allowed: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Read and check the frame ranges and times of the shots or scenes of a scenes.json."""
    for i, entry in enumerate(entries):
        if (index := int_at(entry, "index", f"{unit} {i}", path)) != i:
            raise fault(path, f"{unit} {i} has the index {index}")
    frames = _integers(entries, unit, ("start_frame", "end_frame"), path)
    seconds = [
        [number_at(entry, key, f"{unit} {i}", path) for key in ("start", "end")] for i, entry in enumerate(entries)
    ]
    times = np.array(seconds, dtype=np.float64).reshape(-1, 2)
    for ranges in (frames, times):
        check_ranges(ranges, unit, path)
        gaps = np.flatnonzero(ranges[1:, 0] - ranges[:-1, 1] > TIME_ROUNDING)
        if len(gaps) and not gaps_allowed:
            i = gaps[0] + 1
            raise fault(path, f"{unit} {i} starts at {ranges[i, 0]}, but {unit} {i - 1} ends at {ranges[i - 1, 1]}")
    return frames, times


def _integers(entries: list[Any], unit: str, keys: tuple[str, str], path: Path) -> NDArray[np.int64]:
    pairs = [[int_at(entry, key, f"{unit} {i}", path) for key in keys] for i, entry in enumerate(entries)]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def _table(path: Path) -> tuple[list[str], list[tuple[list[str], int]]]:
    """The normalized column names, and the rows as stripped cells, each with its line number."""
    text = read_text(path)
    for delimiter in ",;\t":
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        try:
            table = [([cell.strip() for cell in row], reader.line_num) for row in reader]
        except csv.Error as error:
            raise fault(path, f"is not a table of comma-separated values: {error}", reader.line_num) from error
        table = [(row, line) for row, line in table if any(row)]
        if table and _is_cut_list(table[0][0]):
            del table[0]
        if not table:
            raise fault(path, "is empty")
        header = [re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") for name in table.pop(0)[0]]
        if not (_columns(header, _FRAMES) or _columns(header, _TIMES)):
            continue
        if len({*header} - {""}) != len([name for name in header if name]):
            raise fault(path, "names a column twice")
        for row, line in table:
            if len(row) < len(header) or any(row[len(header) :]):
                commas = "; put quotes around a text with commas, and write decimals with a point"
                hint = commas if delimiter == "," and len(row) > len(header) else ""
                raise fault(path, f"has {len(row)} cells, but the header has {len(header)}{hint}", line)
        return header, table
    raise fault(path, "has no columns 'start' and 'end', nor 'start_frame' and 'end_frame'")


def _is_cut_list(row: list[str]) -> bool:
    """Whether the row is PySceneDetect's list of cuts: "Timecode List:" and timecodes. Release 0.7.2 omits the words if
    called from Python without a list of cuts."""
    if row[0] == "Timecode List:":
        return True
    return all(re.fullmatch(r"[0-9]{2,}:[0-9]{2}:[0-9]{2}\.[0-9]{3}", cell) for cell in row)


def _columns(header: list[str], names: tuple[tuple[str, ...], tuple[str, ...]]) -> list[int]:
    """Indices of the start and end columns, of the same kind; [] if there are none."""
    for start, end in zip(*names, strict=True):
        if start in header and end in header:
            return [header.index(start), header.index(end)]
    return []


def _seconds(text: str, frame_rate: float | None, path: Path, line: int) -> float:
    if re.fullmatch(r"[0-9]+,[0-9]+s?", text):
        raise fault(path, f"{quote(text)} has a decimal comma; write {quote(text.replace(',', '.'))[1:-1]}", line)
    try:
        return as_number(parse_time(text, frame_rate), "a time", path, line)
    except ValueError as error:
        raise fault(path, f"{quote(text)} {error}", line) from error
