"""Reads a ``scenes.json`` into a :class:`SceneList`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path, PureWindowsPath
from typing import Any

from pipelines.datasets.parsing import (
    MAX_POSITION,
    MAX_SCENES_BYTES,
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
from pipelines.scenes import TRANSITIONS, Scene, SceneList, Shot, Transition, VideoFacts, timecode
from pipelines.video.films import film_at, fingerprint


def read_scene_list(path: Path, film: Path | None = None) -> SceneList:
    """Read a ``scenes.json``, version 1. The path of its video is ``film``, or the file with its fingerprint at its
    relative or absolute path, or as the file has it where there is none.

    Raises DatasetError when it is not a scenes.json, of another version, or inconsistent, VideoError where there is no
    file ``film``."""
    if film is not None and not is_file(film):
        raise VideoError(f"{film}: no such film")
    content = read_json(path, MAX_SCENES_BYTES)
    annotation_of(content, path)  # checks for gaps, overlaps, and scenes that do not begin and end with their shots
    settings = content.get("settings", {})
    if not isinstance(settings, dict):
        raise fault(path, "its settings are not an object")

    def share(entry: Any, key: str, of: str) -> float:
        value = number_at(entry, key, of, path)
        if not 0 <= value <= 1:
            raise fault(path, f"the {key} of {of} is {value}, which is not between 0 and 1")
        return value

    def transition(entry: dict[str, Any], of: str) -> Transition | None:
        if "transition" not in entry:
            return None
        how, of = entry["transition"], f"the transition of {of}"
        if (kind := member(how, "kind", of, path)) not in TRANSITIONS:
            raise fault(path, f"the kind of {of} is {kind!r}, which is none of {', '.join(TRANSITIONS)}")
        frames = (int_at(how, key, of, path) for key in ("start_frame", "end_frame"))
        return Transition(kind, *frames, *(number_at(how, key, of, path) for key in ("start", "end")))

    def name(entry: dict[str, Any], of: str) -> str | None:
        given = as_text(entry["name"], f"the name of {of}", path) if "name" in entry else None
        if given == "":
            raise fault(path, f"the name of {of} is empty; leave it out")
        return given

    def text(entry: dict[str, Any], key: str) -> str | None:
        return as_text(entry[key], f"the {key} of the video", path) if key in entry else None

    def optional(entry: dict[str, Any], key: str, most: int) -> int | None:
        if key not in entry:
            return None
        value = int_at(entry, key, "the video", path)
        if not 0 <= value <= most:
            raise fault(path, f"the {key} of the video is {value}, which is not between 0 and {most}")
        return value

    video = content["video"]
    facts = VideoFacts(
        path=as_text(member(video, "path", "the video", path), "the path of the video", path),
        width=int_at(video, "width", "the video", path),
        height=int_at(video, "height", "the video", path),
        duration=number_at(video, "duration", "the video", path),
        frames=int_at(video, "frames", "the video", path),
        frame_rate=number_at(video, "frame_rate", "the video", path),
        id=text(video, "id"),
        fingerprint=text(video, "fingerprint"),
        start_timecode=text(video, "start_timecode"),
        sound_tracks=optional(video, "sound_tracks", 512),
        sound_channels=optional(video, "sound_channels", 512),
        sound_rate=optional(video, "sound_rate", MAX_POSITION),
    )
    if film is None:
        facts = replace(facts, path=_film(path, facts, text(video, "relative_path")))
    else:
        facts = replace(facts, path=str(film), fingerprint=fingerprint(film))
    shots = tuple(
        Shot(
            i,
            entry["start_frame"],
            entry["end_frame"],
            float(entry["start"]),
            float(entry["end"]),
            share(entry, "score", f"shot {i}"),
            transition(entry, f"shot {i}"),
        )
        for i, entry in enumerate(content["shots"])
    )
    scenes = tuple(
        Scene(
            index=m,
            start_shot=entry["start_shot"],
            end_shot=entry["end_shot"],
            start_frame=entry["start_frame"],
            end_frame=entry["end_frame"],
            start=float(entry["start"]),
            end=float(entry["end"]),
            start_timecode=timecode(entry["start"]),
            end_timecode=timecode(entry["end"]),
            confidence=share(entry, "confidence", f"scene {m}"),
            name=name(entry, f"scene {m}"),
        )
        for m, entry in enumerate(content["scenes"])
    )
    return SceneList(facts, settings, shots, scenes)


def _film(file: Path, video: VideoFacts, relative: str | None) -> str:
    """Where the film is: from the folder of ``file`` first, so that both can be moved together."""
    named, beside = Path(video.path), file.parent / PureWindowsPath(video.path).name
    for path in (named if relative is None else file.parent / relative, named, file.parent / named, beside):
        if film_at(path, video):
            return str(path.parent.resolve() / path.name)
    return video.path
