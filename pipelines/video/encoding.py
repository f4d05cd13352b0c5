"""Encoding each scene of a video to a clip that has exactly its frames and samples, or the whole video to a small copy
that browsers play."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from operator import itemgetter
from pathlib import Path
from typing import Any

import av
import av.filter
import numpy as np
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.codec.context import Flags as CodecFlags
from av.container import InputContainer
from av.packet import Packet
from av.stream import Stream
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter
from av.video.stream import VideoStream

from pipelines.errors import VideoError
from pipelines.processes import Send
from pipelines.progress import ReportProgress
from pipelines.scenes import SceneData
from pipelines.video.containers import check_length, demux, has_custom_order, layout_of, mismatch_error, open_container
from pipelines.video.decoding import CLOCK_NOISE
from pipelines.video.frames import PerThread, resize_frame
from pipelines.video.inputs import unchanged
from pipelines.video.muxing import FAR_SOUND, SAME_TIME, SLACK, ClipFile, PacketReader, ffmpeg_errors

# Frames that each decoding thread holds ready: full frames, which are large.
_QUEUE_LIMIT = 8

# Pixel formats that libx264 encodes; others are converted.
_H264_FORMATS = frozenset(
    "yuv420p yuvj420p yuv422p yuvj422p yuv444p yuvj444p yuv420p10le yuv422p10le yuv444p10le gray gray10le".split()  # noqa: SIM905
)
_AAC_RATES = (96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000, 7350)
_PROXY_LINES = 360  # on the shorter side
_LAYOUTS: Mapping[int, str] = {1: "mono", 2: "stereo", 6: "5.1", 8: "7.1"}


def encode_scenes(
    video: Path,
    scenes: SceneData,
    paths: Sequence[Path],
    progress: ReportProgress,
    options: Mapping[str, str],
    lines: int | None = None,
) -> None:
    """Encode exactly the frames of each scene to its file: H.264 with these options of libx264, AAC, upright. Scenes
    may overlap. With ``lines`` only what browsers play: frames whose shorter side has at most so many pixels, of
    8 bits, and the first sound track.

    Frames keep their times, also with a variable frame rate; sound is cut to the sample, and subtitles are copied to
    the clip in which they begin. Raise VideoError if the video does not match ``scenes``, or no frame can be decoded.
    """
    spans = scenes.scenes
    starts, ends = [scene.start - SAME_TIME for scene in spans], [scene.end - SAME_TIME for scene in spans]
    is_part = scenes.settings.get("end") is not None
    part_end = max(ends[-1], scenes.video.duration - SAME_TIME) if is_part else None
    encoders: dict[int, _ClipEncoder] = {}
    closed = frames = 0

    def add_tracks(until: float) -> None:
        """Add sound and subtitles up to a time to the open clips, which are closed only when the slack has passed."""
        for start, track, samples in tracks.sound(until):
            rate = samples.sample_rate
            if closed and start < spans[closed - 1].end - CLOCK_NOISE:
                raise VideoError(FAR_SOUND.format(video))
            for k, encoder in encoders.items():
                first = max(0, round((spans[k].start - start) * rate))
                end = min(samples.samples, round((spans[k].end - start) * rate))
                if first < end:
                    encoder.add_sound(track, _cut_samples(samples, first, end), start + first / rate - spans[k].start)
        for time, packet in tracks.subtitles(until):
            for k in range(bisect_right(ends, time), bisect_right(starts, time)):
                if k in encoders:
                    encoders[k].add_subtitle(packet, tracks.first + spans[k].start, spans[k].end - time)

    def close(k: int) -> None:
        if k not in encoders:
            raise VideoError(f"{video}: has no frame of scene {k + 1}; correct the scenes, or cut without `exact`")
        encoders.pop(k).close()

    with (
        PacketReader(video, start=starts[0], end=part_end) as source,
        open_container(video) as container,
        ffmpeg_errors(video),
    ):
        tracks = _TrackReader(container, video, only_first=lines is not None)
        try:
            for index, time, frame in source.frames(_shrinking(lines) if lines else None, queue_limit=_QUEUE_LIMIT):
                if not frames:
                    tracks.first = float((source.stamp(frame) or 0) * (frame.time_base or 0)) - time
                frames = index + 1
                if not is_part and frames > scenes.video.frames:
                    raise mismatch_error(video, f"more than {scenes.video.frames} frames", f"{scenes.video.frames}")
                targets = range(bisect_right(ends, time), bisect_right(starts, time))
                for k in targets:
                    if k not in encoders:
                        encoders[k] = _ClipEncoder(paths[k], source, frame=frame, tracks=tracks.audio, options=options)
                        if not k and not lines:
                            source.warn_left_out(encoders[k].copied, _has_alpha(frame, source.stream))
                    encoders[k].add_frame(frame, time - spans[k].start)
                add_tracks(time)
                while closed < targets.start and (not tracks.audio or time > spans[closed].end + SLACK):
                    close(closed)
                    closed += 1
                progress("reading", time, scenes.video.duration)
            add_tracks(float("inf"))
            if is_part:
                check_length(video, source.facts.duration, scenes)
            elif frames != scenes.video.frames:
                raise mismatch_error(video, f"{frames} frames", f"{scenes.video.frames}")
            for k in range(closed, len(spans)):
                close(k)
        finally:
            for encoder in encoders.values():
                encoder.close()


def send_proxy(task: tuple[Path, SceneData, Path], send: Send) -> None:
    """Encode a video to a small MP4 file that browsers play, with the same frames at the same times, in a child
    process: sends how many seconds of it are done."""
    video, scenes, path = task
    whole = replace(scenes.scenes[0], start=0.0, end=scenes.shots[-1].end)

    def report(_: str, done: float, total: float | None) -> None:
        send("progress", done)

    options = {"preset": "superfast", "crf": "26", "g": "24", "bf": "0"}  # a frame is found quickly
    with unchanged(video):
        encode_scenes(video, replace(scenes, scenes=(whole,)), [path], report, options, _PROXY_LINES)
    send("end")


def _shrinking(lines: int) -> Callable[[VideoFrame], VideoFrame]:
    thread = PerThread()

    def shrink(frame: VideoFrame) -> VideoFrame:
        scale = min(1.0, lines / min(frame.width, frame.height))
        width, height = (max(2, 2 * round(side * scale / 2)) for side in (frame.width, frame.height))
        return resize_frame(thread.reformatter, frame, width, height, "yuv420p")

    return shrink


class _TrackReader:
    """Sound and subtitles of a video, read in step with its frames. Set ``first`` before: the time of the video's first
    frame in seconds on the file's clock."""

    def __init__(self, container: InputContainer, video: Path, only_first: bool = False) -> None:
        self.audio = [track for track in container.streams.audio if track.codec_context is not None]
        if only_first:
            self.audio = [t for t in self.audio[:1] if not has_custom_order(layout_of(t.codec_context))]
        if any(has_custom_order(layout_of(track.codec_context)) for track in self.audio):
            raise VideoError(f"{video}: its sound has channels in an order that cannot be encoded; cut without `exact`")
        self._video = video
        self._parts = self._decode(container)
        self._next: tuple[float, int, AudioFrame] | None = None
        self._subtitles: list[tuple[float, Packet[Stream]]] = []  # that are read, by time
        self.first = 0.0

    def sound(self, time: float) -> Iterator[tuple[float, int, AudioFrame]]:
        """Yield new parts that end up to ``time``: ``(seconds, track, samples)``."""
        self._next = self._next or next(self._parts, None)
        while self._next is not None and self._next[0] + self._next[2].samples / self._next[2].sample_rate <= time:
            yield self._next
            self._next = next(self._parts, None)

    def subtitles(self, time: float) -> Iterator[tuple[float, Packet[Stream]]]:
        """Yield the subtitles read so far that begin up to ``time``: ``(seconds, packet)``."""
        while self._subtitles and self._subtitles[0][0] <= time:
            yield self._subtitles.pop(0)

    def _decode(self, container: InputContainer) -> Iterator[tuple[float, int, AudioFrame]]:
        numbers = {track.index: number for number, track in enumerate(self.audio)}
        ends = [float("-inf")] * len(self.audio)
        subtitles = [track for track in container.streams.subtitles if track.codec_context is not None]
        packets: Iterator[Any] = demux(container, *self.audio, *subtitles) if numbers or subtitles else iter(())
        with suppress(av.FFmpegError):  # the file is damaged from here on
            for packet in packets:
                if packet.stream.index not in numbers:
                    if packet.size and packet.pts is not None:
                        time = float(packet.pts * packet.time_base) - self.first
                        insort(self._subtitles, (time, packet), key=itemgetter(0))
                    continue
                with suppress(av.FFmpegError):  # the samples of a damaged packet are missing
                    for part in packet.decode():
                        track = numbers[packet.stream.index]
                        time = ends[track] if part.time is None else part.time - self.first
                        if time < ends[track] - CLOCK_NOISE:
                            raise VideoError(
                                f"{self._video}: the timestamps of its sound restart in the middle; "
                                "cut the video there first"
                            )
                        ends[track] = time + part.samples / part.sample_rate
                        yield time, track, part


