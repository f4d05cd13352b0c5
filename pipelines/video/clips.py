"""Clips of a video, written in one way through it: the tracks of the video, and the files of the clips."""

from __future__ import annotations

import errno
import math
import re
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from heapq import merge
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

import av
import numpy as np
from av.container import InputContainer
from av.packet import Packet
from av.stream import Disposition, Stream
from numpy.typing import NDArray

from pipelines.errors import BasslError, BasslWarning, VideoError, count, first_line
from pipelines.video.containers import demux, open_container, program_tracks, video_stream

# Seconds by which sound is read behind the frames, whose clock may restart before; and after which a clip is closed.
_LAG, _SLACK = 1.0, 10.0

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
# ISO 639-2 has two codes for these languages, of which FFmpeg writes only the second to QuickTime files.
_CODES = (
    "deu ger nld dut ell gre isl ice zho chi sqi alb mkd mac hye arm kat geo bod tib mya bur msa may cym wel eus baq"
)
_QUICKTIME_CODES = dict(zip(_CODES.split()[::2], _CODES.split()[1::2], strict=True))
_WRITE_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EIO, errno.EFBIG})


def suffix_for(video: Path, purpose: Literal["copies", "chapters", "encoding"]) -> str:
    """Return the suffix of a file made from a video. Raise VideoError if it is not a video."""
    with Source(video) as source:
        kind, suffix = source.kind, video.suffix.lower()
    if purpose == "encoding":
        return ".mp4" if kind == "mov" else ".mkv"
    if purpose == "chapters" and kind not in ("mov", "matroska"):
        return ".mkv"
    keeps = (kind, suffix) in {("mov", ".mov"), ("mov", ".m4v"), ("matroska", ".webm")}
    return suffix if keeps else _COPY_SUFFIXES.get(kind, ".mkv")


class Frame(NamedTuple):
    """A frame of a video, or its packet; the time is in seconds from the video's first frame."""

    time: float
    number: int
    content: Any


class Item(NamedTuple):
    """A packet of sound, subtitles or further video, with times in seconds from the video's first frame."""

    time: float
    length: float
    packet: Packet[Any]
    content: Any  # the packet, or samples of it
    offset: float  # seconds by which it is later than its timestamp, where recordings were joined


class Source:
    """An open video: its video ``stream``, and ``tracks`` of sound, subtitles and further video of its program."""

    def __init__(self, path: Path, first: float = 0.0, offsets: Sequence[float] = (0.0,)) -> None:
        self.path, self.first = path, first  # when its first frame is shown, in seconds on the file's clock
        self.offsets = list(offsets)  # seconds to add to the timestamps of each recording, where several were joined
        self.now = 0.0  # the time of the newest frame
        self.copied: set[int] = set()  # indices of the streams that clips have
        self.container = open_container(path)
        self.stream = video_stream(path, self.container)
        self.kind = self.container.format.name.split(",")[0]  # of the demuxer: ``mov`` for MP4
        program = program_tracks(self.container, self.stream)
        kinds, cover = ("audio", "subtitle", "video"), Disposition.attached_pic
        tracks = [track for track in program if track.type in kinds and not track.disposition & cover]
        if self.kind == "matroska":
            _add_regions(path, tracks)
        self.tracks = [t for t in tracks if t.index != self.stream.index and t.codec_context is not None]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.container.close()

    def items(
        self, tracks: Sequence[Stream], decode: Callable[[Any], list[Any]] = lambda packet: [packet]
    ) -> Iterator[Item]:
        """Yield the packets of tracks, or what ``decode`` returns for them, in file order. Where recordings were
        joined, time continues as that of the frames; sound that overlaps there is left out."""
        ends: dict[int, float] = {}  # of sound
        for packet in read_packets(self.container, *tracks):
            index, is_sound = packet.stream.index, packet.stream.type == "audio"
            contents: Iterator[Any] = (content for content in decode(packet) if content.pts is not None)
            for content in contents:
                tick = float(content.time_base)
                time, length = content.pts * tick - self.first, (content.duration or 0) * tick
                offset = min(self.offsets, key=lambda offset: abs(time + offset + _LAG - self.now))
                if is_sound and time + offset < ends.get(index, -math.inf) - length / 2:
                    continue
                ends[index] = time + offset + length
                yield Item(time + offset, length, packet, content, offset)

    def warn_left_out(self) -> None:
        """Warn, in one line, of the streams that clips do not have."""
        kinds = Counter(
            stream.type
            for stream in self.container.streams
            if stream.index not in self.copied
            # Chapters and timecodes are written by the muxer.
            and not (stream.type == "data" and (stream.name == "bin_data" or "timecode" in stream.metadata))
        )
        if kinds:
            parts = ", ".join(count(number, f"{kind} track") for kind, number in kinds.items())
            warnings.warn(f"{self.path}: left out: {parts}", BasslWarning, stacklevel=2)


