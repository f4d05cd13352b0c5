"""Readers of scene lists by hand or by other tools: CSV tables, and chapters, also those inside a video."""

import csv
import io
import re
from fractions import Fraction
from itertools import islice, pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from pipelines.datasets.annotations import VideoAnnotation, check_ranges, check_type, fault, parse_int, quote, read_text
from pipelines.errors import VideoError
from pipelines.files import MOST_RESULT_BYTES
from pipelines.scenes import MOST_SHOTS, parse_time
from pipelines.video.containers import open_container
from pipelines.video.inputs import VIDEO_ENDINGS

CHAPTER_ENDINGS = (".xml", ".ffmetadata", ".ffmeta")

# Names of CSV columns, in lower case with "_" for anything but letters and digits; the first match is used.
_FRAMES = (("start_frame",), ("end_frame",))
_TIMES = (
    ("start_time_seconds", "start_seconds", "start_s", "start", "start_time", "start_timecode"),
    ("end_time_seconds", "end_seconds", "end_s", "end", "end_time", "end_timecode"),
)
# Two of these columns identify a list of PySceneDetect; a table with the names of scenes.json has none.
_SCENEDETECT = {"start_time_seconds", "end_time_seconds", "scene_number"}
_SCENEDETECT |= {"length_frames", "length_timecode", "length_seconds"}


def read_scenes_csv(path: Path, frame_rate: float | None = None) -> VideoAnnotation:
    """Read a table of scenes: a header line, then one scene per line, in order.

    Columns: `start` and `end` (seconds, or timecodes `H:MM:SS`, `MM:SS`, `HH:MM:SS.mmm`, `HH:MM:SS:FF`), or
    `start_frame` and `end_frame` (counted from zero, end exclusive), or both. Case, blanks and units in a name ("Start
    Time (seconds)") and other columns are ignored. The separator is a comma, or a semicolon or tab with which decimals
    may have commas.

    The output of PySceneDetect's `list-scenes` is recognized by its columns, with or without the list of cuts
    ("Timecode List:") as its first line; it counts frames from one, and its End Frame is inclusive.

    The id is the file name without `.csv` and without `-Scenes`, which PySceneDetect appends, or `.scenes`.

    `frame_rate`: frames per second, only for timecodes that end in a frame number (non-drop-frame).
    Raises DatasetError: the file is not such a table, or a cell is wrong; the line is named.
    """
    header, rows = _table(path)
    lines = [line for _, line in rows]
    video_id = re.sub(r"(?i)([-_.]scenes)?$", "", path.stem, count=1)
    frames = times = None
    if columns := _columns(header, _FRAMES):
        numbers = [[parse_int(row[column], "a frame number", path, line) for column in columns] for row, line in rows]
        frames = np.array(numbers, dtype=np.int64).reshape(-1, 2)
        if len({*header} & _SCENEDETECT) >= 2:
            frames[:, 0] -= 1
            lengths = [row[header.index("length_frames")] for row, _ in rows] if "length_frames" in header else []
            for (start, end), length, line in zip(frames.tolist(), lengths, lines, strict=False):
                if parse_int(length, "a number of frames", path, line) != end - start:
                    raise fault(path, f"the scene has {end - start} frames, but another number as its length", line)
        check_ranges(frames, "scene", path, lines)
    if columns := _columns(header, _TIMES):
        seconds = [[_parse_seconds(row[column], frame_rate, path, line) for column in columns] for row, line in rows]
        times = np.array(seconds, dtype=np.float64).reshape(-1, 2)
        check_ranges(times, "scene", path, lines)
    return VideoAnnotation(video_id, path, scenes_frames=frames, scenes_seconds=times)


_DECIMAL_COMMA = re.compile(r"^([0-9]+),([0-9]+s?)$")


