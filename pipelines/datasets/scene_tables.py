"""Readers of scene lists by people and other programs: CSV tables, and chapters in files and inside videos."""

import csv
import io
import re
from collections.abc import Callable
from fractions import Fraction
from itertools import islice, pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from pipelines.datasets import VideoAnnotation, check_ranges, fault, parse_int, quote, read_text, text_lines
from pipelines.errors import VideoError
from pipelines.files import MOST_RESULT_BYTES, VIDEO_ENDINGS
from pipelines.scenes import MAX_POSITION, MOST_SHOTS, parse_time
from pipelines.video.containers import open_container

# Names of CSV columns, in lower case with "_" for anything but letters and digits; the first match is used.
_FRAMES = (("start_frame",), ("end_frame",))
_TIMES = (
    ("start_time_seconds", "start_seconds", "start_s", "start", "start_time", "start_timecode"),
    ("end_time_seconds", "end_seconds", "end_s", "end", "end_time", "end_timecode"),
)

_Times = list[tuple[float, float | None]]  # start and end of each chapter in seconds; None if the file has no end


def file_id(path: Path) -> str:
    """Return the id of the video that a list belongs to: the stem of the file, without what exports and PySceneDetect
    append to the video's name, such as ``.scenes`` or ``-Scenes``."""
    return re.sub(r"(?i)([-_.](chapters|scenes|youtube))*$", "", path.stem, count=1)


def read_scenes_csv(path: Path, frame_rate: float | None = None) -> VideoAnnotation:
    """Read a table of scenes: a header line, then one scene per line, in order.

    Columns: `start` and `end` (seconds, or timecodes as `parse_time` reads them), or `start_frame` and `end_frame`
    (counted from zero, end exclusive), or both; others are ignored. The separator is a comma, semicolon or tab, and
    decimals may have commas. PySceneDetect's `list-scenes` is recognized by its column "Length (frames)"; it counts
    frames from one, and its End Frame is inclusive. `frame_rate`: frames per second, only for timecodes that end in a
    frame number. Raises DatasetError: the file is not such a table, or a cell is wrong.
    """
    header, rows = _table(path)
    lines = [line for _, line in rows]
    frames = times = None
    if columns := _columns(header, _FRAMES):
        numbers = [[parse_int(row[column], "a frame number", path, line) for column in columns] for row, line in rows]
        frames = np.array(numbers, dtype=np.int64).reshape(-1, 2)
        if "length_frames" in header:  # a list of PySceneDetect
            frames[:, 0] -= 1
        check_ranges(frames, "scene", path, lines)
    if columns := _columns(header, _TIMES):
        seconds = [[_parse_seconds(row[column], frame_rate, path, line) for column in columns] for row, line in rows]
        times = np.array(seconds, dtype=np.float64).reshape(-1, 2)
        check_ranges(times, "scene", path, lines)
    return VideoAnnotation(file_id(path), path, scenes_frames=frames, scenes_seconds=times)


