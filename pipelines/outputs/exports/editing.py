"""Lists and markers for editing tools: EDL (CMX 3600), OpenTimelineIO, FCPXML (Final Cut Pro), Final Cut Pro 7 XML,
guides of Kdenlive and projects of LosslessCut.

PySceneDetect also writes the first four, but counts real time where timecode counts frames (at 29.97 and 23.976 its
labels drift from the frames), has no drop-frame timecode, and calls every clip a shot.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from fractions import Fraction
from typing import Any
from xml.etree.ElementTree import Element

from pipelines.outputs.exports.timeline import (
    Clip,
    Content,
    Timeline,
    add_element,
    add_elements,
    document,
    listed,
    smpte,
    timecode_base,
    timeline_of,
)
from pipelines.results.names import name_of, video_name
from pipelines.scenes import SceneData, timecode

# Timecode counts at most this many frames per second.
_FASTEST_EDL = 60


def edl(scenes: SceneData, shots: bool = False) -> Content:
    """Return a CMX 3600 edit decision list: one cut event per scene, source and record timecodes.

    The source side has the video's own timecode, if there is one; the record side starts at zero. At 29.97 and 59.94
    timecodes are drop-frame, unless the video's own timecode is not. Above 60 frames per second every second frame has
    a label, and cuts are rounded to the nearest. The format is meant for 999 events; further ones have numbers of four
    digits, which current tools read. The frames of the video contain a dissolve, fade or wipe already, so its event is
    a cut in its middle; a comment names it, with its seconds in the video."""
    timeline = timeline_of(scenes, shots, _FASTEST_EDL)

    def label(frame: int) -> str:
        return smpte(frame, timeline.rate, timeline.drop)

    channels = ("V", "B", "AA/V")[min(timeline.channels, 2)]  # video alone, with one channel of sound, or with two
    lines = _edl_head(timeline)
    for clip in timeline.clips:
        source = f"{label(timeline.source_start + clip.start)} {label(timeline.source_start + clip.end)}"
        record = f"{label(clip.at)} {label(clip.at + clip.length)}"
        lines.append(f"{clip.number:03d}  AX       {channels:<5} C        {source} {record}")
        lines += [f"* FROM CLIP NAME: {timeline.file}", f"* COMMENT: {clip.name}"]
        if (transition := clip.transition) is not None and transition.kind != "cut":
            span = f"{timecode(transition.start)} TO {timecode(transition.end)}"
            lines.append(f"* ENDS WITH {transition.kind.upper()}: {span}")
    return Content("\n".join(lines) + "\n", timeline.warnings)


def _edl_head(timeline: Timeline) -> list[str]:
    return [f"TITLE: {timeline.name}", f"FCM: {'DROP FRAME' if timeline.drop else 'NON-DROP FRAME'}", ""]


def marker_edl(scenes: SceneData, shots: bool = False) -> Content:
    """Return markers for DaVinci Resolve (Timelines > Import > Timeline Markers from EDL): one at the start of each
    scene.

    The first frame has the video's own timecode, or 01:00:00:00, where a timeline of Resolve begins.
    """
    timeline = timeline_of(scenes, shots, _FASTEST_EDL)
    first = timeline.timecode
    if first is None:
        first = round(3600 * timeline.rate) if timeline.drop else 3600 * timecode_base(timeline.rate)
    lines = _edl_head(timeline)
    for number, mark in enumerate(timeline.marks, start=1):
        at = [smpte(first + mark.start + i, timeline.rate, timeline.drop) for i in (0, 1)]
        lines.append(f"{number:03d}  001      V     C        {' '.join(at + at)}")
        lines += [f" |C:ResolveColorBlue |M:{mark.name.replace('|', '/')} |D:1", ""]
    return Content("\n".join(lines), timeline.warnings)


def kdenlive(scenes: SceneData, shots: bool = False) -> Content:
    """Return guides for Kdenlive (Guides > Import): one at the start of each scene, at the frame rate of the video."""
    timeline = timeline_of(scenes, shots)
    guides = [{"pos": mark.start, "comment": mark.name, "type": 0} for mark in timeline.marks]
    return Content(json.dumps(guides, indent=1) + "\n", timeline.warnings)


def lossless_cut(scenes: SceneData, shots: bool = False) -> Content:
    """Return a project of LosslessCut, version 1, to be opened beside the video. JSON is valid JSON5."""
    parts = [{"start": item.start, "end": item.end, "name": name_of(item)} for item in listed(scenes, shots)]
    project = {"version": 1, "mediaFileName": video_name(scenes), "cutSegments": parts}
    return Content(json.dumps(project, indent=1) + "\n")


def otio(scenes: SceneData, shots: bool = False) -> Content:
    """Return an OpenTimelineIO timeline (JSON): a video track, and an audio track for each of the video's.

    Rates are floating-point numbers in this format. Each scene is a clip and a marker; the metadata of both have its
    score, the clip's also the transition at its end. It is no transition of the timeline, because the frames contain it
    already.
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

    references = {"media_references": {"DEFAULT_MEDIA": media}, "active_media_reference_key": "DEFAULT_MEDIA"}
    clips, markers = [], []
    for clip in timeline.clips:
        source_range = span(timeline.source_start + clip.start, timeline.source_start + clip.end)
        score: dict[str, Any] = {"score": clip.score}
        facts = score | ({"transition": asdict(clip.transition)} if clip.transition else {})
        clips.append(item("Clip.2", clip.name, source_range, {"bassl": facts}, **references))
        marker = {"OTIO_SCHEMA": "Marker.2", "name": clip.name, "color": "GREEN", "comment": ""}
        place = {"marked_range": span(clip.at, clip.at + clip.length), "metadata": {"bassl": score}}
        markers.append(marker | place)
    tracks = [
        item("Track.1", f"{kind} {number}", None, {}, kind=kind, children=clips)
        for kind, tracks in (("Video", 1), ("Audio", timeline.video.sound_tracks or 0))
        for number in range(1, tracks + 1)
    ]
    content = {
        "OTIO_SCHEMA": "Timeline.1",
        "name": timeline.name,
        "global_start_time": time(0),
        "tracks": item("Stack.1", "tracks", None, {}, children=tracks) | {"markers": markers},
        "metadata": {"bassl": dict(scenes.settings)},
    }
    return Content(json.dumps(content, indent=1, allow_nan=False) + "\n", timeline.warnings)


