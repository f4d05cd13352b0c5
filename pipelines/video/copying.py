"""Copying a video without encoding: a clip of each scene, from the key frame before it, or the whole with chapters.

The times of all frames are read first, to choose the packets of each clip. The start of a written clip is decoded: if
the scene's first frame does not come out, the clip is written again from an earlier key frame.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import av
import numpy as np
from numpy.typing import NDArray

from pipelines.errors import VideoError
from pipelines.progress import ReportProgress
from pipelines.scenes import SceneData
from pipelines.video.clips import ClipFile, ClipRange, Frame, Source, ffmpeg_errors, read_packets, write_clips
from pipelines.video.containers import open_container, video_stream
from pipelines.video.decoding import CLOCK_NOISE, first_frame_time

_EVER = 10**9  # seconds


class FramePackets(NamedTuple):
    """The packets of a video stream, in file order. Where recordings were joined, time continues."""

    times: NDArray[np.float64]  # (N,) when the frame of each is shown, in seconds from the video's first frame
    keys: NDArray[np.bool_]  # (N,) whether decoding can begin here, according to the file
    pts: NDArray[np.int64]  # (N,) when it is shown, in ticks of the stream
    first: float  # when the video's first frame is shown, in seconds on the file's clock
    end: float  # when the last frame is shown that the container does not hide
    same_time: float  # half the shortest distance of two frames: times that differ by less, in seconds, are equal
    offsets: Sequence[float] = (0.0,)  # seconds to add to the timestamps of each recording


def copy_scenes(
    video: Path, scenes: SceneData, paths: Sequence[Path], progress: ReportProgress
) -> list[tuple[float, float]]:
    """Copy each scene to its file, from the last key frame from which its first frame can be decoded; with B-frames, a
    few frames of the next scene may be at the end. Return the seconds by which each clip begins before its scene, and
    ends after it. Raise VideoError if the video cannot be copied, or lacks a scene."""
    rate, spans = scenes.video.frame_rate, [(scene.start, scene.end) for scene in scenes.scenes]
    frames = read_frames(video, scenes, "so its scenes cannot be copied; give `exact=True`", to_avi=True)
    clips: dict[int, ClipRange] = {}
    back, unwritten = 0, list(range(len(spans)))
    while unwritten:
        clips |= zip(unwritten, plan_clips(frames, [spans[k] for k in unwritten], back), strict=True)
        _copy(video, frames, [(paths[k], clips[k]) for k in unwritten], scenes, progress)
        delays = {k: spans[k][0] - clips[k].start + frames.same_time for k in unwritten if clips[k].first}
        unwritten = [k for k, delay in delays.items() if not _shows_frame(paths[k], delay)]
        back = 2 * back + 1
    differences = []
    for clip, (start, end) in zip(clips.values(), spans, strict=True):
        latest = float(frames.times[clip.first : clip.last + 1].max())
        late = latest + 1 / rate - end if latest > end - frames.same_time else 0.0
        differences.append((max(0.0, round(start - clip.start, 6)), round(late, 6)))
    return differences


def copy_with_chapters(
    video: Path, scenes: SceneData, titles: Sequence[str], path: Path, progress: ReportProgress
) -> None:
    """Copy a video to a file with a chapter for each scene. Raise VideoError if it cannot be copied."""
    frames = read_frames(video, scenes, "so it cannot have chapters")
    chapters, tick = [], Fraction(1, 1_000_000)
    for scene, title in zip(scenes.scenes, titles, strict=True):
        start = frames.first + scene.start if scene.start else -_EVER  # the first begins with the file
        span = {"start": start / tick, "end": (frames.first + scene.end) / tick}
        chapters.append({"id": scene.index + 1, "time_base": tick, "metadata": {"title": title}} | span)
    whole = plan_clips(frames, [(0.0, _EVER)])[0]._replace(start=-_EVER)
    _copy(video, frames, [(path, whole)], scenes, progress, chapters)


def read_frames(video: Path, scenes: SceneData, consequence: str, to_avi: bool = False) -> FramePackets:
    """Read the times of all frames of a video from its packets. AVI only has the times at which frames are decoded,
    which suffice for copies ``to_avi``. Raise VideoError, which states the ``consequence``, if a frame has no
    timestamp, or an edit list joins parts of the video."""
    pts, keys, hidden = array("q"), bytearray(), bytearray()
    starts = [0]  # of recordings that were joined
    latest_pts = latest_dts = -math.inf
    with Source(video) as source, ffmpeg_errors(video):
        tick, is_avi = float(source.stream.time_base or 1), source.kind == "avi"
        lacks_times = is_avi and not to_avi and source.stream.codec_context.has_b_frames
        for packet in read_packets(source.container, source.stream):
            shown = packet.dts if is_avi else packet.pts
            if shown is None or lacks_times:
                raise VideoError(f"{video}: has frames without timestamps, {consequence}")
            decoded = shown if packet.dts is None else packet.dts
            steps_back = (latest_dts - decoded) * tick > CLOCK_NOISE
            if steps_back or (packet.is_keyframe and decoded <= latest_dts and shown <= latest_pts):
                starts.append(len(pts))
                latest_pts = shown
            latest_pts, latest_dts = max(shown, latest_pts), decoded
            pts.append(shown)
            keys.append(packet.is_keyframe)
            hidden.append(packet.is_discard)
    first, length = first_frame_time(video), 1 / scenes.video.frame_rate
    ticks, is_shown, offsets = np.array(pts), ~np.array(hidden, bool), [0.0]
    if not np.all(is_shown | (ticks <= ticks[is_shown].min()) | (ticks > ticks[is_shown].max())):
        raise VideoError(f"{video}: its edit list joins parts of it, {consequence}")
    times = ticks * tick - first
    for start, end in pairwise([*starts[1:], len(pts)]):
        move = int(ticks[:start].max() - ticks[start:end].min()) + round(length / tick)
        ticks[start:end] += move
        if move * tick > CLOCK_NOISE:  # else times overlap a little, as in decoding
            times[start:end] += move * tick
            offsets.append(move * tick)
    distances = np.diff(np.sort(ticks)) * tick
    same_time = float(np.min(distances[distances > 0], initial=1.0)) / 2
    latest = float(times[is_shown].max())
    return FramePackets(times, np.array(keys, bool), ticks, first, latest, same_time, offsets)


def plan_clips(frames: FramePackets, spans: Sequence[tuple[float, float]], back: int = 0) -> list[ClipRange]:
    """Choose the packets of each clip so that every frame between the start and end of its scene, in seconds, can be
    decoded: from the last key frame up to the start, or so many key frames further ``back``."""
    times, same, order = frames.times, frames.same_time, np.argsort(frames.times, kind="stable")
    shown, keys = times[order], np.flatnonzero(frames.keys)
    # The last packet of all frames shown so far, by time; the latest time of all packets so far, in file order.
    last_packets, latest_times = np.maximum.accumulate(order), np.maximum.accumulate(times)
    clips = []
    for start, end in spans:
        before = keys[times[keys] < start + same]
        first = int(before[-1 - back]) if start > same and len(before) > back else 0
        last = int(last_packets[np.searchsorted(shown, min(end - same, frames.end + same)) - 1])
        # Frames of the scene may depend on frames shown later, which are then included, and so are all shown before.
        while (needed := int(last_packets[np.searchsorted(shown, latest_times[last], "right") - 1])) > last:
            last = needed
        # Increasing, without a gap where frames shown before the first are left out, and none after it is shown.
        kept = np.maximum(frames.pts[first : last + 1], frames.pts[first])
        decoded = np.sort(kept) - np.max(np.sort(kept) - kept)
        clips.append(ClipRange(first, last, float(times[first]), end, decoded))
    return clips


def _copy(
    video: Path,
    frames: FramePackets,
    clips: Sequence[tuple[Path, ClipRange]],
    scenes: SceneData,
    progress: ReportProgress,
    chapters: Sequence[Any] | None = None,
) -> None:
    """Copy the packets of clips to their files; with ``chapters``, of the whole video."""

    def read() -> Iterator[Frame]:
        for number, packet in enumerate(read_packets(container, video_stream(video, container))):
            source.now, packet.pts = float(frames.times[number]), int(frames.pts[number])
            progress("reading", source.now, scenes.video.duration)
            yield Frame(source.now, number, packet)

    with (
        Source(video, frames.first, frames.offsets) as source,
        open_container(video) as container,
        ffmpeg_errors(video),
    ):
        files = (ClipFile(path, source, clip, chapters) for path, clip in clips)
        write_clips(files, read(), source.items(source.tracks))
        source.warn_left_out()


def _shows_frame(path: Path, delay: float) -> bool:
    """Return whether the first frame decoded from a clip is whole, and shown within ``delay`` seconds of its start."""
    attribute, start = "dts" if path.suffix == ".avi" else "pts", None
    with open_container(path) as container:
        stream = video_stream(path, container)
        stream.codec_context.thread_count = 1
        for packet in chain(read_packets(container, stream), [None]):
            start = getattr(packet, attribute) if start is None else start
            with suppress(av.FFmpegError):
                for frame in stream.codec_context.decode(packet):
                    # Decoders of H.264 wait for a frame that is whole; others also return what they could not decode.
                    is_whole = not frame.is_corrupt and (frame.key_frame or stream.codec_context.name == "h264")
                    return is_whole and (getattr(frame, attribute) - start) * stream.time_base < delay
    return False
