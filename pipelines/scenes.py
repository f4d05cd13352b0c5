"""Shots, scenes, and their file ``scenes.json``.

``scenes.schema.json`` describes each field of the file, with its limits; `pipelines.datasets.scenes_json` reads it.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, TypeVar

from pipelines.errors import BasslError, count
from pipelines.files import MOST_RESULT_BYTES, relative, write_atomically

SCHEMA = "bassl.scenes"
SCHEMA_VERSION = 1

MOST_SHOTS = 100_000  # in one video; the same limit for scenes; a longer list means damage
MAX_POSITION = 2**31 - 1  # largest valid frame number, count or time in seconds; more means damage
MOST_SOUND = 512  # tracks, and channels of all tracks

NO_VIDEO = "the video was not found, or was changed since; name it with `video`"  # follows a path


@dataclass(frozen=True)
class VideoFacts:
    """Facts of a video, measured by decoding it; None if a file does not have them."""

    path: str  # absolute; in older files as it was given
    width: int  # pixels as shown, after the rotation that phones write
    height: int  # pixels as shown
    duration: float  # seconds that were decoded; if a part of the video was read, its end
    frames: int  # decoded; if a part of the video was read, up to its end
    frame_rate: float  # nominal frames per second; times never come from it
    id: str | None = None  # in keyframe stores, indices and labels
    fingerprint: str | None = None  # see `pipelines.video.inputs.fingerprint`
    base_rate: float | None = None  # slowest rate with all frames of a variable rate
    modified: float | None = None  # when the file was last written, seconds since 1970
    start_timecode: str | None = None  # SMPTE timecode of the first frame
    pixel_aspect: float | None = None  # width of a pixel as shown, divided by its height, if it is not square
    rotation: int | None = None  # degrees by which players turn the stored frames clockwise, if they do
    sound_tracks: int | None = None
    sound_channels: int | None = None  # of all sound tracks
    sound_rate: int | None = None  # samples per second of the first sound track


@dataclass(frozen=True)
class Transition:
    """How a shot ends.

    Its half-open range, in frames and seconds, contains the frames that belong to both shots or to neither; it is empty
    for a cut. The shot ends in its middle.
    """

    kind: str  # cut, dissolve, fade or wipe
    start_frame: int
    end_frame: int
    start: float
    end: float


@dataclass(frozen=True)
class Shot:
    """One shot: half-open ranges in frames and seconds."""

    index: int  # from 0
    start_frame: int
    end_frame: int
    start: float
    end: float
    score: float  # probability that a scene ends with this shot
    transition: Transition | None = None  # how it ends; None at the end of the video, or if the detector does not tell
    pinned: bool | None = None  # an answer that no setting changes: whether a scene ends with this shot
    pinned_by: str | None = None  # source of an answer that is not by people: program

    @property
    def is_pinned_by_hand(self) -> bool:
        """Return whether a person said if a scene ends with it."""
        return self.pinned is not None and self.pinned_by is None


@dataclass(frozen=True)
class Scene:
    """One scene: half-open ranges in shots, frames and seconds."""

    index: int  # from 0
    start_shot: int
    end_shot: int
    start_frame: int
    end_frame: int
    start: float
    end: float
    start_timecode: str  # HH:MM:SS.mmm
    end_timecode: str
    confidence: float  # lower score of its two borders; 1 if both are certain: pinned, or the video's beginning or end
    name: str | None = None  # by people or automatic
    named_by: str | None = None  # source of a name that is not by people: words, credits or program

    @property
    def is_named_by_hand(self) -> bool:
        """Return whether a person named it."""
        return self.name is not None and self.named_by is None

    @property
    def lacks_name(self) -> bool:
        """Return whether it has no name by people or by a program: other names are made again."""
        return self.name is None or self.named_by in ("words", "credits")

    def spread_shots(self, most: int) -> list[int]:
        """Return at most so many of its shots, evenly spread."""
        shots = self.end_shot - self.start_shot
        number = min(shots, most)
        return [self.start_shot + (2 * i + 1) * shots // (2 * number) for i in range(number)]


@dataclass(frozen=True)
class Line:
    """What is said: one subtitle."""

    start: float
    end: float
    text: str  # without markup, on one line


SEGMENTS = {  # kinds of segments, with their names for people
    "black": "black",
    "silence": "silence",
    "bars": "color bars",
    "opening_credits": "opening credits",
    "end_credits": "end credits",
    "intro": "intro",
    "outro": "outro",
    "recap": "recap",
}
REPEATS = ("intro", "outro", "recap")
"""Kinds of segments that episodes of a series share."""


@dataclass(frozen=True)
class Segment:
    """A part of the video of one kind: half-open ranges in frames and seconds. Segments of different kinds may
    overlap."""

    kind: str  # of `SEGMENTS`
    start_frame: int
    end_frame: int
    start: float
    end: float

    @property
    def is_credits(self) -> bool:
        """Return whether it is opening or end credits, or a part that a series repeats."""
        return self.kind in ("opening_credits", "end_credits", *REPEATS)


@dataclass(frozen=True, repr=False)
class SceneData:
    """The scenes of a video, with its shots, settings and facts."""

    video: VideoFacts
    settings: Mapping[str, Any]  # everything that determined this result, including the version of bassl
    shots: tuple[Shot, ...]  # in order, without gaps
    scenes: tuple[Scene, ...]  # in order; they cover the shots, except for scenes that were dropped as too short
    lines: tuple[Line, ...] = ()  # subtitles, by their start
    segments: tuple[Segment, ...] = ()  # black, credits and the like, by their start
    warnings: tuple[str, ...] = ()  # one line each, such as damage in the video; not part of the file
    notes: tuple[str, ...] = field(default=(), compare=False)  # one line each, how a file was made; not part of it

    def __repr__(self) -> str:
        counts = f"{count(len(self.scenes), 'scene')}, {count(len(self.shots), 'shot')}"
        return f"{type(self).__name__}({Path(self.video.path).name!r}, {counts}, {timecode(self.video.duration)})"

    def lines_of(self, scene: Scene | Shot) -> tuple[Line, ...]:
        """Return the subtitles that begin in a scene or shot."""
        first, stop = (bisect_left(self.lines, time, key=lambda line: line.start) for time in (scene.start, scene.end))
        return self.lines[first:stop]

    def to_dict(self, folder: Path | None = None) -> dict[str, Any]:
        """Return the content of ``scenes.json``, version 1; with ``folder`` also the video's path relative to it."""
        content: dict[str, Any] = {
            "schema": SCHEMA,
            "version": SCHEMA_VERSION,
            "video": entry(self.video),
            "settings": dict(self.settings),
            "shots": [entry(shot) for shot in self.shots],
            "scenes": [entry(scene) for scene in self.scenes],
        }
        inside: set[Line] = set()
        for scene, place in zip(self.scenes, content["scenes"], strict=True):
            if lines := self.lines_of(scene):
                place["lines"] = [asdict(line) for line in lines]
                inside.update(lines)
        if outside := [asdict(line) for line in self.lines if line not in inside]:
            content["lines"] = outside
        if self.segments:
            content["segments"] = [asdict(segment) for segment in self.segments]
        video = Path(self.video.path)
        if folder is not None and video.is_absolute():
            place = relative(video.parent.resolve() / video.name, folder.resolve())
            content["video"]["relative_path"] = place.as_posix()
        return content

    def save(self, path: Path | str) -> None:
        """Write ``scenes.json`` atomically, with the path of the video also relative to it. Raises BasslError."""
        path = Path(path)
        write_atomically(path, encode_json(self.to_dict(path.parent), path))


