"""Lists and markers for editing tools: EDL (CMX 3600), OpenTimelineIO, FCPXML (Final Cut Pro), Final Cut Pro 7 XML,
guides of Kdenlive and projects of LosslessCut.

PySceneDetect writes the first four as well. Its lists count real time where timecode counts frames (so that at 29.97
and 23.976 labels drift from the frames), have no drop-frame timecode, and name every clip a shot; hence our own.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any
from xml.etree import ElementTree

from pipelines.outputs.exports.segments import film_name, segments_of
from pipelines.outputs.exports.timecode import parse_smpte, smpte, timecode_base
from pipelines.outputs.exports.timeline import Clip, Timeline, timeline_of
from pipelines.scenes import SceneList, timecode

# Timecode counts no more frames per second than this.
FASTEST_EDL = 60


def edl_channels(timeline: Timeline) -> str:
    """Channels of an event: pictures alone, with one channel of sound, with two."""
    return ("V", "B", "AA/V")[min(timeline.channels, 2)]


def edl(scenes: SceneList, shots: bool = False) -> str:
    """A CMX 3600 edit decision list: one cut event per scene, source and record timecodes.

    The film's own timecode, where it has one, is on the source side; the record side starts at zero. At 29.97 and 59.94
    timecodes are drop-frame, unless the film's own is not. Above 60 frames per second every second frame has a label,
    and cuts are rounded to the nearest. The format is meant for 999 events; further ones have numbers of four digits,
    which current tools read. A dissolve, fade or wipe is already in the pictures, so its event is a cut in its middle;
    a comment names it, with its seconds in the film.
    """
    timeline = timeline_of(scenes, shots, FASTEST_EDL)

    def label(frame: int) -> str:
        return smpte(frame, timeline.rate, timeline.drop)

    channels = edl_channels(timeline)
    lines = [f"TITLE: {timeline.name}", f"FCM: {'DROP FRAME' if timeline.drop else 'NON-DROP FRAME'}", ""]
    for clip in timeline.clips:
        source = f"{label(timeline.source_start + clip.start)} {label(timeline.source_start + clip.end)}"
        lines.append(
            f"{clip.number:03d}  AX       {channels:<5} C        {source} {label(clip.at)} "
            f"{label(clip.at + clip.end - clip.start)}"
        )
        lines.append(f"* FROM CLIP NAME: {timeline.file}")
        lines.append(f"* COMMENT: {clip.name}")
        if (how := clip.transition) is not None and how.kind != "cut":
            lines.append(f"* ENDS WITH {how.kind.upper()}: {timecode(how.start)} TO {timecode(how.end)}")
    return "\n".join(lines) + "\n"


def marker_edl(scenes: SceneList, shots: bool = False) -> str:
    """Markers for DaVinci Resolve (Timelines > Import > Timeline Markers from EDL): one at the start of each scene.

    The first frame has the film's own timecode, or 01:00:00:00, with which Resolve begins a timeline.
    """
    timeline = timeline_of(scenes, shots, FASTEST_EDL)
    hour = 3600 * timecode_base(timeline.rate)
    first = timeline.source_start
    if timeline.video.start_timecode is None:
        found = parse_smpte(f"01:00:00{';' if timeline.drop else ':'}00", timeline.rate)
        first = hour if found is None else found[0]
    lines = [f"TITLE: {timeline.name}", f"FCM: {'DROP FRAME' if timeline.drop else 'NON-DROP FRAME'}", ""]
    for clip in timeline.clips:
        at = [smpte(first + clip.start + i, timeline.rate, timeline.drop) for i in (0, 1)]
        lines.append(f"{clip.number:03d}  001      V     C        {' '.join(at + at)}")
        lines += [f" |C:ResolveColorBlue |M:{clip.name.replace('|', '/')} |D:1", ""]
    return "\n".join(lines)


def kdenlive(scenes: SceneList, shots: bool = False) -> str:
    """Guides for Kdenlive (Guides > Import): one at the start of each scene, at the frame rate of the film."""
    guides = [{"pos": clip.start, "comment": clip.name, "type": 0} for clip in timeline_of(scenes, shots).clips]
    return json.dumps(guides, indent=1) + "\n"


def lossless_cut(scenes: SceneList, shots: bool = False) -> str:
    """A project of LosslessCut, version 1: JSON, which JSON5 includes; to be opened beside the film."""
    segments = [{"start": each.start, "end": each.end, "name": each.name} for each in segments_of(scenes, shots)]
    return json.dumps({"version": 1, "mediaFileName": film_name(scenes), "cutSegments": segments}, indent=1) + "\n"


def otio(scenes: SceneList, shots: bool = False) -> str:
    """An OpenTimelineIO timeline (JSON): a track of pictures and, where the film has sound, one of sound.

    Rates are floating-point numbers in this format. Each scene is a clip and a marker of the timeline; the metadata of
    both have its score, those of the clip how it ends: a dissolve is in the pictures already, and a transition between
    clips would make a second one.
    """
    timeline = timeline_of(scenes, shots)

    def time(frame: int) -> dict[str, Any]:
        return {"OTIO_SCHEMA": "RationalTime.1", "rate": float(timeline.rate), "value": float(frame)}

    def span(start: int, end: int) -> dict[str, Any]:
        return {"OTIO_SCHEMA": "TimeRange.1", "start_time": time(start), "duration": time(end - start)}

    media = {
        "OTIO_SCHEMA": "ExternalReference.1",
        "name": timeline.file,
        "target_url": timeline.uri,
        "available_range": span(timeline.source_start, timeline.source_start + timeline.length),
        "metadata": {},
    }

    def item(schema: str, name: str, source_range: Any, metadata: dict[str, Any], **own: Any) -> dict[str, Any]:
        common = {"OTIO_SCHEMA": schema, "name": name, "enabled": True, "source_range": source_range}
        return {**common, **own, "markers": [], "effects": [], "metadata": metadata}

    def clip_of(clip: Clip) -> dict[str, Any]:
        of_source = span(timeline.source_start + clip.start, timeline.source_start + clip.end)
        references = {"media_references": {"DEFAULT_MEDIA": media}, "active_media_reference_key": "DEFAULT_MEDIA"}
        facts = {"score": clip.score} | ({"transition": asdict(clip.transition)} if clip.transition else {})
        return item("Clip.2", clip.name, of_source, {"bassl": facts}, **references)

    clips = [clip_of(clip) for clip in timeline.clips]
    markers = [
        {
            "OTIO_SCHEMA": "Marker.2",
            "name": clip.name,
            "color": "GREEN",
            "comment": "",
            "marked_range": span(clip.at, clip.at + clip.end - clip.start),
            "metadata": {"bassl": {"score": clip.score}},
        }
        for clip in timeline.clips
    ]
    kinds = ["Video", "Audio"] if timeline.channels else ["Video"]
    tracks = [item("Track.1", f"{kind} 1", None, {}, kind=kind, children=clips) for kind in kinds]
    content = {
        "OTIO_SCHEMA": "Timeline.1",
        "name": timeline.name,
        "global_start_time": time(0),
        "tracks": item("Stack.1", "tracks", None, {}, children=tracks) | {"markers": markers},
        "metadata": {"bassl": dict(scenes.settings)},
    }
    return json.dumps(content, indent=1, allow_nan=False) + "\n"


def fcpxml(scenes: SceneList, shots: bool = False, markers: bool = False) -> str:
    """A Final Cut Pro project (FCPXML 1.10): one clip per scene, or with ``markers`` the film with a marker at the
    start of each, in exact fractions of a second."""
    timeline = timeline_of(scenes, shots)
    timeline = timeline.with_markers() if markers else timeline
    display = "DF" if timeline.drop else "NDF"

    def time(frames: int) -> str:
        return f"{timeline.seconds(frames)}s"  # a Fraction is written as 1001/24000, and as 2 where it is whole

    root = ElementTree.Element("fcpxml", version="1.10")
    resources = _add(root, "resources")
    _add(
        resources,
        "format",
        id="r1",
        frameDuration=time(1),
        width=str(timeline.video.width),
        height=str(timeline.video.height),
    )
    asset = _add(
        resources,
        "asset",
        id="r2",
        name=timeline.file,
        start=time(timeline.source_start),
        duration=time(timeline.length),
        hasVideo="1",
        format="r1",
    )
    if timeline.channels:
        asset.set("hasAudio", "1")
        asset.set("audioSources", str(timeline.video.sound_tracks or 0))
        asset.set("audioChannels", str(timeline.channels))
        asset.set("audioRate", str(timeline.video.sound_rate or 0))
    _add(asset, "media-rep", kind="original-media", src=timeline.uri)
    event = _add(root, "event", name=timeline.name)
    project = _add(event, "project", name=timeline.name)
    sequence = _add(
        project, "sequence", format="r1", duration=time(timeline.clips_length), tcStart=time(0), tcFormat=display
    )
    spine = _add(sequence, "spine")
    for clip in timeline.clips:
        placed = _add(
            spine,
            "asset-clip",
            ref="r2",
            offset=time(clip.at),
            name=clip.name,
            start=time(timeline.source_start + clip.start),
            duration=time(clip.end - clip.start),
            tcFormat=display,
        )
        for mark in timeline.markers:  # on the clock of the clip, which begins with the film's timecode
            at = time(timeline.source_start + mark.start)
            _add(placed, "marker", start=at, duration=time(1), value=mark.name)
    return _xml(root, "fcpxml")


def fcp7(scenes: SceneList, shots: bool = False, markers: bool = False) -> str:
    """Final Cut Pro 7 XML (xmeml 5), which Premiere Pro and DaVinci Resolve read: one clip per scene, with sound, or
    with ``markers`` the film with a marker at the start of each."""
    timeline = timeline_of(scenes, shots)
    timeline = timeline.with_markers() if markers else timeline
    root = ElementTree.Element("xmeml", version="5")
    sequence = _add(root, "sequence", id="sequence-1")
    _add(sequence, "name", timeline.name)
    _add(sequence, "duration", timeline.clips_length)
    _rate(sequence, timeline)
    _timecode(sequence, timeline, 0)
    tracks = _add(sequence, "media")
    video = _add(tracks, "video")
    characteristics = _add(_add(video, "format"), "samplecharacteristics")
    _add(characteristics, "width", timeline.video.width)
    _add(characteristics, "height", timeline.video.height)
    _rate(characteristics, timeline)
    pictures = _add(video, "track")
    channels = range(1, timeline.channels + 1)
    audio = _add(tracks, "audio") if channels else None
    sounds = [] if audio is None else [_add(audio, "track") for _ in channels]
    for clip in timeline.clips:
        items = [_clip_item(pictures, timeline, clip, "video", 0)]
        items += [_clip_item(track, timeline, clip, "audio", c) for c, track in zip(channels, sounds, strict=True)]
        for item in items if channels else ():
            for track, kind in enumerate(["video", *("audio" for _ in channels)]):
                link = _add(item, "link")
                _add(link, "linkclipref", _item_id(clip, track))
                _add(link, "mediatype", kind)
                _add(link, "trackindex", max(1, track))
                _add(link, "clipindex", clip.number)
    for mark in timeline.markers:
        marker = _add(sequence, "marker")
        for tag, value in (("name", mark.name), ("comment", ""), ("in", mark.start), ("out", -1)):
            _add(marker, tag, value)
    return _xml(root, "xmeml")


def _clip_item(
    track: ElementTree.Element, timeline: Timeline, clip: Clip, kind: str, channel: int
) -> ElementTree.Element:
    item = _add(track, "clipitem", id=_item_id(clip, channel))
    _add(item, "name", clip.name)
    _add(item, "enabled", "TRUE")
    _add(item, "duration", timeline.length)
    _rate(item, timeline)
    place = (clip.at, clip.at + clip.end - clip.start)
    for name, frame in zip(("start", "end", "in", "out"), (*place, clip.start, clip.end), strict=True):
        _add(item, name, frame)
    file = _add(item, "file", id="file-1")
    if clip.number == 1 and kind == "video":  # described once, then referred to by id
        _add(file, "name", timeline.file)
        _add(file, "pathurl", timeline.uri)
        _rate(file, timeline)
        _add(file, "duration", timeline.length)
        _timecode(file, timeline, timeline.source_start)
        content = _add(file, "media")
        characteristics = _add(_add(content, "video"), "samplecharacteristics")
        _add(characteristics, "width", timeline.video.width)
        _add(characteristics, "height", timeline.video.height)
        if timeline.channels:
            sound = _add(content, "audio")
            _add(_add(sound, "samplecharacteristics"), "samplerate", timeline.video.sound_rate or 0)
            _add(sound, "channelcount", timeline.channels)
    if kind == "audio":
        source = _add(item, "sourcetrack")
        _add(source, "mediatype", kind)
        _add(source, "trackindex", channel)
    return item


def _item_id(clip: Clip, channel: int) -> str:
    return f"clip-{clip.number}-{channel}"


def _rate(parent: ElementTree.Element, timeline: Timeline) -> None:
    rate = _add(parent, "rate")
    _add(rate, "timebase", timecode_base(timeline.rate))
    _add(rate, "ntsc", "TRUE" if timeline.rate.denominator == 1001 else "FALSE")


def _timecode(parent: ElementTree.Element, timeline: Timeline, frame: int) -> None:
    timecode = _add(parent, "timecode")
    _rate(timecode, timeline)
    _add(timecode, "string", smpte(frame, timeline.rate, timeline.drop))
    _add(timecode, "frame", frame)
    _add(timecode, "displayformat", "DF" if timeline.drop else "NDF")


def _add(
    parent: ElementTree.Element, tag: str, text: str | int | None = None, **attributes: str
) -> ElementTree.Element:
    element = ElementTree.SubElement(parent, tag, attributes)
    if text is not None:
        element.text = str(text)
    return element


def _xml(root: ElementTree.Element, doctype: str) -> str:
    ElementTree.indent(root)
    content = ElementTree.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE {doctype}>\n{content}\n'
