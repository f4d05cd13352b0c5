"""Lists and markers for editing tools: EDL (CMX 3600), OpenTimelineIO, FCPXML (Final Cut Pro), Final Cut Pro 7 XML,
guides of Kdenlive and projects of LosslessCut."""

from __future__ import annotations

import json
from dataclasses import asdict
from fractions import Fraction
from typing import Any
from xml.etree.ElementTree import Element, SubElement

from pipelines.outputs.exports.timeline import Content, Timeline, add_elements, document, listed, timeline_of
from pipelines.results.finding import name_of, video_name
from pipelines.scenes import SceneData, timecode

_FASTEST_EDL = 60  # frames per second that timecode counts, at most


def edl(scenes: SceneData, shots: bool = False) -> Content:
    """Return a CMX 3600 edit decision list: one cut event per scene, source and record timecodes. At 29.97 and 59.94
    timecodes are drop-frame, unless the video's own timecode is not. Above 60 frames per second every second frame has
    a label. A dissolve, fade or wipe is in the frames already: its event is a cut, with a comment that names it."""
    timeline = timeline_of(scenes, shots, _FASTEST_EDL)
    label = timeline.label
    channels = ("V", "B", "AA/V")[min(timeline.channels, 2)]  # video alone, with one channel of sound, or with two
    lines = _edl_head(timeline)
    for clip in timeline.clips:
        source = f"{label(timeline.source_start + clip.start)} {label(timeline.source_start + clip.end)}"
        record = f"{label(clip.offset)} {label(clip.offset + clip.length)}"
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
    scene. The first frame has the video's own timecode, or 01:00:00:00, where a timeline of Resolve begins."""
    timeline = timeline_of(scenes, shots, _FASTEST_EDL)
    first = timeline.timecode
    if first is None:
        first = round(3600 * timeline.rate) if timeline.drop else 3600 * round(timeline.rate)
    lines = _edl_head(timeline)
    for number, (start, name) in enumerate(timeline.marks, start=1):
        labels = f"{timeline.label(first + start)} {timeline.label(first + start + 1)}"
        lines.append(f"{number:03d}  001      V     C        {labels} {labels}")
        lines += [f" |C:ResolveColorBlue |M:{name.replace('|', '/')} |D:1", ""]
    return Content("\n".join(lines), timeline.warnings)


def kdenlive(scenes: SceneData, shots: bool = False) -> Content:
    """Return guides for Kdenlive (Guides > Import): one at the start of each scene, at the frame rate of the video."""
    timeline = timeline_of(scenes, shots)
    guides = [{"pos": start, "comment": name, "type": 0} for start, name in timeline.marks]
    return Content(json.dumps(guides, indent=1) + "\n", timeline.warnings)


def lossless_cut(scenes: SceneData, shots: bool = False) -> Content:
    """Return a project of LosslessCut, version 1, to be opened beside the video. JSON is valid JSON5."""
    parts = [{"start": item.start, "end": item.end, "name": name_of(item)} for item in listed(scenes, shots)]
    project = {"version": 1, "mediaFileName": video_name(scenes), "cutSegments": parts}
    return Content(json.dumps(project, indent=1) + "\n")


def otio(scenes: SceneData, shots: bool = False) -> Content:
    """Return an OpenTimelineIO timeline (JSON): a video track, and an audio track for each of the video's. Each scene
    is a clip and a marker; the metadata of both have its score, the clip's also the transition at its end."""
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

    def item(schema: str, name: str, source_range: Any, metadata: dict[str, Any], **facts: Any) -> dict[str, Any]:
        common = {"OTIO_SCHEMA": schema, "name": name, "enabled": True, "source_range": source_range}
        return {**common, **facts, "markers": [], "effects": [], "metadata": metadata}

    references = {"media_references": {"DEFAULT_MEDIA": media}, "active_media_reference_key": "DEFAULT_MEDIA"}
    clips, markers = [], []
    for clip in timeline.clips:
        source_range = span(timeline.source_start + clip.start, timeline.source_start + clip.end)
        score: dict[str, Any] = {"score": clip.score}
        transition = {"transition": asdict(clip.transition)} if clip.transition else {}
        clips.append(item("Clip.2", clip.name, source_range, {"bassl": score | transition}, **references))
        marker = {"OTIO_SCHEMA": "Marker.2", "name": clip.name, "color": "GREEN", "comment": ""}
        marked = span(clip.offset, clip.offset + clip.length)
        markers.append({**marker, "marked_range": marked, "metadata": {"bassl": score}})
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
        # As text: OpenTimelineIO refuses a file with an unknown schema or half a surrogate pair in its metadata.
        "metadata": {"bassl": {"settings": json.dumps(dict(scenes.settings))}},
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
    resources, video = SubElement(root, "resources"), timeline.video
    shape = {"id": "r1", "frameDuration": time(1), "width": str(video.width), "height": str(video.height)}
    if timeline.pixel_aspect != 1:
        shape |= {"paspH": str(timeline.pixel_aspect.numerator), "paspV": str(timeline.pixel_aspect.denominator)}
    SubElement(resources, "format", shape)
    media = {"id": "r2", "name": timeline.file, "start": time(timeline.source_start), "duration": time(timeline.length)}
    media |= {"hasVideo": "1", "format": "r1"}
    if timeline.channels:
        media |= {"hasAudio": "1", "audioSources": str(video.sound_tracks or 0)}
        media |= {"audioChannels": str(timeline.channels), "audioRate": str(video.sound_rate or 0)}
    asset = SubElement(resources, "asset", media)
    SubElement(asset, "media-rep", kind="original-media", src=timeline.uri)
    event = SubElement(root, "event", name=timeline.name)
    project = SubElement(event, "project", name=timeline.name)
    whole = time(timeline.clips_length)
    sequence = SubElement(project, "sequence", format="r1", duration=whole, tcStart=time(0), tcFormat=display)
    spine = SubElement(sequence, "spine")
    for clip in timeline.clips:
        place = {"ref": "r2", "offset": time(clip.offset), "name": clip.name}
        place |= {"start": time(timeline.source_start + clip.start), "duration": time(clip.length), "tcFormat": display}
        placed = SubElement(spine, "asset-clip", place)
        for start, name in timeline.marks if markers else ():
            time_of_mark = time(timeline.source_start + start)  # the clock of the clip begins with the video's timecode
            SubElement(placed, "marker", start=time_of_mark, duration=time(1), value=name)
    return Content(document(root, "fcpxml"), timeline.warnings)