def fcpxml(scenes: SceneData, shots: bool = False, markers: bool = False) -> Content:
    """Return a Final Cut Pro project (FCPXML 1.10): one clip per scene, or with ``markers`` the video with a marker at
    the start of each, in exact fractions of a second."""
    timeline = timeline_of(scenes, shots, whole=markers)
    display = "DF" if timeline.drop else "NDF"

    def time(frames: int) -> str:
        return f"{frames / timeline.rate}s"  # a Fraction is written as 1001/24000, or as 2 if it is whole

    root = Element("fcpxml", version="1.10")
    resources, video = add_element(root, "resources"), timeline.video
    size = {"width": str(video.width), "height": str(video.height)}
    shape = add_element(resources, "format", id="r1", frameDuration=time(1), **size)
    if timeline.pixel_aspect != 1:
        shape.set("paspH", str(timeline.pixel_aspect.numerator))
        shape.set("paspV", str(timeline.pixel_aspect.denominator))
    span = {"start": time(timeline.source_start), "duration": time(timeline.length)}
    asset = add_element(resources, "asset", id="r2", name=timeline.file, **span, hasVideo="1", format="r1")
    if timeline.channels:
        asset.set("hasAudio", "1")
        asset.set("audioSources", str(video.sound_tracks or 0))
        asset.set("audioChannels", str(timeline.channels))
        asset.set("audioRate", str(video.sound_rate or 0))
    add_element(asset, "media-rep", kind="original-media", src=timeline.uri)
    event = add_element(root, "event", name=timeline.name)
    project = add_element(event, "project", name=timeline.name)
    whole = time(timeline.clips_length)
    sequence = add_element(project, "sequence", format="r1", duration=whole, tcStart=time(0), tcFormat=display)
    spine = add_element(sequence, "spine")
    for clip in timeline.clips:
        span = {"start": time(timeline.source_start + clip.start), "duration": time(clip.length)}
        placed = add_element(
            spine, "asset-clip", ref="r2", offset=time(clip.at), name=clip.name, **span, tcFormat=display
        )
        for mark in timeline.marks if markers else ():
            at = time(timeline.source_start + mark.start)  # the clock of the clip begins with the video's timecode
            add_element(placed, "marker", start=at, duration=time(1), value=mark.name)
    return Content(document(root, "fcpxml"), timeline.warnings)


