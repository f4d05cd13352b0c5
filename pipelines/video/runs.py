"""Decoding a film in runs: several decoders of one thread each, every one at its own stretch of packets.

A stretch begins at a packet from which a decoder can begin anew, so that nothing in it needs what came before. The
packets are read once, in order, and each goes to one decoder; pictures come out in the order of the runs. So they are
exactly those that one decoder gives, whatever the container. Where nothing shows that a decoder can begin anew (an
open group of pictures, a codec that is not listed here), the run goes on: in the extreme, the film is one run.

Several decoders of one thread cost less than one decoder of several threads, which must hand each picture on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import chain, islice
from queue import Full, Queue, SimpleQueue
from threading import Event, Lock, Semaphore, Thread
from typing import Generic, TypeVar

import av
from av.packet import Packet
from av.video.codeccontext import VideoCodecContext
from av.video.frame import VideoFrame
from av.video.stream import VideoStream

Seen = TypeVar("Seen")

# Batches of what was seen, in order, then None or what went wrong.
_Run = Queue[Sequence[Seen] | BaseException | None]

# A shorter run costs more to hand over than it brings.
_SHORTEST_RUN = 24

# A longer one is not read ahead: packets are decoded as they are read, while other decoders wait.
_LONGEST_RUN = 600
_LARGEST_RUN = 32 * 2**20

# Pictures that are looked at and handed over at a time.
_BATCH = 16

# How often a decoder that waits looks whether it is still needed, in seconds.
_PATIENCE = 0.1


class Damage:
    """Counts the places at which a film is damaged; several threads may note some."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.places = 0

    def note(self) -> None:
        with self._lock:
            self.places += 1


def decode(
    packets: Iterable[Packet[VideoStream]],
    decoder: VideoCodecContext,
    look: Callable[[Sequence[VideoFrame]], Sequence[Seen]],
    damage: Damage,
) -> Iterator[Sequence[Seen]]:
    """What ``look`` makes of the pictures, some at a time, in order of showing, from one decoder.

    Args:
        packets: from a place on at which a decoder can begin.
        decoder: afterwards it can begin anew.
        look: must not keep frames longer than their pixels are needed: their memory is the decoder's.
        damage: told of packets that cannot be decoded and of pictures that are not whole.
    """
    waiting: list[VideoFrame] = []
    for packet in chain(packets, [None]):  # None: what the decoder still holds
        try:
            frames = decoder.decode(packet)
        except av.FFmpegError:
            damage.note()
            continue
        for frame in frames:
            if frame.is_corrupt:
                damage.note()
            waiting.append(frame)
        if len(waiting) >= _BATCH:
            yield look(waiting)
            waiting = []
    if waiting:
        yield look(waiting)
    decoder.flush_buffers()


