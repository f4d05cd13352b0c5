"""Reader of `scenes.json`, with the types and limits of its JSON Schema, ``pipelines/scenes.schema.json``.

The schema describes what is written. The reader also accepts unknown fields, missing timecodes and missing settings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path, PureWindowsPath
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from pipelines.datasets.annotations import (
    INSIDE,
    NOT_PINNED,
    SCENE_END,
    VideoAnnotation,
    check_ranges,
    fault,
    labels_from_ends,
    member,
    parse_json,
    quote,
    read_field,
    read_json,
)
from pipelines.errors import VideoError
from pipelines.files import MOST_RESULT_BYTES, is_file
from pipelines.scenes import (
    SCHEMA,
    SCHEMA_VERSION,
    Line,
    Scene,
    SceneData,
    Segment,
    Shot,
    Transition,
    VideoFacts,
    credit_cuts,
    shot_ranges,
    timecode,
)
from pipelines.video.inputs import fingerprint, video_at

T = TypeVar("T")

TIME_ROUNDING = 0.002  # maximum difference in seconds between equal times in a scenes.json, due to rounding

_PINS = {None: NOT_PINNED, True: SCENE_END, False: INSIDE}
_TYPES: dict[str, type] = {"string": str, "integer": int, "number": float, "boolean": bool}
_SCHEMA = json.loads((Path(__file__).parents[1] / "scenes.schema.json").read_text("utf-8"))
_SHOT = _SCHEMA["properties"]["shots"]["items"]
_OBJECTS: dict[Any, dict[str, Any]] = {
    VideoFacts: _SCHEMA["properties"]["video"],
    Shot: _SHOT,
    Transition: _SHOT["properties"]["transition"],
    Scene: _SCHEMA["properties"]["scenes"]["items"],
    Line: _SCHEMA["$defs"]["lines"]["items"],
    Segment: _SCHEMA["properties"]["segments"]["items"],
}
_FIELDS = {
    kind: [
        (name, limits, name not in schema["required"])
        for name, limits in schema["properties"].items()
        if name not in ("relative_path", "lines")
    ]
    for kind, schema in _OBJECTS.items()
}
"""For each class in `pipelines.scenes` name and schema of its fields, and whether they are optional."""


def read_scenes_json(path: Path) -> VideoAnnotation:
    """Read a `scenes.json`, version 1, as labels: shots in frames and seconds, their labels, scores and pins.

    The id is the video's own, or else the stem of the video's file name. Raises DatasetError, see `read_scene_list`.
    """
    return _annotation(_scene_data(read_json(path, MOST_RESULT_BYTES), path), path)


def read_scene_list(path: Path | str) -> SceneData:
    """Read a ``scenes.json``, version 1. The path of its video is the file with its fingerprint, searched for at its
    relative and absolute path; if there is none, the path in the file.

    Raises DatasetError if it is not a scenes.json, of another version, or inconsistent."""
    path = Path(path)
    return _scene_list(read_json(path, MOST_RESULT_BYTES), path)


def parse_scene_list(text: bytes, path: Path) -> SceneData:
    """Return the scenes of a ``scenes.json`` that may be written to ``path``, see `read_scene_list`."""
    try:
        content = parse_json(text.decode(), path)
    except UnicodeDecodeError as error:
        raise fault(path, "is not UTF-8") from error
    return _scene_list(content, path)


def _scene_list(content: Any, path: Path) -> SceneData:
    scenes = _scene_data(content, path)
    _annotation(scenes, path)  # checks that shots and scenes fit together
    relative = read_field(str, {"relative_path": "", **content["video"]}, "relative_path", "the video", path)
    return replace(scenes, video=replace(scenes.video, path=_video_path(path, scenes.video, relative)))


def with_video(scenes: SceneData, video: Path | None) -> SceneData:
    """Return the scenes with the path and fingerprint of ``video``, or unchanged if it is None. Facts about the
    content of another file are left out. Raises VideoError if there is no such file."""
    if video is None:
        return scenes
    if not is_file(video):
        raise VideoError(f"{video}: no such file")
    now, facts = fingerprint(video), scenes.video
    if facts.fingerprint != now:
        facts = replace(facts, fingerprint=now, modified=None)
    return replace(scenes, video=replace(facts, path=str(video.absolute())))


def _video_path(file: Path, video: VideoFacts, relative: str) -> str:
    """Return the path of the video: from the folder of ``file`` first, so that both can be moved together."""
    stored, beside = Path(video.path), file.parent / PureWindowsPath(video.path).name
    for path in (file.parent / relative, stored, file.parent / stored, beside):
        if video_at(path, video):
            return str(path.parent.resolve() / path.name)
    return video.path


def _scene_data(content: Any, path: Path) -> SceneData:
    """Return the content of a scenes.json, with the video's path as in the file. Checks each field alone."""
    schema = content.get("schema") if isinstance(content, dict) else None
    if schema != SCHEMA:
        raise fault(path, f"is not a scenes.json: its 'schema' is not '{SCHEMA}'")
    version = read_field(int, content, "version", "the file", path)
    if version != SCHEMA_VERSION:
        raise fault(path, f"is a scenes.json of version {version}; this bassl reads version {SCHEMA_VERSION}")
    settings = content.get("settings", {})
    if not isinstance(settings, dict):
        raise fault(path, "its settings are not an object")
    video = _record(VideoFacts, member(content, "video", "the file", path), "the video", path)
    shots = _records(Shot, content, "shots", "the file", path)
    scenes = _records(Scene, content, "scenes", "the file", path)
    for m, scene in enumerate(scenes):
        if scene.named_by and scene.name is None:
            raise fault(path, f"the named_by of scene {m} is {quote(scene.named_by)}, but it is without a name")
        scenes[m] = replace(scene, start_timecode=timecode(scene.start), end_timecode=timecode(scene.end))
    owners = {"the file": content} | {f"scene {m}": entry for m, entry in enumerate(content["scenes"])}
    lines = []
    for owner, entry in owners.items():
        for line in _records(Line, {"lines": [], **entry}, "lines", owner, path):
            if line.end < line.start:
                raise fault(path, f"a line of {owner} ends at {line.end}, but it begins at {line.start}")
            lines.append(line)
    lines.sort(key=lambda line: line.start)
    segments = _records(Segment, {"segments": [], **content}, "segments", "the file", path)
    for i, segment in enumerate(segments):
        if segment.end_frame <= segment.start_frame or segment.end <= segment.start:
            raise fault(path, f"segment {i} is empty, or ends before it begins")
    return SceneData(video, settings, tuple(shots), tuple(scenes), tuple(lines), tuple(segments))


