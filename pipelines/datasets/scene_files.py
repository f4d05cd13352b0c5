"""Readers of scene lists: `scenes.json` of bassl, and CSV files made by hand or by other tools."""

import csv
import io
import re
from collections.abc import Collection
from dataclasses import MISSING, fields, replace
from itertools import islice
from pathlib import Path, PureWindowsPath
from typing import Any, get_type_hints

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
from pipelines.options import kind_of
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
    timecode,
)
from pipelines.video.inputs import fingerprint, video_at

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
    return _annotation(read_json(path), path)


def _annotation(content: Any, path: Path) -> VideoAnnotation:
    schema = content.get("schema") if isinstance(content, dict) else None
    if schema != SCHEMA:
        raise fault(path, f"is not a scenes.json: its 'schema' is not '{SCHEMA}'")
    version = at(int, content, "version", "the file", path)
    if version != SCHEMA_VERSION:
        raise fault(path, f"is a scenes.json of version {version}; this bassl reads version {SCHEMA_VERSION}")

    video = member(content, "video", "the file", path)
    name = at(str, video, "path", "the video", path)
    if re.search(r"[\0\ud800-\udc7f\udd00-\udfff]", name):  # `os.fsencode` refuses these surrogates
        raise fault(path, f"{quote(name)} is not the path of a video")
    video_id = at(str, video, "id", "the video", path) if "id" in video else PureWindowsPath(name).stem
    length = at(int, video, "frames", "the video", path)
    frame_rate = at(float, video, "frame_rate", "the video", path)

    shots = at(list, content, "shots", "the file", path)
    scenes = at(list, content, "scenes", "the file", path)
    shot_frames, shot_times = _frames_and_times(shots, "shot", path)
    settings = content.get("settings")
    start, end, gaps = (isinstance(settings, dict) and settings.get(name) for name in ("start", "end", "drop_short"))
    if (shot_frames[0, 0] != 0 and not start) or shot_frames[-1, 1] != length:
        raise fault(path, f"its shots go from frame {shot_frames[0, 0]} to {shot_frames[-1, 1]}, the video to {length}")
    firsts, ends = _pairs(int, scenes, "scene", ("start_shot", "end_shot"), path).T
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
        pins=np.array([_pin(shot, f"shot {i}", path) for i, shot in enumerate(shots)], np.int8),
        part=bool(start or end),
    )


def _scores(shots: list[Any], path: Path) -> NDArray[np.float64] | None:
    """The scores of the shots of a scenes.json; None if no shot has one."""
    if not any("score" in shot for shot in shots):
        return None
    return np.array([_share(shot, "score", f"shot {i}", path) for i, shot in enumerate(shots)])


def _pin(shot: dict[str, Any], of: str, path: Path) -> int:
    if "pinned" not in shot:
        return NOT_PINNED
    if not isinstance(pinned := shot["pinned"], bool):
        raise fault(path, f"the value 'pinned' of {of} is not true or false")
    return SCENE_END if pinned else INSIDE


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


