"""Copying a video without encoding: a clip of each scene, from the key frame before it, or the whole with chapters.

A video is read twice: first the times of its frames, to plan the packets of each clip, then all packets. Between, the
first packets of the clips are tried, because some that are marked as key frames cannot be decoded without those before.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from itertools import accumulate, chain
from pathlib import Path
from typing import Any, NamedTuple

import av

from pipelines.errors import VideoError
from pipelines.progress import ReportProgress
from pipelines.scenes import SceneData
from pipelines.video.containers import check_length
from pipelines.video.decoding import first_frame_pts
from pipelines.video.muxing import FAR_SOUND, SAME_TIME, SLACK, CopyWriter, PacketReader, ffmpeg_errors
from pipelines.video.runs import restart_test

_NO_TIMES = "so its scenes cannot be copied; give `exact=True`"
_HINT = " without encoding; give `exact=True`"


class FramePacket(NamedTuple):
    """A packet of the video stream. Times are in seconds from the video's first frame."""

    time: float  # when its frame is shown
    is_key: bool  # whether decoding can begin here, according to the file
    sound_time: float  # when the sound of a clip begins whose first packet this is
    dts: int | None = None  # when it is decoded, in ticks of the stream; None if the file does not say
    ready: float | None = None  # from when on frames are decoded correctly if decoding begins here; None: not tried


@dataclass(frozen=True)
class ClipRange:
    """The packets of a clip. Times are in seconds from the video's first frame."""

    first: int  # its first packet of the video stream, counted in file order
    leading: int  # the last packet left out after the first because it is shown earlier; the first if there is none
    last: int  # its last packet of the video stream
    start: float  # when the frame of the first packet is shown
    sound_start: float  # when its sound begins
    end: float  # when its scene ends
    late: float  # seconds after `end` at which its last frame ends


def plan_clips(
    frames: Sequence[FramePacket], spans: Sequence[tuple[float, float]], frame_rate: float
) -> list[ClipRange]:
    """Choose the packets of each clip so that every frame of its scene can be decoded.

    Args:
        frames: the packets of the video stream in file order.
        spans: start and end of each scene in seconds, both in ascending order; scenes may overlap.
        frame_rate: for the length of a clip's last frame.
    """
    by_time = sorted(range(len(frames)), key=lambda number: frames[number].time)
    times = [frames[number].time for number in by_time]
    # The last packet of all frames shown so far, by time; the latest time of all packets so far, in file order.
    last_packets = list(accumulate(by_time, max))
    latest_times = list(accumulate((frame.time for frame in frames), max))
    keys = [number for number, frame in enumerate(frames) if frame.is_key]
    clips = []
    for start, end in spans:
        before = bisect_right(keys, start + SAME_TIME, key=lambda number: frames[number].time)
        first = 0 if start < SAME_TIME else next(filter(partial(_is_ready, frames, start), keys[:before][::-1]), 0)
        is_final = end > times[-1] + SAME_TIME
        count = len(frames) if is_final else bisect_left(times, end - SAME_TIME)
        last = last_packets[count - 1]
        # Frames of the scene may depend on frames shown later, which are then included, and so are all shown before.
        while (needed := last_packets[bisect_right(times, latest_times[last]) - 1]) > last:
            last = needed
        latest = latest_times[last]
        late = 0.0 if is_final or latest < end - SAME_TIME else latest + 1 / frame_rate - end
        later = (n for n in range(first + 1, last + 1) if frames[n].time > frames[first].time - SAME_TIME)
        leading = next(later, last + 1) - 1
        clips.append(ClipRange(first, leading, last, frames[first].time, frames[first].sound_time, end, late))
    return clips


def _is_ready(frames: Sequence[FramePacket], time: float, number: int) -> bool:
    ready = frames[number].ready
    return ready is None or ready < time + SAME_TIME


def clips_of_frame(clips: Sequence[ClipRange], number: int, time: float) -> list[int]:
    """Return the clips that have a packet of the video stream: several if scenes overlap, none in a gap between."""
    from_last = bisect_left(clips, number, key=lambda clip: clip.last)
    to_first = bisect_right(clips, number, key=lambda clip: clip.first)
    # A frame shown before the key frame that it follows in the file (open GOP) depends on frames before the clip.
    return [k for k in range(from_last, to_first) if time > clips[k].start - SAME_TIME]


