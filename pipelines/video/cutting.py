"""Cutting videos: scenes copied from a key frame without encoding, scenes re-encoded to the frame, chapters."""

from __future__ import annotations

import errno
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Literal

import av
import av.filter
import numpy as np
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.codec.context import Flags as CodecFlags
from av.container import InputContainer
from av.packet import Packet
from av.stream import AttachmentStream, Stream
from av.video.frame import VideoFrame

from pipelines.errors import BasslError, VideoError, first_line
from pipelines.progress import ReportProgress
from pipelines.scenes import SceneList
from pipelines.video.clock import CLOCK_NOISE
from pipelines.video.containers import demux, has_own_order, layout_of, open_container
from pipelines.video.decoding import VideoDecoder, check_length, first_time, other_video

# Times that differ by less than this, in seconds, are equal: containers round to milliseconds.
_SAME_TIME = 0.002

# Seconds after its end at which a piece is closed: sound may come later in the file than its frames, but not more.
_SLACK = 10.0

_NO_TIMES = "so it cannot be copied in pieces; give --exact"
_FAR_SOUND = "{}: its sound is interleaved too far from its frames; copy it whole (with --chapters) and cut the copy"

# Frames that each decoding thread holds ready: full frames, which are large.
_QUEUE_LIMIT = 8

# Suffix of copies, by demuxer, for formats that FFmpeg also writes; Matroska takes nearly everything else.
_COPIES = {"mov": ".mp4", "matroska": ".mkv", "mpegts": ".ts", "avi": ".avi", "flv": ".flv", "asf": ".wmv"}
# FFmpeg's muxer, by suffix: it has the name of the demuxer, but those of MP4 and WebM have names of their own.
_MUXERS = {suffix: kind for kind, suffix in _COPIES.items()}
_MUXERS |= {".mp4": "mp4", ".m4v": "mp4", ".mov": "mov", ".webm": "webm"}
_WITH_CHAPTERS = ("mov", "matroska")

# Pixel formats that libx264 encodes; others are converted.
_H264_FORMATS = frozenset(
    "yuv420p yuvj420p yuv422p yuvj422p yuv444p yuvj444p yuv420p10le yuv422p10le yuv444p10le gray gray10le".split()  # noqa: SIM905
)
H264: Mapping[str, str] = {"crf": "18", "preset": "fast"}
"""Options of libx264."""
_AAC_RATES = (96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000, 7350)
_LAYOUTS: Mapping[int, str] = {1: "mono", 2: "stereo", 6: "5.1", 8: "7.1"}

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EIO, errno.EFBIG})


@dataclass(frozen=True)
class Cut:
    """Seconds by which a piece begins before its scene, and ends after it."""

    early: float
    late: float


class _Packets(VideoDecoder):
    """A video as packets: its video stream, all sound tracks, and subtitles."""

    def tracks(self) -> list[Stream]:
        """The video stream, then sound and subtitles."""
        others = (*self.container.streams.audio, *self.container.streams.subtitles)
        return [self.stream, *(stream for stream in others if stream.codec_context is not None)]

    def packets(self, tracks: Sequence[Stream]) -> Iterator[Packet[Stream]]:
        """The packets in file order, up to the first read error, as in decoding.

        Raises:
            VideoError: nothing says when each is shown.
        """
        if self.lacks_times:
            raise VideoError(
                f"{self.path}: AVI does not say when frames are shown that are stored in another order; "
                "convert it to Matroska (mkvmerge -o video.mkv video.avi) and copy that"
            )
        with suppress(av.FFmpegError):
            # Empty packets at the end only flush decoders.
            yield from (packet for packet in demux(self.container, *tracks) if packet.size)


