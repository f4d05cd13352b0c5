"""Subtitles: the lines of a video's own text track, or of a file. Decoded by FFmpeg's libraries; all text is taken as
hostile: markup and control characters are removed, and its amount is limited."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import av
from av.container import InputContainer
from av.packet import Packet
from av.stream import Disposition
from av.subtitles.stream import SubtitleStream

from pipelines.errors import DIRECTIONS, DatasetError
from pipelines.files import read_regular
from pipelines.scenes import Line
from pipelines.video.inputs import SUBTITLE_ENDINGS

# By extension; a name alone never decides what FFmpeg opens.
_DEMUXERS = dict(zip(SUBTITLE_ENDINGS, ("srt", "ass", "ass", "webvtt"), strict=True))

# A scenes.json must stay smaller than any file that is read: a movie has 2,000 lines with 60,000 characters.
_MOST_LINES, _MOST_TEXT, _LONGEST = 20_000, 400_000, 2000

_DRAWING = re.compile(r"\{[^}]*\\p[1-9]")
_OVERRIDES = re.compile(r"(?<!\\)\{[^}]*\}")  # of ASS, to which FFmpeg decodes all text subtitles


def text_track(container: InputContainer) -> SubtitleStream | None:
    """Return the default text subtitle track of a video, or else the first, or None; forced subtitles (translated
    signs) only if there is no other."""
    tracks = [t for t in container.streams.subtitles if t.codec_context is not None and t.codec_context.codec.text_sub]
    forced, default = Disposition.forced, Disposition.default
    return min(tracks, key=lambda t: (bool(t.disposition & forced), not t.disposition & default), default=None)


def read_subtitles(path: Path) -> tuple[list[Line], bool]:
    """Read the lines of an SRT, WebVTT or ASS file, with times as in the file; and whether they were read as
    Windows-1252, because the file is not UTF-8 or UTF-16. Raise DatasetError, one line, for another file, one of more
    than 16 MB, or without lines."""
    demuxer = _DEMUXERS.get(path.suffix.lower())
    if demuxer is None:
        raise DatasetError(f"{path}: is not a subtitle file by its name; supported: {' '.join(_DEMUXERS)}")
    text, is_guess = _decode(read_regular(path))
    try:
        with av.open(BytesIO(text.encode()), "r", format=demuxer) as container:
            track = container.streams.subtitles[0]
            lines = list(decoded_lines(track, container.demux(track)))
    except (av.FFmpegError, IndexError) as error:
        raise DatasetError(f"{path}: its subtitles cannot be read; is it an {path.suffix} file?") from error
    if not lines:
        raise DatasetError(f"{path}: contains no subtitles")
    return lines, is_guess


def _decode(content: bytes) -> tuple[str, bool]:
    if content.startswith((b"\xff\xfe", b"\xfe\xff")):
        return content.decode("utf-16", "replace"), False
    try:
        return content.decode("utf-8-sig"), False
    except UnicodeDecodeError:
        return content.decode("cp1252", "replace"), True


def decoded_lines(track: SubtitleStream, packets: Iterable[Packet[SubtitleStream]]) -> Iterator[Line]:
    """Yield the lines in packets of a text track, cleaned, in seconds on the clock of the file. Packets that cannot be
    decoded, and what exceeds the limits, are left out."""
    tick, length = float(track.time_base or 0), 0
    for packet in packets:
        if not packet.size or packet.pts is None:
            continue
        try:
            texts = [subtitle.dialogue for subtitle in packet.decode() if subtitle.type == b"ass"]
        except av.FFmpegError:
            continue
        for text in map(_cleaned, texts):
            length += len(text)
            if text and length <= _MOST_TEXT:
                yield Line(packet.pts * tick, (packet.pts + (packet.duration or 0)) * tick, text)


def _cleaned(dialogue: bytes) -> str:
    """Return the text of an ASS event on one line, without overrides, drawings, control characters and directions."""
    text = dialogue.decode("utf-8", "replace")
    if _DRAWING.search(text):
        return ""
    text = _OVERRIDES.sub("", text).replace("\\h", " ").replace("\\{", "{").replace("\\}", "}")
    clean = "".join(" " if unicodedata.category(sign) in ("Cc", "Cs", "Zl", "Zp") else sign for sign in text)
    return " ".join("".join(sign for sign in clean if sign not in DIRECTIONS).split())[:_LONGEST]


def lines_within(lines: Iterable[Line], offset: float, start: float, end: float) -> tuple[Line, ...]:
    """Return the lines that are shown between two times, in order, with ``offset`` added to all times. A text that is
    shown again at once, as in effects of ASS, is one line."""
    kept: list[Line] = []
    latest: dict[str, int] = {}  # by text
    for line in sorted(lines, key=lambda line: (line.start, line.end)):
        begins, ends = round(line.start + offset, 3), round(line.end + offset, 3)
        if ends < start or begins >= end:
            continue
        begins, ends = max(begins, start), max(begins, start, min(ends, end))
        before = latest.get(line.text)
        if before is not None and begins <= kept[before].end + 0.001:
            kept[before] = replace(kept[before], end=max(ends, kept[before].end))
        elif len(kept) < _MOST_LINES:
            latest[line.text] = len(kept)
            kept.append(Line(begins, ends, line.text))
    return tuple(kept)