def clips_at(clips: Sequence[ClipRange], time: float) -> range:
    """Return the clips that have sound, or a subtitle, of this time."""
    return range(
        bisect_right(clips, time, key=lambda clip: clip.end),
        bisect_right(clips, time, key=lambda clip: clip.sound_start),
    )


def copy_scenes(
    video: Path, scenes: SceneData, paths: Sequence[Path], progress: ReportProgress
) -> list[tuple[float, float]]:
    """Copy each scene to its file, from the last key frame from which its first frame can be decoded, without encoding.

    Frames shown before that key frame but stored after it (open GOP) depend on the previous key frame and are left out.
    With reordered frames (B-frames), a few frames of the next scene may be at the end.

    Return the seconds by which each clip begins before its scene, and ends after it. Raise VideoError if the video does
    not match ``scenes``, or cannot be copied.
    """
    first, frame_rate = first_frame_pts(video, _NO_TIMES), scenes.video.frame_rate
    frames = _read_frames(video, first)
    check_length(video, max((frame.time + 1 / frame_rate for frame in frames), default=0.0), scenes)
    spans = [(scene.start, scene.end) for scene in scenes.scenes]
    clips = plan_clips(frames, spans, frame_rate)
    numbers = {clip.first for clip in clips}
    while any(frames[clip.first].ready is None for clip in clips):
        _try_packets(video, frames, numbers | {0}, first)
        clips = plan_clips(frames, spans, frame_rate)
        numbers = {number for number, frame in enumerate(frames) if frame.is_key}  # if one was none, others may be
    first_keys: dict[tuple[int, int], float] = {}  # clip and further video track: the time of its first key frame
    writers: dict[int, CopyWriter] = {}
    closed, number, latest = 0, -1, -math.inf  # clips closed; the newest frame, and its time
    with PacketReader(video) as source, ffmpeg_errors(video, _HINT):
        tracks = source.tracks()
        slack = SLACK if len(tracks) > 1 else 0.0
        try:
            for packet in source.packets(tracks):
                is_frame = packet.stream.index == source.stream.index
                if is_frame:
                    number += 1
                    latest = frames[number].time
                    progress("reading", latest, scenes.video.duration)
                    targets: Sequence[int] = clips_of_frame(clips, number, latest)
                else:
                    stamp = packet.pts if packet.pts is not None else packet.dts
                    if stamp is None:
                        raise VideoError(f"{video}: has sound without timestamps; give `exact=True`")
                    time = float(stamp * packet.time_base - first)
                    if packet.stream.type == "subtitle":  # may be long: placed by its start, and ends with the clip
                        targets = [k for k in clips_at(clips, time) if k in writers]
                    elif packet.stream.type == "video":
                        targets = [k for k in clips_at(clips, time) if k >= closed]
                        if packet.is_keyframe:
                            first_keys = {(k, packet.stream.index): time for k in targets} | first_keys
                        targets = [k for k in targets if time >= first_keys.get((k, packet.stream.index), math.inf)]
                    else:
                        targets = clips_at(clips, time + float((packet.duration or 0) * packet.time_base) / 2)
                for k in targets:
                    if k < closed:
                        raise VideoError(FAR_SOUND.format(video))
                    if k not in writers:
                        start = first + Fraction(clips[k].start).limit_denominator(10**9)
                        writers[k] = CopyWriter(paths[k], source, tracks, start)
                        if not k:
                            source.warn_left_out(writers[k].copied)
                    if is_frame:
                        # The first is decoded when the last left out after it would be: a gap would count as frames.
                        packet.dts = frames[clips[k].leading if number == clips[k].first else number].dts
                    writers[k].add(packet, clips[k].end - time if packet.stream.type == "subtitle" else None)
                while closed in writers and number > clips[closed].last and latest > clips[closed].end + slack:
                    writers.pop(closed).close()
                    closed += 1
        finally:
            for writer in writers.values():
                writer.close()
    return [
        (max(0.0, round(scene.start - clip.start, 6)), round(clip.late, 6))
        for scene, clip in zip(scenes.scenes, clips, strict=True)
    ]


