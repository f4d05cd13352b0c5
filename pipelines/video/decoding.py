"""Video decoding with PyAV: every frame once, in order, with its presentation time."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, closing, suppress
from fractions import Fraction
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any, Self

import av
from av.packet import Packet
from av.subtitles.stream import SubtitleStream
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

from pipelines.errors import VideoError
from pipelines.processes import cores
from pipelines.scenes import MAX_POSITION, VideoFacts
from pipelines.video.containers import (
    Orientation,
    declared_end,
    demux,
    length_tolerance,
    open_container,
    orientation,
    pixel_aspect,
    program_tracks,
    video_facts,
    video_stream,
)
from pipelines.video.runs import Batches, Damage, ParallelDecoder, decode, restart_test
from pipelines.video.subtitles import MOST_CUES, text_track

CLOCK_NOISE = 0.5
"""Timestamps that step back by more than this, in seconds, start a new clock; less is an error of single timestamps."""

# Times that differ by less, in seconds, are equal: times are rounded to microseconds.
_SAME_TIME = 1e-6

_LONGEST_FRAME = 60.0  # seconds: some recorders write a huge duration for the last frame

# Each thread holds frames in memory, and more threads than this mostly wait for the global interpreter lock.
_MOST_THREADS = 4

# Most frames that are handed over at a time, and their bytes: each call has a cost, and large frames take much memory.
_MOST_FRAMES, _MOST_BYTES = 48, 16 * 2**20

# Of a decoded frame: its timestamp and duration in ticks, and what was made of it.
_Timed = tuple[int | None, int, Any]


class FrameClock:
    """Times of a video's frames, in seconds from its first frame, strictly increasing.

    A frame begins at its timestamp, or else when the one before it ends; if timestamps repeat or step back a little, at
    the ``nominal`` distance from the one before it. If they step back by more than :data:`CLOCK_NOISE`, as in joined
    recordings, they start a new clock, and time continues, unless they soon continue on the old clock: then only some
    frames were out of order, as in damaged videos. A frame lasts for the duration in its packet, or for the nominal one
    if that is missing or longer than a minute. ``first`` is when the first frame is shown on the file's clock.
    """

    def __init__(self, tick: Fraction, nominal: float, first: float | None = None) -> None:
        self.first, self._nominal = first, nominal
        self._tick, self._tick_seconds = tick, float(tick)
        self._last, self._length = -nominal, nominal  # of the newest frame
        self._offset = 0.0  # from the file's clock, less `first`, to the video's time
        # The offset before a new clock, and the time until which the new clock may turn out to be an error.
        self._old_offset, self._doubtful_until = 0.0, -math.inf

    def advance(self, timestamp: int | None, duration: int) -> float:
        """Return the time of the next frame, from its presentation timestamp and duration in ticks."""
        time = self.end if timestamp is None else self._time_at(timestamp)
        length = duration * self._tick_seconds
        self._last, self._length = time, length if 0 < length <= _LONGEST_FRAME else self._nominal
        return time

    @property
    def end(self) -> float:
        """Return the time at which the newest frame ends; 0 before the first frame."""
        return round(self._last + self._length, 6)

    def _time_at(self, timestamp: int) -> float:
        stamp = timestamp * self._tick.numerator / self._tick.denominator
        if self.first is None:
            self.first = stamp
        time = round(stamp - self.first + self._offset, 6)
        if self._last < self._doubtful_until:
            on_old_clock = round(stamp - self.first + self._old_offset, 6)
            if on_old_clock > self._last - CLOCK_NOISE:
                self._offset, time = self._old_offset, on_old_clock
        if time > self._last:
            return time
        following = self._last + self._nominal
        if self._last - time > CLOCK_NOISE:
            if self._last >= self._doubtful_until:  # otherwise another frame out of order: the old clock remains
                self._old_offset = self._offset
            self._doubtful_until = self._last + CLOCK_NOISE
            self._offset += following - time
        return following


class VideoDecoder:
    """An open video: iterate :meth:`frames` once, then read the rest."""

    facts: VideoFacts  # after decoding

    def __init__(
        self, path: Path, threads: int | None = None, start: float | None = None, end: float | None = None
    ) -> None:
        """Open a video, to read from the first frame at ``start`` to the last one before ``end``, in seconds from the
        video's first frame, by at most four ``threads`` (None: one per core). Raise VideoError if it is not a video."""
        self.path = path
        self.warnings: list[str] = []  # after decoding: a line for each fault
        self.orientation = Orientation()  # known after the first frame
        self.container = open_container(path)
        self.stream = video_stream(path, self.container)
        self.kind = self.container.format.name.split(",")[0]  # such as mov, for MP4 and related formats
        self._threads = min(threads or cores(), _MOST_THREADS)
        self._start, self._end = start or 0.0, math.inf if end is None else end
        self._decoding: Generator[Sequence[_Timed], None, None] | None = None
        # Unknown in some streams: a common size is assumed. Up to `batch_size` frames are handled together.
        self.width, self.height = self.stream.width or 1920, self.stream.height or 1080
        self.batch_size = max(1, min(_MOST_FRAMES, _MOST_BYTES // (self.width * self.height * 3 // 2)))
        rate = self.stream.average_rate or self.stream.guessed_rate or Fraction(25)
        self.frame_rate = float(rate) if 0 < rate <= 1000 else 25.0
        self.pixel_aspect = float(pixel_aspect(self.stream))  # width of a pixel divided by its height
        self.declared_duration = declared_end(self.container, self.stream)  # in seconds, or None
        self.text_track = text_track(program_tracks(self.container, self.stream))
        self.text_packets: list[Packet[SubtitleStream]] = []  # after decoding
        self.first: float | None = None  # after decoding: when the first frame is shown, on the file's clock
        self._jumps: list[float] = []
        self._skipped_packets = 0
        self._facts: dict[str, Any] = {}  # known with the first frame

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._decoding is not None:
            self._decoding.close()  # its threads read from the container
        self.container.close()
        # FFmpeg's errors are OSErrors, and must not reach code that expects errors of the files that it writes.
        for cause in error:
            if isinstance(cause, av.FFmpegError):
                reason = (cause.strerror or str(cause)).lower()
                raise VideoError(f"{self.path}: cannot be decoded ({reason})") from cause

    def stamp(self, frame: VideoFrame) -> int | None:
        """Return the presentation timestamp of a frame, in ticks. AVI has none, and FFmpeg guesses wrong if frames are
        reordered; there it is the decoding timestamp with which the decoder outputs the frame."""
        return frame.dts if self.kind == "avi" else frame.pts

    def frames(
        self,
        read: Callable[[VideoFrame], Any] | None = None,
        prepare: Callable[[list[Any]], Sequence[Any]] | None = None,
        queue_limit: int = 64,
    ) -> Iterator[tuple[int, float, Any]]:
        """Yield ``(index, time, result)`` for each frame, index and time (see :class:`FrameClock`) as in the whole
        video. ``read`` makes something of a frame, whose memory belongs to the decoder (None: the frame itself), and
        ``prepare`` results of up to :attr:`batch_size` of these. Decoding threads call both, for the video's first
        batch before any other, and each holds at most ``queue_limit`` results ready. Raise VideoError if no frame can
        be decoded, or the part begins after the video's end."""
        count, first = self._skip() if self._start > 0 else (0, None)
        clock = FrameClock(self.stream.time_base or Fraction(0), 1.0 / self.frame_rate, first)
        damage = Damage()
        self._decoding = self._decode(partial(self._batches, read, prepare), damage, queue_limit)
        yielded = False
        declared: float | None = None
        for timestamp, duration, result in chain.from_iterable(self._decoding):
            time = clock.advance(timestamp, duration)
            if time >= self._end - _SAME_TIME:
                end = round(time, 6)
                break
            if time >= self._start - _SAME_TIME:
                yielded = True
                yield count, time, result
            count += 1
        else:
            declared = declared_end(self.container, self.stream, clock.first or 0.0)
            declared = None if declared is None else declared - sum(self._jumps)
            end = clock.end
        self._decoding.close()  # its threads would go on reading
        if not count:
            raise VideoError(f"{self.path}: no frame of it can be decoded; it may be damaged")
        if not yielded:
            part = f"after {self._start:g} s" if self._end == math.inf else f"from {self._start:g} s to {self._end:g} s"
            raise VideoError(f"{self.path}: has no frame {part}; the one before it ends at {end:.3f} s")
        if end > MAX_POSITION:
            lasts = f"lasts {end:.0f} s, and {MAX_POSITION} s are the most"
            raise VideoError(f"{self.path}: {lasts}; its times may be damaged")
        self.first = clock.first
        self.facts = VideoFacts(str(self.path), duration=end, frames=count, frame_rate=self.frame_rate, **self._facts)
        self._add_warnings(damage.places, end, declared)

    def _batches(
        self,
        read: Callable[[VideoFrame], Any] | None,
        prepare: Callable[[list[Any]], Sequence[Any]] | None,
        frames: Iterator[VideoFrame],
    ) -> Iterator[Sequence[_Timed]]:
        for first in frames:
            if not self._facts:
                self.orientation = orientation(first)
                width, height = (first.width, first.height)[:: -1 if self.orientation.turns % 2 else 1]
                facts = video_facts(self.container, self.stream, first)
                self._facts = {"width": width, "height": height, **facts}
            times, batch = [], []
            for frame in chain([first], islice(frames, self.batch_size - 1)):
                times.append((self.stamp(frame), frame.duration))
                batch.append(frame if read is None else read(frame))
            results = batch if prepare is None else prepare(batch)
            yield [(*time, result) for time, result in zip(times, results, strict=True)]

    def _decode(
        self, batches: Batches[_Timed], damage: Damage, queue_limit: int
    ) -> Generator[Sequence[_Timed], None, None]:
        """Yield batches of all frames, made by one decoder, or by several if the codec and the file allow it."""
        packets, decoder = self._packets(damage), self.stream.codec_context
        is_restart = restart_test(self.stream)
        if self._threads == 1 or is_restart is None:
            decoder.thread_type, decoder.thread_count = "AUTO", self._threads
            yield from batches(decode(packets, decoder, damage))
            return
        with ExitStack() as stack:
            # Opened the same way, so that all decoders have the same stream parameters.
            others = [stack.enter_context(open_container(self.path)) for _ in range(1, self._threads)]
            decoders = [decoder, *(video_stream(self.path, other).codec_context for other in others)]
            for decoder in decoders:
                decoder.thread_count = 1
            most_ready = max(2, queue_limit // self.batch_size)
            parallel = ParallelDecoder(packets, decoders, is_restart, batches, damage, most_ready)
            with closing(iter(parallel)) as results:
                yield from results

    def _packets(self, damage: Damage) -> Iterator[Packet[VideoStream]]:
        """Yield the packets to decode, and collect the packets of the text track, which are read anyway."""
        streams = [self.stream] if self.text_track is None else [self.stream, self.text_track]
        packets: Iterator[Packet[Any]] = demux(self.container, *streams, jumps=self._jumps)
        number = 0
        with damage:  # the container is truncated or damaged here: keep what came before
            for packet in packets:
                if packet.stream_index == self.stream.index:
                    number += 1
                    if packet.size and number > self._skipped_packets:  # an empty one would signal the end
                        yield packet
                elif len(self.text_packets) <= MOST_CUES:
                    self.text_packets.append(packet)

    def _skip(self) -> tuple[int, float | None]:
        """Skip the packets before the last point up to the start of the part at which a decoder can begin. Return the
        number of frames skipped, and the time of the video's first frame on the file's clock; 0 and None if the video
        has to be decoded from its beginning, because frames or times depend on all earlier ones."""
        codec, is_restart = self.stream.codec_context, restart_test(self.stream)
        if is_restart is None and codec.codec.intra_only:
            is_restart = lambda packet: True  # noqa: E731
        # AVI has only decoding timestamps, and FFmpeg derives no others if frames are reordered.
        lacks_times = self.kind == "avi" and codec.name in ("h264", "hevc") and codec.has_b_frames
        if is_restart is None or not self.stream.time_base or lacks_times:
            return 0, None
        tick, latest = float(self.stream.time_base), -math.inf
        frames = frames_before = packets_before = 0
        # An error means that the file is damaged here; decoding will report it.
        with suppress(VideoError, av.FFmpegError), open_container(self.path) as other:
            first = first_frame_time(self.path)
            for number, packet in enumerate(demux(other, video_stream(self.path, other))):
                if not packet.size:
                    continue
                dts = latest if packet.dts is None else packet.dts * tick
                if packet.pts is None or dts < latest - CLOCK_NOISE:
                    return 0, None  # these times are known only after decoding
                if dts > first + self._start:
                    break
                latest = dts
                if packet.pts * tick <= first + self._start + _SAME_TIME and is_restart(packet):
                    frames_before, packets_before = frames, number
                if packet.has_sidedata("new_extradata") and number:
                    break  # a decoder that begins later would not have these parameters
                frames += not packet.is_discard
        self._skipped_packets = packets_before
        return frames_before, first if frames_before else None

    def _add_warnings(self, damaged_places: int, end: float, declared: float | None) -> None:
        """Warn of damage, jumps and a missing end; ``declared`` is None if the video was not read to its end."""
        warnings = []
        if damaged_places:
            warnings.append(f"is damaged in {damaged_places} place(s); what could be read was used")
        if self._jumps:
            jumps = f"{len(self._jumps)} time(s), by {sum(self._jumps):.1f} s in all, as in joined recordings"
            warnings.append(f"its clock jumps forward {jumps}; the video continues there without a gap")
        if declared is not None and declared - end > length_tolerance(declared):
            warnings.append(f"ends early: {end:.1f} s of the declared {declared:.1f} s could be read")
        self.warnings += (f"{self.path}: {warning}" for warning in warnings)


def first_frame_time(video: Path) -> float:
    """Return when the first frame is shown, in seconds on the file's clock. Raise VideoError if it has no time."""
    with VideoDecoder(video, threads=1) as decoder:
        decoder.batch_size = 1
        for _, _, frame in decoder.frames():
            timestamp = decoder.stamp(frame)
            if timestamp is not None and frame.time_base:
                return float(timestamp * frame.time_base)
            break
    raise VideoError(f"{video}: has frames without timestamps")
