"""Reading the packets of a video, and writing them to files of a format that can hold them."""

from __future__ import annotations

import errno
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from fractions import Fraction
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import av
from av.container import InputContainer
from av.packet import Packet
from av.stream import Disposition, Stream
from av.video.stream import VideoStream

from pipelines.errors import BasslError, BasslWarning, VideoError, count, first_line
from pipelines.video.containers import demux, open_container
from pipelines.video.decoding import VideoDecoder

SAME_TIME = 0.002
"""Times that differ by less, in seconds, are equal: containers round to milliseconds."""

SLACK = 10.0
"""Seconds after its end at which a clip is closed: sound may come later in the file than its frames, but not more."""

FAR_SOUND = "{}: its sound is interleaved too far from its frames; copy it whole (with `chapters`) and cut the copy"

# Suffix of copies, by demuxer, for formats that FFmpeg also writes; Matroska takes nearly everything else.
_COPY_SUFFIXES = {"mov": ".mp4", "matroska": ".mkv", "mpegts": ".ts", "avi": ".avi", "flv": ".flv", "asf": ".wmv"}
# FFmpeg's muxer, by suffix: it has the name of the demuxer, but the muxers of MP4 and WebM have names of their own.
_MUXERS = {suffix: kind for kind, suffix in _COPY_SUFFIXES.items()}
_MUXERS |= {".mp4": "mp4", ".m4v": "mp4", ".mov": "mov", ".webm": "webm"}

# mkvmerge's statistics are wrong in a clip; the other tags are written by the muxer.
_DROPPED_TAG = re.compile(
    "encoder|major_brand|minor_version|compatible_brands|((DURATION|BPS|NUMBER_OF_.*)(-...)?|_STATISTICS.*)",
    re.IGNORECASE,
)
# How encoders such as Xvid and DivX mark MPEG-4 whose B-frames are stored in the packet of another frame, in pairs.
_PACKED = re.compile(rb"(DivX\d+(?:b|Build)\d+)p")
_MOST_EMPTY = 19  # bytes of a frame that only says that nothing changes, as FFmpeg takes it

_KINDS = {"video": "video track", "audio": "sound track", "subtitle": "subtitle track", "data": "data track"}

_WRITE_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EIO, errno.EFBIG})


def suffix_for(video: Path, purpose: Literal["copies", "chapters", "encoding"]) -> str:
    """Return the suffix of a file made from a video. Copies keep the video's format if FFmpeg can write it (with
    chapters), else they are ``.mkv``; encoded clips are ``.mp4`` for MP4 and related formats, else ``.mkv``.
    Raise VideoError if it is not a video."""
    with VideoDecoder(video) as source:
        kind, suffix = source.kind, video.suffix.lower()
    if purpose == "encoding":
        return ".mp4" if kind == "mov" else ".mkv"
    if purpose == "chapters" and kind not in ("mov", "matroska"):
        return ".mkv"
    keeps = (kind, suffix) in {("mov", ".mov"), ("mov", ".m4v"), ("matroska", ".webm")}
    return suffix if keeps else _COPY_SUFFIXES.get(kind, ".mkv")