def suffix_for(video: Path, purpose: Literal["copies", "chapters", "encoding"]) -> str:
    """The suffix of a file made from a video. Copies keep the video's format if FFmpeg can write it (for ``chapters``:
    with chapters), else they are ``.mkv``; encoded pieces are ``.mp4`` for MP4 and related formats, else ``.mkv``.

    Raises:
        VideoError: it is not a video.
    """
    with _Packets(video) as source:
        kind, own = source.kind, video.suffix.lower()
    if purpose == "encoding":
        return ".mp4" if kind == "mov" else ".mkv"
    if purpose == "chapters" and kind not in _WITH_CHAPTERS:
        return ".mkv"
    keeps = (kind, own) in {("mov", ".mov"), ("mov", ".m4v"), ("matroska", ".webm")}
    return own if keeps else _COPIES.get(kind, ".mkv")


# --- copies without encoding ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Range:
    """The packets of a scene, ``first`` to ``last``, counted in file order.

    ``start`` is the presentation time of the first and ``end`` the end of the scene, in seconds from the video's first
    frame; ``late`` is the time after ``end`` for which the last is shown.
    """

    first: int
    last: int
    start: float
    end: float
    late: float


def copy_scenes(video: Path, scenes: SceneList, paths: Sequence[Path], progress: ReportProgress) -> list[Cut]:
    """Copy each scene to its file, from the key frame at or before its first frame, without encoding.

    Frames shown before that key frame but stored after it (open GOP) depend on the previous key frame and are left out.
    With reordered frames (B-frames), a few frames of the next scene may be at the end.

    Raises:
        VideoError: the video is not that of ``scenes``, or cannot be copied.
    """
    first = first_time(video, _NO_TIMES)
    with _Packets(video) as source, _writing(video, " without encoding; give --exact"):
        times, keys, sounds = _times(source, first)
    ranges = _ranges(video, scenes, times, keys)
    with _Packets(video) as source, _writing(video, " without encoding; give --exact"):
        _copy(source, first, times, sounds, ranges, paths, lambda t: progress("reading", t, scenes.video.duration))
    return [
        Cut(max(0.0, round(scene.start - piece.start, 6)), round(piece.late, 6))
        for scene, piece in zip(scenes.scenes, ranges, strict=True)
    ]


def _times(source: _Packets, first: Fraction) -> tuple[list[float], list[int], list[float]]:
    """Presentation time of each frame, in file order, the indices of key frames, and for each frame the time at which
    sound begins in a copy that begins with it: in AVI, where all tracks begin at zero, when the frame is decoded."""
    times: list[float] = []
    keys: list[int] = []
    sounds: list[float] = []
    latest = float("-inf")
    for packet in source.packets([source.stream]):
        if packet.pts is None:
            raise VideoError(f"{source.path}: has frames without timestamps, {_NO_TIMES}")
        time = float(packet.pts * packet.time_base - first)
        if time < latest - _SLACK:
            raise VideoError(
                f"{source.path}: its timestamps restart in the middle, so it cannot be copied in pieces; give --exact"
            )
        latest = max(latest, time)
        if packet.is_keyframe:
            keys.append(len(times))
        times.append(time)
        begins = packet.pts if source.kind != "avi" or packet.dts is None else packet.dts
        sounds.append(float(begins * packet.time_base - first))
    return times, keys, sounds


def _ranges(video: Path, scenes: SceneList, times: Sequence[float], keys: Sequence[int]) -> list[_Range]:
    nominal = 1 / scenes.video.frame_rate
    check_length(video, max(times) + nominal if times else 0.0, scenes)
    shown = sorted(range(len(times)), key=times.__getitem__)
    in_order = [times[i] for i in shown]
    # reach: the last position in the file of all frames shown so far; latest: the latest time of all frames stored so
    # far.
    reach = list(accumulate(shown, max))
    latest = list(accumulate(times, max))
    key_times = [times[i] for i in keys]
    ranges = []
    for scene in scenes.scenes:
        at = bisect_right(key_times, scene.start + _SAME_TIME) - 1
        start = 0 if scene.start < _SAME_TIME or at < 0 else keys[at]
        final = scene.end > in_order[-1] + _SAME_TIME
        count = len(times) if final else bisect_left(in_order, scene.end - _SAME_TIME)
        last = reach[count - 1]
        # Reference frames shown later are included; then all frames shown before them must be, too.
        while (closing := reach[bisect_right(in_order, latest[last]) - 1]) > last:
            last = closing
        after = 0.0 if final or latest[last] < scene.end - _SAME_TIME else latest[last] + nominal - scene.end
        ranges.append(_Range(start, last, times[start], scene.end, after))
    return ranges


