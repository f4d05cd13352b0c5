"""Reader of `scenes.json`, with the types and limits of its JSON Schema, ``pipelines/scenes.schema.json``.

The schema describes what is written. The reader also accepts unknown fields, missing timecodes and missing settings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PureWindowsPath
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipelines.datasets import (
    INSIDE,
    NOT_PINNED,
    SCENE_END,
    VideoAnnotation,
    check_ranges,
    convert,
    fault,
    labels_from_ends,
    parse_json,
    quote,
    read_json,
)
from pipelines.errors import VideoError
from pipelines.files import MOST_RESULT_BYTES, is_file, read_regular
from pipelines.scenes import (
    SCHEMA,
    SCHEMA_VERSION,
    Line,
    Scene,
    SceneData,
    Segment,
    Shot,
    VideoFacts,
    credit_cuts,
    shot_ranges,
    timecode,
)
from pipelines.video.inputs import fingerprint, video_at

TIME_ROUNDING = 0.002  # maximum difference in seconds between equal times in a scenes.json, due to rounding

_PINS = {None: NOT_PINNED, True: SCENE_END, False: INSIDE}
_SCHEMA = json.loads((Path(__file__).parents[1] / "scenes.schema.json").read_text("utf-8"))


@dataclass(frozen=True)
class _Video(VideoFacts):
    relative_path: str = ""


@dataclass(frozen=True, kw_only=True)
class _Scene(Scene):
    start_timecode: str = ""  # for people: both follow from the seconds
    end_timecode: str = ""
    lines: tuple[Line, ...] = ()


@dataclass(frozen=True)
class _Content:
    video: _Video
    shots: tuple[Shot, ...]
    scenes: tuple[_Scene, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    lines: tuple[Line, ...] = ()
    segments: tuple[Segment, ...] = ()


def read_scenes_json(path: Path) -> VideoAnnotation:
    """Read a `scenes.json`, version 1, as labels: shots in frames and seconds, their labels, scores and pins. The id is
    the video's own, or else the stem of its file name. Raises DatasetError, see `read_scene_list`."""
    return _annotation(_scene_data(read_json(path, MOST_RESULT_BYTES), path)[0], path)


def read_scene_list(path: Path | str) -> SceneData:
    """Read a ``scenes.json``, version 1. The path of its video is the file with its fingerprint, searched for at its
    relative and absolute path, or else as in the file. Raises DatasetError if it is not a scenes.json, of another
    version, or inconsistent."""
    return parse_scene_list(read_regular(Path(path), MOST_RESULT_BYTES), Path(path))


def parse_scene_list(text: bytes, path: Path) -> SceneData:
    """Return the scenes of a ``scenes.json`` that may be written to ``path``, see `read_scene_list`."""
    scenes, relative = _scene_data(parse_json(text, path), path)
    _annotation(scenes, path)  # checks that shots and scenes fit together
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


def _scene_data(content: Any, path: Path) -> tuple[SceneData, str]:
    """Return the content of a scenes.json, each field checked alone, and the relative path of its video."""
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        raise fault(path, f"is not a scenes.json: its 'schema' is not '{SCHEMA}'")
    if (version := content.get("version")) != SCHEMA_VERSION:
        raise fault(path, f"is a scenes.json of version {version}; this bassl reads version {SCHEMA_VERSION}")
    file = convert(content, _Content, path)
    video, scenes, lines = convert(vars(file.video), VideoFacts, path), list[Scene](), list(file.lines)
    for scene in file.scenes:
        codes = {"start_timecode": timecode(scene.start), "end_timecode": timecode(scene.end)}
        scenes.append(convert(vars(scene) | codes, Scene, path))
        lines += scene.lines
    lines.sort(key=lambda line: line.start)
    _check_limits(msgspec.to_builtins(file), _SCHEMA, "$", path)
    for i, line in enumerate(lines):
        if line.end < line.start:
            raise fault(path, f"line {i} ends at {line.end}, but it begins at {line.start}")
    for i, segment in enumerate(file.segments):
        if segment.end_frame <= segment.start_frame or segment.end <= segment.start:
            raise fault(path, f"segment {i} is empty, or ends before it begins")
    data = SceneData(video, file.settings, file.shots, tuple(scenes), tuple(lines), file.segments)
    return data, file.video.relative_path


def _check_limits(value: Any, schema: dict[str, Any], place: str, path: Path) -> None:
    """Check values by the limits in their JSON Schema. Raises DatasetError, which names the ``place``."""
    schema = _SCHEMA["$defs"]["lines"] if "$ref" in schema else schema
    if isinstance(value, dict):
        for name, part in schema.get("properties", {}).items():
            _check_limits(value.get(name), part, f"{place}.{name}", path)
    elif isinstance(value, tuple):
        for i, item in enumerate(value):
            _check_limits(item, schema["items"], f"{place}[{i}]", path)
    elif isinstance(value, str):
        if value not in schema.get("enum", (value,)) or len(value) < schema.get("minLength", 0):
            raise fault(path, f"{quote(value)} is not {' or '.join(schema.get('enum', ['a text']))} - at {place}")
    elif "maximum" in schema and value is not None:
        least, most = schema.get("minimum", 0), schema["maximum"]
        if not least <= value <= most:
            raise fault(path, f"{value} is not from {least:,} to {most:,} - at {place}")
        if "exclusiveMinimum" in schema and value == 0:
            raise fault(path, f"{value} is not above 0 - at {place}")


def _annotation(scenes: SceneData, path: Path) -> VideoAnnotation:
    """Return the labels of scenes. Raises DatasetError unless shots and scenes are contiguous from frame 0 (with the
    setting ``start`` from another) to the end of the video, with ``drop_short`` but for gaps between scenes."""
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
    if [item.index for item in items] != list(range(len(items))):
        raise fault(path, f"the indexes of its {unit}s do not count from 0")
    frames = np.array([(item.start_frame, item.end_frame) for item in items], np.int64).reshape(-1, 2)
    times = np.array([(item.start, item.end) for item in items], np.float64).reshape(-1, 2)
    for ranges in (frames, times):
        check_ranges(ranges, unit, path)
        gaps = np.flatnonzero(ranges[1:, 0] - ranges[:-1, 1] > TIME_ROUNDING)
        if len(gaps) and not gaps_allowed:
            i = gaps[0] + 1
            raise fault(path, f"{unit} {i} starts at {ranges[i, 0]}, but {unit} {i - 1} ends at {ranges[i - 1, 1]}")
    return frames, times
