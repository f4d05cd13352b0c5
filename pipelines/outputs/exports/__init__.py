"""Scenes and shots in the formats of other tools: all formats by name, and those that are lists: CSV, JSON Lines, tasks
for Label Studio, and chapters for players (Matroska XML, ffmetadata for FFmpeg, WebVTT, YouTube, Kodi), whose times are
presentation timestamps, counted from the video's first frame."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.etree import ElementTree

from pipelines.errors import BasslError
from pipelines.files import STDIO, check_inputs_kept, write_atomically
from pipelines.outputs.exports import editing
from pipelines.outputs.exports.timeline import Content, add_elements, document, listed, score_of, timeline_of
from pipelines.outputs.tables import no_formula
from pipelines.results.finding import name_of
from pipelines.scenes import REPEATS, SceneData, entry, timecode
from pipelines.video.inputs import listed_id

# PySceneDetect's columns in its order, so that scripts for its lists read these.
_COLUMNS = (
    *("Scene Number", "Start Frame", "Start Timecode", "Start Time (seconds)"),
    *("End Frame", "End Timecode", "End Time (seconds)"),
    *("Length (frames)", "Length (timecode)", "Length (seconds)"),
)


def table(scenes: SceneData, shots: bool = False, separator: str = ",") -> Content:
    """Return CSV with the columns of PySceneDetect's ``list-scenes``, then the name and the score.

    As there, frames count from one, and the end frame is the last of the scene. PySceneDetect's own writer computes
    frames from times, which is wrong if the frame rate varies. With semicolons as the separator decimals have commas,
    as Excel has them in countries where it reads semicolons.
    """
    text = io.StringIO()
    rows = csv.writer(text, delimiter=separator, lineterminator="\n")

    def decimal(number: float, places: int) -> str:
        return f"{number:.{places}f}".replace(".", "," if separator == ";" else ".")

    rows.writerow([*_COLUMNS, "Name", "Score" if shots else "Confidence"])

    def cells(frames: int, seconds: float) -> tuple[int, str, str]:
        return frames, timecode(seconds), decimal(seconds, 3)

    for item in listed(scenes, shots):
        start, end = cells(item.start_frame + 1, item.start), cells(item.end_frame, item.end)
        length = cells(item.end_frame - item.start_frame, item.end - item.start)
        name, score = no_formula(name_of(item)), decimal(score_of(item), 4)
        rows.writerow([item.index + 1, *start, *end, *length, name, score])
    return Content(text.getvalue())


def json_lines(scenes: SceneData, shots: bool = False, fields: Sequence[Mapping[str, object]] = ()) -> Content:
    """Return one JSON object per line, for programs, search engines and language models: the entries of
    ``scenes.json``, each with the path and id of its video, the text of its subtitles, and further ``fields``."""
    video = {"video": scenes.video.path, "video_id": listed_id(scenes.video)}
    items = listed(scenes, shots)
    rows = []
    for item, others in zip(items, fields or [{}] * len(items), strict=True):
        text = " ".join(line.text for line in scenes.lines_of(item))
        rows.append(json.dumps({**video, **entry(item), "text": text, **others}, allow_nan=False) + "\n")
    return Content("".join(rows))


def label_studio(scenes: SceneData, shots: bool = False) -> Content:
    """Return one task for Label Studio with the scenes as predictions, to be corrected there.

    The labeling setup that it fits::

        <View>
          <Video name="video" value="$video" frameRate="$fps"/>
          <TimelineLabels name="segments" toName="video"><Label value="Scene"/><Label value="Shot"/></TimelineLabels>
        </View>

    Label Studio counts frames from one, at the constant rate it is given, and its ranges end with their last frame. The
    video is named as in Label Studio's local storage: its path below the root that this serves.
    """
    timeline = timeline_of(scenes, shots)
    unit = "Shot" if shots else "Scene"
    control = {"from_name": "segments", "to_name": "video", "type": "timelinelabels"}
    regions = [
        {
            "id": f"{unit.lower()}-{clip.number}",
            **control,
            "value": {"ranges": [{"start": clip.start + 1, "end": clip.end}], "timelinelabels": [unit]},
            "meta": {"text": [clip.name]},
            "score": clip.score,
        }
        for clip in timeline.clips
    ]
    path = scenes.video.path.encode(errors="surrogateescape").lstrip(b"/")
    task = {
        "data": {"video": f"/data/local-files/?d={quote(path)}", "fps": float(timeline.rate)},
        "predictions": [{"model_version": f"bassl {scenes.settings.get('bassl', '')}".strip(), "result": regions}],
    }
    return Content(json.dumps([task], indent=1, allow_nan=False) + "\n")


def matroska_chapters(scenes: SceneData, shots: bool = False) -> Content:
    """Return chapters for ``mkvmerge --chapters FILE``, to the microsecond."""
    root = ElementTree.Element("Chapters")
    edition = ElementTree.SubElement(root, "EditionEntry")
    for item in listed(scenes, shots):
        atom = ElementTree.SubElement(edition, "ChapterAtom")
        display = {"ChapterString": name_of(item), "ChapterLanguage": "und"}
        times = {"ChapterTimeStart": _nanoseconds(item.start), "ChapterTimeEnd": _nanoseconds(item.end)}
        add_elements(atom, {**times, "ChapterDisplay": display})
    return Content(document(root))


def _nanoseconds(seconds: float) -> str:
    whole, micro = divmod(round(seconds * 1_000_000), 1_000_000)
    return f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}.{micro:06d}000"


def ffmetadata(scenes: SceneData, shots: bool = False) -> Content:
    """Return chapters for ``ffmpeg -i VIDEO -i FILE -map_metadata 0 -map_chapters 1 -codec copy OUT``, to the
    microsecond."""
    lines = [";FFMETADATA1"]
    for item in listed(scenes, shots):
        start, end = (round(seconds * 1_000_000) for seconds in (item.start, item.end))
        lines += ["[CHAPTER]", "TIMEBASE=1/1000000", f"START={start}", f"END={end}"]
        lines.append("title=" + re.sub(r"([=;#\\])", r"\\\1", name_of(item)))
    return Content("\n".join(lines) + "\n")


def webvtt(scenes: SceneData, shots: bool = False) -> Content:
    """Return chapters for ``<track kind="chapters">``, to the millisecond. By the header `predict` knows that a file
    beside the video is no speech."""
    cues = [
        f"{item.index + 1}\n{timecode(item.start)} --> {timecode(item.end)}\n"
        f"{html.escape(name_of(item), quote=False)}\n"
        for item in listed(scenes, shots)
    ]
    return Content("\n".join(["WEBVTT\nKind: chapters\n", *cues]))


def youtube(scenes: SceneData, shots: bool = False) -> Content:
    """Return chapters for the description of a YouTube video: one line per chapter, in whole seconds. YouTube shows
    them only if there are at least three, from 0:00 on, of at least 10 seconds, in a description of at most 5,000
    characters; a warning says what is wrong."""
    # A description must not have angle brackets.
    signs = str.maketrans("<>", "\u2039\u203a")
    items, lines = listed(scenes, shots), []
    for item in items:
        minutes, seconds = divmod(int(item.start), 60)
        clock = f"{minutes // 60}:{minutes % 60:02d}" if minutes >= 60 else f"{minutes}"
        lines.append(f"{clock}:{seconds:02d} {name_of(item).translate(signs)}\n")
    first, number = items[0].start, len(items)
    short = sum(int(item.end) - int(item.start) < 10 for item in items)
    # YouTube counts UTF-16 units, as browsers do, and one for the end of a line.
    size = len("".join(lines).encode("utf-16-le")) // 2
    fewer = "; run `bassl regroup` with fewer scenes, such as a longer `min_scene`"
    faults = {
        f"descriptions of at most 5,000 characters, but the chapters have {size:,}{fewer}": size > 5000,
        f"the first chapter at 0:00, but it is at {first:.0f} s": first >= 1,
        f"at least three chapters, but there are {number}; bassl regroup finds more": number < 3,
        f"chapters of at least 10 s, but {short} would be shorter; run `bassl regroup` with `min_scene=11`": short > 0,
    }
    return Content("".join(lines), tuple(f"YouTube needs {need}" for need, is_missing in faults.items() if is_missing))


def kodi(scenes: SceneData, shots: bool = False) -> Content:
    """Return scene markers for Kodi (MPlayer's EDL, action 2), and what a series repeats as what it skips (action 3).
    Kodi reads ``VIDEO.edl`` beside the video."""
    entries = [(item.start, item.start, 2) for item in listed(scenes, shots)]
    entries += [(part.start, part.end, 3) for part in scenes.segments if part.kind in REPEATS]
    return Content("".join(f"{start:.3f}\t{end:.3f}\t{action}\n" for start, end, action in sorted(entries)))


@dataclass(frozen=True)
class Format:
    """One format: its name, its extensions, of which new files have the first, its purpose, and the function from
    scenes, and whether their shots are listed instead, to its content. ``media``: whether the file refers to the video
    file."""

    name: str
    extensions: tuple[str, ...]
    purpose: str
    content: Callable[..., Content]
    media: bool = False

    @property
    def extension(self) -> str:
        """Return the extension of new files."""
        return self.extensions[0]


_FCPXML_MARKERS, _FCP7_MARKERS = partial(editing.fcpxml, markers=True), partial(editing.fcp7, markers=True)

FORMATS = {
    form.name: form
    for form in (  # in the order of the page's menu: what most people want from a program comes first
        Format("fcp7", (".xml", ".xmeml"), "Timeline for DaVinci Resolve and Premiere Pro", editing.fcp7, media=True),
        Format("fcpxml", (".fcpxml",), "Timeline for Final Cut Pro", editing.fcpxml, media=True),
        Format("otio", (".otio",), "Timeline for Kdenlive, OpenTimelineIO", editing.otio, media=True),
        Format("edl", (".edl",), "Timeline for Avid and others, CMX 3600", editing.edl, media=True),
        Format("losslesscut", (".llc",), "Segments for LosslessCut", editing.lossless_cut),
        Format("resolve-markers", (".markers.edl",), "Markers for DaVinci Resolve", editing.marker_edl),
        Format("fcp7-markers", (".markers.xml",), "Markers for Premiere Pro", _FCP7_MARKERS, media=True),
        Format("fcpxml-markers", (".markers.fcpxml",), "Markers for Final Cut Pro", _FCPXML_MARKERS, media=True),
        Format("kdenlive", (".guides.json",), "Guides for Kdenlive", editing.kdenlive),
        Format("kodi", (".kodi.edl",), "Markers for Kodi", kodi),
        Format("youtube", (".youtube.txt",), "Chapters for YouTube", youtube),
        Format("webvtt", (".vtt",), "Chapters for web pages", webvtt),
        Format("matroska", (".chapters.xml",), "Chapters for MKV files, by mkvmerge", matroska_chapters),
        Format("ffmetadata", (".ffmetadata", ".ffmeta"), "Chapters for MP4 files, by FFmpeg", ffmetadata),
        Format("csv", (".csv",), "Table with PySceneDetect's columns", table),
        Format("jsonl", (".jsonl", ".ndjson"), "JSON Lines, for search", json_lines),
        Format("label-studio", (".label-studio.json",), "Task for Label Studio", label_studio),
    )
}
"""By the name for ``--to``."""
_SHARED_EXTENSIONS = (".json", ".xml")  # alone, .json is that of a scenes.json
_EXTENSIONS = {end: form.name for form in FORMATS.values() for end in form.extensions if end not in _SHARED_EXTENSIONS}


def format_of(path: Path, to: str | None = None) -> str:
    """Return the format of a path: ``to``, or the one with its extension. Raises BasslError for an unknown
    extension, and for one that several formats have, or only others than ``to``."""
    endings = filter(path.name.lower().endswith, (*_EXTENSIONS, *_SHARED_EXTENSIONS))
    extension = max(endings, key=len, default="")
    fitting = [form.name for form in FORMATS.values() if any(end.endswith(extension) for end in form.extensions)]
    if to is not None:
        if to not in fitting:
            meaning = "scenes.json" if extension == ".json" else " or ".join(fitting)
            raise BasslError(f"{path}: the extension means {meaning}, but `to` is {to}")
        return to
    if path == STDIO:
        raise BasslError(f"{path}: can be any format; give one with `to`")
    if not extension:
        raise BasslError(f"{path}: unknown extension {path.suffix}; supported: .json {' '.join(_EXTENSIONS)}")
    if extension in _SHARED_EXTENSIONS:
        raise BasslError(f"{path}: {' and '.join(fitting)} have the extension {extension}; choose one with `to`")
    return _EXTENSIONS[extension]


def format_named(name: str) -> Format:
    """Return a format by its name. Raises BasslError for an unknown one."""
    if name not in FORMATS:
        raise BasslError(f"unknown format {name!r}; choose from {', '.join(FORMATS)}")
    return FORMATS[name]


def export(scenes: SceneData, path: Path, name: str, shots: bool = False, **options: Any) -> tuple[str, ...]:
    """Write scenes, or ``shots``, in the format of this name. ``options`` are the format's own: the ``separator`` of
    csv, and ``fields`` of jsonl. Returns warnings, one line each. Raises BasslError if the path cannot be written or is
    the video itself."""
    check_inputs_kept((path,), (Path(scenes.video.path),))
    content = FORMATS[name].content(scenes, shots, **options)
    write_atomically(path, content.text.encode("utf-8"))
    return content.warnings
