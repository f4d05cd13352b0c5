"""Decoding packets to frames: with one decoder, or in parallel with several, each with its own run of packets.

A run begins at a packet at which a decoder can restart (a closed group of pictures), so that the frames are exactly
those of a single decoder. If no packet is known to be one, the video is one run. Several decoders with one thread each
cost less than one decoder with several threads, which must synchronize per frame.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from queue import Full, Queue
from threading import Event, Lock, Thread
from typing import Any, Generic, TypeVar

import av
from av.packet import Packet
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

Result = TypeVar("Result")
Batches = Callable[[Iterator[VideoFrame]], Iterator[Sequence[Result]]]
"""Makes one result of each frame of a run, in batches, without keeping frames: their memory belongs to the decoder."""
RestartTest = Callable[["Packet[VideoStream]"], bool]

# Batches of results in order, then None or an exception.
_Run = Queue[Sequence[Result] | BaseException | None]

# Shorter runs cost more in hand-over than they gain.
_SHORTEST_RUN = 24

# Longer runs are not read ahead: packets are decoded as they are read, while other decoders wait.
_LONGEST_RUN = 600
_LARGEST_RUN = 32 * 2**20

# Interval in seconds at which a waiting decoder checks whether it should stop.
_POLL_SECONDS = 0.1


class Damage:
    """Thread-safe counter of damaged places in a video. As a context it counts and suppresses FFmpeg's errors."""

    def __init__(self) -> None:
        self._lock, self.places = Lock(), 0

    def note(self) -> None:
        with self._lock:
            self.places += 1

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> bool:
        if isinstance(error, av.FFmpegError):
            self.note()
        return isinstance(error, av.FFmpegError)


def decode(packets: Iterable[Packet[VideoStream]], decoder: VideoCodecContext, damage: Damage) -> Iterator[VideoFrame]:
    """Yield the frames of packets, from a restart point on, in presentation order; the decoder can be used again."""
    last: Packet[VideoStream] | None = None
    for packet in chain(packets, [None]):  # None: flush the decoder
        frames: list[VideoFrame] = []
        with damage:
            frames = decoder.decode(packet)
        last = packet or last
        for frame in frames:
            if packet is None and last is not None and last.time_base:
                frame.time_base = last.time_base  # PyAV sets none in frames of a flush: their time would be NaN
            if frame.is_corrupt:
                damage.note()
            yield frame
    decoder.flush_buffers()


