"""Reading the packets of a video, and writing them to files of a format that can hold them."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import av
from av.packet import Packet
from av.stream import AttachmentStream, Stream

from pipelines.errors import BasslError, VideoError, first_line
from pipelines.scenes import SceneData
from pipelines.video.containers import demux
from pipelines.video.decoding import VideoDecoder

SAME_TIME = 0.002
"""Times that differ by less, in seconds, are equal: containers round to milliseconds."""

SLACK = 10.0
"""Seconds after its end at which a clip is closed: sound may come later in the file than its frames, but not more."""

FAR_SOUND = "{}: its sound is interleaved too far from its frames; copy it whole (with `chapters`) and cut the copy"

# Suffix of copies, by demuxer, for formats that FFmpeg also writes; Matroska takes nearly everything else.
_COPY_SUFFIXES = {"mov": ".mp4", "matroska": ".mkv", "mpegts": ".ts", "avi": ".avi", "flv": ".flv", "asf": ".wmv"}
MUXERS = {suffix: kind for kind, suffix in _COPY_SUFFIXES.items()}
"""FFmpeg's muxer, by suffix: it has the name of the demuxer, but the muxers of MP4 and WebM have names of their own."""
MUXERS |= {".mp4": "mp4", ".m4v": "mp4", ".mov": "mov", ".webm": "webm"}
_WITH_CHAPTERS = ("mov", "matroska")

# The start timecode is wrong in a clip; the other tags are written by the muxer.
_DROPPED_TAGS = frozenset({"timecode", "encoder", "major_brand", "minor_version", "compatible_brands", "DURATION"})

_WRITE_ERRORS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS, errno.EIO, errno.EFBIG})


def suffix_for(video: Path, purpose: Literal["copies", "chapters", "encoding"]) -> str:
    """The suffix of a file made from a video. Copies keep the video's format if FFmpeg can write it (for ``chapters``:
    with chapters), else they are ``.mkv``; encoded clips are ``.mp4`` for MP4 and related formats, else ``.mkv``.

    Raises:
        VideoError: it is not a video.
    """
    with VideoDecoder(video) as source:
        kind, own = source.kind, video.suffix.lower()
    if purpose == "encoding":
        return ".mp4" if kind == "mov" else ".mkv"
    if purpose == "chapters" and kind not in _WITH_CHAPTERS:
        return ".mkv"
    keeps = (kind, own) in {("mov", ".mov"), ("mov", ".m4v"), ("matroska", ".webm")}
    return own if keeps else _COPY_SUFFIXES.get(kind, ".mkv")


class PacketReader(VideoDecoder):
    """A video as packets: its video stream, all sound tracks, and subtitles."""

    def tracks(self) -> list[Stream]:
        """The video stream, then sound and subtitles."""
        others = (*self.container.streams.audio, *self.container.streams.subtitles)
        return [self.stream, *(stream for stream in others if stream.codec_context is not None)]

    def packets(self, tracks: Sequence[Stream]) -> Iterator[Packet[Stream]]:
        """The packets in file order, up to the first read error, as in decoding.

        Raises:
            VideoError: the file lacks presentation timestamps.
        """
        if self.lacks_times:
            raise VideoError(
                f"{self.path}: AVI does not say when frames are shown that are stored in another order; "
                "convert it to Matroska (mkvmerge -o video.mkv video.avi) and copy that"
            )
        with suppress(av.FFmpegError):
            # Empty packets at the end only flush decoders.
            yield from (packet for packet in demux(self.container, *tracks) if packet.size)


class CopyWriter:
    """Writes a copy: packets unchanged, with timestamps relative to ``start``. Subtitles that the format does not
    support are left out. Only a copy of the ``whole`` video keeps its start timecode."""

    def __init__(
        self, path: Path, source: PacketReader, tracks: Sequence[Stream], start: Fraction, whole: bool = False
    ) -> None:
        self._container = av.open(f"file:{path}", "w", format=MUXERS[path.suffix])
        self._streams: dict[int, Stream] = {}
        self._shifts: dict[int, int] = {}
        for track in tracks:
            try:
                stream = self._container.add_stream_from_template(track, opaque=True)  # to copy needs no encoder
            except ValueError as error:  # PyAV's error for a codec that the format does not support
                if track.type == "subtitle":
                    continue
                hint = "" if whole else "; give `exact=True`"
                raise VideoError(f"{source.path}: cannot be copied ({first_line(error)}){hint}") from error
            stream.metadata.update(copied_tags(track.metadata))
            stream.disposition = track.disposition
            if source.kind == "mov" and path.suffix != ".mkv" and track.codec_context.name in ("hevc", "prores"):
                # PyAV leaves the tag to the muxer, which takes hev1 for hvc1, and ProRes 422 for 4444.
                stream.codec_context.codec_tag = track.codec_context.codec_tag
            self._streams[track.index] = stream
            if path.suffix != ".avi":  # in AVI every track begins at zero
                self._shifts[track.index] = round(start / track.time_base) if track.time_base else 0
        self._container.metadata.update(copied_tags(source.container.metadata))
        if whole and "timecode" in source.stream.metadata:
            self._streams[source.stream.index].metadata["timecode"] = source.stream.metadata["timecode"]
        self._sound_ends: dict[int, int] = {}

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
            if copy.dts <= self._sound_ends.get(index, copy.dts - 1):  # joined recordings: their sound may overlap
                return
            self._sound_ends[index] = copy.dts
        self._container.mux(copy)

    def set_chapters(self, scenes: SceneData, titles: Sequence[str], first: Fraction) -> None:
        """Make each scene a chapter; ``first`` is the presentation time of the video's first frame."""
        tick = Fraction(1, 1_000_000)
        chapters: list[Any] = []
        for scene, title in zip(scenes.scenes, titles, strict=True):
            start, end = (max(0, round((first + Fraction(time)) / tick)) for time in (scene.start, scene.end))
            span = {"start": start if scene.start else 0, "end": end, "time_base": tick}
            chapters.append({"id": scene.index + 1, **span, "metadata": {"title": title}})
        self._container.set_chapters(chapters)

    def attach(self, attachment: AttachmentStream) -> None:
        name = attachment.name or f"attachment-{attachment.index}"
        self._container.add_attachment(name, attachment.mimetype or "application/octet-stream", attachment.data)

    def close(self) -> None:
        self._container.close()


def copied_tags(metadata: Mapping[str, str]) -> dict[str, str]:
    return {
        key: value for key, value in metadata.items() if key not in _DROPPED_TAGS and not key.startswith("_STATISTICS")
    }


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
