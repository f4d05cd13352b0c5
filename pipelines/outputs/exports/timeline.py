"""What formats have in common: their content, XML, and clips on a timeline with a constant frame rate, whose frames are
counted by SMPTE timecodes (SMPTE ST 12-1): ``round(rate)`` in a second, 24 at 23.976."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path, PureWindowsPath
from typing import NamedTuple
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from pipelines.results.finding import name_of, one_line, video_name
from pipelines.scenes import SEGMENTS, Scene, SceneData, Shot, Transition, VideoFacts
from pipelines.video.inputs import video_at


class Content(NamedTuple):
    """The text of a file, and one line each on why its readers may refuse it or show other times."""

    text: str
    warnings: tuple[str, ...] = ()


def listed(scenes: SceneData, shots: bool) -> Sequence[Scene | Shot]:
    """Return the scenes of a video in order, or with ``shots`` its shots; gaps only at dropped scenes."""
    return scenes.shots if shots else scenes.scenes


def score_of(item: Scene | Shot) -> float:
    """Return the confidence of a scene, or the probability that a scene ends with the shot."""
    return item.score if isinstance(item, Shot) else item.confidence


def add_elements(parent: Element, contents: Mapping[str, object]) -> None:
    """Add elements to ``parent``, by tag, each with a text, or with elements if its content is a mapping."""
    for tag, content in contents.items():
        element = ElementTree.SubElement(parent, tag)
        if isinstance(content, Mapping):
            add_elements(element, content)
        else:
            element.text = str(content)


def document(root: Element, doctype: str = "") -> str:
    """Return the document of a root element, indented."""
    ElementTree.indent(root)
    head = '<?xml version="1.0" encoding="UTF-8"?>\n' + f"<!DOCTYPE {doctype}>\n" * bool(doctype)
    return f"{head}{ElementTree.tostring(root, encoding='unicode')}\n"


_WHOLE_RATES = (24, 25, 30, 48, 50, 60, 96, 100, 120)
_STANDARD_RATES = (
    *map(Fraction, _WHOLE_RATES),
    *(Fraction(base * 1000, 1001) for base in _WHOLE_RATES if base not in (25, 50, 100)),
)
"""Frames per second that editing tools have: 23.976 to 60, and for some formats their doubles."""
DROP_RATES = (Fraction(30_000, 1001), Fraction(60_000, 1001))  # rates at which drop-frame timecode exists
_SAME_RATE = 5e-4  # rates that differ by less are the same: 23.98 means 23.976, but 24 does not
_FINEST_GRID = 240  # a finer one is the clock of the file, not of its frames


def timeline_rate(scenes: SceneData, fastest: int = 120) -> tuple[Fraction, bool]:
    """Return the standard rate, of at most ``fastest``, at which editing tools show a video, and whether its frames
    keep their numbers: if that is the video's constant rate. Else it is the nearest multiple of the grid of its frames
    (15 as 30), or part of it (24 and 30 as 30; 120 as 60 in an EDL), or the nearest in whole frames."""
    declared = scenes.video.frame_rate
    rates = [rate for rate in _STANDARD_RATES if rate <= fastest]
    nearest = min(rates, key=lambda rate: abs(float(rate) - declared))
    if abs(declared / float(nearest) - 1) <= _SAME_RATE and (
        _is_steady(scenes, float(nearest)) or _is_steady(scenes, declared)
    ):
        return nearest, True
    grid = scenes.video.base_rate or (declared if _is_steady(scenes, declared) else math.inf)
    least = 0.99 * min(declared, fastest / 2)  # averages are inexact
    on_grid = [rate for rate in rates if rate > least and grid <= _FINEST_GRID and _is_multiple(float(rate), grid)]
    whole_rates = [rate for rate in rates if rate.denominator == 1]
    return min(on_grid or whole_rates, key=lambda rate: abs(float(rate) - declared)), False


def _is_multiple(a: float, b: float) -> bool:
    """Return whether the greater of two rates is a multiple of the other."""
    ratio = max(a, b) / min(a, b)
    return abs(ratio / round(ratio) - 1) <= _SAME_RATE


def smpte(frame: int, rate: Fraction, drop: bool) -> str:
    """Return the timecode ``HH:MM:SS:FF`` of a frame; with ``drop`` ``HH:MM:SS;FF``, without the first two labels (four
    at 59.94) of each minute except every tenth. After 24 hours labels begin again."""
    base = round(rate)
    if drop:
        dropped = base // 15
        minute = 60 * base - dropped
        tens, rest = divmod(frame, 10 * minute + dropped)
        # The first minute of ten has all its labels.
        frame += dropped * (9 * tens + max(0, rest - dropped) // minute)
    seconds, frames = divmod(frame, base)
    minutes, seconds = divmod(seconds, 60)
    return f"{minutes // 60 % 24:02d}:{minutes % 60:02d}:{seconds:02d}{';' if drop else ':'}{frames:02d}"


def parse_smpte(text: str, base: int) -> tuple[int, bool] | None:
    """Return the frame of a timecode with ``base`` labels per second, and whether it is drop-frame; None for any other
    text, and for labels that drop-frame leaves out. Phones also count drop-frame at 30.00 frames per second."""
    match = re.fullmatch(r"([0-9]{2}):([0-5][0-9]):([0-5][0-9])([:;.])([0-9]{2,3})", text.strip())
    if match is None:
        return None
    hours, minutes, seconds, frames = (int(match[group]) for group in (1, 2, 3, 5))
    drop = match[4] != ":"
    if frames >= base or (drop and base % 30):
        return None
    dropped = base // 15 if drop else 0
    if minutes % 10 and seconds == 0 and frames < dropped:
        return None
    minutes += 60 * hours
    return (60 * minutes + seconds) * base + frames - dropped * (minutes - minutes // 10), drop


@dataclass(frozen=True)
class Clip:
    """One scene or shot: a half-open range of frames, its first frame on the timeline (without gaps), and its score."""

    number: int
    name: str
    start: int
    end: int
    offset: int
    score: float
    transition: Transition | None = None  # at its end, in frames of the video

    @property
    def length(self) -> int:
        """Return the length in frames."""
        return self.end - self.start


@dataclass(frozen=True)
class Timeline:
    """Clips in a row without gaps; they do not cover the video if scenes were dropped or only a part was read."""

    name: str  # of the video, without extension
    rate: Fraction  # frames per second, exact
    drop: bool  # whether its timecodes are drop-frame
    timecode: int | None  # of the video's first frame, in frames; None if it has none
    source_start: int  # the same, or 0
    length: int  # frames of the video
    clips_length: int  # frames of all clips
    clips: tuple[Clip, ...]  # in order
    marks: tuple[tuple[int, str], ...]  # frames at which scenes or shots, and segments such as credits, begin; names
    video: VideoFacts  # with sound and timecode from the video file, if it exists
    file: str  # its name, without its folder
    uri: str
    channels: int  # of all sound tracks; 0 if there are none or they are unknown
    pixel_aspect: Fraction  # width of a pixel as shown, divided by its height
    warnings: tuple[str, ...]  # one line each, on the rate of the project, and a timecode that it does not have

    def label(self, frame: int) -> str:
        """Return the timecode of a frame, counted from 0."""
        return smpte(frame, self.rate, self.drop)


def timeline_of(scenes: SceneData, shots: bool = False, fastest: int = 120, whole: bool = False) -> Timeline:
    """Lay out the timeline of the scenes of a video, or of its shots, with at most ``fastest`` frames per second; with
    ``whole``, for markers, the video is the only clip. Frames keep their numbers if the frame rate is constant and
    standard; else cuts are placed by their times. Raises VideoError if the file is not a video."""
    video, path = scenes.video, Path(scenes.video.path)
    if video_at(path, video):
        # Start-up time: FFmpeg.
        from pipelines.video.containers import open_container, video_facts, video_stream

        with open_container(path) as container:
            stream = video_stream(path, container)
            if first := next(container.decode(stream), None):
                video = replace(video, **video_facts(container, stream, first))
        scenes = replace(scenes, video=video)
    rate, is_own = timeline_rate(scenes, fastest)
    places = _places(scenes, None if is_own else rate)
    labels = round(video.frame_rate)
    start_timecode = parse_smpte(video.start_timecode or "", labels)
    warnings = []
    if not is_own:
        steady = video.base_rate is None and _is_steady(scenes, video.frame_rate)
        kind = f"{video.frame_rate:.5g} frames per second" if steady else "a variable frame rate"
        own = f"the timeline has {float(rate):.5g} frames per second: set this rate in the project"
        warnings.append(f"{path}: has {kind}; {own}")
    if video.start_timecode is not None and start_timecode is None:
        text = one_line(video.start_timecode)
        warnings.append(f"{path}: its timecode {text} does not exist at {labels} frames per second, and is left out")
    clips: list[Clip] = []
    offset = 0
    for item in listed(scenes, shots):
        start, end = places[item.start_frame], places[item.end_frame]
        last = item if isinstance(item, Shot) else scenes.shots[item.end_shot - 1]
        clips.append(Clip(item.index + 1, name_of(item), start, end, offset, score_of(item), last.transition))
        offset += end - start
    names = {clip.start: clip.name for clip in clips}  # editing tools have one marker a frame
    for part in scenes.segments:
        frame = places.get(part.start_frame, part.start_frame if is_own else round(part.start * float(rate)))
        names.setdefault(frame, SEGMENTS[part.kind])
    file, length = video_name(scenes), places[scenes.shots[-1].end_frame]
    if whole:
        clips, offset = [Clip(1, file, 0, length, 0, 1.0)], length
    windows = PureWindowsPath(video.path)  # a scenes.json made there is read here
    uri = windows if windows.is_absolute() and not path.is_absolute() else path.absolute()
    # Frames per second of both are whole labels per second, or both 1000/1001 of them.
    timecode = None if start_timecode is None else round(Fraction(start_timecode[0] * round(rate), labels))
    return Timeline(
        name=PureWindowsPath(file).stem,
        rate=rate,
        drop=rate in DROP_RATES and (start_timecode is None or start_timecode[1]),
        timecode=timecode,
        source_start=timecode or 0,
        length=length,
        clips_length=offset,
        clips=tuple(clips),
        marks=tuple(sorted(names.items())),
        video=video,
        file=file,
        uri=uri.as_uri(),
        channels=video.sound_channels or 0,
        pixel_aspect=Fraction(video.pixel_aspect or 1).limit_denominator(1000),
        warnings=tuple(warnings),
    )


def _places(scenes: SceneData, rate: Fraction | None) -> Mapping[int, int]:
    """Return the frame on a timeline of each end of a shot: the nearest at a ``rate``, or without one the same."""
    if rate is None:
        return {frame: frame for shot in scenes.shots for frame in (shot.start_frame, shot.end_frame)}
    last = round(scenes.shots[0].start * float(rate))
    places = {scenes.shots[0].start_frame: last}
    for shot in scenes.shots:
        last = max(last + 1, round(shot.end * float(rate)))  # no shot may vanish between two frames of the timeline
        places[shot.end_frame] = last
    return places


def _is_steady(scenes: SceneData, rate: float) -> bool:
    """Return whether shots are at their frames, counted at a constant rate."""
    return (
        all(abs(shot.start * rate - shot.start_frame) <= 0.5 for shot in scenes.shots)
        # The duration of the last frame is not always known.
        and abs(scenes.shots[-1].end * rate - scenes.shots[-1].end_frame) <= 1.0
    )