def read_packets(container: InputContainer, *tracks: Stream) -> Iterator[Packet[Any]]:
    """Yield the packets of tracks in file order, up to the first read error, as in decoding."""
    with suppress(av.FFmpegError):
        for packet in demux(container, *tracks) if tracks else ():
            if packet.size:  # empty ones only flush decoders
                yield packet


def _add_regions(path: Path, tracks: Sequence[Stream]) -> None:
    """Read the languages of Matroska tracks with their regions, such as ``es-419``, which FFmpeg does not read."""
    with path.open("rb") as file:
        header = file.read(2**20)
    # LanguageBCP47 (RFC 9559), with a length of one byte
    elements = re.finditer(rb"\x22\xb5\x9d([\x82-\xbf])", header)
    names = [header[match.end() : match.end() + match[1][0] - 0x80].decode("ascii", "replace") for match in elements]
    for track, name in zip(tracks, names, strict=False):
        if "-" in name and len(names) == len(tracks):
            track.metadata["language"] = name


class ClipRange(NamedTuple):
    """The frames of a clip, counted in their order, and its times in seconds from the video's first frame."""

    first: int
    last: int
    start: float
    end: float
    dts: Sequence[int] | NDArray[np.int64] = ()  # of copies: when the packet of each frame is decoded, in ticks


@dataclass(eq=False)
class ClipFile:
    """The file of a clip, or of a copy of the whole video, with its tags and chapters."""

    path: Path
    source: Source
    clip: ClipRange
    chapters: Sequence[Any] | None = None  # of a copy of the whole video; None: those of the video

    def open(self, frame: Any) -> None:
        """Open the file before its first frame. Raise VideoError if its format does not support the video."""
        self.muxer, self.is_whole = _MUXERS[self.path.suffix], self.chapters is not None
        self.streams: dict[int, Stream] = {}  # by the index of the video's own
        self._first_keys: dict[int, float] = {}  # times, of further video tracks
        # FFmpeg writes 360-degree, stereo and Dolby Vision data to MP4 only if they may be unofficial.
        tags, options = self._tags(self.source.container), {"strict": "unofficial"}
        if self.muxer in ("mp4", "mov") and any("." in key for key in tags):
            # Keys such as com.apple.quicktime.creationdate; the muxer then writes all tags as keys.
            options["movflags"] = "use_metadata_tags"
            tags = {key: value for key, value in tags.items() if tags.get(key[:-4]) != value}  # title of title-eng
        self.container = av.open(f"file:{self.path}", "w", format=self.muxer, container_options=options)
        self.container.metadata.update(tags)
        self._start, end = self.source.first + self.clip.start, self.source.first + self.clip.end
        if self.is_whole:  # players count from the start of the file, which may be the start of its sound
            self._start = (self.source.container.start_time or 0) / av.time_base
        chapters = []
        for chapter in self.source.container.chapters() if self.chapters is None else self.chapters:
            tick = float(chapter["time_base"] or 1)
            span = [min(max(chapter[key] * tick, self._start), end) - self._start for key in ("start", "end")]
            if span[0] < span[1]:
                chapters.append(chapter | {"start": round(span[0] / tick), "end": round(span[1] / tick)})
        self.container.set_chapters(chapters)
        self.add_streams(frame)
        if self.muxer == "matroska":
            self.copy_streams(self.source.container.streams.attachments)

    def add_streams(self, frame: Any) -> None:
        """Add the streams of frames like the first one, and of the tracks."""
        self.copy_streams([self.source.stream, *self.source.tracks])

    def copy_streams(self, streams: Iterable[Stream]) -> None:
        """Add streams to copy packets to. Subtitles and further video that the format does not support are left out."""
        for stream in streams:
            is_further = stream.type == "video" and stream is not self.source.stream
            try:
                copy = self.container.add_stream_from_template(stream, opaque=True)  # to copy needs no encoder
            except ValueError as error:
                if stream.type == "subtitle" or is_further:
                    continue
                hint = "" if self.is_whole else "; give `exact=True`"
                raise VideoError(f"{self.source.path}: cannot be copied ({first_line(error)}){hint}") from error
            self.add_stream(stream, copy)
            codec: Any = stream.codec_context
            if self.source.kind == "mov" and codec is not None and codec.name in ("hevc", "prores"):
                # PyAV leaves the tag to the muxer, which takes hev1 for hvc1, and ProRes 422 for 4444.
                copy.codec_context.codec_tag = codec.codec_tag

    def add_stream(self, stream: Stream, copy: Stream) -> None:
        """Note the stream of the file with the content of a stream of the video, and give it its tags."""
        copy.metadata.update(self._tags(stream))
        copy.disposition = stream.disposition
        self.streams[stream.index] = copy
        self.source.copied.add(stream.index)

    def _tags(self, item: InputContainer | Stream) -> dict[str, str]:
        """Return the tags to write for the video or one of its streams."""
        tags = {key: value for key, value in item.metadata.items() if not _DROPPED_TAG.fullmatch(key)}
        if self.muxer == "mov" and "language" in tags:
            tags["language"] = _QUICKTIME_CODES.get(tags["language"], tags["language"])
        if "name" in tags:  # of a track in MP4
            tags.setdefault("title", tags["name"])
        return {key: value for key, value in tags.items() if self.is_whole or key.lower() != "timecode"}

    def has_frame(self, frame: Frame) -> bool:
        """Return whether a frame is in the clip: not if it is shown before the first, as it depends on those before."""
        return self.clip.first <= frame.number <= self.clip.last and frame.time >= self.clip.start

    def add_frame(self, frame: Frame) -> None:
        """Write the packet of a frame."""
        self.copy_packet(frame.content, int(self.clip.dts[frame.number - self.clip.first]))

    def add_item(self, item: Item) -> None:
        """Write a packet that belongs to the clip: sound by its middle, other tracks by their start."""
        kind, index = item.packet.stream.type, item.packet.stream.index
        time = item.time + item.length / 2 if kind == "audio" else item.time
        if not self.clip.start <= time < self.clip.end:
            return
        if kind == "video" and item.packet.is_keyframe:
            self._first_keys.setdefault(index, time)
        if kind != "video" or time >= self._first_keys.get(index, self.clip.end):
            longest = self.clip.end - time if kind == "subtitle" else math.inf
            self.copy_packet(item.packet, item.packet.dts, item.offset, longest)

    def copy_packet(self, packet: Packet[Any], dts: int | None, offset: float = 0.0, longest: float = math.inf) -> None:
        """Write a copied stream's packet, decoded at ``dts`` ticks, ``offset`` seconds later, ``longest`` at most."""
        if (stream := self.streams.get(packet.stream.index)) is None or packet.pts is None:
            return
        before = packet.stream, packet.time_base, packet.pts, packet.dts, packet.duration
        shift = round((offset - self._start) / float(packet.time_base))
        packet.stream, packet.pts, packet.dts = stream, packet.pts + shift, None if dts is None else dts + shift
        if packet.duration and longest < packet.duration * packet.time_base:
            packet.duration = max(1, round(longest / packet.time_base))
        self.container.mux(packet)
        packet.stream, packet.time_base, packet.pts, packet.dts, packet.duration = before  # for other clips

    def close(self) -> None:
        """Finish the file."""
        self.container.close()