class DecodedRuns(Generic[Seen]):
    """Iterate once for what :func:`decode` gives, from several decoders, each in a thread of its own.

    ``look`` runs in these threads. It is done with the film's first pictures before it sees any other, so that it may
    take its bearings from the first one.

    Attributes:
        exact: afterwards, whether it is certain that one decoder gives the same pictures: there was one run, or each
            packet of each gave one picture.
    """

    def __init__(
        self,
        packets: Iterator[Packet[VideoStream]],
        decoders: Sequence[VideoCodecContext],
        begins_anew: Callable[[Packet[VideoStream]], bool],
        look: Callable[[Sequence[VideoFrame]], Sequence[Seen]],
        damage: Damage,
        waiting: int,
    ) -> None:
        """Args:
        packets, look, damage: as for :func:`decode`.
        decoders: not yet used.
        begins_anew: from :func:`new_beginnings`.
        waiting: of one run, no more pictures than this wait to be taken.
        """
        self._packets = packets
        self._begins_anew = begins_anew
        self._look = look
        self._damage = damage
        self._waiting = max(2, waiting // _BATCH)
        self._threads = [Thread(target=self._work, args=(decoder,), daemon=True) for decoder in decoders]
        self._reading = Lock()  # held by the thread that reads packets
        self._next: Packet[VideoStream] | None = None  # the first packet of the next run, where it was read
        self._runs: SimpleQueue[_Run[Seen] | None] = SimpleQueue()  # in the order of the film, then None
        self._room = Semaphore(2 * len(decoders))  # runs that may be in hand, the one that is taken included
        self._stopped = Event()
        self._count = 0
        self._uneven = False

    @property
    def exact(self) -> bool:
        return self._count == 1 or not self._uneven

    def __iter__(self) -> Generator[Seen, None, None]:
        batches = self._batches()
        try:
            self._threads[0].start()
            first = next(batches, [])
            for thread in self._threads[1:]:  # only now: the first pictures have been looked at
                thread.start()
            yield from first
            for batch in batches:
                yield from batch
        finally:
            self._stopped.set()
            for _ in self._threads:
                self._room.release()
            for thread in self._threads:
                if thread.ident is not None:
                    thread.join()

    def _batches(self) -> Iterator[Sequence[Seen]]:
        while (run := self._runs.get()) is not None:
            while (batch := run.get()) is not None:
                if isinstance(batch, BaseException):
                    raise batch
                yield batch
            self._room.release()

    def _work(self, decoder: VideoCodecContext) -> None:
        run: _Run[Seen] = Queue()
        try:
            while True:
                self._room.acquire()
                with self._reading:
                    packets = self._one_run()
                    ahead = list(_first(packets))
                    more = next(packets, None)
                    if self._stopped.is_set() or not ahead:
                        self._runs.put(None)
                        return
                    run = Queue(self._waiting)
                    self._runs.put(run)
                    self._count += 1
                    if more is not None:
                        if not decoder.is_open:  # a film that shows no new beginning for so long may be one run
                            decoder.thread_count, decoder.thread_type = len(self._threads), "AUTO"
                        self._decode(chain(ahead, [more], packets), decoder, run)
                        continue
                self._decode(ahead, decoder, run)
        except BaseException as error:
            # Where the packets could not be read, this run has been taken already and is taken once more.
            self._put(run, error)
            self._runs.put(run)

    def _one_run(self) -> Iterator[Packet[VideoStream]]:
        """The packets of the next run, taken from the film one by one."""
        packets = self._packets if self._next is None else chain([self._next], self._packets)
        self._next = None
        for number, packet in enumerate(packets):
            if packet.has_sidedata("new_extradata"):  # for all that follows: only the decoder that gets it can go on
                self._begins_anew = lambda packet: False
            elif number >= _SHORTEST_RUN and self._begins_anew(packet):
                self._next = packet
                return
            yield packet

    def _decode(self, packets: Iterable[Packet[VideoStream]], decoder: VideoCodecContext, run: _Run[Seen]) -> None:
        expected = shown = 0

        def counted() -> Iterator[Packet[VideoStream]]:
            nonlocal expected
            for packet in packets:
                expected += not packet.is_discard
                yield packet

        for batch in decode(counted(), decoder, self._look, self._damage):
            shown += len(batch)
            self._put(run, batch)
            if self._stopped.is_set():
                return
        self._uneven |= shown != expected
        self._put(run, None)

    def _put(self, run: _Run[Seen], batch: Sequence[Seen] | BaseException | None) -> None:
        while not self._stopped.is_set():
            with suppress(Full):
                run.put(batch, timeout=_PATIENCE)
                return


def _first(packets: Iterator[Packet[VideoStream]]) -> Iterator[Packet[VideoStream]]:
    """As many packets as may be read ahead."""
    size = 0
    for packet in islice(packets, _LONGEST_RUN):
        yield packet
        size += packet.size
        if size >= _LARGEST_RUN:
            return


def new_beginnings(stream: VideoStream) -> Callable[[Packet[VideoStream]], bool] | None:
    """A test for packets from which a decoder of the stream can begin anew, or None where no packet shows it.

    In H.264 and HEVC these are the IDR pictures: nothing after one refers to what came before it, and all before it
    is shown before it. In VP9 and AV1 a key-frame replaces all that later pictures may refer to. What else is
    called a key-frame (the first picture of an open group of pictures) may have pictures after it that need earlier
    ones.
    """
    codec = stream.codec_context.name
    if codec in ("vp9", "av1", "libdav1d"):
        return lambda packet: packet.is_keyframe
    if codec not in ("h264", "hevc"):
        return None
    header = stream.codec_context.extradata or b""
    length_at = 4 if codec == "h264" else 21
    # avcC and hvcC begin with their version, 1; units then have a length before them, otherwise a start code.
    width = (header[length_at] & 3) + 1 if len(header) > length_at and header[0] == 1 else None
    is_idr = _is_idr_of_h264 if codec == "h264" else _is_idr_of_hevc

    def begins_anew(packet: Packet[VideoStream]) -> bool:
        return packet.is_keyframe and any(is_idr(unit) for unit in _units(bytes(packet), width))

    return begins_anew


def _units(data: bytes, width: int | None) -> Iterator[bytes]:
    """The first three bytes of each NAL unit of a packet."""
    if width is None:
        for code in re.finditer(rb"\x00\x00\x01", data):
            yield data[code.end() : code.end() + 3]
        return
    at = 0
    while at + width < len(data):
        start = at + width
        yield data[start : start + 3]
        at = start + int.from_bytes(data[at:start], "big")


def _is_idr_of_h264(unit: bytes) -> bool:
    return len(unit) == 3 and unit[0] & 31 == 5


def _is_idr_of_hevc(unit: bytes) -> bool:
    # The second bit of the slice's header: pictures that wait to be shown are thrown away.
    return len(unit) == 3 and unit[0] >> 1 & 63 in (19, 20) and not unit[2] & 64