def _cut_samples(part: AudioFrame, start: int, end: int) -> AudioFrame:
    if end - start == part.samples:
        return part
    width = 1 if part.format.is_planar else len(part.layout.channels)
    values: Any = np.ascontiguousarray(part.to_ndarray()[:, start * width : end * width])
    cut = AudioFrame.from_ndarray(values, format=part.format.name, layout=part.layout.name)
    cut.sample_rate = part.sample_rate
    return cut


class _ClipEncoder(ClipFile):
    """Encodes a clip from frames and samples, with times from its own start."""

    def __init__(
        self,
        path: Path,
        source: PacketReader,
        *,
        frame: VideoFrame,
        tracks: Sequence[AudioStream],
        options: Mapping[str, str],
    ) -> None:
        super().__init__(path, source)
        self._turns, self._last = source.orientation.turns, -1
        self._clock = frame.time_base or Fraction(1, 90_000)
        width, height = (frame.height, frame.width) if source.orientation.turns % 2 else (frame.width, frame.height)
        pixel_format = frame.format.name if frame.format.name in _H264_FORMATS else "yuv420p"
        if (width % 2 or height % 2) and not pixel_format.startswith(("yuv444", "yuvj444", "gray")):
            pixel_format = "yuv444p"  # chroma subsampling needs even sizes
        options = dict(options)
        # Converting or shrinking frames mixes their fields. x264 encodes fields only in multiples of four lines.
        has_fields = frame.interlaced_frame and frame.height == source.stream.height
        if has_fields and pixel_format == frame.format.name and not source.orientation.turns and not height % 4:
            decoder = source.stream.codec_context
            bottom_first = decoder.name == "dvvideo" or decoder.field_order == 3  # AV_FIELD_BB
            options["x264-params"] = "bff=1" if bottom_first else "tff=1"
        rate = Fraction(source.frame_rate).limit_denominator(1001)
        self._video = self._container.add_stream("libx264", rate=rate, options=options)
        self._video.metadata.update(self.tags_of(source.stream))
        self.copied.add(source.stream.index)
        self._video.width, self._video.height, self._video.pix_fmt = width, height, pixel_format
        aspect = Fraction(source.pixel_aspect).limit_denominator(1000)
        context = self._video.codec_context
        context.sample_aspect_ratio = 1 / aspect if source.orientation.turns % 2 else aspect
        context.color_range, context.colorspace = frame.color_range, frame.colorspace
        context.color_primaries, context.color_trc = frame.color_primaries, frame.color_trc
        context.time_base = self._video.time_base = self._clock
        context.flags |= CodecFlags.frame_duration  # else the last frame lasts as long as frames do on average
        self._reformatter = VideoReformatter()
        self._sound = [self._add_sound_track(track) for track in tracks]
        self._sound_ends = [0] * len(tracks)  # in samples
        self._converters: dict[tuple[int, str, str, int], av.AudioResampler] = {}
        for track in source.container.streams.subtitles:
            with suppress(ValueError):  # the format does not support them
                if track.codec_context is not None:
                    self.copy_stream(track)
        self.copy_covers()

    def _add_sound_track(self, track: AudioStream) -> AudioStream:
        rate, layout = track.codec_context.sample_rate, track.codec_context.layout.name
        stream = self._container.add_stream("aac", rate=rate if rate in _AAC_RATES else 48000)
        # Some files have a number of channels, but no layout.
        stream.layout = layout if "channels" not in layout else _LAYOUTS.get(track.codec_context.channels, "stereo")
        stream.metadata.update(self.tags_of(track))
        stream.disposition = track.disposition
        self.copied.add(track.index)
        return stream

    def add_subtitle(self, packet: Packet[Stream], start: float, longest: float) -> None:
        """Copy a subtitle, if the format supports it; ``start`` is the time of the clip on the file's clock."""
        if packet.stream.index in self.copied:
            self.copy_packet(packet, round(start / packet.time_base), longest)

    def add_frame(self, frame: VideoFrame, time: float) -> None:
        if self._turns:
            frame = _rotate_upright(frame, self._turns)
        self._last = max(self._last + 1, round(time / self._clock))
        if frame.format.name != self._video.pix_fmt:
            frame = resize_frame(self._reformatter, frame, frame.width, frame.height, self._video.pix_fmt)
        frame.pts, frame.time_base = self._last, self._clock
        frame.pict_type = 0  # the encoder chooses key frames, not the source
        self._container.mux(self._video.encode(frame))

    def add_sound(self, track: int, part: AudioFrame, time: float) -> None:
        stamp = round(time * part.sample_rate)
        overlap = self._sound_ends[track] - stamp
        if abs(overlap) < part.sample_rate * 0.02:  # rounding to milliseconds, not a gap
            stamp = self._sound_ends[track]
        elif overlap >= part.samples:
            return
        elif overlap > 0:  # sound may overlap where recordings were joined
            part, stamp = _cut_samples(part, overlap, part.samples), self._sound_ends[track]
        self._sound_ends[track] = stamp + part.samples
        part.pts, part.time_base = stamp, Fraction(1, part.sample_rate)
        # Broadcasts may switch between stereo and surround; the encoder cannot.
        key = (track, part.format.name, part.layout.name, part.sample_rate)
        stream = self._sound[track]
        if key not in self._converters:
            self._converters[key] = av.AudioResampler("fltp", stream.layout, stream.rate)
        for converted in self._converters[key].resample(part):
            self._container.mux(stream.encode(converted))

    def close(self) -> None:
        self._container.mux(self._video.encode(None))
        for (track, *_), converter in self._converters.items():
            for converted in converter.resample(None):
                self._container.mux(self._sound[track].encode(converted))
        for stream in self._sound:
            self._container.mux(stream.encode(None))
        super().close()


def _has_alpha(frame: VideoFrame, stream: VideoStream) -> bool:
    """Return whether frames have transparency, which H.264 lacks; a decoder may leave it out, as of WebM."""
    if stream.metadata.get("alpha_mode", "0") != "0":
        return True
    if not any(component.is_alpha for component in frame.format.components):
        return False
    # GIF is always decoded with alpha.
    return stream.codec_context.name != "gif" or bool((frame.to_ndarray(format="rgba")[..., 3] < 255).any())


def _rotate_upright(frame: VideoFrame, turns: int) -> VideoFrame:
    """Rotate a frame clockwise by quarter turns."""
    graph = av.filter.Graph()
    clock = frame.time_base or Fraction(1, 90_000)
    source = graph.add_buffer(width=frame.width, height=frame.height, format=frame.format, time_base=clock)
    steps = {1: ["transpose=clock"], 2: ["hflip", "vflip"], 3: ["transpose=cclock"]}[turns]
    graph.link_nodes(source, *(graph.add(*step.split("=")) for step in steps), graph.add("buffersink")).configure()
    graph.vpush(frame)
    return graph.vpull()