def _records(kind: Callable[..., T], holder: dict[str, Any], key: str, owner: str, path: Path) -> list[T]:
    """Return the dataclasses of a list in an object called ``owner`` in messages."""
    entries = enumerate(read_field(list, holder, key, owner, path))
    return [_record(kind, x, f"a line of {owner}" if kind is Line else f"{key[:-1]} {i}", path) for i, x in entries]


def _record(kind: Callable[..., T], entry: Any, owner: str, path: Path) -> T:
    """Return a dataclass from an object called ``owner`` in messages."""
    values: dict[str, Any] = {}
    for name, limits, is_optional in _FIELDS[kind]:
        if is_optional and name not in entry:
            continue
        if "pattern" in limits:  # it follows from other fields
            values[name] = ""
        elif limits["type"] == "object":
            values[name] = _record(Transition, entry[name], f"the {name} of {owner}", path)
        else:
            values[name] = read_field(_TYPES[limits["type"]], entry, name, owner, path, most=2**63)
            if problem := _problem(values[name], limits, is_optional):
                raise fault(path, f"the {name} of {owner} is {problem}")
    return kind(**values)


def _problem(value: Any, limits: dict[str, Any], is_optional: bool) -> str:
    """Return why a value is not within the limits of its field, or an empty text."""
    if isinstance(value, str):
        if value not in limits.get("enum", (value,)):
            return f"{quote(value)}, not one of {', '.join(limits['enum'])}"
        return "" if value else f"empty{'; leave it out' if is_optional else ''}"
    if isinstance(value, bool):
        return ""
    least, most, is_above = limits.get("minimum", 0), limits["maximum"], "exclusiveMinimum" in limits  # which is 0
    if value > most:
        return f"{value}, not {most:,} or less"
    if value < least or (is_above and value == least):
        return f"{value}, not above {least:g}" if is_above else f"{value}, not {least:g} or more"
    return ""


def _annotation(scenes: SceneData, path: Path) -> VideoAnnotation:
    """Return the labels of scenes. Raises DatasetError: shots and scenes must be contiguous from frame 0 to the end of
    the video, and scenes begin and end with their shots. With the setting ``start`` shots may begin later, with
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
    is_broken = firsts[0] != 0 or ends[-1] != len(shots) or (firsts[1:] != ends[:-1]).any()
    is_outside = firsts[0] < 0 or ends[-1] > len(shots) or (firsts[1:] < ends[:-1]).any()
    if (is_outside if gaps else is_broken) or (ends <= firsts).any():
        raise fault(path, f"its scenes do not follow one another from shot 0 to the end of its {len(shots)} shots")
    for scene_ranges, ranges in ((scene_frames, shot_frames), (scene_times, shot_times)):
        should_be = np.column_stack([ranges[firsts, 0], ranges[ends - 1, 1]])
        wrong = np.flatnonzero((np.abs(scene_ranges - should_be) > TIME_ROUNDING).any(axis=1))
        if len(wrong):
            (start, end), m = scene_ranges[wrong[0]], wrong[0]
            raise fault(path, f"scene {m}, {start} to {end}, is not where its shots {firsts[m]} to {ends[m] - 1} are")
    credits = credit_cuts(shots, scenes.segments)
    return VideoAnnotation(
        PureWindowsPath(video.path).stem if video.id is None else video.id,
        path,
        shots=shot_frames,
        shots_seconds=shot_times,
        # a scene that was dropped as too short ends at the next scene
        scene_end=labels_from_ends(sorted({*ends - 1, *firsts[firsts > 0] - 1, len(shots) - 1}), len(shots)),
        frame_rate=video.frame_rate,
        scores=np.array([shot.score for shot in shots]),
        pins=np.array(
            [_PINS[credits.get(i) if shot.pinned is None else shot.pinned] for i, shot in enumerate(shots)], np.int8
        ),
        part=bool(start or end),
    )


def _frames_and_times(
    items: Sequence[Shot] | Sequence[Scene], unit: str, path: Path, gaps_allowed: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Check and return the frame ranges and times of shots or scenes."""
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
