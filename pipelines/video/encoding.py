"""Encoding each scene of a video to a clip of exactly its frames and samples, or all of it to a copy for browsers."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import av
import av.filter
import numpy as np
from av.audio.frame import AudioFrame
from av.audio.stream import AudioStream
from av.codec.context import Flags as CodecFlags
from av.packet import Packet
from av.video.frame import VideoFrame
from av.video.reformatter import VideoReformatter

from pipelines.processes import Send
from pipelines.progress import ReportProgress
from pipelines.scenes import SceneData
from pipelines.video.clips import ClipFile, ClipRange, Frame, Item, Source, ffmpeg_errors, write_clips
from pipelines.video.containers import Orientation, layout_of
from pipelines.video.decoding import CLOCK_NOISE, VideoDecoder
from pipelines.video.images import PerThread, resize_frame
from pipelines.video.inputs import unchanged

# Frames that each decoding thread holds ready: full frames, which are large.
_QUEUE_LIMIT = 8

# Pixel formats that libx264 encodes; others are converted.
_H264_FORMATS = frozenset(form.name for form in av.Codec("libx264", "w").video_formats or ())
_AAC_RATES = (96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000, 7350)
_PROXY_LINES = 360  # on the shorter side
_ROUNDING = 1e-3  # seconds, of times in some containers


def encode_scenes(
    video: Path,
    scenes: SceneData,
    paths: Sequence[Path],
    progress: ReportProgress,
    options: Mapping[str, str],
    lines: int | None = None,
) -> None:
    """Encode exactly the frames of each scene to its file, upright and with their times: H.264 with these options of
    libx264, and AAC, cut to the sample. With ``lines`` only what browsers play: frames of 8 bits, whose shorter side
    has at most so many pixels, and one sound track. Raise VideoError if the video lacks a scene."""
    clips = [ClipRange(scene.start_frame, scene.end_frame - 1, scene.start, scene.end) for scene in scenes.scenes]
    shrink = partial(_shrink, lines, PerThread()) if lines else None

    def read() -> Iterator[Frame]:
        for order, (number, time, frame) in enumerate(decoder.frames(shrink, queue_limit=_QUEUE_LIMIT)):
            stamp = float((decoder.stamp(frame) or 0) * (frame.time_base or 0))
            if order == 0:
                source.first = stamp - time
            source.now, offset = time, time + source.first - stamp
            if abs(offset - source.offsets[-1]) > CLOCK_NOISE:
                source.offsets.append(offset)
            progress("reading", time, scenes.video.duration)
            yield Frame(time, number, frame)

    end = max(clips[-1].end, scenes.video.duration) if scenes.settings.get("end") is not None else None
    with VideoDecoder(video, start=clips[0].start, end=end) as decoder, Source(video) as source, ffmpeg_errors(video):
        sound = [track for track in source.tracks if isinstance(track, AudioStream)]
        formats = {track.index: _sound_format(track) for track in sound[: 1 if lines else None]}
        files = (
            _EncodedFile(path, source, clip, decoder=decoder, sound=formats, options=options)
            for path, clip in zip(paths, clips, strict=True)
        )
        tracks = [track for track in source.tracks if track.type == "subtitle" or track.index in formats]
        write_clips(files, read(), source.items(tracks, partial(_decode, formats, {})))
        if not lines:
            source.warn_left_out()


def send_proxy(task: tuple[Path, SceneData, Path], send: Send) -> None:
    """Encode a video to a small MP4 file that browsers play, in a child process: send the seconds that are done."""
    video, scenes, path = task
    last = scenes.shots[-1]
    whole = replace(scenes.scenes[0], start_frame=0, end_frame=last.end_frame, start=0.0, end=last.end)

    def report(_: str, done: float, total: float | None) -> None:
        send("progress", done)

    options = {"preset": "superfast", "crf": "26", "g": "24", "bf": "0"}  # a frame is found quickly
    with unchanged(video):
        encode_scenes(video, replace(scenes, scenes=(whole,)), [path], report, options, _PROXY_LINES)
    send("end")


def _decode(formats: Mapping[int, tuple[str, int]], resamplers: dict[Any, Any], packet: Packet[Any]) -> list[Any]:
    """Return the samples of a sound packet, resampled by the file's ``resamplers``, or the packet of another track."""
    index = packet.stream.index
    if index not in formats:
        return [packet]
    samples = []
    with suppress(av.FFmpegError):  # the samples of a damaged packet are missing
        parts: list[Any] = packet.decode()
        for part in parts:
            # Broadcasts may switch between stereo and surround; a resampler cannot.
            key = (index, part.format.name, part.layout.name, part.sample_rate)
            if key not in resamplers:
                resamplers[key] = av.AudioResampler("fltp", *formats[index])
            samples += resamplers[key].resample(part)
    return samples