def _read_frames(video: Path, first: Fraction) -> list[FramePacket]:
    frames: list[FramePacket] = []
    latest = float("-inf")
    with PacketReader(video) as source, ffmpeg_errors(video, _HINT):
        is_restart = restart_test(source.stream)
        for packet in source.packets([source.stream]):
            if packet.pts is None:
                raise VideoError(f"{video}: has frames without timestamps, {_NO_TIMES}")
            time = float(packet.pts * packet.time_base - first)
            if time < latest - SLACK:
                raise VideoError(f"{video}: its timestamps restart in the middle, {_NO_TIMES}")
            latest = max(latest, time)
            # In AVI all tracks begin at zero: sound begins when the first frame is decoded.
            sound = packet.pts if source.kind != "avi" or packet.dts is None else packet.dts
            sound_time = float(sound * packet.time_base - first)
            ready = time if is_restart is not None and is_restart(packet) else None
            frames.append(FramePacket(time, packet.is_keyframe, sound_time, packet.dts, ready))
    return frames


def _try_packets(video: Path, frames: list[FramePacket], numbers: set[int], first: Fraction) -> None:
    """Begin decoding at some packets, in turn, and note from when on frames are decoded correctly: in ``frames``, whose
    first is always correct. A packet that comes before another one is done is left for the next call.

    H.264 may refresh a part of each frame at a time; its decoder returns frames from the first that is whole. Other
    decoders also return what they could not decode, so that the first frame must be a key frame; unless they do not
    mark those, as in the first frame of the video.
    """
    with PacketReader(video, threads=1) as source, ffmpeg_errors(video, _HINT):
        decoder, tick = source.stream.codec_context, source.stream.time_base or Fraction(0)
        decoder.thread_count = 1
        trial, marks_keys = None, True
        for number, packet in enumerate(chain(source.packets([source.stream]), [None])):
            if (
                trial is None
                and packet is not None
                and number in numbers
                and (not number or frames[number].ready is None)
            ):
                trial = number
            if trial is None:
                continue
            with suppress(av.FFmpegError):
                if (frame := next(iter(decoder.decode(packet)), None)) is None and packet is not None:
                    continue
                ready = math.inf if frame is None else frames[trial].time
                if frame is not None and decoder.name == "h264" and (stamp := source.stamp(frame)) is not None:
                    ready = max(ready, float(stamp * tick - first))
                elif frame is not None and marks_keys and not frame.key_frame:
                    ready = math.inf
                if not trial:
                    marks_keys, ready = ready < math.inf, -math.inf
                frames[trial] = frames[trial]._replace(ready=ready)
                trial = None
                decoder.flush_buffers()
        if trial is not None:  # the decoder has an error at the end
            frames[trial] = frames[trial]._replace(ready=math.inf if trial else -math.inf)


def copy_with_chapters(
    video: Path, scenes: SceneData, titles: Sequence[str], path: Path, progress: ReportProgress
) -> None:
    """Copy video, sound, subtitles and attachments of a video to a file with a chapter for each scene. Raise
    VideoError if the video does not match ``scenes``, or cannot be copied."""
    first = first_frame_pts(video, "so it cannot have chapters")
    with PacketReader(video) as source, ffmpeg_errors(video):
        tracks = source.tracks()
        # Players count from the start of the file, which may be the start of its sound.
        start, tick = Fraction(source.container.start_time or 0, av.time_base), Fraction(1, 1_000_000)
        chapters: list[Any] = []
        for scene, title in zip(scenes.scenes, titles, strict=True):
            span = [max(0, round((first - start + Fraction(time)) / tick)) for time in (scene.start, scene.end)]
            clock = {"start": span[0] if scene.start else 0, "end": span[1], "time_base": tick}
            chapters.append({"id": scene.index + 1, **clock, "metadata": {"title": title}})
        copy = CopyWriter(path, source, tracks, start, chapters)
        try:
            source.warn_left_out(copy.copied)
            end = 0.0
            for packet in source.packets(tracks):
                if packet.stream.index == source.stream.index and packet.pts is not None:
                    end = max(end, float(packet.pts * packet.time_base - first))
                    progress("reading", end, scenes.video.duration)
                copy.add(packet)
        finally:
            copy.close()
    check_length(video, end + 1 / scenes.video.frame_rate, scenes)