class PacketReader(VideoDecoder):
    """A video as packets: its video stream, all sound tracks, subtitles, and further video tracks."""

    def tracks(self) -> list[Stream]:
        """Return the video stream, then sound, subtitles, and further video tracks, without covers."""
        streams = self.container.streams
        more_video = (s for s in streams.video if s.index != self.stream.index and not _is_cover(s))
        others = (*streams.audio, *streams.subtitles, *more_video)
        return [self.stream, *(s for s in others if s.codec_context is not None)]

    @cached_property
    def covers(self) -> dict[int, bytes]:
        """Read the cover images, by the index of their stream."""
        with open_container(self.path) as container:
            covers = [s for s in container.streams.video if _is_cover(s) and s.codec_context is not None]
            packets = (packet for packet in demux(container, *covers) if packet.size) if covers else ()
            return {packet.stream.index: bytes(packet) for packet in islice(packets, len(covers))}

    def warn_left_out(self, copied: Set[int], alpha: bool = False) -> None:
        """Warn, in one line, of the streams that are not ``copied``, and of ``alpha`` in the frames."""
        chapters = len(self.container.chapters())
        kinds: Counter[str] = Counter({"alpha channel": 1} if alpha else {})
        for stream in self.container.streams:
            is_chapters = stream.name == "bin_data" and stream.frames == chapters > 0
            is_written = stream.type == "data" and (is_chapters or "timecode" in stream.metadata)
            if stream.index not in copied and not is_written:
                kinds[self._kind(stream)] += 1
        if kinds:
            parts = ", ".join(count(number, kind) for kind, number in kinds.items())
            warnings.warn(f"{self.path}: left out: {parts}", BasslWarning, stacklevel=2)

    def _kind(self, stream: Stream) -> str:
        """Return a stream's kind, in words."""
        if _is_cover(stream):
            return "cover"
        if isinstance(stream, VideoStream) and self.container.metadata.get("major_brand", "").startswith("avi"):
            return "alpha track" if "gray" in (stream.pix_fmt or "") else "still image"
        return _KINDS.get(stream.type, stream.type)

    @property
    def is_packed(self) -> bool:
        """Return whether a packet may have two frames: MPEG-4 with B-frames in pairs."""
        decoder = self.stream.codec_context
        return decoder.name == "mpeg4" and bool(decoder.has_b_frames and _PACKED.search(decoder.extradata or b""))

    def packets(self, tracks: Sequence[Stream]) -> Iterator[Packet[Any]]:
        """Yield the packets in file order, each with one frame, up to the first read error, as in decoding. Raise
        VideoError if the file lacks presentation timestamps."""
        codec = self.stream.codec_context
        if self.kind == "avi" and codec.name in ("h264", "hevc") and codec.has_b_frames:
            raise VideoError(
                f"{self.path}: AVI does not say when frames are shown that are stored in another order; "
                "convert it to Matroska (mkvmerge -o video.mkv video.avi) and copy that"
            )
        if self.is_packed and self.kind != "avi":
            raise VideoError(f"{self.path}: has B-frames stored in pairs, whose times are unknown; give `exact=True`")
        # Empty packets at the end only flush decoders.
        packets: Iterator[Packet[Any]] = (packet for packet in demux(self.container, *tracks) if packet.size)
        in_order = self.kind == "avi" and self.stream.codec_context.name in ("h264", "hevc")
        with suppress(av.FFmpegError):
            for packet in self._unpacked(packets) if self.is_packed else packets:
                if in_order and packet.stream.index == self.stream.index:
                    packet.pts = packet.dts  # FFmpeg guesses a delay, as if frames were reordered
                yield packet

    def _unpacked(self, packets: Iterator[Packet[Any]]) -> Iterator[Packet[Any]]:
        """Put the second frame of a pair in the packet after it, whose own frame follows or is empty. A frame that is
        not a B-frame is shown when the next such frame is decoded."""
        contents: list[bytes] = []  # of frames that have no packet yet
        reference: Packet[Any] | None = None  # the newest frame that is no B-frame
        waiting: list[Packet[Any]] = []  # it, and what follows
        latest = 0
        for packet in packets:
            if packet.stream.index != self.stream.index:
                waiting.append(packet)
                continue
            content = _PACKED.sub(rb"\1n", bytes(packet))
            starts = [match.end() for match in re.finditer(b"\0\0\1\xb6(?=.)", content, re.DOTALL)]
            # The kind of a frame is in two bits: I, P, B, S. FFmpeg's bit stream filter takes small B-frames for empty.
            is_empty = len(content) <= _MOST_EMPTY and [content[start] >> 6 == 2 for start in starts] == [False]
            if not (contents and is_empty):
                second = starts[1] - 4 if len(starts) > 1 else len(content)
                contents += filter(None, (content[:second], content[second:]))
            content = contents.pop(0)
            frame: Packet[Any] = Packet(content)
            kind, latest = content[content.find(b"\0\0\1\xb6") + 4] >> 6, packet.dts or latest + 1
            frame.stream, frame.time_base, frame.duration = self.stream, packet.time_base, packet.duration
            frame.pts = frame.dts = latest
            frame.is_keyframe = kind == 0
            if kind != 2:
                if reference is not None:
                    reference.pts = latest
                yield from waiting
                reference, waiting = frame, []
            waiting.append(frame)
        if reference is not None:
            reference.pts = latest + 1
        yield from waiting


