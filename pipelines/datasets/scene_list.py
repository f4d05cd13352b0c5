"""Reading a ``scenes.json`` into a :class:`SceneList`."""

from __future__ import annotations

from dataclasses import MISSING, fields, replace
from pathlib import Path, PureWindowsPath
from typing import Any, get_type_hints

from pipelines.datasets.parsing import (
    MAX_POSITION,
    MAX_SCENES_BYTES,
    as_int,
    as_number,
    as_text,
    fault,
    int_at,
    member,
    number_at,
    read_json,
)
from pipelines.datasets.scene_files import annotation_of
from pipelines.errors import VideoError
from pipelines.files import is_file
from pipelines.options import kind_of
from pipelines.scenes import TRANSITIONS, Scene, SceneList, Shot, Transition, VideoFacts, timecode
from pipelines.video.inputs import fingerprint, video_at

# The reader of each fact of a video, by its type; facts with a default may be missing.
_BY_TYPE = {str: as_text, int: as_int, float: as_number}
_READERS = {name: _BY_TYPE[kind_of(hint)[0]] for name, hint in get_type_hints(VideoFacts).items()}
_MOST = {"sound_tracks": 512, "sound_channels": 512, "sound_rate": MAX_POSITION}


def read_scene_list(path: Path | str) -> SceneList:
    """Read a ``scenes.json``, version 1. The path of its video is the file with its fingerprint, searched for at its
    relative and absolute path; if there is none, the path in the file.

    Raises DatasetError if it is not a scenes.json, of another version, or inconsistent."""
    path = Path(path)
    content = read_json(path, MAX_SCENES_BYTES)
    annotation_of(content, path)  # checks everything about shots and scenes
    settings = content.get("settings", {})
    if not isinstance(settings, dict):
        raise fault(path, "its settings are not an object")
    video = _video(content["video"], path)
    shots = tuple(_shot(i, entry, path) for i, entry in enumerate(content["shots"]))
    scenes = tuple(_scene(m, entry, path) for m, entry in enumerate(content["scenes"]))
    return SceneList(video, settings, shots, scenes)


def with_video(scenes: SceneList, video: Path | None) -> SceneList:
    """The scenes with the path and fingerprint of ``video``, or unchanged if it is None. Raises VideoError if there is
    no such file."""
    if video is None:
        return scenes
    if not is_file(video):
        raise VideoError(f"{video}: no such video")
    return replace(scenes, video=replace(scenes.video, path=str(video.absolute()), fingerprint=fingerprint(video)))


def _video(entry: dict[str, Any], path: Path) -> VideoFacts:
    facts: dict[str, Any] = {}
    for field in fields(VideoFacts):
        if field.name in entry or field.default is MISSING:
            value = member(entry, field.name, "the video", path)
            facts[field.name] = _READERS[field.name](value, f"the {field.name} of the video", path)
    for name, most in _MOST.items():
        if not 0 <= facts.get(name, 0) <= most:
            raise fault(path, f"the {name} of the video is {facts[name]}, not between 0 and {most}")
    relative = as_text(entry.get("relative_path", ""), "the relative_path of the video", path)
    video = VideoFacts(**facts)
    return replace(video, path=_video_path(path, video, relative))


def _shot(i: int, entry: dict[str, Any], path: Path) -> Shot:
    of = f"shot {i}"
    start, end = float(entry["start"]), float(entry["end"])
    transition = _transition(entry["transition"], f"the transition of {of}", path) if "transition" in entry else None
    return Shot(i, entry["start_frame"], entry["end_frame"], start, end, _share(entry, "score", of, path), transition)


def _transition(entry: Any, of: str, path: Path) -> Transition:
    if (kind := member(entry, "kind", of, path)) not in TRANSITIONS:
        raise fault(path, f"the kind of {of} is {kind!r}, not one of {', '.join(TRANSITIONS)}")
    frames = (int_at(entry, key, of, path) for key in ("start_frame", "end_frame"))
    return Transition(kind, *frames, *(number_at(entry, key, of, path) for key in ("start", "end")))


def _scene(m: int, entry: dict[str, Any], path: Path) -> Scene:
    of = f"scene {m}"
    name = as_text(entry["name"], f"the name of {of}", path) if "name" in entry else None
    if name == "":
        raise fault(path, f"the name of {of} is empty; leave it out")
    return Scene(
        index=m,
        start_shot=entry["start_shot"],
        end_shot=entry["end_shot"],
        start_frame=entry["start_frame"],
        end_frame=entry["end_frame"],
        start=float(entry["start"]),
        end=float(entry["end"]),
        start_timecode=timecode(entry["start"]),
        end_timecode=timecode(entry["end"]),
        confidence=_share(entry, "confidence", of, path),
        name=name,
    )


def _share(entry: dict[str, Any], key: str, of: str, path: Path) -> float:
    value = number_at(entry, key, of, path)
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