def fcp7(scenes: SceneData, shots: bool = False, markers: bool = False) -> Content:
    """Return Final Cut Pro 7 XML (xmeml 5), which Premiere Pro and DaVinci Resolve read: one clip per scene, with
    sound, or with ``markers`` the video with a marker at the start of each. Clips of a video with a rotation are
    turned: Premiere Pro does not know the video's own. Only some pixel aspect ratios have names in it."""
    timeline = timeline_of(scenes, shots, whole=markers)
    facts, aspect, warnings = timeline.video, timeline.pixel_aspect, timeline.warnings
    rotation, rate = facts.rotation or 0, _rate(timeline)
    size = stored_size = _samples((facts.width, facts.height), aspect)
    if rotation % 180 == 90:
        stored_size = _samples((facts.height, facts.width), 1 / aspect)
    if aspect != 1 and size["pixelaspectratio"] == "square":
        shape = f"its pixels are {float(aspect):.4g} times as wide as high, for which this format has no name"
        warnings += (f"{facts.path}: {shape}; set it in the editing tool",)
    if rotation:
        turned = f"is rotated by {rotation} degrees, so its clips are turned for Premiere Pro, which ignores it"
        warnings += (f"{facts.path}: {turned}; DaVinci Resolve does not: export fcpxml for it",)
    root = Element("xmeml", version="5")
    sequence = SubElement(root, "sequence", id="sequence-1")
    length = {"name": timeline.name, "duration": timeline.clips_length}
    add_elements(sequence, length | rate | _timecode(timeline, 0))
    media = SubElement(sequence, "media")
    video = SubElement(media, "video")
    add_elements(video, {"format": {"samplecharacteristics": size | rate}})
    tracks = [SubElement(video, "track")]
    if timeline.channels:
        audio = SubElement(media, "audio")
        tracks += [SubElement(audio, "track") for _ in range(timeline.channels)]
    for clip in timeline.clips:
        ids = [f"clip-{clip.number}-{channel}" for channel in range(len(tracks))]
        for channel, track in enumerate(tracks):  # of sound, after the video track
            item = SubElement(track, "clipitem", id=ids[channel])
            add_elements(item, {"name": clip.name, "enabled": "TRUE", "duration": timeline.length} | rate)
            end = clip.offset + clip.length
            add_elements(item, {"start": clip.offset, "end": end, "in": clip.start, "out": clip.end})
            SubElement(item, "file", id="file-1")
            if channel:
                add_elements(item, {"sourcetrack": {"mediatype": "audio", "trackindex": channel}})
            elif rotation:
                add_elements(item, {"filter": {"effect": _turn(rotation)}})
            for other, name in enumerate(ids if timeline.channels else ()):
                link = {"linkclipref": name, "mediatype": "audio" if other else "video"}
                add_elements(item, {"link": link | {"trackindex": max(1, other), "clipindex": clip.number}})
    streams: dict[str, object] = {"video": {"samplecharacteristics": stored_size}}
    if timeline.channels:
        sampling = {"samplerate": facts.sound_rate or 0}
        streams["audio"] = {"samplecharacteristics": sampling, "channelcount": timeline.channels}
    source = {"duration": timeline.length} | _timecode(timeline, timeline.source_start) | {"media": streams}
    file = next(root.iter("file"))  # described once, then referenced by id
    add_elements(file, {"name": timeline.file, "pathurl": timeline.uri} | rate | source)
    for start, name in timeline.marks if markers else ():
        add_elements(sequence, {"marker": {"name": name, "comment": "", "in": start, "out": -1}})
    return Content(document(root, "xmeml"), warnings)


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


def _turn(rotation: int) -> dict[str, object]:
    """Return the effect that turns a clip by so many degrees."""
    motion = {"name": "Basic Motion", "effectid": "basic", "effectcategory": "motion", "effecttype": "motion"}
    turn = {"parameterid": "rotation", "name": "Rotation", "valuemin": -8640, "valuemax": 8640}
    return motion | {"mediatype": "video", "parameter": turn | {"value": rotation - 360 * (rotation > 180)}}


def _rate(timeline: Timeline) -> dict[str, object]:
    ntsc = "TRUE" if timeline.rate.denominator == 1001 else "FALSE"
    return {"rate": {"timebase": round(timeline.rate), "ntsc": ntsc}}


def _timecode(timeline: Timeline, frame: int) -> dict[str, object]:
    label = {"string": timeline.label(frame), "frame": frame}
    return {"timecode": _rate(timeline) | label | {"displayformat": "DF" if timeline.drop else "NDF"}}
