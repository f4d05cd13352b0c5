"""Lists of scenes: CSV, JSON Lines, annotations of ActivityNet, CVAT, ELAN and Label Studio, frame types for encoders,
shot changes for Subtitle Edit, and chapters for players: Matroska XML, ffmetadata (FFmpeg, into MP4 and others),
WebVTT, YouTube and Kodi.

Times of chapters are presentation timestamps, counted from the video's first frame.
"""

from __future__ import annotations

import csv
import html
import io
import json
import os
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from mimetypes import guess_type
from pathlib import PureWindowsPath
from urllib.parse import quote
from xml.etree import ElementTree

from pipelines.outputs.exports.timeline import (
    Content,
    add_element,
    add_elements,
    document,
    listed,
    score_of,
    timeline_of,
    video_uri,
)
from pipelines.outputs.tables import no_formula
from pipelines.results.names import name_of, one_line, video_name
from pipelines.scenes import SEGMENTS, SceneData, entry, timecode
from pipelines.video.inputs import listed_id

# PySceneDetect's columns in its order, so that scripts for its lists read these.
_COLUMNS = (
    *("Scene Number", "Start Frame", "Start Timecode", "Start Time (seconds)"),
    *("End Frame", "End Timecode", "End Time (seconds)"),
    *("Length (frames)", "Length (timecode)", "Length (seconds)"),
)

_SCHEMA_INSTANCE = "http://www.w3.org/2001/XMLSchema-instance"


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


def activitynet(scenes: SceneData, shots: bool = False) -> Content:
    """Return temporal annotations of ActivityNet: segments in seconds with the label Scene, or Shot, and their
    names."""
    segments = [
        {"segment": [item.start, item.end], "label": type(item).__name__, "name": name_of(item)}
        for item in listed(scenes, shots)
    ]
    video = scenes.video
    facts = {"duration": video.duration, "resolution": f"{video.width}x{video.height}", "subset": "validation"}
    name = video.id or PureWindowsPath(video.path).stem
    content = {"version": "VERSION 1.3", "database": {name: {**facts, "url": "", "annotations": segments}}}
    return Content(json.dumps(content, indent=1, allow_nan=False) + "\n")


def cvat(scenes: SceneData, shots: bool = False) -> Content:
    """Return annotations for CVAT (CVAT for images 1.1, into the task of the video): a tag on the first frame of each
    scene."""
    kind = "Shot" if shots else "Scene"
    size = {"width": str(scenes.video.width), "height": str(scenes.video.height)}
    attribute = {"name": "name", "mutable": "False", "input_type": "text"}
    label = {"name": kind, "attributes": {"attribute": attribute}}
    root = ElementTree.Element("annotations")
    add_elements(root, {"version": "1.1", "meta": {"task": {"labels": {"label": label}, "original_size": size}}})
    for item in listed(scenes, shots):
        frame = item.start_frame
        image = add_element(root, "image", id=str(frame), name=f"frame_{frame:06d}", **size)
        add_element(add_element(image, "tag", label=kind, source="auto"), "attribute", name_of(item), name="name")
    return Content(document(root))


def elan(scenes: SceneData, shots: bool = False) -> Content:
    """Return annotations for ELAN, format 3.0 (EAFv3.0.xsd), to the millisecond: a tier of the scenes, unless
    ``shots``, of the shots, of the subtitles, and of each kind of segments, such as credits. The document has the date
    of the video file."""
    tiers = _tiers(scenes)
    if shots:
        del tiers["Scenes"]
    # Each annotation has its own two slots, because ELAN moves everything that shares a slot; they are in time order.
    places = sorted(
        (time, (tier, number, side))
        for tier, parts in tiers.items()
        for number, (*times, _) in enumerate(parts)
        for side, time in enumerate(times)
    )
    slots = {place: f"ts{number}" for number, (_, place) in enumerate(places, start=1)}
    date = datetime.fromtimestamp(scenes.video.modified or 0, UTC).isoformat(timespec="seconds")
    schema = {f"{{{_SCHEMA_INSTANCE}}}noNamespaceSchemaLocation": "http://www.mpi.nl/tools/elan/EAFv3.0.xsd"}
    about = {"AUTHOR": "bassl", "DATE": date, "FORMAT": "3.0", "VERSION": "3.0"}
    root = ElementTree.Element("ANNOTATION_DOCUMENT", {**about, **schema})
    header = add_element(root, "HEADER", MEDIA_FILE="", TIME_UNITS="milliseconds")
    kind = guess_type(video_name(scenes))[0] or "unknown"
    add_element(header, "MEDIA_DESCRIPTOR", MEDIA_URL=video_uri(scenes.video), MIME_TYPE=kind)
    order = add_element(root, "TIME_ORDER")
    for time, place in places:
        add_element(order, "TIME_SLOT", TIME_SLOT_ID=slots[place], TIME_VALUE=str(time))
    for tier, parts in tiers.items():
        parent = add_element(root, "TIER", LINGUISTIC_TYPE_REF="default-lt", TIER_ID=tier)
        for number, (_, _, text) in enumerate(parts):
            ends = {"TIME_SLOT_REF1": slots[tier, number, 0], "TIME_SLOT_REF2": slots[tier, number, 1]}
            name = f"a{slots[tier, number, 0][2:]}"
            aligned = add_element(add_element(parent, "ANNOTATION"), "ALIGNABLE_ANNOTATION", ANNOTATION_ID=name, **ends)
            add_element(aligned, "ANNOTATION_VALUE", text)
    kind_of_tier = {"LINGUISTIC_TYPE_ID": "default-lt", "TIME_ALIGNABLE": "true", "GRAPHIC_REFERENCES": "false"}
    add_element(root, "LINGUISTIC_TYPE", **kind_of_tier)
    return Content(document(root))


