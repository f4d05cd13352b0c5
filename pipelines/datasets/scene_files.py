"""Readers of scene lists: `scenes.json` of bassl, and CSV files made by hand or by other tools."""

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path, PureWindowsPath
from types import NoneType
from typing import Any, TypeVar, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

from pipelines.datasets.annotations import (
    INSIDE,
    NOT_PINNED,
    SCENE_END,
    VideoAnnotation,
    check_ranges,
    labels_from_ends,
)
from pipelines.datasets.parsing import (
    MAX_POSITION,
    at,
    checked,
    fault,
    member,
    parse_int,
    quote,
    read_json,
    read_text,
)
from pipelines.errors import VideoError
from pipelines.files import is_file
from pipelines.scenes import (
    MOST_SHOTS,
    NAMED_BY,
    SCHEMA,
    SCHEMA_VERSION,
    SEGMENTS,
    TRANSITIONS,
    Line,
    Scene,
    SceneData,
    Segment,
    Shot,
    Transition,
    VideoFacts,
    lettered,
    parse_time,
    shot_ranges,
    timecode,
)
from pipelines.video.inputs import fingerprint, video_at

T = TypeVar("T")

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
    """Read a `scenes.json`, version 1, as labels: shots in frames and seconds, their labels, scores and pins.

    The id is the video's own, or else the stem of the video's file name. Raises DatasetError, see `read_scene_list`.
    """
    return _annotation(_scene_data(read_json(path), path), path)


def _annotation(scenes: SceneData, path: Path) -> VideoAnnotation:
    """The labels of scenes. Raises DatasetError: shots and scenes must be contiguous from frame 0 to the end of the
    video, and scenes begin and end with their shots. With the setting ``start`` shots may begin later, with
    ``drop_short`` scenes may have gaps."""
    video, shots = scenes.video, scenes.shots
    if re.search(r"[\0\ud800-\udc7f\udd00-\udfff]", video.path):  # `os.fsencode` refuses these surrogates
        raise fault(path, f"{quote(video.path)} is not the path of a video")
    start, end, gaps = (scenes.settings.get(name) for name in ("start", "end", "drop_short"))
    shot_frames, shot_times = _frames_and_times(shots, "shot", path)
    if (shot_frames[0, 0] != 0 and not start) or shot_frames[-1, 1] != video.frames:
        frames = f"frame {shot_frames[0, 0]} to {shot_frames[-1, 1]}"
        raise fault(path, f"its shots go from {frames}, the video to {video.frames}")
    scene_frames, scene_times = _frames_and_times(scenes.scenes, "scene", path, bool(gaps))
    firsts, ends = np.array(shot_ranges(scenes.scenes)).T
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
        PureWindowsPath(video.path).stem if video.id is None else video.id,
        path,
        shots=shot_frames,
        shots_seconds=shot_times,
        # a scene that was dropped as too short ends at the next scene
        scene_end=labels_from_ends(sorted({*ends - 1, *firsts[firsts > 0] - 1, len(shots) - 1}), len(shots)),
        frame_rate=video.frame_rate,
        scores=np.array([shot.score for shot in shots]),
        pins=np.array([_PINS[shot.pinned] for shot in shots], np.int8),
        part=bool(start or end),
    )


_PINS = {None: NOT_PINNED, True: SCENE_END, False: INSIDE}