class ClipFile:
    """A file made from a video, with its tags, and its cover and attachments if the format supports them; only a copy
    of the ``whole`` video keeps its start timecode. ``copied`` are the streams of the video that are in it."""

    def __init__(self, path: Path, source: PacketReader, whole: bool = False) -> None:
        self._muxer, self._source, self._whole = _MUXERS[path.suffix], source, whole
        tags, options = self.tags_of(source.container), {}
        if self._muxer in ("mp4", "mov") and any("." in key for key in tags):
            # Keys such as com.apple.quicktime.creationdate; the muxer then writes all tags as keys.
            options["movflags"] = "use_metadata_tags"
            tags = {key: value for key, value in tags.items() if tags.get(key[:-4]) != value}  # title of title-eng
        self._container = av.open(f"file:{path}", "w", format=self._muxer, options=options)
        self._container.metadata.update(tags)
        self._streams: dict[int, Stream] = {}  # of packets that are copied
        self.copied: set[int] = set()
        if self._muxer == "matroska":
            for attachment in source.container.streams.attachments:
                self._attach(attachment, attachment.data)
            for index, image in source.covers.items():
                self._attach(source.container.streams[index], image)

    def _attach(self, stream: Stream, content: bytes) -> None:
        name, usual = f"attachment-{stream.index}", "application/octet-stream"
        if _is_cover(stream):
            name, usual = ("cover.png", "image/png") if content.startswith(b"\x89PNG") else ("cover.jpg", "image/jpeg")
        tags = stream.metadata
        self._container.add_attachment(tags.get("filename", name), tags.get("mimetype", usual), content)
        self.copied.add(stream.index)

    def tags_of(self, item: InputContainer | Stream) -> dict[str, str]:
        kept = {key: value for key, value in item.metadata.items() if not _DROPPED_TAG.fullmatch(key)}
        return {key: value for key, value in kept.items() if self._whole or key.lower() != "timecode"}

    def copy_stream(self, stream: Stream) -> Stream:
        """Add a stream to copy packets to. Raise ValueError, as PyAV does, if the format does not support it."""
        copy = self._container.add_stream_from_template(stream, opaque=True)  # to copy needs no encoder
        copy.metadata.update(self.tags_of(stream))
        copy.disposition = stream.disposition
        if stream is self._source.stream and self._source.is_packed:
            copy.codec_context.extradata = _PACKED.sub(rb"\1n", stream.codec_context.extradata or b"")
        self._streams[stream.index] = copy
        self.copied.add(stream.index)
        return copy

    def copy_covers(self) -> None:
        """Copy the covers to video streams, if the format has them so; after all other streams were added."""
        covers = self._source.covers if self._muxer in ("mp4", "mov") else {}
        for index in covers:
            self.copy_stream(self._source.container.streams[index])
        for index, image in covers.items():
            packet = Packet(image)
            packet.stream, packet.pts, packet.dts = self._streams[index], 0, 0
            self._container.mux(packet)

    def copy_packet(self, packet: Packet[Stream], shift: int, longest: float | None = None) -> None:
        """Write a packet of a copied stream, ``shift`` ticks earlier and at most ``longest`` seconds long."""
        copy = Packet(bytes(packet))
        copy.time_base = packet.time_base
        copy.pts = None if packet.pts is None else packet.pts - shift
        copy.dts = None if packet.dts is None else packet.dts - shift
        copy.duration = packet.duration
        if packet.duration and longest is not None:
            copy.duration = max(1, min(packet.duration, round(longest / packet.time_base)))
        copy.is_keyframe = packet.is_keyframe
        for data in packet.iter_sidedata():
            copy.set_sidedata(data)
        copy.stream = self._streams[packet.stream.index]
        self._container.mux(copy)

    def close(self) -> None:
        self._container.close()


class CopyWriter(ClipFile):
    """Writes a clip, or with ``chapters`` a copy of the whole video: packets unchanged, with timestamps relative to
    ``start``. Subtitles and further video tracks that the format does not support are left out."""

    def __init__(
        self, path: Path, source: PacketReader, tracks: Sequence[Stream], start: Fraction, chapters: Sequence[Any] = ()
    ) -> None:
        super().__init__(path, source, whole=bool(chapters))
        self._shifts: dict[int, int] = {}
        for track in tracks:
            is_further = track.type == "video" and track is not source.stream
            if is_further and self._muxer in ("avi", "flv", "asf"):
                continue
            try:
                stream = self.copy_stream(track)
            except ValueError as error:
                if track.type == "subtitle" or is_further:
                    continue
                hint = "" if chapters else "; give `exact=True`"
                raise VideoError(f"{source.path}: cannot be copied ({first_line(error)}){hint}") from error
            if source.kind == "mov" and path.suffix != ".mkv" and track.codec_context.name in ("hevc", "prores"):
                # PyAV leaves the tag to the muxer, which takes hev1 for hvc1, and ProRes 422 for 4444.
                stream.codec_context.codec_tag = track.codec_context.codec_tag
            if path.suffix != ".avi":  # in AVI every track begins at zero
                self._shifts[track.index] = round(start / track.time_base) if track.time_base else 0
        self._sound_ends: dict[int, int] = {}
        self._container.set_chapters(list(chapters))
        self.copy_covers()

    def add(self, packet: Packet[Stream], longest: float | None = None) -> None:
        index = packet.stream.index
        if index not in self._streams:
            return
        if packet.stream.type == "audio" and packet.dts is not None:
            if packet.dts <= self._sound_ends.get(index, packet.dts - 1):  # joined recordings: their sound may overlap
                return
            self._sound_ends[index] = packet.dts
        self.copy_packet(packet, self._shifts.setdefault(index, packet.dts or 0), longest)


def _is_cover(stream: Stream) -> bool:
    return bool(stream.disposition & Disposition.attached_pic)


@contextmanager
def ffmpeg_errors(video: Path, hint: str = "") -> Iterator[None]:
    """Turn FFmpeg's errors into errors of one line."""
    try:
        yield
    except av.FFmpegError as error:
        reason = (error.strerror or str(error)).lower()
        if error.errno in _WRITE_ERRORS:
            raise BasslError(f"the clips of {video} cannot be written ({reason})") from error
        raise VideoError(f"{video}: cannot be copied{hint} ({reason})") from error