def _sound_format(track: AudioStream) -> tuple[str, int]:
    """Return the channel layout and sample rate in which a track is encoded."""
    rate, layout = track.codec_context.sample_rate, layout_of(track.codec_context).name
    return "stereo" if " channels" in layout else layout, rate if rate in _AAC_RATES else 48000


def _shrink(lines: int, thread: PerThread, frame: VideoFrame) -> VideoFrame:
    """Convert a frame to 8 bits, and to at most so many lines on the shorter side."""
    scale = min(1.0, lines / min(frame.width, frame.height))
    width, height = (max(2, 2 * round(side * scale / 2)) for side in (frame.width, frame.height))
    return resize_frame(thread.reformatter, frame, width, height, "yuv420p")


@dataclass(kw_only=True, eq=False)
class _EncodedFile(ClipFile):
    """A clip that is encoded from frames and samples."""

    decoder: VideoDecoder
    sound: Mapping[int, tuple[str, int]]  # channel layout and sample rate, by the index of the track
    options: Mapping[str, str]

    def add_streams(self, frame: VideoFrame) -> None:
        """Add streams for frames like this one, and for sound and subtitles."""
        decoder, source, options = self.decoder, self.source, dict(self.options)
        self._last = -1
        self._clock = frame.time_base or Fraction(1, 90_000)
        is_turned = decoder.orientation.turns % 2
        width, height = (frame.height, frame.width) if is_turned else (frame.width, frame.height)
        pixel_format = frame.format.name if frame.format.name in _H264_FORMATS else "yuv420p"
        if (width % 2 or height % 2) and not pixel_format.startswith(("yuv444", "yuvj444", "gray")):
            pixel_format = "yuv444p"  # chroma subsampling needs even sizes
        if parameters := _hdr_parameters(frame):
            options["x264-params"] = ":".join(parameters)
        rate = Fraction(decoder.frame_rate).limit_denominator(1001)
        self._video = self.container.add_stream("libx264", rate=rate, options=options)
        self.add_stream(source.stream, self._video)
        self._video.width, self._video.height, self._video.pix_fmt = width, height, pixel_format
        aspect = Fraction(decoder.pixel_aspect).limit_denominator(1000)
        context = self._video.codec_context
        context.sample_aspect_ratio = 1 / aspect if is_turned else aspect
        context.color_range, context.colorspace = frame.color_range, frame.colorspace
        context.color_primaries, context.color_trc = frame.color_primaries, frame.color_trc
        context.time_base = self._video.time_base = self._clock
        context.flags |= CodecFlags.frame_duration  # else the last frame lasts as long as frames do on average
        self._reformatter = VideoReformatter()
        self._encoders: dict[int, Any] = {}
        for track in source.tracks:
            if track.index in self.sound:
                layout, sample_rate = self.sound[track.index]
                self._encoders[track.index] = self.container.add_stream("aac", rate=sample_rate, layout=layout)
                self.add_stream(track, self._encoders[track.index])
        self._sound_ends = dict.fromkeys(self._encoders, 0)  # in samples
        self.copy_streams(track for track in source.tracks if track.type == "subtitle")

    def has_frame(self, frame: Frame) -> bool:
        """Return whether a frame is in the scene, or in its handles."""
        is_between = self.clip.start <= frame.time < self.clip.end - _ROUNDING
        return self.clip.first <= frame.number <= self.clip.last or is_between

    def add_frame(self, frame: Frame) -> None:
        """Encode a frame, upright."""
        self._last = max(self._last + 1, round((frame.time - self.clip.start) / self._clock))
        image = _upright(frame.content, self.decoder.orientation)
        if image.format.name != self._video.pix_fmt:
            image = resize_frame(self._reformatter, image, image.width, image.height, self._video.pix_fmt)
        image.pts, image.time_base = self._last, self._clock
        image.pict_type = 0  # the encoder chooses key frames, not the source
        self.container.mux(self._video.encode(image))

    def add_item(self, item: Item) -> None:
        """Encode the samples that are within the clip, or copy a subtitle."""
        part, track = item.content, item.packet.stream.index
        if part is item.packet:
            super().add_item(item)
            return
        rate = part.sample_rate
        first = max(0, round((self.clip.start - item.time) * rate))
        end = min(part.samples, round((self.clip.end - item.time) * rate))
        stamp = round((item.time - self.clip.start) * rate) + first
        if abs(self._sound_ends[track] - stamp) < rate * 0.02:  # rounding to milliseconds, not a gap
            stamp = self._sound_ends[track]
        if first < end:
            values = np.ascontiguousarray(part.to_ndarray()[:, first:end])
            samples = AudioFrame.from_ndarray(values, format="fltp", layout=part.layout.name)
            samples.sample_rate, samples.pts, samples.time_base = rate, stamp, Fraction(1, rate)
            self._sound_ends[track] = stamp + end - first
            self.container.mux(self._encoders[track].encode(samples))

    def close(self) -> None:
        """Finish the file."""
        streams: list[Any] = [self._video, *self._encoders.values()]
        for stream in streams:
            self.container.mux(stream.encode(None))
        super().close()