def _frames_and_times(
    entries: list[Any], unit: str, path: Path, gaps_allowed: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Read and check the frame ranges and times of the shots or scenes of a scenes.json."""
    for i, entry in enumerate(entries):
        if (index := at(int, entry, "index", f"{unit} {i}", path)) != i:
            raise fault(path, f"{unit} {i} has the index {index}")
    frames = _pairs(int, entries, unit, ("start_frame", "end_frame"), path)
    times = _pairs(float, entries, unit, ("start", "end"), path)
    for ranges in (frames, times):
        check_ranges(ranges, unit, path)
        gaps = np.flatnonzero(ranges[1:, 0] - ranges[:-1, 1] > TIME_ROUNDING)
        if len(gaps) and not gaps_allowed:
            i = gaps[0] + 1
            raise fault(path, f"{unit} {i} starts at {ranges[i, 0]}, but {unit} {i - 1} ends at {ranges[i - 1, 1]}")
    return frames, times


def _pairs(kind: type[float], entries: list[Any], unit: str, keys: tuple[str, str], path: Path) -> NDArray[Any]:
    pairs = [[at(kind, entry, key, f"{unit} {i}", path) for key in keys] for i, entry in enumerate(entries)]
    return np.array(pairs, dtype=kind).reshape(-1, 2)


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


# The type of each fact of a video; facts with a default may be missing.
_KINDS = {name: kind_of(hint)[0] for name, hint in get_type_hints(VideoFacts).items()}
_MOST = {
    "base_rate": MAX_POSITION,
    "timecode_rate": 255,
    "sound_tracks": 512,
    "sound_channels": 512,
    "sound_rate": MAX_POSITION,
}


def read_scene_list(path: Path | str) -> SceneData:
    """Read a ``scenes.json``, version 1. The path of its video is the file with its fingerprint, searched for at its
    relative and absolute path; if there is none, the path in the file.

    Raises DatasetError if it is not a scenes.json, of another version, or inconsistent."""
    path = Path(path)
    content = read_json(path)
    _annotation(content, path)  # checks everything about shots and scenes
    settings = content.get("settings", {})
    if not isinstance(settings, dict):
        raise fault(path, "its settings are not an object")
    video = _video(content["video"], path)
    shots = tuple(_shot(i, entry, path) for i, entry in enumerate(content["shots"]))
    scenes = lettered([_scene(m, entry, path) for m, entry in enumerate(content["scenes"])], shots)
    lines = _lines(content, "the file", path)
    for m, entry in enumerate(content["scenes"]):
        lines += _lines(entry, f"scene {m}", path)
    listed = at(list, content, "segments", "the file", path) if "segments" in content else []
    if len(listed) > MOST_SHOTS:
        raise fault(path, f"has {len(listed):,} segments; more than {MOST_SHOTS:,} cannot be read")
    segments = tuple(_segment(entry, f"segment {i}", path) for i, entry in enumerate(listed))
    return SceneData(video, settings, shots, scenes, tuple(sorted(lines, key=lambda line: line.start)), segments)


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


def _video(entry: dict[str, Any], path: Path) -> VideoFacts:
    facts: dict[str, Any] = {}
    for field in fields(VideoFacts):
        if field.name in entry or field.default is MISSING:
            facts[field.name] = at(_KINDS[field.name], entry, field.name, "the video", path)
    for name, most in _MOST.items():
        if not 0 <= facts.get(name, 0) <= most:
            raise fault(path, f"the {name} of the video is {facts[name]}, not between 0 and {most}")
    relative = at(str, {"relative_path": "", **entry}, "relative_path", "the video", path)
    video = VideoFacts(**facts)
    return replace(video, path=_video_path(path, video, relative))


def _shot(i: int, entry: dict[str, Any], path: Path) -> Shot:
    of = f"shot {i}"
    start, end = float(entry["start"]), float(entry["end"])
    transition = _transition(entry["transition"], f"the transition of {of}", path) if "transition" in entry else None
    score = _share(entry, "score", of, path)
    setting = at(int, entry, "setting", of, path) if "setting" in entry else None
    if setting is not None and not 0 <= setting < MOST_SHOTS:
        raise fault(path, f"the setting of {of} is {setting}, not between 0 and {MOST_SHOTS - 1}")
    frames = entry["start_frame"], entry["end_frame"]
    return Shot(i, *frames, start, end, score, transition, entry.get("pinned"), setting)


def _transition(entry: Any, of: str, path: Path) -> Transition:
    return Transition(*_kind_and_range(entry, TRANSITIONS, of, path))


def _segment(entry: Any, of: str, path: Path) -> Segment:
    segment = Segment(*_kind_and_range(entry, SEGMENTS, of, path))
    if segment.end_frame <= segment.start_frame or segment.end <= segment.start:
        raise fault(path, f"{of} is empty, or ends before it begins")
    return segment


def _kind_and_range(entry: Any, kinds: Collection[str], of: str, path: Path) -> tuple[str, int, int, float, float]:
    if (kind := member(entry, "kind", of, path)) not in kinds:
        raise fault(path, f"the kind of {of} is {kind!r}, not one of {', '.join(kinds)}")
    start_frame, end_frame = (at(int, entry, key, of, path) for key in ("start_frame", "end_frame"))
    start, end = (at(float, entry, key, of, path) for key in ("start", "end"))
    return kind, start_frame, end_frame, start, end


def _scene(m: int, entry: dict[str, Any], path: Path) -> Scene:
    of = f"scene {m}"
    name = at(str, entry, "name", of, path) if "name" in entry else None
    if name == "":
        raise fault(path, f"the name of {of} is empty; leave it out")
    named_by = at(str, entry, "named_by", of, path) if "named_by" in entry else None
    if named_by not in (None, *NAMED_BY) or (named_by and name is None):
        raise fault(path, f"the named_by of {of} is {quote(named_by or '')}, without a name or not words or program")
    shots, frames = (entry["start_shot"], entry["end_shot"]), (entry["start_frame"], entry["end_frame"])
    start, end, confidence = float(entry["start"]), float(entry["end"]), _share(entry, "confidence", of, path)
    return Scene(m, *shots, *frames, start, end, timecode(start), timecode(end), confidence, name, named_by)


def _lines(entry: dict[str, Any], of: str, path: Path) -> list[Line]:
    lines = []
    for line in at(list, entry, "lines", of, path) if "lines" in entry else ():
        what = f"a line of {of}"
        start, end = (at(float, line, key, what, path) for key in ("start", "end"))
        if end < start:
            raise fault(path, f"{what} ends at {end}, but it begins at {start}")
        lines.append(Line(start, end, at(str, line, "text", what, path)))
    return lines


def _share(entry: dict[str, Any], key: str, of: str, path: Path) -> float:
    value = at(float, entry, key, of, path)
    if not 0 <= value <= 1:
        raise fault(path, f"the {key} of {of} is {value}, not between 0 and 1")
    return value


def _video_path(file: Path, video: VideoFacts, relative: str) -> str:
    """Where the video is: from the folder of ``file`` first, so that both can be moved together."""
    named, beside = Path(video.path), file.parent / PureWindowsPath(video.path).name
    for path in (file.parent / relative, named, file.parent / named, beside):
        if video_at(path, video):
            return str(path.parent.resolve() / path.name)
    return video.path
