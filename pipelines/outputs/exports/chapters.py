"""Chapters for players: Matroska XML (mkvmerge), ffmetadata (FFmpeg, into MP4 and others), WebVTT (web pages), the
description of a YouTube video, and scene markers for Kodi.

Times are presentation timestamps, counted from the video's first frame.
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Sequence
from urllib.parse import quote
from xml.etree import ElementTree

from pipelines.outputs.exports.segments import add_element, add_texts, document, segments_of
from pipelines.scenes import SceneList, timecode


def matroska_chapters(scenes: SceneList, shots: bool = False) -> str:
    """Chapters for ``mkvmerge --chapters FILE``, to the microsecond."""
    root = ElementTree.Element("Chapters")
    edition = add_element(root, "EditionEntry")
    for segment in segments_of(scenes, shots):
        atom = add_element(edition, "ChapterAtom")
        start, end = _nanoseconds(segment.start), _nanoseconds(segment.end)
        add_texts(atom, {"ChapterTimeStart": start, "ChapterTimeEnd": end})
        display = add_element(atom, "ChapterDisplay")
        add_texts(display, {"ChapterString": segment.name, "ChapterLanguage": "und"})
    return document(root)


def _nanoseconds(seconds: float) -> str:
    whole, micro = divmod(round(seconds * 1_000_000), 1_000_000)
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}.{micro:06d}000"


def ffmetadata(scenes: SceneList, shots: bool = False) -> str:
    """Chapters for ``ffmpeg -i VIDEO -i FILE -map_metadata 0 -map_chapters 1 -codec copy OUT``, to the microsecond."""
    lines = [";FFMETADATA1"]
    for segment in segments_of(scenes, shots):
        start, end = (round(seconds * 1_000_000) for seconds in (segment.start, segment.end))
        lines += ["[CHAPTER]", "TIMEBASE=1/1000000", f"START={start}", f"END={end}"]
        lines.append("title=" + re.sub(r"([=;#\\])", r"\\\1", segment.name))
    return "\n".join(lines) + "\n"


def webvtt(scenes: SceneList, shots: bool = False) -> str:
    """Chapters for ``<track kind="chapters">``, to the millisecond."""
    cues = [
        f"{segment.number}\n{timecode(segment.start)} --> {timecode(segment.end)}\n"
        f"{html.escape(segment.name, quote=False)}\n"
        for segment in segments_of(scenes, shots)
    ]
    return "\n".join(["WEBVTT\n", *cues])


Box = tuple[int, int, int, int]
"""Left, top, width and height of a part of an image, in pixels."""


def thumbnails_vtt(sprite: str, spans: Sequence[tuple[float, float]], boxes: Sequence[Box]) -> str:
    """Thumbnails for the timeline of a player: for each span of seconds a box of the image ``sprite``, as a spatial
    media fragment (W3C Media Fragments, section 4.2.2)."""
    cues = [
        f"{timecode(start)} --> {timecode(end)}\n{quote(os.fsencode(sprite))}#xywh={','.join(map(str, box))}\n"
        for (start, end), box in zip(spans, boxes, strict=True)
    ]
    return "\n".join(["WEBVTT\n", *cues])


def youtube(scenes: SceneList, shots: bool = False) -> str:
    """Chapters for the description of a YouTube video: one line per chapter, in whole seconds."""
    # A description must not have angle brackets.
    names = str.maketrans("<>", "\u2039\u203a")
    lines = []
    for segment in segments_of(scenes, shots):
        minutes, seconds = divmod(int(segment.start), 60)
        clock = f"{minutes // 60}:{minutes % 60:02d}" if minutes >= 60 else f"{minutes}"
        lines.append(f"{clock}:{seconds:02d} {segment.name.translate(names)}\n")
    return "".join(lines)


def youtube_warnings(scenes: SceneList, shots: bool = False) -> tuple[str, ...]:
    """Why YouTube would not show these chapters: it needs at least three, from 0:00 on, of at least 10 seconds."""
    segments = segments_of(scenes, shots)
    short = sum(int(segment.end) - int(segment.start) < 10 for segment in segments)
    few = f"YouTube needs at least three chapters, but there are {len(segments)}; bassl regroup finds more"
    brief = f"YouTube needs chapters of at least 10 s, but {short} are shorter; bassl regroup --min-scene 11"
    late = f"YouTube needs the first chapter at 0:00, but it is at {segments[0].start:.0f} s"
    return (
        *((late,) if segments[0].start >= 1 else ()),
        *((few,) if len(segments) < 3 else ()),
        *((brief,) if short else ()),
    )


def kodi(scenes: SceneList, shots: bool = False) -> str:
    """Scene markers for Kodi, which reads them from ``VIDEO.edl`` beside the video (MPlayer's EDL, action 2)."""
    return "".join(f"{segment.start:.3f}\t{segment.start:.3f}\t2\n" for segment in segments_of(scenes, shots))