def fcp7(scenes: SceneData, shots: bool = False, markers: bool = False) -> Content:
    """Return Final Cut Pro 7 XML (xmeml 5), which Premiere Pro and DaVinci Resolve read: one clip per scene, with
    sound, or with ``markers`` the video with a marker at the start of each.

    Clips of a video with a rotation are turned: Premiere Pro does not know the video's own rotation. The format has
    names for a few pixel aspect ratios of video on tape and disc, and no numbers.
    """
    timeline = timeline_of(scenes, shots, whole=markers)
    shown, aspect, warnings = (timeline.video.width, timeline.video.height), timeline.pixel_aspect, timeline.warnings
    rotation = timeline.video.rotation or 0
    is_sideways = rotation % 180 == 90
    size = _samples(shown, aspect)
    stored_size = _samples(shown[::-1], 1 / aspect) if is_sideways else size
    if aspect != 1 and size["pixelaspectratio"] == "square":
        warnings += (f"{timeline.video.path}: {_NO_ASPECT.format(float(aspect))}",)
    if rotation:
        warnings += (f"{timeline.video.path}: {_ROTATED.format(rotation)}",)
    root = Element("xmeml", version="5")
    sequence = add_element(root, "sequence", id="sequence-1")
    add_elements(sequence, {"name": timeline.name, "duration": timeline.clips_length})
    add_elements(sequence, _rate(timeline) | _timecode(timeline, 0))
    content = add_element(sequence, "media")
    video = add_element(content, "video")
    add_elements(video, {"format": {"samplecharacteristics": size | _rate(timeline)}})
    tracks = [add_element(video, "track")]
    if timeline.channels:
        audio = add_element(content, "audio")
        tracks += [add_element(audio, "track") for _ in range(timeline.channels)]
    for clip in timeline.clips:
        items = [_clip_item(track, timeline, clip, channel) for channel, track in enumerate(tracks)]
        if rotation:
            turn = {"parameterid": "rotation", "name": "Rotation", "valuemin": -8640, "valuemax": 8640}
            turn["value"] = rotation - 360 * (rotation > 180)
            motion = {"name": "Basic Motion", "effectid": "basic", "effectcategory": "motion", "effecttype": "motion"}
            add_elements(items[0], {"filter": {"effect": motion | {"mediatype": "video", "parameter": turn}}})
        if clip.number == 1:  # the file is described once, then referenced by id
            media: dict[str, object] = {"video": {"samplecharacteristics": stored_size}}
            if timeline.channels:
                sampling = {"samplerate": timeline.video.sound_rate or 0}
                media["audio"] = {"samplecharacteristics": sampling, "channelcount": timeline.channels}
            (file,) = items[0].iter("file")
            add_elements(file, {"name": timeline.file, "pathurl": timeline.uri} | _rate(timeline))
            add_elements(file, {"duration": timeline.length} | _timecode(timeline, timeline.source_start))
            add_elements(file, {"media": media})
        for item in items if timeline.channels else ():
            for channel in range(len(tracks)):
                link = {"linkclipref": _item_id(clip, channel), "mediatype": "audio" if channel else "video"}
                add_elements(item, {"link": link | {"trackindex": max(1, channel), "clipindex": clip.number}})
    for mark in timeline.marks if markers else ():
        add_elements(sequence, {"marker": {"name": mark.name, "comment": "", "in": mark.start, "out": -1}})
    return Content(document(root, "xmeml"), warnings)


_NO_ASPECT = (
    "its pixels are {:.4g} times as wide as high, for which this format has no name; set it in the editing tool"
)
_ROTATED = (
    "is rotated by {} degrees, so its clips are turned for Premiere Pro, which ignores it; DaVinci Resolve does not: "
    "export fcpxml for it"
)
# Names of pixel aspect ratios, by the size of the frame; those of standard definition also by `anamorphic`.
_NAMED_ASPECTS = {(960, 720): (4, 3), (1280, 1080): (3, 2), (1440, 1080): (4, 3)}
_SD_ASPECTS = {576: ("PAL-601", 1.0667, 1.4222), 480: ("NTSC-601", 0.9, 1.2), 486: ("NTSC-601", 0.9, 1.2)}


def _samples(size: tuple[int, int], aspect: Fraction) -> dict[str, object]:
    """Return a frame's size and the name of its pixel aspect ratio, "square" if there is no other."""
    name, is_wide = "square", False
    if aspect != 1 and abs(aspect - Fraction(*_NAMED_ASPECTS.get(size, (0, 1)))) < 0.01:
        name = f"HD-({size[0]}x{size[1]})"
    elif size[1] in _SD_ASPECTS and size[0] >= 702:
        standard, narrow, wide = _SD_ASPECTS[size[1]]
        # 4:3 and 16:9 are of 702 to 720 columns, so that each has several ratios: 16:15, 12:11 and 128:117.
        is_wide = abs(aspect / wide - 1) < 0.04
        name = standard if is_wide or abs(aspect / narrow - 1) < 0.04 else name
    sides: dict[str, object] = {"width": size[0], "height": size[1]}
    return sides | {"anamorphic": "TRUE" if is_wide else "FALSE", "pixelaspectratio": name}


def _clip_item(track: Element, timeline: Timeline, clip: Clip, channel: int) -> Element:
    """Add a clip to the track of a channel of sound, or to the video track, channel 0."""
    item = add_element(track, "clipitem", id=_item_id(clip, channel))
    add_elements(item, {"name": clip.name, "enabled": "TRUE", "duration": timeline.length} | _rate(timeline))
    add_elements(item, {"start": clip.at, "end": clip.at + clip.length, "in": clip.start, "out": clip.end})
    add_element(item, "file", id="file-1")
    if channel:
        add_elements(item, {"sourcetrack": {"mediatype": "audio", "trackindex": channel}})
    return item


def _item_id(clip: Clip, channel: int) -> str:
    return f"clip-{clip.number}-{channel}"


def _rate(timeline: Timeline) -> dict[str, object]:
    ntsc = "TRUE" if timeline.rate.denominator == 1001 else "FALSE"
    return {"rate": {"timebase": timecode_base(timeline.rate), "ntsc": ntsc}}


def _timecode(timeline: Timeline, frame: int) -> dict[str, object]:
    label = {"string": smpte(frame, timeline.rate, timeline.drop), "frame": frame}
    return {"timecode": _rate(timeline) | label | {"displayformat": "DF" if timeline.drop else "NDF"}}
