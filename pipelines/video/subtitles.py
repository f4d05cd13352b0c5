"""Subtitles: the lines of a video's own text track, or of a file. All text is taken as hostile: markup and control
characters are removed, its amount is limited, and the work is linear in it. Whatever is not used is counted."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from html import unescape
from itertools import islice, pairwise, takewhile
from pathlib import Path

import av
from av.packet import Packet
from av.stream import Disposition, Stream
from av.subtitles.stream import SubtitleStream

from pipelines.errors import DIRECTIONS, DatasetError
from pipelines.files import read_regular
from pipelines.scenes import Line
from pipelines.video.inputs import SUBTITLE_ENDINGS, has_chapters

MOST_CUES = 200_000
"""Of a file or a track of subtitles. A movie has 2,000, and one with many effects of ASS fifty times as many."""
# A scenes.json must stay smaller than any file that is read: a movie has 2,000 lines with 60,000 characters.
_MOST_LINES, _MOST_TEXT = 100_000, 4_000_000
_LONGEST_CUE = 500  # characters that are put into NFC: to order the marks on one letter takes quadratic time
_AT_ONCE = 0.05  # seconds: captions that roll leave no longer pause between cues

_TIME = r"(-?)(?:([0-9]{1,6}) ?: ?)?([0-9]{1,4}) ?: ?([0-9]{1,2})(?: ?[.,:] ?([0-9]{1,9}))?"
_TIMES = re.compile(rf"{_TIME}\s{{0,9}}(?:-->|->|→)\s{{0,9}}{_TIME}(?=\s|$)")

# Each needs a closing sign, or ends at the next opening one, so that a search is linear.
_ASS_OVERRIDE = re.compile(r"(?<!\\)\{[^{}]*\}")
_SRT_OVERRIDE = re.compile(r"\{\\[^{}]*\}")  # other braces are text there
_DRAWING = re.compile(r"\{[^{}]*\\p[1-9]")
_RUBY = re.compile(r"<rt\b[^<>]*>[^<]*")  # how the word before it is spoken
_VTT_TAG = re.compile(r"<[/.\w][^<>]*>")
_SRT_TAG = re.compile(
    r"</?(?:[abcispuv]|em|font|lang|rt|ruby|span|strong)(?:[\s.][^<>]*)?/?>|</\w{1,31}>", re.IGNORECASE
)
_NUMBER = re.compile(r"\n[ \t]{0,9}[0-9]{1,9}\s*\Z")  # of the next cue of SRT
_LINE_BREAK = re.compile(r"<br\s{0,9}/?>", re.IGNORECASE)
_ENTITY = re.compile(r"&#?\w{1,31};")
_CONTROL = re.compile("[\0-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")  # all but the line feed
_NOT_SHOWN = dict.fromkeys(map(ord, (*DIRECTIONS, "\ufeff")))

_MARKS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
# What subtitles are written in; with all of Python's, short texts are taken for rare ones.
_ENCODINGS = """cp1252 cp1250 cp1251 cp1253 cp1254 cp1255 cp1256 cp1257 cp1258 koi8_r cp874 gb18030 big5 cp932 euc_jp
cp949""".split()  # noqa: SIM905


def text_track(tracks: Sequence[Stream]) -> SubtitleStream | None:
    """Return the default track of text subtitles, or else the first; forced and commentary only without another."""
    texts = [t for t in tracks if isinstance(t, SubtitleStream) and t.codec_context and t.codec_context.codec.text_sub]
    last, default = Disposition.forced | Disposition.comment, Disposition.default
    return min(texts, key=lambda t: (bool(t.disposition & last), not t.disposition & default), default=None)


def read_subtitles(path: Path, encoding: str | None = None) -> tuple[list[Line], list[str]]:
    """Read the cues of an SRT, WebVTT or ASS file, and warnings. Raise DatasetError for a file without cues."""
    ending = path.suffix.lower()
    if ending not in SUBTITLE_ENDINGS:
        raise DatasetError(f"{path}: is not a subtitle file by its name; supported: {' '.join(SUBTITLE_ENDINGS)}")
    text, warnings = _decode(read_regular(path), encoding)
    if has_chapters(path):
        raise DatasetError(f"{path}: contains chapters or thumbnails for a player, not subtitles")
    rows = text.replace("\r\r\n", "\n").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    reader: Iterator[Line | int] = iter(())
    if ending in (".ass", ".ssa") or "[Events]" in rows:
        reader = _ass_cues(rows)
    elif text.startswith("WEBVTT"):
        reader = _blocks(rows, is_vtt=True)
    elif ending != ".vtt":
        reader = _blocks(rows, is_vtt=False)
    cues = list(islice(reader, MOST_CUES))
    lines = [cue for cue in cues if isinstance(cue, Line) and cue.text]
    lost = [cue for cue in cues if isinstance(cue, int)]
    if not lines:
        raise DatasetError(f"{path}: contains no subtitles{' with times that can be read' * bool(lost)}")
    if lost:
        warnings.append(f"{len(lost):,} of {len(cues):,} cues could not be read, the first in line {lost[0]}")
    if next(reader, None) is not None:
        warnings.append(f"has more than {MOST_CUES:,} cues; later ones are left out")
    return lines, [f"{path}: {warning}" for warning in warnings]


def _decode(content: bytes, encoding: str | None) -> tuple[str, list[str]]:
    """Decode a file by its byte order mark, else as UTF-16, UTF-8, or what its characters look like, with warnings."""
    warnings = []
    if encoding is None:
        encoding = next((name for mark, name in _MARKS.items() if content.startswith(mark)), None)
    if encoding is None and b"\0" in content:
        encoding = "utf-16-le" if content[1::2].count(0) > content[::2].count(0) else "utf-16-be"
    if encoding is None:
        text = content.decode("utf-8", "replace")
        encoding, others = "utf-8", len(text) - len(text.encode("ascii", "ignore"))
        if others and 2 * text.count("\ufffd") >= others:  # more than damaged in places
            from charset_normalizer import from_bytes  # start-up time; almost all files are UTF-8

            best = from_bytes(content, cp_isolation=_ENCODINGS).best()
            # Of encodings that give the same text the most common one is named.
            is_western = str(best) == content.decode("cp1252", "replace")
            encoding = "cp1252" if best is None or is_western else best.encoding
            remedy = "if that is wrong, name another with `subtitle_encoding`"
            warnings.append(f"is not UTF-8; its subtitles were read as {encoding}; {remedy}")
    try:
        text = content.decode(encoding)
    except UnicodeError:
        text = content.decode(encoding, "replace")
        damage = text.count("\ufffd")
        warnings.append(f"has damaged text: {damage} character{'s' * (damage > 1)} cannot be read as {encoding}")
    return text.replace("\ufeff", ""), warnings  # also where files were joined


def _seconds(sign: str, hours: str | None, minutes: str, seconds: str, fraction: str | None) -> float | None:
    if int(seconds) > 59 or (hours and int(minutes) > 59):
        return None
    time = 3600 * int(hours or 0) + 60 * int(minutes) + float(f"{seconds}.{fraction or 0}")
    return -time if sign else time


def _blocks(rows: list[str], *, is_vtt: bool) -> Iterator[Line | int]:
    """Yield the cues of SRT or WebVTT; the number of its row for one with times that cannot be read. The text of SRT
    may have blank lines: it goes on to the next times, less the number of the next cue."""

    def begins_cue(row: str) -> bool:
        return ("-->" in row and (is_vtt or ":" in row)) or _TIMES.match(row.strip()) is not None

    starts = [number for number, row in enumerate(rows) if begins_cue(row)]
    for row, following in pairwise([*starts, len(rows)]):
        match = _TIMES.match(rows[row].strip())
        start, end = (_seconds(*match.groups()[i : i + 5]) for i in (0, 5)) if match else (None, None)
        if start is None or end is None:
            yield row + 1
            continue
        text = "\n".join(takewhile(bool, rows[row + 1 : following]) if is_vtt else rows[row + 1 : following])
        if following < len(rows):
            text = _NUMBER.sub("", text)
        yield Line(start, end, _vtt_text(text) if is_vtt else _srt_text(text))


def _ass_cues(rows: list[str]) -> Iterator[Line | int]:
    """Yield the cues of ASS or SSA; the number of its row for one that cannot be read."""
    names = "Layer, Start, End, Style, Name, MarginL, MarginR, MarginV, Effect, Text".casefold().split(", ")
    for number, row in enumerate(rows, 1):
        kind, _, content = row.partition(":")
        if kind.strip() == "Format" and "Text" in content:
            names = [name.strip() for name in content.casefold().split(",")]
        elif kind.strip() == "Dialogue":
            event = dict(zip(names, content.split(",", len(names) - 1), strict=False))
            span = [re.fullmatch(_TIME, event.get(name, "").strip()) for name in ("start", "end")]
            start, end = (match and _seconds(*match.groups()) for match in span)
            if start is None or end is None or "text" not in event:
                yield number
            else:
                yield Line(start, end, _ass_text(event["text"]))


def track_lines(
    path: Path, track: SubtitleStream, packets: Sequence[Packet[SubtitleStream]]
) -> tuple[list[Line], list[str]]:
    """Return the cues in packets of a video's text track, in seconds on the clock of the file, and warnings."""
    tick, lines, lost = float(track.time_base or 0), list[Line](), 0
    for packet in packets[:MOST_CUES]:
        if not packet.size:
            continue
        try:
            if packet.pts is None:
                raise ValueError("no time")
            start, end = packet.pts * tick, (packet.pts + (packet.duration or 0)) * tick
            items = (item for item in packet.decode() if item.type == b"ass")  # FFmpeg makes ASS of all kinds
            texts = (_ass_text(item.dialogue.decode("utf-8", "replace")) for item in items)
            lines += (Line(start, end, text) for text in texts if text)
        except (av.FFmpegError, ValueError):
            lost += 1
    warnings = []
    if lost:
        warnings.append(f"{path}: {lost:,} of {len(lines) + lost:,} cues could not be read in its own subtitles")
    if len(packets) > MOST_CUES:
        warnings.append(f"{path}: its own subtitles have more than {MOST_CUES:,} cues; later ones are left out")
    return lines, warnings