def _frames_and_times(
    items: Sequence[Shot] | Sequence[Scene], unit: str, path: Path, gaps_allowed: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The frame ranges and times of shots or scenes, checked."""
    for i, index in enumerate(item.index for item in items):
        if index != i:
            raise fault(path, f"{unit} {i} has the index {index}")
    frames = np.array([(item.start_frame, item.end_frame) for item in items], np.int64).reshape(-1, 2)
    times = np.array([(item.start, item.end) for item in items], np.float64).reshape(-1, 2)
    for ranges in (frames, times):
        check_ranges(ranges, unit, path)
        gaps = np.flatnonzero(ranges[1:, 0] - ranges[:-1, 1] > TIME_ROUNDING)
        if len(gaps) and not gaps_allowed:
            i = gaps[0] + 1
            raise fault(path, f"{unit} {i} starts at {ranges[i, 0]}, but {unit} {i - 1} ends at {ranges[i - 1, 1]}")
    return frames, times


def read_scenes_csv(path: Path, frame_rate: float | None = None) -> VideoAnnotation:
    """Read a table of scenes: a header line, then one scene per line, in order.

    Columns: `start` and `end` (seconds, or timecodes `H:MM:SS`, `MM:SS`, `HH:MM:SS.mmm`, `HH:MM:SS:FF`), or
    `start_frame` and `end_frame` (counted from zero, end exclusive), or both. Case, blanks and units in a name ("Start
    Time (seconds)") and other columns are ignored. The separator is a comma, or a semicolon or tab with which decimals
    may have commas.

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


_DECIMAL_COMMA = re.compile(r"^([0-9]+),([0-9]+s?)$")


def _table(path: Path) -> tuple[list[str], list[tuple[list[str], int]]]:
    """The normalized column names, and the rows as stripped cells, each with its line number."""
    text = re.sub(r"\Asep=.(?=\r?\n)", "", read_text(path))  # Excel's line that names the separator
    for delimiter in ",;\t":
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        stripped = (([cell.strip() for cell in row], reader.line_num) for row in reader)
        rows = ((row, line) for row, line in stripped if any(row))
        try:
            first = next(rows, ([], 0))[0]
            if first and _is_cut_list(first):
                first = next(rows, ([], 0))[0]
            if not first:
                raise fault(path, "is empty")
            header = [re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") for name in first]
            if not (_columns(header, _FRAMES) or _columns(header, _TIMES)):
                continue
            table = list(islice(rows, MOST_SHOTS + 1))
        except csv.Error as error:
            raise fault(path, f"is not a table of comma-separated values: {error}", reader.line_num) from error
        if delimiter != ",":
            table = [([_DECIMAL_COMMA.sub(r"\1.\2", cell) for cell in row], line) for row, line in table]
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
    if _DECIMAL_COMMA.match(text):
        raise fault(path, f"{quote(text)} has a decimal comma; write {quote(text.replace(',', '.'))[1:-1]}", line)
    try:
        return checked(float, parse_time(text, frame_rate), "a time", path, line)
    except ValueError as error:
        raise fault(path, f"{quote(text)} {error}", line) from error


# The largest value of some fields, the smallest being 0, and the words of others.
_MOST = {
    "score": 1,
    "confidence": 1,
    "setting": MOST_SHOTS - 1,
    "base_rate": MAX_POSITION,
    "timecode_rate": 255,
    "sound_tracks": 512,
    "sound_channels": 512,
    "sound_rate": MAX_POSITION,
}
_WORDS = {(Transition, "kind"): TRANSITIONS, (Segment, "kind"): tuple(SEGMENTS), (Scene, "named_by"): NAMED_BY}
# The names of fields, their types without None, and whether they may be missing.
_FIELDS: dict[type, list[tuple[str, Any, bool]]] = {
    kind: [
        (name, (get_args(hint) or [hint])[0], NoneType in get_args(hint)) for name, hint in get_type_hints(kind).items()
    ]
    for kind in (VideoFacts, Shot, Transition, Scene, Segment, Line)
}


def read_scene_list(path: Path | str) -> SceneData:
    """Read a ``scenes.json``, version 1. The path of its video is the file with its fingerprint, searched for at its
    relative and absolute path; if there is none, the path in the file.

    Raises DatasetError if it is not a scenes.json, of another version, or inconsistent."""
    path = Path(path)
    content = read_json(path)
    scenes = _scene_data(content, path)
    _annotation(scenes, path)  # checks that shots and scenes fit together
    relative = at(str, {"relative_path": "", **content["video"]}, "relative_path", "the video", path)
    return replace(scenes, video=replace(scenes.video, path=_video_path(path, scenes.video, relative)))


def _scene_data(content: Any, path: Path) -> SceneData:
    """The content of a scenes.json, with the video's path as in the file. Checks each field alone."""
    schema = content.get("schema") if isinstance(content, dict) else None
    if schema != SCHEMA:
        raise fault(path, f"is not a scenes.json: its 'schema' is not '{SCHEMA}'")
    version = at(int, content, "version", "the file", path)
    if version != SCHEMA_VERSION:
        raise fault(path, f"is a scenes.json of version {version}; this bassl reads version {SCHEMA_VERSION}")
    settings = content.get("settings", {})
    if not isinstance(settings, dict):
        raise fault(path, "its settings are not an object")
    video = _record(VideoFacts, member(content, "video", "the file", path), "the video", path)
    shot_entries, scene_entries = (at(list, content, key, "the file", path) for key in ("shots", "scenes"))
    shots = tuple(_record(Shot, entry, f"shot {i}", path) for i, entry in enumerate(shot_entries))
    scenes, lines = [], _lines(content, "the file", path)
    for m, entry in enumerate(scene_entries):
        scenes.append(_scene(entry, f"scene {m}", path))
        lines += _lines(entry, f"scene {m}", path)
    listed = at(list, content, "segments", "the file", path) if "segments" in content else []
    segments = tuple(_segment(entry, f"segment {i}", path) for i, entry in enumerate(listed))
    lines.sort(key=lambda line: line.start)
    return SceneData(video, settings, shots, lettered(scenes, shots), tuple(lines), segments)


def _record(kind: type[T], entry: Any, of: str, path: Path, **values: Any) -> T:
    """A dataclass from an object called ``of`` in messages; the fields in ``values`` are not read."""
    for name, type_, is_optional in _FIELDS[kind]:
        if name in values or (is_optional and name not in entry):
            continue
        if type_ is Transition:
            values[name] = _record(Transition, entry[name], f"the {name} of {of}", path)
            continue
        values[name] = value = at(type_, entry, name, of, path)
        if name in _MOST and not 0 <= value <= _MOST[name]:
            raise fault(path, f"the {name} of {of} is {value}, not between 0 and {_MOST[name]}")
        if (words := _WORDS.get((kind, name))) and value not in words:
            raise fault(path, f"the {name} of {of} is {quote(value)}, not one of {', '.join(words)}")
    return kind(**values)


def with_video(scenes: SceneData, video: Path | None) -> SceneData:
    """The scenes with the path and fingerprint of ``video``, or unchanged if it is None. What they tell about the
    content of another file is left out. Raises VideoError if there is no such file."""
    if video is None:
        return scenes
    if not is_file(video):
        raise VideoError(f"{video}: no such file")
    now, facts = fingerprint(video), scenes.video
    if facts.fingerprint != now:
        facts = replace(facts, fingerprint=now, modified=None, sha256=None)
    return replace(scenes, video=replace(facts, path=str(video.absolute())))


def _scene(entry: Any, of: str, path: Path) -> Scene:
    scene = _record(Scene, entry, of, path, start_timecode="", end_timecode="", setting=None)
    if scene.name == "":
        raise fault(path, f"the name of {of} is empty; leave it out")
    if scene.named_by and scene.name is None:
        raise fault(path, f"the named_by of {of} is {quote(scene.named_by)}, but it is without a name")
    return replace(scene, start_timecode=timecode(scene.start), end_timecode=timecode(scene.end))


def _segment(entry: Any, of: str, path: Path) -> Segment:
    segment = _record(Segment, entry, of, path)
    if segment.end_frame <= segment.start_frame or segment.end <= segment.start:
        raise fault(path, f"{of} is empty, or ends before it begins")
    return segment


def _lines(entry: dict[str, Any], of: str, path: Path) -> list[Line]:
    listed = at(list, entry, "lines", of, path) if "lines" in entry else []
    lines = [_record(Line, line, f"a line of {of}", path) for line in listed]
    for line in lines:
        if line.end < line.start:
            raise fault(path, f"a line of {of} ends at {line.end}, but it begins at {line.start}")
    return lines


def _video_path(file: Path, video: VideoFacts, relative: str) -> str:
    """Where the video is: from the folder of ``file`` first, so that both can be moved together."""
    named, beside = Path(video.path), file.parent / PureWindowsPath(video.path).name
    for path in (file.parent / relative, named, file.parent / named, beside):
        if video_at(path, video):
            return str(path.parent.resolve() / path.name)
    return video.path