def _copy(
    source: _Packets,
    first: Fraction,
    times: Sequence[float],
    sounds: Sequence[float],
    ranges: Sequence[_Range],
    paths: Sequence[Path],
    progress: Callable[[float], None],
) -> None:
    firsts, lasts = [r.first for r in ranges], [r.last for r in ranges]
    starts, ends = [r.start for r in ranges], [r.end for r in ranges]
    heard_from = [sounds[r.first] for r in ranges]
    tracks = source.tracks()
    slack = _SLACK if len(tracks) > 1 else 0.0
    opened: dict[int, _Copy] = {}
    closed = 0
    index = -1
    try:
        for packet in source.packets(tracks):
            if packet.stream.index == source.stream.index:
                index += 1
                progress(times[index])
                wanted = range(bisect_left(lasts, index), bisect_right(firsts, index))
                # Shown before the key frame that it follows in the file: it depends on frames that are not in
                # this piece.
                pieces = [k for k in wanted if times[index] > starts[k] - _SAME_TIME]
            else:
                stamp = packet.pts if packet.pts is not None else packet.dts
                if stamp is None:
                    raise VideoError(f"{source.path}: has sound without timestamps; give --exact")
                is_subtitle = packet.stream.type == "subtitle"
                time = float(stamp * packet.time_base - first)
                if not is_subtitle:  # sound is placed by its middle; subtitles, which may be long, by their start
                    time += float((packet.duration or 0) * packet.time_base) / 2
                pieces = list(range(bisect_right(ends, time), bisect_right(heard_from, time)))
                if is_subtitle:
                    pieces = [k for k in pieces if k in opened]
                    if pieces and packet.duration:
                        rest = round((ends[pieces[0]] - time) / packet.time_base)
                        packet.duration = max(1, min(packet.duration, rest))
            for k in pieces:
                if k < closed:
                    raise VideoError(_FAR_SOUND.format(source.path))
                if k not in opened:
                    opened[k] = _Copy(paths[k], source, tracks, first + Fraction(starts[k]).limit_denominator(10**9))
                opened[k].add(packet)
            while closed in opened and index > lasts[closed] and times[index] > ends[closed] + slack:
                opened.pop(closed).close()
                closed += 1
    finally:
        for piece in opened.values():
            piece.close()