def _ass_text(text: str) -> str:
    """Return the text of an event of ASS; none of one with a drawing."""
    if _DRAWING.search(text):
        return ""
    text = _ASS_OVERRIDE.sub("", text)
    for escape, sign in (("\\N", "\n"), ("\\n", "\n"), ("\\h", " "), ("\\{", "{"), ("\\}", "}")):
        text = text.replace(escape, sign)
    return _plain(text)


def _srt_text(text: str) -> str:
    return _plain(_unescaped(_SRT_TAG.sub("", _LINE_BREAK.sub("\n", _SRT_OVERRIDE.sub("", text)))))


def _vtt_text(text: str) -> str:
    return _plain(_unescaped(_VTT_TAG.sub("", _RUBY.sub("", text))))


def _unescaped(text: str) -> str:
    return _ENTITY.sub(lambda match: unescape(match[0]), text)


def _plain(text: str) -> str:
    """Return text in NFC, on lines that are not empty, without control characters, directions and byte order marks."""
    text = _CONTROL.sub(" ", text.replace("\r", "\n")).translate(_NOT_SHOWN)
    if len(text) <= _LONGEST_CUE:
        text = unicodedata.normalize("NFC", text)
    return "\n".join(" ".join(row.split()) for row in text.split("\n") if row.strip())


