"""Reader of chapters as scenes: Matroska XML, ffmetadata, and those inside a video."""

import re
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from pipelines.datasets.annotations import VideoAnnotation
from pipelines.datasets.parsing import fault, quote, read_text
from pipelines.errors import VideoError
from pipelines.scenes import MOST_SHOTS
from pipelines.video.containers import open_container
from pipelines.video.inputs import VIDEO_ENDINGS

CHAPTER_ENDINGS = (".xml", ".ffmetadata", ".ffmeta")


def is_chapters(path: Path) -> bool:
    """Whether this is a file that may have chapters, by its ending."""
    return path.suffix.lower() in {*CHAPTER_ENDINGS, *VIDEO_ENDINGS} and path.is_file()


def read_chapters(path: Path) -> VideoAnnotation:
    """Read the chapters of a file: scenes in seconds.

    Of a Matroska XML, the chapters of the first edition that are neither hidden nor disabled, without those inside
    them. A chapter without an end lasts to the next one, the last one to the end of the video. The id is the file name
    without its ending, ``.chapters`` and ``.scenes``. Raises DatasetError: the file is damaged, or has no chapters.
    """
    endings = dict.fromkeys(CHAPTER_ENDINGS, _of_ffmetadata) | {".xml": _of_matroska}
    times = endings.get(path.suffix.lower(), _of_container)(path)
    if not times:
        raise fault(path, "has no chapters")
    times.sort(key=lambda one: one[0])
    ends = [end if end is not None else begin for (_, end), (begin, _) in pairwise(times)]
    last, end = times[-1]
    spans = [(start, stop) for (start, _), stop in zip(times, [*ends, last + 1 if end is None else end], strict=True)]
    video_id = re.sub(r"(?i)([-_.](chapters|scenes))*$", "", path.stem, count=1)
    return VideoAnnotation(video_id, path, scenes_seconds=np.array(spans, dtype=np.float64), open_end=end is None)


def _of_matroska(path: Path) -> list[tuple[float, float | None]]:
    text = read_text(path)
    if "<!ENTITY" in text:  # entities can expand to any size
        raise fault(path, "declares entities, which chapters do not need")
    try:
        root = ElementTree.fromstring(re.sub(r"^\s*<\?xml.*?\?>", "", text, count=1))
    except ElementTree.ParseError as error:
        raise fault(path, f"is not XML ({error})") from error
    if root.tag != "Chapters":
        raise fault(path, "is not a list of chapters: its outermost element is not <Chapters>")

    def seconds(text: str) -> float:
        match = re.fullmatch(r"([0-9]{1,4}):([0-5]?[0-9]):([0-5]?[0-9](?:\.[0-9]{1,9})?)", text.strip())
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


def _of_ffmetadata(path: Path) -> list[tuple[float, float | None]]:
    """Not read by FFmpeg, whose time is quadratic in the number of tags."""
    text = re.sub(r"\\.", "", read_text(path), flags=re.DOTALL)  # only texts have escaped characters

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


def _of_container(path: Path) -> list[tuple[float, float | None]]:
    try:
        with open_container(path) as container:
            return [
                (float(chapter["start"] * base), float(chapter["end"] * base))
                for chapter in container.chapters()
                if (base := chapter["time_base"])
            ]
    except VideoError as error:
        raise fault(path, f"its chapters cannot be read ({error})") from error