class _Copy:
    """Writes a copy: packets unchanged, with timestamps relative to ``start``.

    Subtitles that the format does not support are left out. A start timecode is kept only in a copy of the ``whole``
    video.
    """

    def __init__(
        self, path: Path, source: _Packets, tracks: Sequence[Stream], start: Fraction, whole: bool = False
    ) -> None:
        self._container = av.open(f"file:{path}", "w", format=_MUXERS[path.suffix])
        self._streams: dict[int, Stream] = {}
        self._shifts: dict[int, int] = {}
        for track in tracks:
            try:
                stream = self._container.add_stream_from_template(track, opaque=True)  # to copy needs no encoder
            except ValueError as error:  # PyAV's error for a codec that the format does not support
                if track.type == "subtitle":
                    continue
                hint = "" if whole else "; give --exact"
                raise VideoError(f"{source.path}: cannot be copied ({first_line(error)}){hint}") from error
            stream.metadata.update(_tags(track.metadata))
            stream.disposition = track.disposition
            if source.kind == "mov" and path.suffix != ".mkv" and track.codec_context.name in ("hevc", "prores"):
                # PyAV leaves the tag to the muxer, which takes hev1 for hvc1, and ProRes 422 for 4444.
                stream.codec_context.codec_tag = track.codec_context.codec_tag
            self._streams[track.index] = stream
            if path.suffix != ".avi":  # where every track begins at zero
                self._shifts[track.index] = round(start / track.time_base) if track.time_base else 0
        self._container.metadata.update(_tags(source.container.metadata))
        if whole and "timecode" in source.stream.metadata:
            self._streams[source.stream.index].metadata["timecode"] = source.stream.metadata["timecode"]
        self._ends: dict[int, int] = {}

    def add(self, packet: Packet[Stream]) -> None:
        index = packet.stream.index
        if index not in self._streams:
            return
        copy = Packet(bytes(packet))
        copy.time_base = packet.time_base
        shift = self._shifts.setdefault(index, packet.dts or 0)
        copy.pts = None if packet.pts is None else packet.pts - shift
        copy.dts = None if packet.dts is None else packet.dts - shift
        copy.duration = packet.duration
        copy.is_keyframe = packet.is_keyframe
        for data in packet.iter_sidedata():
            copy.set_sidedata(data)
        copy.stream = self._streams[index]
        if packet.stream.type == "audio" and copy.dts is not None:
            if copy.dts <= self._ends.get(index, copy.dts - 1):  # sound may overlap where recordings were joined
                return
            self._ends[index] = copy.dts
        self._container.mux(copy)

    def set_chapters(self, scenes: SceneList, titles: Sequence[str], first: Fraction) -> None:
        """Make each scene a chapter; ``first`` is the presentation time of the video's first frame."""
        tick = Fraction(1, 1_000_000)
        chapters: list[Any] = []
        for scene, title in zip(scenes.scenes, titles, strict=True):
            start, end = (max(0, round((first + Fraction(time)) / tick)) for time in (scene.start, scene.end))
            span = {"start": start if scene.start else 0, "end": end, "time_base": tick}
            chapters.append({"id": scene.index + 1, **span, "metadata": {"title": title}})
        self._container.set_chapters(chapters)

    def attach(self, attachment: AttachmentStream) -> None:
        """Copy an attached file, such as a font."""
        name = attachment.name or f"attachment-{attachment.index}"
        self._container.add_attachment(name, attachment.mimetype or "application/octet-stream", attachment.data)

    def close(self) -> None:
        self._container.close()


def _tags(metadata: Mapping[str, str]) -> dict[str, str]:
    # The start timecode is wrong in a piece; tags of the muxer are written anew.
    unwanted = {"timecode", "encoder", "major_brand", "minor_version", "compatible_brands", "DURATION"}
    return {key: value for key, value in metadata.items() if key not in unwanted and not key.startswith("_STATISTICS")}


# --- a copy with chapters -------------------------------------------------------------------------------------------


def copy_with_chapters(
    video: Path, scenes: SceneList, titles: Sequence[str], path: Path, progress: ReportProgress
) -> None:
    """Copy video, sound, subtitles and attachments of a video to a file with a chapter for each scene.

    Raises:
        VideoError: the video is not that of ``scenes``, or cannot be copied.
    """
    first = first_time(video, "so it cannot have chapters")
    with _Packets(video) as source, _writing(video):
        tracks = source.tracks()
        covers = [s for s in source.container.streams.video if s.index != source.stream.index and s.codec_context]
        tracks += covers
        # Players count from the start of the file, which may be the start of its sound.
        start = Fraction(source.container.start_time or 0, av.time_base)
        copy = _Copy(path, source, tracks, start, whole=True)
        try:
            copy.set_chapters(scenes, titles, first - start)
            for attachment in source.container.streams.attachments if path.suffix == ".mkv" else ():
                copy.attach(attachment)
            end = 0.0
            for packet in source.packets(tracks):
                if packet.stream.index == source.stream.index and packet.pts is not None:
                    end = max(end, float(packet.pts * packet.time_base - first))
                    progress("reading", end, scenes.video.duration)
                copy.add(packet)
        finally:
            copy.close()
    check_length(video, end + 1 / scenes.video.frame_rate, scenes)