@dataclass(eq=False)
class ParallelDecoder(Generic[Result]):
    """Iterate once for the batches of a video, made in the threads of several decoders. The first batch is finished
    before any other is begun, so that ``batches`` may depend on the first frame."""

    packets: Iterator[Packet[VideoStream]]
    decoders: Sequence[VideoCodecContext]  # not yet used
    is_restart: RestartTest
    batches: Batches[Result]
    damage: Damage
    most_ready: int  # batches of one run that are held ready

    def __post_init__(self) -> None:
        self._threads = [Thread(target=self._decode_runs, args=(decoder,), daemon=True) for decoder in self.decoders]
        self._reading = Lock()  # held by the thread that reads packets
        self._first: Packet[VideoStream] | None = None  # of the next run, if it was read
        self._runs: Queue[_Run[Result] | None] = Queue(2 * len(self.decoders))  # in the order of the video, then None
        self._stopped = Event()

    def __iter__(self) -> Generator[Sequence[Result], None, None]:
        batches = self._finished()
        try:
            self._threads[0].start()
            first = next(batches, [])
            for thread in self._threads[1:]:
                thread.start()
            yield first
            yield from batches
        finally:
            self._stopped.set()
            for thread in self._threads:
                if thread.ident is not None:
                    thread.join()

    def _finished(self) -> Iterator[Sequence[Result]]:
        """Yield the batches of all runs in order, as they are finished."""
        while (run := self._runs.get()) is not None:
            while (batch := run.get()) is not None:
                if isinstance(batch, BaseException):
                    raise batch
                yield batch

    def _decode_runs(self, decoder: VideoCodecContext) -> None:
        """Decode one run after the other; this is what each thread does."""
        while not self._stopped.is_set():
            run: _Run[Result] = Queue(self.most_ready)
            try:
                with self._reading:
                    self._put(self._runs, run)
                    packets, ahead, size = self._next_run(), [], 0
                    for packet in packets:
                        ahead.append(packet)
                        size += packet.size
                        if size >= _LARGEST_RUN or len(ahead) >= _LONGEST_RUN:
                            break
                    if not ahead:
                        self._put(run, None)
                        self._put(self._runs, None)
                        return
                    if (more := next(packets, None)) is not None:
                        if not decoder.is_open:  # no restart point for a long time: the video may be one run
                            decoder.thread_count, decoder.thread_type = len(self._threads), "AUTO"
                        self._decode(chain(ahead, [more], packets), decoder, run)
                        continue
                self._decode(ahead, decoder, run)
            except BaseException as error:
                self._put(run, error)
                return

    def _next_run(self) -> Iterator[Packet[VideoStream]]:
        """Yield the packets of the next run, read one by one."""
        packets = self.packets if self._first is None else chain([self._first], self.packets)
        self._first = None
        for number, packet in enumerate(packets):
            if packet.has_sidedata("new_extradata"):  # it applies to all later packets: only this decoder can continue
                self.is_restart = lambda packet: False
            elif number >= _SHORTEST_RUN and self.is_restart(packet):
                self._first = packet
                return
            yield packet

    def _decode(self, packets: Iterable[Packet[VideoStream]], decoder: VideoCodecContext, run: _Run[Result]) -> None:
        for batch in self.batches(decode(packets, decoder, self.damage)):
            self._put(run, batch)
            if self._stopped.is_set():
                return
        self._put(run, None)

    def _put(self, queue: Queue[Any], item: object) -> None:
        """Put an item in a queue as soon as it has room, unless decoding was stopped."""
        while not self._stopped.is_set():
            with suppress(Full):
                queue.put(item, timeout=_POLL_SECONDS)
                return


# By codec: where its header has the size of length prefixes, and whether a unit that begins with three bytes is an IDR
# picture. With HEVC's no_output_of_prior_pics_flag (64), pictures before it that were not yet shown are discarded.
_IDR_UNITS: dict[str, tuple[int, Callable[[bytes], bool]]] = {
    "h264": (4, lambda unit: unit[0] & 31 == 5),
    "hevc": (21, lambda unit: unit[0] >> 1 & 63 in (19, 20) and not unit[2] & 64),
}


def restart_test(stream: VideoStream) -> RestartTest | None:
    """Return a test for packets at which a decoder of the stream can restart, or None if they cannot be recognized: IDR
    pictures in H.264 and HEVC, key frames in VP9 and AV1. Pictures after others may depend on earlier ones."""
    codec = stream.codec_context.name
    if codec in ("vp9", "av1", "libdav1d"):
        return lambda packet: packet.is_keyframe
    if codec not in _IDR_UNITS:
        return None
    header = stream.codec_context.extradata or b""
    length_at, is_idr = _IDR_UNITS[codec]
    # avcC and hvcC begin with their version, 1; units then have a length prefix, otherwise a start code.
    width = (header[length_at] & 3) + 1 if len(header) > length_at and header[0] == 1 else None

    def is_restart(packet: Packet[VideoStream]) -> bool:
        return packet.is_keyframe and any(len(u) == 3 and is_idr(u) for u in _units(bytes(packet), width))

    return is_restart


def _units(data: bytes, width: int | None) -> Iterator[bytes]:
    """Yield the first three bytes of each NAL unit of a packet."""
    if width is None:
        for code in re.finditer(rb"\x00\x00\x01", data):
            yield data[code.end() : code.end() + 3]
        return
    start = width
    while start < len(data):
        yield data[start : start + 3]
        start += int.from_bytes(data[start - width : start], "big") + width