def _hdr_parameters(frame: VideoFrame) -> list[str]:
    """Return the parameters of x264 for the mastering display and light levels of HDR10."""
    side_data: Any = frame.side_data
    parameters = []
    if (data := side_data.get("MASTERING_DISPLAY_METADATA")) is not None:
        *numbers, has_primaries, has_luminance = struct.unpack_from("=22i", data)
        values = [Fraction(a, b) if b else Fraction(0) for a, b in zip(numbers[::2], numbers[1::2], strict=True)]
        red, green, blue, white = (
            f"({round(50_000 * x)},{round(50_000 * y)})" for x, y in zip(values[:8:2], values[1:8:2], strict=True)
        )
        luminance = f"({round(10_000 * values[9])},{round(10_000 * values[8])})"
        if has_primaries and has_luminance:
            parameters.append(f"mastering-display=G{green}B{blue}R{red}WP{white}L{luminance}")
    if (data := side_data.get("CONTENT_LIGHT_LEVEL")) is not None:
        parameters.append("cll={},{}".format(*struct.unpack_from("=2I", data)))
    return parameters


def _upright(frame: VideoFrame, orientation: Orientation) -> VideoFrame:
    """Mirror and turn a frame."""
    if not any(orientation):
        return frame
    graph = av.filter.Graph()
    clock = frame.time_base or Fraction(1, 90_000)
    source = graph.add_buffer(width=frame.width, height=frame.height, format=frame.format, time_base=clock)
    turning = [[], ["transpose=clock"], ["hflip", "vflip"], ["transpose=cclock"]][orientation.turns]
    steps = ["hflip"] * orientation.mirrored + turning
    graph.link_nodes(source, *(graph.add(*step.split("=")) for step in steps), graph.add("buffersink")).configure()
    graph.vpush(frame)
    return graph.vpull()