# --- re-encoded scenes ----------------------------------------------------------------------------------------------


def encode_scenes(
    video: Path, scenes: SceneList, paths: Sequence[Path], progress: ReportProgress, options: Mapping[str, str] = H264
) -> list[Cut]:
    """Encode exactly the frames of each scene to its file: H.264 with these options, AAC, upright. Scenes may overlap.

    Frames keep their times, also with a variable frame rate; sound is cut to the sample.

    Raises:
        VideoError: the video is not that of ``scenes``, or no frame can be decoded.
    """
    listed = scenes.scenes
    starts, ends = [scene.start - _SAME_TIME for scene in listed], [scene.end - _SAME_TIME for scene in listed]
    is_part = scenes.settings.get("end") is not None
    part_end = max(ends[-1], scenes.video.duration - _SAME_TIME) if is_part else None
    opened: dict[int, _Encoding] = {}
    closed = frames = 0
    heard_from: float | None = None

    def add_sound(until: float) -> None:
        """Add the samples up to a time to their scenes: the one at their end is open, and so are those before it,
        unless they ended more than the slack ago."""
        for heard, track, part in sound.until(until):
            rate = part.sample_rate
            if closed and heard < listed[closed - 1].end - CLOCK_NOISE:
                raise VideoError(_FAR_SOUND.format(video))
            for k, piece in opened.items():
                start = max(0, round((listed[k].start - heard) * rate))
                end = min(part.samples, round((listed[k].end - heard) * rate))
                if start < end:
                    piece.add_sound(track, _cut_samples(part, start, end), heard + start / rate - listed[k].start)

    with VideoDecoder(video, start=starts[0], end=part_end) as source, open_container(video) as other, _writing(video):
        sound = _Sound(other, video)
        try:
            for index, time, frame in source.frames(queue_limit=_QUEUE_LIMIT):
                frames = index + 1
                if not is_part and frames > scenes.video.frames:
                    raise other_video(video, f"more than {scenes.video.frames} frames", f"{scenes.video.frames}")
                if heard_from is None:
                    heard_from = float((source.stamp(frame) or 0) * (frame.time_base or 0)) - time
                    sound.begin(heard_from)
                wanted = range(bisect_right(ends, time), bisect_right(starts, time))
                for k in wanted:
                    if k not in opened:
                        opened[k] = _Encoding(paths[k], source, frame, sound.tracks, options)
                    opened[k].add_frame(frame, time - listed[k].start)
                add_sound(time)
                while closed < wanted.start and (not sound.tracks or time > listed[closed].end + _SLACK):
                    if closed not in opened:
                        raise _without_frames(video, closed)
                    opened.pop(closed).close()
                    closed += 1
                progress("reading", time, scenes.video.duration)
            add_sound(float("inf"))
            if is_part:
                check_length(video, source.facts.duration, scenes)
            elif frames != scenes.video.frames:
                raise other_video(video, f"{frames} frames", f"{scenes.video.frames}")
            for k in range(closed, len(listed)):
                if k not in opened:
                    raise _without_frames(video, k)
        finally:
            for piece in opened.values():
                piece.close()
    return [Cut(0.0, 0.0)] * len(listed)


def _without_frames(video: Path, scene: int) -> VideoError:
    return VideoError(f"{video}: has no frame of scene {scene + 1}; correct the scenes, or cut without --exact")


