"""Exports that mark where scenes begin: each is read back, and names the frames or times of scenes.json."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings

from pipelines.scenes import SceneData, Segment
from tests.outputs.exporting import NTSC, VIDEO_23, content, edl_frame, named, scene_list, steady_videos, warnings_of


def resolve_frames(text: str, rate: Fraction) -> list[int]:
    """The frames of marker EDLs, with the grammar of those that DaVinci Resolve writes."""
    head, *events = text.rstrip("\n").split("\n\n")
    assert re.fullmatch(r"TITLE: .+\nFCM: (NON-)?DROP FRAME", head)
    separator = ":" if "NON-DROP" in head else ";"
    label = rf"\d\d:\d\d:\d\d{separator}\d\d"
    first = edl_frame(f"01:00:00{separator}00", rate)
    actual = []
    for number, event in enumerate(events, start=1):
        match = re.fullmatch(
            rf"(\d{{3,}})  001      V     C        ({label}) ({label}) \2 \3\n"
            r" \|C:ResolveColorBlue \|M:([^|\n]+) \|D:1",
            event,
        )
        assert match is not None, event
        start, end = edl_frame(match[2], rate), edl_frame(match[3], rate)
        assert (int(match[1]), end) == (number, start + 1)
        actual.append(start - first)
    return actual


def kdenlive_frames(text: str, rate: Fraction) -> list[int]:
    guides = json.loads(text)
    assert all(guide.keys() == {"pos", "comment", "type"} for guide in guides)
    return [guide["pos"] for guide in guides]


READERS: dict[str, Callable[[str, Fraction], list[int]]] = {
    "resolve-markers": resolve_frames,
    "kdenlive": kdenlive_frames,
}


@pytest.mark.parametrize("name", READERS)
@settings(max_examples=25)
@given(video=steady_videos())
def test_a_marker_is_at_the_first_frame_of_each_scene_or_shot(name: str, video: tuple[SceneData, Fraction]) -> None:
    scenes, rate = video
    for shots in (False, True):
        actual = READERS[name](content(scenes, name, shots), rate)
        assert actual == [item.start_frame for item in (scenes.shots if shots else scenes.scenes)]


@pytest.mark.parametrize("name", [*READERS, "fcpxml-markers", "fcp7-markers"])
@pytest.mark.parametrize("rate", [Fraction(24), Fraction(37, 2)], ids=["standard rate", "another rate"])
def test_markers_also_name_segments_that_begin_inside_a_scene(name: str, rate: Fraction) -> None:
    scenes = named(scene_list([48, 100], rate=rate), "One", "Two")
    ranges = {"black": (20, 30), "bars": (48, 60), "end_credits": (120, 148)}
    segments = [Segment(kind, *frames, *(float(at / rate) for at in frames)) for kind, frames in ranges.items()]
    text = content(replace(scenes, segments=tuple(segments)), name)
    words = re.findall(r"\|M:([^|]+) \||value=\"([^\"]+)\"|<marker>\s*<name>([^<]+)<|\"comment\": \"([^\"]+)\"", text)
    assert ["".join(groups) for groups in words] == ["One", "black", "Two", "end credits"]
    if rate == 24 and name in READERS:
        assert READERS[name](text, rate) == [0, 20, 48, 120]


def test_markers_of_resolve_begin_at_the_timecode_of_the_video() -> None:
    scenes = named(scene_list([48, 100], rate=Fraction(24)), "a | b", "c")
    scenes = replace(scenes, video=replace(scenes.video, start_timecode="10:00:00:00"))
    lines = content(scenes, "resolve-markers").splitlines()
    assert lines[3] == "001  001      V     C        10:00:00:00 10:00:00:01 10:00:00:00 10:00:00:01"
    assert lines[4] == " |C:ResolveColorBlue |M:a / b |D:1"
    assert "10:00:02:00" in lines[6]


@pytest.mark.parametrize(
    ("name", "adapter", "rate"),
    [("fcpxml-markers", "fcpx_xml", Fraction(25)), ("fcp7-markers", "fcp_xml", VIDEO_23), ("otio", "otio_json", NTSC)],
)
def test_opentimelineio_reads_the_markers(name: str, adapter: str, rate: Fraction) -> None:
    otio = pytest.importorskip("opentimelineio")
    if name != "otio":
        pytest.importorskip(f"otio_{adapter.removesuffix('_xml')}_{'xml_' if 'fcpx' in adapter else ''}adapter")
    scenes = named(scene_list([2000, 31_000, 500], rate=rate), "One", "<Two>", "Three")
    timeline = otio.adapters.read_from_string(content(scenes, name), adapter)
    if not isinstance(timeline, otio.schema.Timeline):
        (timeline,) = timeline
    markers = [*timeline.tracks.markers, *(mark for clip in timeline.find_clips() for mark in clip.markers)]
    assert [mark.name for mark in markers] == ["One", "<Two>", "Three"]
    assert [round(mark.marked_range.start_time.value) for mark in markers] == [0, 2000, 33_000]
    if name == "otio":
        assert [mark.metadata["bassl"]["score"] for mark in markers] == [s.confidence for s in scenes.scenes]


def test_segments_of_losslesscut_have_the_times_of_scenes_json() -> None:
    scenes = named(scene_list([30, 31, 29], [1, 2], VIDEO_23), "One", "Zwei")
    times = [(scene.start, scene.end) for scene in scenes.scenes]
    project = json.loads(content(scenes, "losslesscut"))
    assert (project["version"], project["mediaFileName"]) == (1, "video.mp4")
    assert [(each["start"], each["end"]) for each in project["cutSegments"]] == times
    assert [each["name"] for each in project["cutSegments"]] == ["One", "Zwei"]


def test_markers_of_kodi_are_at_the_start_of_each_scene() -> None:
    assert content(scene_list([30, 31]), "kodi") == "0.000\t0.000\t2\n1.200\t1.200\t2\n"


def test_youtube_chapters_are_lines_of_time_and_name() -> None:
    scenes = named(scene_list([25 * 599, 25 * 3001, 250]), "Begin", "a <b>", "End")
    assert content(scenes, "youtube") == "0:00 Begin\n9:59 a \u2039b\u203a\n1:00:00 End\n"
    assert warnings_of(scenes, "youtube") == ()


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        ((20, 20), "YouTube needs at least three chapters, but there are 2"),
        ((20, 9, 20, 5), r"YouTube needs chapters of at least 10 s, but 2 would be shorter; .*`min_scene=11`"),
        ((20,) * 350, r"descriptions of at most 5,000 characters, but the chapters have 5,\d{3}; .*`min_scene`"),
    ],
)
def test_chapters_that_youtube_would_not_show_give_a_warning(seconds: tuple[int, ...], words: str) -> None:
    (warning,) = warnings_of(scene_list([25 * each for each in seconds]), "youtube")
    assert re.search(words, warning)
