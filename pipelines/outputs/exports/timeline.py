"""Clips on a timeline with a constant frame rate, and SMPTE timecodes (SMPTE ST 12-1), which count its frames."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path, PureWindowsPath

from pipelines.outputs.exports.segments import segments_of, video_name
from pipelines.scenes import SceneData, Transition, VideoFacts
from pipelines.video.inputs import video_at

_NTSC_BASES = (24, 30, 48, 60, 120)


def edit_rate(frame_rate: float) -> Fraction:
    """The nearest rate that editing tools support: whole frames per second, or 1000/1001 of 24, 30, 48, 60 or 120.

    >>> edit_rate(23.976), edit_rate(25.0)
    (Fraction(24000, 1001), Fraction(25, 1))
    """
    candidates = [Fraction(max(1, round(frame_rate))), *(Fraction(base * 1000, 1001) for base in _NTSC_BASES)]
    return min(candidates, key=lambda rate: abs(float(rate) - frame_rate))


def timecode_base(rate: Fraction) -> int:
    """The number of frames in a second of timecode: 24 at 23.976, 30 at 29.97."""
    return round(rate)


def may_drop(rate: Fraction) -> bool:
    """Whether drop-frame timecode exists for a rate: only for 29.97 and 59.94."""
    return rate.denominator == 1001 and timecode_base(rate) in (30, 60)


def smpte(frame: int, rate: Fraction, drop: bool) -> str:
    """The timecode ``HH:MM:SS:FF`` of a frame; with ``drop`` ``HH:MM:SS;FF``. Drop-frame leaves out the first two
    labels (four at 59.94) of each minute except every tenth, so that labels keep up with the clock; no frame is lost.
    Raises ValueError for ``drop`` at a rate without drop-frame timecode."""
    base = timecode_base(rate)
    if drop:
        if not may_drop(rate):
            raise ValueError(f"there is no drop-frame timecode at {rate} frames per second")
        dropped = base // 15
        minute = 60 * base - dropped
        tens, rest = divmod(frame, 10 * minute + dropped)
        # The first minute of ten has all its labels.
        frame += dropped * (9 * tens + max(0, rest - dropped) // minute)
    seconds, frames = divmod(frame, base)
    minutes, seconds = divmod(seconds, 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{seconds:02d}{';' if drop else ':'}{frames:02d}"


def parse_smpte(text: str, rate: Fraction) -> tuple[int, bool] | None:
    """Inverse of :func:`smpte`: the frame, and whether the timecode is drop-frame; None for any other text, and for
    labels that drop-frame leaves out."""
    match = re.fullmatch(r"([0-9]{2}):([0-5][0-9]):([0-5][0-9])([:;.])([0-9]{2,3})", text.strip())
    if match is None:
        return None
    hours, minutes, seconds, frames = (int(match[group]) for group in (1, 2, 3, 5))
    base, drop = timecode_base(rate), match[4] != ":"
    if frames >= base or (drop and not may_drop(rate)):
        return None
    dropped = base // 15 if drop else 0
    if minutes % 10 and seconds == 0 and frames < dropped:
        return None
    minutes += 60 * hours
    return (60 * minutes + seconds) * base + frames - dropped * (minutes - minutes // 10), drop


# Rates that differ by less are the same: 23.98 means 23.976, but 24 does not.
_SAME_RATE = 5e-4


@dataclass(frozen=True)
class Clip:
    """One scene or shot: a half-open range of frames of the video, its first frame on the timeline (which has no gaps),
    and the score of the segment."""

    number: int
    name: str
    start: int
    end: int
    at: int
    score: float
    transition: Transition | None = None  # at its end, in frames of the video

    @property
    def length(self) -> int:
        """In frames."""
        return self.end - self.start


@dataclass(frozen=True)
class Timeline:
    """Clips in a row without gaps; they do not cover the video if scenes were dropped or only a part was read."""

    name: str  # of the video, without extension
    rate: Fraction  # frames per second, exact
    drop: bool  # whether its timecodes are drop-frame
    source_start: int  # the timecode of the video's first frame, in frames; 0 if it has none
    length: int  # frames of the video
    clips: tuple[Clip, ...]  # in order
    video: VideoFacts  # with sound and timecode from the video file, if it exists
    file: str  # its name, without its folder
    uri: str
    markers: tuple[Clip, ...] = ()  # marked ranges of the timeline

    @property
    def clips_length(self) -> int:
        """Frames of all clips."""
        return self.clips[-1].at + self.clips[-1].length

    @property
    def channels(self) -> int:
        """Of the video's sound; 0 if it has none or is unknown."""
        return self.video.sound_channels or 0

    def with_markers(self) -> Timeline:
        """A timeline with the video as the only clip, and a marker for each clip of this one."""
        return replace(self, clips=(Clip(1, self.file, 0, self.length, 0, 1.0),), markers=self.clips)