class _Sound:
    """The sound of a video, decoded in step with its frames."""

    def __init__(self, container: InputContainer, video: Path) -> None:
        self.tracks = [track for track in container.streams.audio if track.codec_context is not None]
        if any(has_own_order(layout_of(track.codec_context)) for track in self.tracks):
            raise VideoError(f"{video}: its sound has channels in an order that cannot be encoded; cut without --exact")
        self._video = video
        self._parts = self._decode(container)
        self._next: tuple[float, int, AudioFrame] | None = None
        self._first = 0.0

    def begin(self, first: float) -> None:
        """Set time 0 to that of the video's first frame, in seconds on the file's clock."""
        self._first = first
        self._next = next(self._parts, None)

    def until(self, time: float) -> Iterator[tuple[float, int, AudioFrame]]:
        """Yield new parts that end up to ``time``: ``(seconds, track, samples)``."""
        while self._next is not None and self._next[0] + self._next[2].samples / self._next[2].sample_rate <= time:
            yield self._next
            self._next = next(self._parts, None)

    def _decode(self, container: InputContainer) -> Iterator[tuple[float, int, AudioFrame]]:
        if not self.tracks:
            return
        places = {track.index: place for place, track in enumerate(self.tracks)}
        ends = [float("-inf")] * len(self.tracks)
        packets = demux(container, *self.tracks)
        while True:
            try:
                packet = next(packets)
            except (StopIteration, av.FFmpegError):
                return
            with suppress(av.FFmpegError):  # the samples of a damaged packet are missing
                for part in packet.decode():
                    assert isinstance(part, AudioFrame)
                    place = places[packet.stream.index]
                    time = ends[place] if part.time is None else part.time - self._first
                    if time < ends[place] - CLOCK_NOISE:
                        raise VideoError(
                            f"{self._video}: the timestamps of its sound restart in the middle; "
                            "cut the video there first"
                        )
                    ends[place] = time + part.samples / part.sample_rate
                    yield time, place, part


def _cut_samples(part: AudioFrame, start: int, end: int) -> AudioFrame:
    if end - start == part.samples:
        return part
    width = 1 if part.format.is_planar else len(part.layout.channels)
    values: Any = np.ascontiguousarray(part.to_ndarray()[:, start * width : end * width])
    cut = AudioFrame.from_ndarray(values, format=part.format.name, layout=part.layout.name)
    cut.sample_rate = part.sample_rate
    return cut