def _table(path: Path) -> tuple[list[str], list[tuple[list[str], int]]]:
    """Return the normalized column names, and the rows as stripped cells, each with its line number."""
    text = re.sub(
        r"\Asep=.(?=\r?\n)", "", read_text(path, MOST_RESULT_BYTES, ",;\t\n")
    )  # Excel's line that names the separator
    for delimiter in ",;\t":
        reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
        stripped = (([cell.strip() for cell in row], reader.line_num) for row in reader)
        rows = ((row, line) for row, line in stripped if any(row))
        try:
            first = next(rows, ([], 0))[0]
            if first and _is_cut_list(first):
                first = next(rows, ([], 0))[0]
            if not first:
                raise fault(path, "is empty")
            header = [re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_") for name in first]
            if not (_columns(header, _FRAMES) or _columns(header, _TIMES)):
                continue
            table = list(islice(rows, MOST_SHOTS + 1))
        except csv.Error as error:
            raise fault(path, f"is not a table of comma-separated values: {error}", reader.line_num) from error
        if delimiter != ",":
            table = [([_DECIMAL_COMMA.sub(r"\1.\2", cell) for cell in row], line) for row, line in table]
        if len({*header} - {""}) != len([name for name in header if name]):
            raise fault(path, "names a column twice")
        for row, line in table:
            if len(row) < len(header) or any(row[len(header) :]):
                commas = "; put quotes around a text with commas, and write decimals with a point"
                hint = commas if delimiter == "," and len(row) > len(header) else ""
                raise fault(path, f"has {len(row)} cells, but the header has {len(header)}{hint}", line)
        return header, table
    raise fault(path, "has no columns 'start' and 'end', nor 'start_frame' and 'end_frame'")


def _is_cut_list(row: list[str]) -> bool:
    """Return whether the row is PySceneDetect's list of cuts: "Timecode List:" and timecodes. Release 0.7.2 omits the
    words if called from Python without a list of cuts."""
    if row[0] == "Timecode List:":
        return True
    return all(re.fullmatch(r"[0-9]{2,}:[0-9]{2}:[0-9]{2}\.[0-9]{3}", cell) for cell in row)


def _columns(header: list[str], names: tuple[tuple[str, ...], tuple[str, ...]]) -> list[int]:
    """Return the indices of the start and end columns, of the same kind, or []."""
    for start, end in zip(*names, strict=True):
        if start in header and end in header:
            return [header.index(start), header.index(end)]
    return []


def _parse_seconds(text: str, frame_rate: float | None, path: Path, line: int) -> float:
    if _DECIMAL_COMMA.match(text):
        raise fault(path, f"{quote(text)} has a decimal comma; write {quote(text.replace(',', '.'))[1:-1]}", line)
    try:
        return check_type(float, parse_time(text, frame_rate), "a time", path, line)
    except ValueError as error:
        raise fault(path, f"{quote(text)} {error}", line) from error


def is_chapters(path: Path) -> bool:
    """Return whether this is a file that may have chapters, by its ending."""
    return path.suffix.lower() in {*CHAPTER_ENDINGS, *VIDEO_ENDINGS} and path.is_file()


def read_chapters(path: Path) -> VideoAnnotation:
    """Read the chapters of a file: scenes in seconds.

    Of a Matroska XML, the chapters of the first edition that are neither hidden nor disabled, without those inside
    them. A chapter without an end lasts to the next one, the last one to the end of the video. The id is the file name
    without its ending, ``.chapters`` and ``.scenes``. Raises DatasetError: the file is damaged, or has no chapters.
    """
    endings = dict.fromkeys(CHAPTER_ENDINGS, _parse_ffmetadata) | {".xml": _parse_matroska}
    times = endings.get(path.suffix.lower(), _read_container)(path)
    if not times:
        raise fault(path, "has no chapters")
    times.sort(key=lambda chapter: chapter[0])
    ends = [end if end is not None else begin for (_, end), (begin, _) in pairwise(times)]
    last, end = times[-1]
    spans = [(start, stop) for (start, _), stop in zip(times, [*ends, last + 1 if end is None else end], strict=True)]
    video_id = re.sub(r"(?i)([-_.](chapters|scenes))*$", "", path.stem, count=1)
    return VideoAnnotation(video_id, path, scenes_seconds=np.array(spans, dtype=np.float64), open_end=end is None)


def _parse_matroska(path: Path) -> list[tuple[float, float | None]]:
    text = read_text(path, MOST_RESULT_BYTES, "<")
    if "<!ENTITY" in text:  # entities can expand to any size
        raise fault(path, "declares entities, which chapters do not need")
    try:
        root = ElementTree.fromstring(re.sub(r"^\s*<\?xml.*?\?>", "", text, count=1))
    except ElementTree.ParseError as error:
        raise fault(path, f"is not XML ({error})") from error
    if root.tag != "Chapters":
        raise fault(path, "is not a list of chapters: its outermost element is not <Chapters>")

    def seconds(text: str) -> float:
        match = re.fullmatch(r"([0-9]{1,6}):([0-5]?[0-9]):([0-5]?[0-9](?:\.[0-9]{1,9})?)", text.strip())
        if match is None:
            raise fault(path, f"{quote(text)} is not a time of a chapter")
        return 3600 * int(match[1]) + 60 * int(match[2]) + float(match[3])

    times = []
    for atom in root.findall("EditionEntry[1]/ChapterAtom"):
        hidden, enabled = atom.findtext("ChapterFlagHidden", "0"), atom.findtext("ChapterFlagEnabled", "1")
        if hidden.strip() == "1" or enabled.strip() == "0":
            continue
        end = atom.findtext("ChapterTimeEnd")
        times.append((seconds(atom.findtext("ChapterTimeStart", "")), None if end is None else seconds(end)))
    return times


def _parse_ffmetadata(path: Path) -> list[tuple[float, float | None]]:
    """Read the chapters of an ffmetadata file, without FFmpeg, whose time is quadratic in the number of tags."""
    text = re.sub(r"\\.", "", read_text(path, MOST_RESULT_BYTES), flags=re.DOTALL)  # only texts have escaped characters

    def seconds(text: str, base: Fraction) -> float:
        if not re.fullmatch(r"-?[0-9]{1,18}\s*", text):
            raise fault(path, f"{quote(text)} is not a time of a chapter")
        return float(int(text) * base)

    times = []
    for section in re.split(r"(?m)^\[CHAPTER\]\s*$", text)[1 : MOST_SHOTS + 2]:
        values = dict(re.findall(r"(?m)^(TIMEBASE|START|END)=(.*)$", section.partition("\n[")[0]))
        base, end = values.get("TIMEBASE", "1/1000000000").strip(), values.get("END")
        if not re.fullmatch("[0-9]{1,10}/0*[1-9][0-9]{0,9}", base):
            raise fault(path, f"{quote(base)} is not the time base of a chapter")
        start = seconds(values.get("START", ""), Fraction(base))
        times.append((start, None if end is None else seconds(end, Fraction(base))))
    return times


def _read_container(path: Path) -> list[tuple[float, float | None]]:
    try:
        with open_container(path) as container:
            return [
                (float(chapter["start"] * base), float(chapter["end"] * base))
                for chapter in container.chapters()
                if (base := chapter["time_base"])
            ]
    except VideoError as error:
        raise fault(path, f"its chapters cannot be read ({error})") from error