def lines_within(cues: Iterable[Line], offset: float, start: float, end: float) -> tuple[tuple[Line, ...], list[str]]:
    """Return the lines that are shown between two times, in order, with ``offset`` added to all times, and warnings. A
    row of text that is shown again at once, as in captions that roll and in effects of ASS, is there once."""
    kept: list[Line] = []
    latest: dict[str, tuple[float, int]] = {}  # by row: until when it is shown, and the line that has it
    length = lost = 0
    for cue in sorted(cues, key=lambda cue: (cue.start, cue.end)):
        begins, ends = round(cue.start + offset, 3), round(cue.end + offset, 3)
        if begins >= end or ends < start or begins < start == ends:
            continue
        begins, ends = max(begins, start), max(begins, start, min(ends, end))
        rows = cue.text.split("\n")
        fresh = [row for row in rows if row not in latest or begins > latest[row][0] + _AT_ONCE]
        text = " ".join(fresh)
        index = latest[rows[0]][1] if not fresh else len(kept)
        if not fresh:
            kept[index] = replace(kept[index], end=max(ends, kept[index].end))
        elif len(kept) < _MOST_LINES and length + len(text) <= _MOST_TEXT:
            kept.append(Line(begins, ends, text))
            length += len(text)
        else:
            lost += 1
            continue
        for row in rows:
            until, first = latest.get(row, (ends, index))
            latest[row] = (max(until, ends), index if row in fresh else first)
    limit = f"{_MOST_LINES:,} lines and {_MOST_TEXT:,} characters of subtitles are kept"
    return tuple(kept), [f"{limit}; {lost:,} later lines are left out"] if lost else []