class _Encoding:
    """Encodes a piece from frames and samples, with times from its own start."""

    def __init__(
        self,
        path: Path,
        video: VideoDecoder,
        frame: VideoFrame,
        tracks: Sequence[AudioStream],
        options: Mapping[str, str],
    ) -> None:
        self._container = av.open(f"file:{path}", "w", format=_MUXERS[path.suffix])
        self._turns = video.rotation
        width, height = (frame.height, frame.width) if video.rotation % 2 else (frame.width, frame.height)
        layout = frame.format.name if frame.format.name in _H264_FORMATS else "yuv420p"
        if (width % 2 or height % 2) and not layout.startswith(("yuv444", "yuvj444", "gray")):
            layout = "yuv444p"  # chroma subsampling needs even sizes
        self._clock = frame.time_base if frame.time_base else Fraction(1, 90_000)
        rate = Fraction(video.frame_rate).limit_denominator(1001)
        options = dict(options)
        # Converting frames would mix their fields. x264 encodes fields only in multiples of four lines.
        if frame.interlaced_frame and layout == frame.format.name and not video.rotation and not height % 4:
            decoder = video.stream.codec_context
            bottom_first = decoder.name == "dvvideo" or decoder.field_order == 3  # AV_FIELD_BB
            options["x264-params"] = "bff=1" if bottom_first else "tff=1"
        picture = self._container.add_stream("libx264", rate=rate, options=options)
        picture.width, picture.height, picture.pix_fmt = width, height, layout
        aspect = Fraction(video.pixel_aspect).limit_denominator(1000)
        context = picture.codec_context
        context.sample_aspect_ratio = 1 / aspect if video.rotation % 2 else aspect
        context.color_range, context.colorspace = frame.color_range, frame.colorspace
        context.color_primaries, context.color_trc = frame.color_primaries, frame.color_trc
        context.time_base = picture.time_base = self._clock
        context.flags |= CodecFlags.frame_duration  # else the last frame lasts as long as frames do on average
        self._picture = picture
        self._sound: list[AudioStream] = []
        for track in tracks:
            rate_heard = track.codec_context.sample_rate
            stream = self._container.add_stream("aac", rate=rate_heard if rate_heard in _AAC_RATES else 48000)
            named = track.codec_context.layout.name
            # Some files have a number of channels, but no layout.
            stream.layout = named if "channels" not in named else _LAYOUTS.get(track.codec_context.channels, "stereo")
            stream.metadata.update(_tags(track.metadata))
            self._sound.append(stream)
        self._heard = [0] * len(tracks)
        self._converters: dict[tuple[int, str, str, int], av.AudioResampler] = {}
        self._last = -1

    def add_frame(self, frame: VideoFrame, time: float) -> None:
        if self._turns:
            frame = _rotate_upright(frame, self._turns)
        self._last = max(self._last + 1, round(time / self._clock))
        frame.pts, frame.time_base = self._last, self._clock
        frame.pict_type = 0  # the encoder chooses key frames, not the source
        self._container.mux(self._picture.encode(frame))

    def add_sound(self, track: int, part: AudioFrame, time: float) -> None:
        stamp = round(time * part.sample_rate)
        behind = self._heard[track] - stamp
        if abs(behind) < part.sample_rate * 0.02:  # rounding to milliseconds, not a gap
            stamp = self._heard[track]
        elif behind >= part.samples:
            return
        elif behind > 0:  # sound may overlap where recordings were joined
            part, stamp = _cut_samples(part, behind, part.samples), self._heard[track]
        self._heard[track] = stamp + part.samples
        part.pts, part.time_base = stamp, Fraction(1, part.sample_rate)
        # Broadcasts may switch between stereo and surround; the encoder cannot.
        key = (track, part.format.name, part.layout.name, part.sample_rate)
        stream = self._sound[track]
        if key not in self._converters:
            self._converters[key] = av.AudioResampler("fltp", stream.layout, stream.rate)
        for converted in self._converters[key].resample(part):
            self._container.mux(stream.encode(converted))

    def close(self) -> None:
        self._container.mux(self._picture.encode(None))
        for (track, *_), converter in self._converters.items():
            for converted in converter.resample(None):
                self._container.mux(self._sound[track].encode(converted))
        for stream in self._sound:
            self._container.mux(stream.encode(None))
        self._container.close()


def _rotate_upright(frame: VideoFrame, turns: int) -> VideoFrame:
    """Rotate a frame clockwise by quarter turns."""
    graph = av.filter.Graph()
    source = graph.add_buffer(
        width=frame.width, height=frame.height, format=frame.format, time_base=frame.time_base or Fraction(1, 90_000)
    )
    steps = {1: ["transpose=clock"], 2: ["hflip", "vflip"], 3: ["transpose=cclock"]}[turns]
    nodes = [source, *(graph.add(*step.split("=")) for step in steps), graph.add("buffersink")]
    for one, other in pairwise(nodes):
        one.link_to(other)
    graph.configure()
    graph.push(frame)
    turned = graph.pull()
    assert isinstance(turned, VideoFrame)
    return turned


@contextmanager
def _writing(video: Path, hint: str = "") -> Iterator[None]:
    try:
        yield
    except av.FFmpegError as error:
        reason = (error.strerror or str(error)).lower()
        if error.errno in _NO_SPACE:
            raise BasslError(f"the pieces of {video} cannot be written ({reason})") from error
        raise VideoError(f"{video}: cannot be copied{hint} ({reason})") from error