def encode_json(content: Mapping[str, Any], path: Path) -> bytes:
    """Return the content of ``scenes.json`` as the bytes of a file. Raises BasslError for more than are read."""
    encoded = json.dumps(content, indent=1, allow_nan=False).encode() + b"\n"
    if len(encoded) > MOST_RESULT_BYTES:
        size = f"{len(encoded) / 2**20:.0f} MB, and {MOST_RESULT_BYTES // 2**20} MB are the most"
        raise BasslError(f"{path}: would have {size}; take a part of the video with `start` and `end`")
    return encoded


def entry(item: VideoFacts | Shot | Scene) -> dict[str, Any]:
    """Return a video, shot or scene as in ``scenes.json``: without optional fields that are None, such as a name."""
    optional = {field.name for field in fields(item) if field.default is None}
    return {key: value for key, value in asdict(item).items() if value is not None or key not in optional}


def timecode(seconds: float) -> str:
    """Return seconds as ``HH:MM:SS.mmm``."""
    milliseconds = round(seconds * 1000)
    minutes, milliseconds = divmod(milliseconds, 60_000)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{milliseconds // 1000:02d}.{milliseconds % 1000:03d}"


def parse_time(text: str, frame_rate: float | None = None) -> float:
    """Return the seconds of a number, also ``10s``, or of a timecode: ``H:MM:SS``, ``MM:SS``, ``HH:MM:SS.mmm``,
    ``HH:MM:SS:FF``, or drop-frame ``HH:MM:SS;FF``. ``frame_rate``, in frames per second, is needed if a timecode ends
    in a frame number. Raises ValueError; the message continues a sentence that begins with the text, such as "is
    neither seconds nor ..."."""
    if re.fullmatch(r"[+-]?[0-9]{1,12}(\.[0-9]*)?([eE][+-]?[0-9]{1,3})?s?", text):
        return float(text.rstrip("s"))
    if match := re.fullmatch(r"(?:([0-9]{1,6}):)?([0-5]?[0-9]):([0-5]?[0-9](?:[.,][0-9]{1,9})?)", text):
        return 3600.0 * int(match[1] or 0) + 60.0 * int(match[2]) + float(match[3].replace(",", "."))
    if match := re.fullmatch(r"([0-9]{1,4}):([0-5][0-9]):([0-5][0-9])([:;])([0-9]{1,3})", text):
        if frame_rate is None:
            raise ValueError("ends in a frame number; specify the frame rate")
        # Timecode counts whole frames: at 23.976 a second of timecode is 24 frames. Drop-frame leaves out the first two
        # labels (of 30 per second) of each minute but every tenth.
        nominal = round(frame_rate)
        hours, minutes, seconds, frame = (int(match[part]) for part in (1, 2, 3, 5))
        minutes += 60 * hours
        dropped = nominal // 15 * (minutes - minutes // 10) if match[4] == ";" and nominal % 30 == 0 else 0
        if frame >= nominal:
            raise ValueError(f"has a frame number beyond the {nominal} frames of a second")
        return ((minutes * 60 + seconds) * nominal - dropped) / frame_rate + frame / frame_rate
    raise ValueError("is neither seconds nor a timecode")


def group_shots(shots: Sequence[Shot], ends: Sequence[int]) -> tuple[Scene, ...]:
    """Group all shots of a video into scenes; ``ends`` are the indices of the shots that end scenes, in order,
    including the last shot."""
    scenes = []
    for index, (before, end) in enumerate(pairwise([-1, *ends])):
        borders = [shots[i] for i in (before, end) if 0 <= i < len(shots) - 1]
        first, last = shots[before + 1], shots[end]
        scenes.append(
            Scene(
                index=index,
                start_shot=before + 1,
                end_shot=end + 1,
                start_frame=first.start_frame,
                end_frame=last.end_frame,
                start=first.start,
                end=last.end,
                start_timecode=timecode(first.start),
                end_timecode=timecode(last.end),
                confidence=min((1.0 if shot.pinned else shot.score for shot in borders), default=1.0),
            )
        )
    return tuple(scenes)


def shot_ranges(scenes: Sequence[Scene]) -> list[tuple[int, int]]:
    """Return each scene's half-open range of shots."""
    return [(scene.start_shot, scene.end_shot) for scene in scenes]


def without_short(scenes: Sequence[Scene], least: float) -> tuple[Scene, ...]:
    """Return the scenes of at least ``least`` seconds, renumbered. Raises BasslError if there are none."""
    kept = [scene for scene in scenes if scene.end - scene.start >= least - 1e-9]
    if not kept:
        raise BasslError(f"no scene has {least:g} seconds or more; leave out `drop_short`, or use a lower `min_scene`")
    return tuple(replace(scene, index=index) for index, scene in enumerate(kept))


def in_credits(shots: Iterable[Shot], segments: Iterable[Segment]) -> list[bool]:
    """Return for each shot whether its middle lies in opening or end credits."""
    credits = sorted((segment.start, segment.end) for segment in segments if segment.is_credits)
    starts = [start for start, _ in credits]
    ends = [-1.0, *accumulate((end for _, end in credits), max)]  # the last end of those that start before a time
    middles = [(shot.start + shot.end) / 2 for shot in shots]
    return [middle < ends[bisect_right(starts, middle)] for middle in middles]


_NEAR_CREDITS = 3.0  # seconds from an end of credits to the nearest cut, at most
_BESIDE_CREDITS = 0.5  # seconds between credits and the black that belongs to them, at most


def credit_cuts(shots: Sequence[Shot], segments: Sequence[Segment]) -> dict[int, bool | None]:
    """Return the cuts that credits decide, by the index of the shot before: True at the outer ends of opening and of
    end credits, with black beside them, where a scene ends unless a person refuses it, and None between two shots
    inside credits."""
    inside = in_credits(shots, segments)
    black = [segment for segment in segments if segment.kind == "black"]
    cuts: dict[int, bool | None] = {i: None for i in range(len(shots) - 1) if inside[i] and inside[i + 1]}
    borders = [shots[0].start, *(shot.end for shot in shots)]
    for kind in dict.fromkeys(one.kind for one in segments if one.is_credits and one.kind != "recap"):
        parts = [segment for segment in segments if segment.kind == kind]
        start, end = min(part.start for part in parts), max(part.end for part in parts)
        start = min((part.start for part in black if part.start < start <= part.end + _BESIDE_CREDITS), default=start)
        end = max((part.end for part in black if part.start - _BESIDE_CREDITS <= end < part.end), default=end)
        for time in (start, end):
            nearest = min(range(len(borders)), key=lambda i: abs(borders[i] - time))
            if 0 < nearest < len(shots) and abs(borders[nearest] - time) <= _NEAR_CREDITS:
                cuts[nearest - 1] = True
    return cuts


S = TypeVar("S", bound=SceneData)


def without_credits(scenes: S) -> S:
    """Return scenes without the shots at their beginning and end whose middle lies in opening or end credits. Scenes
    with only such shots are left out. Indices do not change. Raises BasslError if no scene is left."""
    is_left_out = in_credits(scenes.shots, scenes.segments)
    kept = []
    for scene in scenes.scenes:
        shots = [shot for shot in scenes.shots[scene.start_shot : scene.end_shot] if not is_left_out[shot.index]]
        if shots:
            first, last = shots[0], shots[-1]
            scene = replace(scene, start_shot=first.index, start_frame=first.start_frame, start=first.start)
            scene = replace(scene, end_shot=last.index + 1, end_frame=last.end_frame, end=last.end)
            kept.append(replace(scene, start_timecode=timecode(first.start), end_timecode=timecode(last.end)))
    if not kept:
        raise BasslError(f"{scenes.video.path}: all its scenes are credits; leave `skip_credits` out")
    return replace(scenes, scenes=tuple(kept))
