"""Readers of scene lists by hand or by other tools: CSV tables, and chapters, also those inside a video."""

import csv
import io
import re
from fractions import Fraction
from itertools import islice, pairwise
from pathlib import Path
from typing import BinaryIO
from xml.etree import ElementTree

import numpy as np

from pipelines.datasets.annotations import VideoAnnotation, check_ranges, check_type, fault, parse_int, quote, read_text
from pipelines.errors import VideoError
from pipelines.files import MOST_BYTES, MOST_RESULT_BYTES, VIDEO_ENDINGS
from pipelines.scenes import MOST_SHOTS, parse_time
from pipelines.video.containers import open_container

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

    Of Matroska, a video or XML, those that a player shows: of the default edition, or else the first, that is not
    hidden; without hidden and disabled chapters, and those inside others. A chapter without an end lasts to the next
    one, the last one to the end of the video. The id is the file name without its ending, ``.chapters`` and
    ``.scenes``. Raises DatasetError: the file is damaged, or has no chapters.
    """
    endings = dict.fromkeys(CHAPTER_ENDINGS, _parse_ffmetadata) | {".xml": _parse_matroska_xml}
    times = endings.get(path.suffix.lower(), _read_container)(path)
    if not times:
        raise fault(path, "has no chapters")
    times.sort(key=lambda chapter: chapter[0])
    ends = [end if end is not None else begin for (_, end), (begin, _) in pairwise(times)]
    last, end = times[-1]
    spans = [(start, stop) for (start, _), stop in zip(times, [*ends, last + 1 if end is None else end], strict=True)]
    video_id = re.sub(r"(?i)([-_.](chapters|scenes))*$", "", path.stem, count=1)
    return VideoAnnotation(video_id, path, scenes_seconds=np.array(spans, dtype=np.float64), open_end=end is None)


def _parse_matroska_xml(path: Path) -> list[tuple[float, float | None]]:
    text = read_text(path, MOST_RESULT_BYTES, "<")
    if "<!ENTITY" in text:  # entities can expand to any size
        raise fault(path, "declares entities, which chapters do not need")
    try:
        root = ElementTree.fromstring(re.sub(r"^\s*<\?xml.*?\?>", "", text, count=1))
    except ElementTree.ParseError as error:
        raise fault(path, f"is not XML ({error})") from error
    if root.tag != "Chapters":
        raise fault(path, "is not a list of chapters: its outermost element is not <Chapters>")
    return _parse_editions(root, path)


def _parse_editions(chapters: ElementTree.Element, path: Path) -> list[tuple[float, float | None]]:
    def seconds(text: str) -> float:
        match = re.fullmatch(r"([0-9]{1,6}):([0-5]?[0-9]):([0-5]?[0-9](?:\.[0-9]{1,9})?)", text.strip())
        if match is None:
            raise fault(path, f"{quote(text)} is not a time of a chapter")
        return 3600 * int(match[1]) + 60 * int(match[2]) + float(match[3])

    def is_set(element: ElementTree.Element, flag: str, default: str = "0") -> bool:
        return element.findtext(flag, default).strip() == "1"

    editions = chapters.findall("EditionEntry")
    if editions and not (editions := [edition for edition in editions if not is_set(edition, "EditionFlagHidden")]):
        raise fault(path, "has only hidden editions of chapters")
    default = [edition for edition in editions if is_set(edition, "EditionFlagDefault")]
    times = []
    for atom in (*default, *editions)[0].findall("ChapterAtom") if editions else ():
        if is_set(atom, "ChapterFlagHidden") or not is_set(atom, "ChapterFlagEnabled", "1"):
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
            is_matroska = container.format.name.startswith("matroska")
            chapters = container.chapters()
    except VideoError as error:
        raise fault(path, f"its chapters cannot be read ({error})") from error
    if is_matroska and chapters and (root := _matroska_chapters(path)) is not None:
        return _parse_editions(root, path)
    times = ((chapter["start"], chapter["end"], chapter["time_base"]) for chapter in chapters)
    return [(float(start * base), float(end * base)) for start, end, base in times if base]


_EBML, _SEGMENT, _CHAPTERS = 0x1A45DFA3, 0x18538067, 0x1043A770
_CONTAINED = {0x45B9: "EditionEntry", 0xB6: "ChapterAtom"}
_FLAGS = {0x45BD: "EditionFlagHidden", 0x45DB: "EditionFlagDefault", 0x98: "ChapterFlagHidden"}
_FLAGS |= {0x4598: "ChapterFlagEnabled"}
_STAMPS = {0x91: "ChapterTimeStart", 0x92: "ChapterTimeEnd"}  # in nanoseconds


def _matroska_chapters(path: Path) -> ElementTree.Element | None:
    """Return the chapters of a Matroska file as the XML of MKVToolNix has them, or None if the file is damaged or does
    not state the sizes of its parts. FFmpeg joins all editions, and does not tell which chapters are hidden."""
    with path.open("rb") as file:
        while (head := _element_head(file)) is not None:
            name, size = head
            if name == _CHAPTERS:
                root = ElementTree.Element("Chapters")
                is_whole = size <= MOST_BYTES and _add_elements(root, io.BytesIO(file.read(size)))
                return root if is_whole else None
            if name != _SEGMENT:
                if size == _UNKNOWN:
                    return None
                file.seek(size, io.SEEK_CUR)
    return None


def _add_elements(parent: ElementTree.Element, content: io.BytesIO) -> bool:
    """Add the elements that `_parse_editions` reads, and return whether the content is undamaged."""
    end = len(content.getbuffer())
    while content.tell() < end:
        head = _element_head(content)
        if head is None or head[1] > end - content.tell():
            return False
        name, data = head[0], content.read(head[1])
        if name in _CONTAINED and parent.tag != "ChapterAtom":  # chapters inside others are left out
            if not _add_elements(ElementTree.SubElement(parent, _CONTAINED[name]), io.BytesIO(data)):
                return False
        elif name in _FLAGS:
            ElementTree.SubElement(parent, _FLAGS[name]).text = str(int.from_bytes(data[:8]))
        elif name in _STAMPS:
            seconds, nanoseconds = divmod(int.from_bytes(data[:8]), 10**9)
            text = f"{seconds // 3600}:{seconds // 60 % 60}:{seconds % 60}.{nanoseconds:09d}"
            ElementTree.SubElement(parent, _STAMPS[name]).text = text
    return True


_UNKNOWN = 2**56 - 1  # size of an element that ends where the next one of its level begins


def _element_head(file: BinaryIO) -> tuple[int, int] | None:
    """Read the id and size of an EBML element (RFC 8794), or None at the end of the file and where it is damaged."""
    numbers = []
    for longest in (4, 8):
        first = file.read(1)
        length = 9 - first[0].bit_length() if first else 9
        rest = file.read(length - 1) if length <= longest else b""
        if length > longest or len(rest) < length - 1:
            return None
        numbers.append(int.from_bytes(first + rest))
    size = numbers[1] - (1 << 7 * length)  # without the bit that marks its length
    return numbers[0], _UNKNOWN if size == (1 << 7 * length) - 1 else size