def _table(path: Path) -> tuple[list[str], list[tuple[list[str], int]]]:
    """Return the normalized column names, and the rows as stripped cells, each with its line number."""
    text = re.sub(r"\Asep=.\r?\n", "", read_text(path, MOST_RESULT_BYTES, ",;\t\n"))  # Excel's line names the separator
    for delimiter in ",;\t":
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        stripped = (([cell.strip() for cell in row], reader.line_num) for row in reader)
        rows = ((row, line) for row, line in stripped if any(row))
        try:
            for names, _ in islice(rows, 2):  # PySceneDetect writes a line of cuts before the header
                header = [re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") for name in names]
                if _columns(header, _FRAMES) or _columns(header, _TIMES):
                    table = list(islice(rows, MOST_SHOTS + 1))
                    break
            else:
                continue
        except csv.Error as error:
            raise fault(path, f"is not a table of comma-separated values: {error}", reader.line_num) from error
        for row, line in table:
            if len(row) < len(header) or any(row[len(header) :]):
                hint = "; put quotes around a text with commas" if delimiter == "," and len(row) > len(header) else ""
                raise fault(path, f"has {len(row)} cells, but the header has {len(header)}{hint}", line)
        return header, table
    raise fault(path, "has no columns 'start' and 'end', nor 'start_frame' and 'end_frame'")


def _columns(header: list[str], names: tuple[tuple[str, ...], tuple[str, ...]]) -> list[int]:
    """Return the indices of the start and end columns, of the same kind, or []."""
    for start, end in zip(*names, strict=True):
        if start in header and end in header:
            return [header.index(start), header.index(end)]
    return []


def _parse_seconds(text: str, frame_rate: float | None, path: Path, line: int | None = None) -> float:
    try:
        seconds = parse_time(re.sub(r"^([0-9]+),([0-9]+s?)$", r"\1.\2", text), frame_rate)  # a decimal comma
    except ValueError as error:
        raise fault(path, f"{quote(text)} {error}", line) from error
    if seconds > MAX_POSITION:
        raise fault(path, f"{quote(text)} is too late a time", line)
    return seconds


def read_chapters(path: Path, frame_rate: float | None = None) -> VideoAnnotation:
    """Read the chapters of a file as scenes in seconds: of Matroska (XML), ffmetadata, WebVTT, a list of lines such as
    `1:05 Title`, as YouTube shows them, an EDL (CMX 3600), or a video.

    A chapter without an end lasts to the next one, the last one to the end of the video. An EDL counts as the source
    does; if its first scene is at an hour or later, as with a camera's own timecode, that is the start of the video.
    `frame_rate`: frames per second, which an EDL needs. Raises DatasetError: the file is damaged, or has no chapters.
    """
    times = _READERS[path.suffix.lower()](path, frame_rate)
    if not times:
        raise fault(path, "has no chapters")
    times.sort(key=lambda chapter: chapter[0])
    ends = [end if end is not None else begin for (_, end), (begin, _) in pairwise(times)]
    last, end = times[-1]
    spans = [(start, stop) for (start, _), stop in zip(times, [*ends, last + 1 if end is None else end], strict=True)]
    scenes = np.array(spans, dtype=np.float64)
    if path.suffix.lower() == ".edl" and scenes[0, 0] >= 3600:
        scenes -= scenes[0, 0]
    return VideoAnnotation(file_id(path), path, scenes_seconds=scenes, open_end=end is None)


_TIMECODE = r"[0-9]{2}:[0-9]{2}:[0-9]{2}[:;][0-9]{2,3}"
# Of the lines that have a time of a chapter; others are texts.
_LINES = {
    ".txt": r"\W*(?P<start>[0-9]+(:[0-9]{2})+([.,][0-9]+)?)(?!\w).*",
    ".vtt": r"(?P<start>[0-9:.]+)\s+-->\s+(?P<end>[0-9:.]+).*",
    ".edl": rf"[0-9]+\s+\S+\s+\S+\s+C\s+(?P<start>{_TIMECODE})\s+(?P<end>{_TIMECODE})\s+{_TIMECODE}\s+{_TIMECODE}",
}


def _read_lines(path: Path, frame_rate: float | None) -> _Times:
    """Read a list with the start of a chapter, and its end if the format has it, on one line."""
    pattern = _LINES[path.suffix.lower()]
    times: _Times = []
    for number, line in text_lines(path, MOST_RESULT_BYTES):
        if (match := re.fullmatch(pattern, line)) and len(times) <= MOST_SHOTS:
            start, *end = (_parse_seconds(text, frame_rate, path, number) for text in match.groupdict().values())
            times.append((start, end[0] if end else None))
    return times


def _read_matroska_xml(path: Path, _: float | None) -> _Times:
    text = read_text(path, MOST_RESULT_BYTES, "<")
    if "<!ENTITY" in text:  # entities can expand to any size
        raise fault(path, "declares entities, which chapters do not need")
    try:
        root = ElementTree.fromstring(re.sub(r"^\s*<\?xml.*?\?>", "", text, count=1))
    except ElementTree.ParseError as error:
        raise fault(path, f"is not XML ({error})") from error
    times: _Times = []
    for atom in root.iterfind("EditionEntry/ChapterAtom"):
        start, end = atom.findtext("ChapterTimeStart", ""), atom.findtext("ChapterTimeEnd")
        times.append((_parse_seconds(start, None, path), None if end is None else _parse_seconds(end, None, path)))
    return times


def _read_ffmetadata(path: Path, _: float | None) -> _Times:
    """Read the chapters of an ffmetadata file, without FFmpeg, whose time is quadratic in the number of tags."""
    text = re.sub(r"\\.", "", read_text(path, MOST_RESULT_BYTES), flags=re.DOTALL)  # only texts have escaped characters
    times: _Times = []
    for section in re.split(r"(?m)^\[CHAPTER\]\s*$", text)[1 : MOST_SHOTS + 2]:
        values = dict(re.findall(r"(?m)^(TIMEBASE|START|END)=([-/0-9]{1,30})\s*$", section.partition("\n[")[0]))
        try:
            base = Fraction(values.get("TIMEBASE", "1/1000000000"))
            start = float(int(values["START"]) * base)
            end = float(int(values["END"]) * base) if "END" in values else None
        except (LookupError, ValueError, ZeroDivisionError) as error:
            raise fault(path, "has a chapter without START or with another TIMEBASE than a fraction") from error
        times.append((start, end))
    return times


def _read_container(path: Path, _: float | None) -> _Times:
    try:
        with open_container(path) as container:
            chapters = container.chapters()
    except VideoError as error:
        raise fault(path, f"its chapters cannot be read ({error})") from error
    times = ((chapter["start"], chapter["end"], chapter["time_base"]) for chapter in chapters)
    return [(float(start * base), float(end * base)) for start, end, base in times if base]


_READERS: dict[str, Callable[[Path, float | None], _Times]] = {
    ".xml": _read_matroska_xml,
    **dict.fromkeys((".ffmetadata", ".ffmeta"), _read_ffmetadata),
    **dict.fromkeys(_LINES, _read_lines),
    **dict.fromkeys(VIDEO_ENDINGS, _read_container),
}
CHAPTER_ENDINGS = frozenset(_READERS)