def _tiers(scenes: SceneData) -> dict[str, list[tuple[int, int, str]]]:
    """Return what ELAN shows, by tier: start and end in milliseconds and text, in order and without overlaps."""

    def timed(start: float, end: float, text: str) -> tuple[int, int, str]:
        return round(1000 * start), round(1000 * end), text

    tiers = {
        tier: [timed(item.start, item.end, name_of(item)) for item in listed(scenes, shots)]
        for tier, shots in (("Scenes", False), ("Shots", True))
    }
    for line in scenes.lines:
        start, end, text = timed(line.start, line.end, one_line(line.text))
        subtitles = tiers.setdefault("Subtitles", [])
        if subtitles and subtitles[-1][0] == start:
            _, before, said = subtitles.pop()
            end, text = max(before, end), f"{said} {text}"
        elif subtitles:
            first, before, said = subtitles[-1]
            subtitles[-1] = first, min(before, start), said
        subtitles.append((start, max(end, start + 1), text))
    for part in scenes.segments:
        name = SEGMENTS[part.kind]
        tiers.setdefault(name.capitalize(), []).append(timed(part.start, part.end, name))
    return tiers


def shot_changes(scenes: SceneData, shots: bool = False) -> Content:
    """Return shot changes for Subtitle Edit, in seconds, one in each line. Subtitles are timed by cuts, so these are
    the shots of all scenes, also without ``shots``."""
    return Content("".join(f"{shot.start:.3f}\n" for shot in scenes.shots[1:]))


def qp_file(scenes: SceneData, shots: bool = False) -> Content:
    """Return frame types for ``x264 --qpfile`` and ``x265 --qpfile``: a key frame (IDR) at the start of each scene."""
    return Content("".join(f"{item.start_frame} I -1\n" for item in listed(scenes, shots)))


def matroska_chapters(scenes: SceneData, shots: bool = False) -> Content:
    """Return chapters for ``mkvmerge --chapters FILE``, to the microsecond."""
    root = ElementTree.Element("Chapters")
    edition = add_element(root, "EditionEntry")
    for item in listed(scenes, shots):
        atom = add_element(edition, "ChapterAtom")
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


_VTT_HEADER = "WEBVTT\nKind: "  # by which `predict` tells that it is no speech, if the file is beside the video


def webvtt(scenes: SceneData, shots: bool = False) -> Content:
    """Return chapters for ``<track kind="chapters">``, to the millisecond."""
    cues = [
        f"{item.index + 1}\n{timecode(item.start)} --> {timecode(item.end)}\n"
        f"{html.escape(name_of(item), quote=False)}\n"
        for item in listed(scenes, shots)
    ]
    return Content("\n".join([f"{_VTT_HEADER}chapters\n", *cues]))


def thumbnails_vtt(
    sprite: str, spans: Sequence[tuple[float, float]], boxes: Sequence[tuple[int, int, int, int]]
) -> str:
    """Return thumbnails for the timeline of a player: for each span of seconds a box (left, top, width and height in
    pixels) of the image ``sprite``, as a spatial media fragment (W3C Media Fragments, section 4.2.2)."""
    cues = [
        f"{timecode(start)} --> {timecode(end)}\n{quote(os.fsencode(sprite))}#xywh={','.join(map(str, box))}\n"
        for (start, end), box in zip(spans, boxes, strict=True)
    ]
    return "\n".join([f"{_VTT_HEADER}metadata\n", *cues])


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
    """Return scene markers for Kodi, which reads them from ``VIDEO.edl`` beside the video (MPlayer's EDL, action 2)."""
    return Content("".join(f"{item.start:.3f}\t{item.start:.3f}\t2\n" for item in listed(scenes, shots)))
