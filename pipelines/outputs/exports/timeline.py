"""Clips on a timeline with a constant frame rate, and the video that they refer to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path, PureWindowsPath

from pipelines.outputs.exports.segments import segments_of, video_name
from pipelines.outputs.exports.timecode import edit_rate, may_drop, parse_smpte, timecode_base
from pipelines.scenes import SceneList, Transition, VideoFacts
from pipelines.video.inputs import video_at

# Rates that differ by less are the same: 23.98 means 23.976, but 24 does not.
_SAME_RATE = 5e-4


@dataclass(frozen=True)
class Clip:
    """One scene or shot: a half-open range of frames of the video, and its first frame on the timeline, where clips
    follow one another without gap. The score is that of the segment."""

    number: int
    name: str
    start: int
    end: int
    at: int
    score: float
    transition: Transition | None = None  # with which it ends, in frames of the video

    @property
    def length(self) -> int:
        """In frames."""
        return self.end - self.start


@dataclass(frozen=True)
class Timeline:
    """Clips one after the other, without gap; not of all of the video, where scenes were left out or a part was
    read."""

    name: str  # of the video, without ending
    rate: Fraction  # frames per second, exact
    drop: bool  # whether its timecodes are drop-frame
    source_start: int  # the frame that the video's own timecode gives to its first frame; 0 where it has none
    length: int  # frames of the video
    clips: tuple[Clip, ...]  # in order
    video: VideoFacts  # of the video, its sound and timecode as its file says where there is one
    file: str  # its name, without its folder
    uri: str
    markers: tuple[Clip, ...] = ()  # marked ranges of the timeline

    @property
    def clips_length(self) -> int:
        """Frames of all clips."""
        return self.clips[-1].at + self.clips[-1].length

    @property
    def channels(self) -> int:
        """Of the video's sound; 0 where it has none, or nothing is known of it."""
        return self.video.sound_channels or 0

    def with_markers(self) -> Timeline:
        """The same with the video as the only clip, and a marker for each clip that there was."""
        return replace(self, clips=(Clip(1, self.file, 0, self.length, 0, 1.0),), markers=self.clips)


def timeline_of(scenes: SceneList, shots: bool = False, fastest: int | None = None) -> Timeline:
    """A timeline of the scenes of a video, or of its shots, with at most ``fastest`` frames per second. If the video
    has a constant frame rate, frames are those that were counted; if it varies, editing tools show the video at a
    constant rate by its timestamps, and so the cuts are placed by their times. Raises VideoError if the file is not a
    video."""
    rate = edit_rate(scenes.video.frame_rate)
    if fastest is not None:
        rate = edit_rate(float(rate / -(-timecode_base(rate) // fastest)))
    places = timeline_frames(scenes, rate)
    video, path, windows = scenes.video, Path(scenes.video.path), PureWindowsPath(scenes.video.path)
    if video_at(path, video):
        from pipelines.video.containers import container_facts, open_container  # start-up time: FFmpeg

        with open_container(path) as container:
            video = replace(video, **container_facts(container))
    start = parse_smpte(video.start_timecode or "", rate)
    clips: list[Clip] = []
    for each in segments_of(scenes, shots):
        first, last = places[each.start_frame], places[each.end_frame]
        at = clips[-1].at + clips[-1].length if clips else 0
        clips.append(Clip(each.number, each.name, first, last, at, each.score, each.transition))
    return Timeline(
        name=PureWindowsPath(video_name(scenes)).stem,
        rate=rate,
        drop=may_drop(rate) if start is None else start[1],
        source_start=0 if start is None else start[0],
        length=places[scenes.shots[-1].end_frame],
        clips=tuple(clips),
        video=video,
        file=video_name(scenes),
        # an absolute path of Windows may be read elsewhere
        uri=windows.as_uri() if windows.is_absolute() and not path.is_absolute() else path.absolute().as_uri(),
    )


def timeline_frames(scenes: SceneList, rate: Fraction) -> Mapping[int, int]:
    """For the first frame of each shot, and the end of the last: its frame in a video with a constant rate.

    The same frame if the video has that rate; else the nearest one by its timestamp.
    """
    if _runs_at(scenes, rate):
        return {frame: frame for shot in scenes.shots for frame in (shot.start_frame, shot.end_frame)}
    last = round(scenes.shots[0].start * float(rate))
    places = {scenes.shots[0].start_frame: last}
    for shot in scenes.shots:
        last = max(last + 1, round(shot.end * float(rate)))  # no shot may vanish between two frames of the timeline
        places[shot.end_frame] = last
    return places


def _runs_at(scenes: SceneList, rate: Fraction) -> bool:
    declared = scenes.video.frame_rate
    if abs(declared / float(rate) - 1) > _SAME_RATE:
        return False
    return any(
        all(abs(shot.start * steady - shot.start_frame) <= 0.5 for shot in scenes.shots)
        # The duration of the last frame is not always known.
        and abs(scenes.shots[-1].end * steady - scenes.shots[-1].end_frame) <= 1.0
        for steady in (float(rate), declared)
    )