def timeline_of(scenes: SceneData, shots: bool = False, fastest: int | None = None) -> Timeline:
    """The timeline of the scenes of a video, or of its shots, with at most ``fastest`` frames per second. If the frame
    rate is constant, frames keep their numbers; if it varies, cuts are placed by their times, because editing tools
    show such a video at a constant rate by its timestamps. Raises VideoError if the file is not a video."""
    rate = edit_rate(scenes.video.frame_rate)
    if fastest is not None:
        rate = edit_rate(float(rate / -(-timecode_base(rate) // fastest)))
    places = timeline_frames(scenes, rate)
    video, path, windows = scenes.video, Path(scenes.video.path), PureWindowsPath(scenes.video.path)
    if video_at(path, video):
        from pipelines.video.containers import container_facts, open_container  # start-up time: FFmpeg

        with open_container(path) as container:
            video = replace(video, **container_facts(container))
    start_timecode = parse_smpte(video.start_timecode or "", rate)
    clips: list[Clip] = []
    at = 0
    for segment in segments_of(scenes, shots):
        start, end = places[segment.start_frame], places[segment.end_frame]
        clips.append(Clip(segment.number, segment.name, start, end, at, segment.score, segment.transition))
        at += end - start
    return Timeline(
        name=PureWindowsPath(video_name(scenes)).stem,
        rate=rate,
        drop=may_drop(rate) if start_timecode is None else start_timecode[1],
        source_start=0 if start_timecode is None else start_timecode[0],
        length=places[scenes.shots[-1].end_frame],
        clips=tuple(clips),
        video=video,
        file=video_name(scenes),
        # an absolute Windows path may be read on another system
        uri=windows.as_uri() if windows.is_absolute() and not path.is_absolute() else path.absolute().as_uri(),
    )


def timeline_frames(scenes: SceneData, rate: Fraction) -> Mapping[int, int]:
    """Frames on a timeline of constant rate for the start of each shot and the end of the last: the same frame if the
    video has that rate, else the nearest by timestamp."""
    if _has_rate(scenes, rate):
        return {frame: frame for shot in scenes.shots for frame in (shot.start_frame, shot.end_frame)}
    last = round(scenes.shots[0].start * float(rate))
    places = {scenes.shots[0].start_frame: last}
    for shot in scenes.shots:
        last = max(last + 1, round(shot.end * float(rate)))  # no shot may vanish between two frames of the timeline
        places[shot.end_frame] = last
    return places


def _has_rate(scenes: SceneData, rate: Fraction) -> bool:
    declared = scenes.video.frame_rate
    if abs(declared / float(rate) - 1) > _SAME_RATE:
        return False
    return any(
        all(abs(shot.start * steady - shot.start_frame) <= 0.5 for shot in scenes.shots)
        # The duration of the last frame is not always known.
        and abs(scenes.shots[-1].end * steady - scenes.shots[-1].end_frame) <= 1.0
        for steady in (float(rate), declared)
    )