def write_clips(files: Iterable[ClipFile], frames: Iterable[Frame], items: Iterable[Item]) -> None:
    """Write clips, which may overlap, from frames and items in order. Raise VideoError if a clip has no frame."""
    waiting = deque(sorted(files, key=lambda file: file.clip.first))
    active: list[ClipFile] = []
    events: Iterator[Frame | Item] = merge(frames, items, key=lambda event: event.time + _LAG * isinstance(event, Item))
    try:
        for event in events:
            if isinstance(event, Item):
                for file in active:
                    file.add_item(event)
                continue
            while waiting and waiting[0].has_frame(event):
                waiting[0].open(event.content)
                active.append(waiting.popleft())
            for file in active:
                if file.has_frame(event):
                    file.add_frame(event)
            for file in [file for file in active if event.number > file.clip.last]:
                if event.time > file.clip.end + _SLACK:
                    active.remove(file)
                    file.close()
    finally:
        for file in active:
            file.close()
    if waiting:
        scenes = count(len(waiting), "scene")
        raise VideoError(f"{waiting[0].source.path}: has no frame of {scenes}; give the scenes.json of this video")


@contextmanager
def ffmpeg_errors(video: Path) -> Iterator[None]:
    """Turn FFmpeg's errors into errors of one line."""
    try:
        yield
    except av.FFmpegError as error:
        reason = (error.strerror or str(error)).lower()
        if error.errno in _WRITE_ERRORS:
            raise BasslError(f"the clips of {video} cannot be written ({reason})") from error
        raise VideoError(f"{video}: cannot be cut ({reason})") from error
