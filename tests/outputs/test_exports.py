"""Exports: each is read back, with its own tool where available, and agrees with scenes.json."""

import csv
import html
import io
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import av
import numpy as np
import pytest
from hypothesis import given, settings

from pipelines.datasets.scene_tables import read_scenes_csv
from pipelines.errors import BasslError, VideoError
from pipelines.files import check_names_folder
from pipelines.outputs.exports import FORMATS, export, format_of
from pipelines.outputs.exports.timeline import timeline_of, timeline_rate
from pipelines.results.finding import one_line
from pipelines.scenes import Line, SceneData, Transition
from pipelines.video.detectors import read_shot_list
from recipes import documentation
from tests.outputs.exporting import (
    NTSC,
    VIDEO_23,
    content,
    edl_frame,
    named,
    scene_list,
    steady_videos,
    unsteady_videos,
)
from tests.running import HOME

Ranges = list[tuple[int, int]]


# --- readers: the frames or the times that a file holds -------------------------------------------------------------


def csv_rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def csv_times(text: str) -> list[tuple[float, float]]:
    return [(float(row["Start Time (seconds)"]), float(row["End Time (seconds)"])) for row in csv_rows(text)]


def csv_frames(text: str, rate: Fraction) -> Ranges:
    return [(int(row["Start Frame"]) - 1, int(row["End Frame"])) for row in csv_rows(text)]


def jsonl_frames(text: str, rate: Fraction) -> Ranges:
    return [(row["start_frame"], row["end_frame"]) for row in map(json.loads, text.splitlines())]


def jsonl_times(text: str) -> list[tuple[float, float]]:
    return [(row["start"], row["end"]) for row in map(json.loads, text.splitlines())]


def edl_events(text: str) -> list[list[str]]:
    """The events of an EDL, each as its eight fields; anything that is neither event, header nor comment is refused."""
    lines = text.splitlines()
    assert re.fullmatch(r"TITLE: .+", lines[0])
    assert lines[1] in ("FCM: DROP FRAME", "FCM: NON-DROP FRAME")
    events = [line.split() for line in lines[2:] if line and not line.startswith("* ")]
    assert all(len(event) == 8 for event in events)
    assert [int(event[0]) for event in events] == list(range(1, len(events) + 1))
    separator = ";" if lines[1] == "FCM: DROP FRAME" else ":"
    assert all(label[8] == separator for event in events for label in event[4:])
    return events


def edl_frames(text: str, rate: Fraction) -> Ranges:
    actual = []
    for _, reel, _, kind, *labels in edl_events(text):
        assert (reel, kind) == ("AX", "C")
        source_in, source_out, record_in, record_out = (edl_frame(label, rate) for label in labels)
        assert (source_in, source_out) == (record_in, record_out)
        actual.append((record_in, record_out))
    return actual


def otio_frames(text: str, rate: Fraction) -> Ranges:
    otio = pytest.importorskip("opentimelineio")
    timeline = otio.adapters.read_from_string(text, "otio_json")
    track = timeline.video_tracks()[0]
    actual = []
    for clip in track:
        # The reader's own rounding of decimals, as of 96000/1001, may be off by the last bit.
        assert clip.source_range.start_time.rate == pytest.approx(float(rate), rel=1e-15)
        here = track.range_of_child(clip)
        assert here == clip.source_range
        assert clip.media_reference.available_range.start_time <= clip.source_range.start_time
        end = here.end_time_exclusive().value
        assert end <= clip.media_reference.available_range.end_time_exclusive().value
        assert here.start_time.value == int(here.start_time.value)
        actual.append((int(here.start_time.value), int(end)))
    return actual


def fcpxml_frames(text: str, rate: Fraction) -> Ranges:
    root = ElementTree.fromstring(text)

    def seconds(text: str) -> Fraction:
        assert re.fullmatch(r"\d+(/\d+)?s", text)
        return Fraction(text[:-1])

    form = root.find("resources/format")
    assert form is not None
    assert seconds(form.attrib["frameDuration"]) == 1 / rate
    actual = []
    for clip in root.iter("asset-clip"):
        start, length = seconds(clip.attrib["offset"]) * rate, seconds(clip.attrib["duration"]) * rate
        assert start.denominator == length.denominator == 1  # Final Cut Pro refuses what is between two frames
        assert clip.attrib["start"] == clip.attrib["offset"]
        actual.append((int(start), int(start + length)))
    return actual


def fcp7_frames(text: str, rate: Fraction) -> Ranges:
    root = ElementTree.fromstring(text)
    timebase, ntsc = root.findtext("sequence/rate/timebase"), root.findtext("sequence/rate/ntsc")
    assert timebase is not None
    assert int(timebase) * (Fraction(1000, 1001) if ntsc == "TRUE" else 1) == rate
    actual = []
    for clip in root.findall("sequence/media/video/track/clipitem"):
        start, end, first, last = (int(clip.findtext(name) or -1) for name in ("start", "end", "in", "out"))
        assert (start, end) == (first, last)
        actual.append((start, end))
    return actual


def label_studio_frames(text: str, rate: Fraction) -> Ranges:
    (task,) = json.loads(text)
    assert task["data"]["fps"] == float(rate)
    spans = [span for region in task["predictions"][0]["result"] for span in region["value"]["ranges"]]
    return [(span["start"] - 1, span["end"]) for span in spans]


def matroska_times(text: str) -> list[tuple[float, float]]:
    def seconds(atom: ElementTree.Element, name: str) -> float:
        hours, minutes, rest = (atom.findtext(name) or "").split(":")
        assert len(rest) == 12
        return int(hours) * 3600 + int(minutes) * 60 + float(rest)

    atoms = ElementTree.fromstring(text).iter("ChapterAtom")
    return [(seconds(atom, "ChapterTimeStart"), seconds(atom, "ChapterTimeEnd")) for atom in atoms]


def ffmetadata_times(text: str) -> list[tuple[float, float]]:
    with av.open(io.BytesIO(text.encode()), format="ffmetadata") as container:
        chapters = container.chapters()
    return [(float(c["start"] * (c["time_base"] or 0)), float(c["end"] * (c["time_base"] or 0))) for c in chapters]


def webvtt_cues(text: str) -> list[tuple[float, float, str]]:
    with av.open(io.BytesIO(text.encode()), format="webvtt") as container:
        packets = [packet for packet in container.demux() if packet.size]
    return [(float(p.pts * p.time_base), float((p.pts + p.duration) * p.time_base), bytes(p).decode()) for p in packets]


def webvtt_times(text: str) -> list[tuple[float, float]]:
    return [(start, end) for start, end, _ in webvtt_cues(text)]


COUNTED: dict[str, Callable[[str, Fraction], Ranges]] = {"csv": csv_frames, "jsonl": jsonl_frames}
PLACED: dict[str, Callable[[str, Fraction], Ranges]] = {
    "edl": edl_frames,
    "otio": otio_frames,
    "fcpxml": fcpxml_frames,
    "fcp7": fcp7_frames,
    "label-studio": label_studio_frames,
}
TIMED: dict[str, tuple[float, Callable[[str], list[tuple[float, float]]]]] = {
    "csv": (0.0005, csv_times),
    "jsonl": (0.0, jsonl_times),
    "matroska": (1e-6, matroska_times),
    "ffmetadata": (1e-6, ffmetadata_times),
    "webvtt": (0.0005, webvtt_times),
}


def frames_of(scenes: SceneData, shots: bool = False) -> Ranges:
    return [(item.start_frame, item.end_frame) for item in (scenes.shots if shots else scenes.scenes)]


def times_of(scenes: SceneData, shots: bool = False) -> list[tuple[float, float]]:
    return [(item.start, item.end) for item in (scenes.shots if shots else scenes.scenes)]


READ = {**COUNTED, **PLACED, **TIMED}


def agrees(name: str, text: str, scenes: SceneData, rate: Fraction, shots: bool = False) -> bool:
    """Whether the frames in a file, and its times, are those of the scenes at a constant rate."""
    if name in TIMED and not times_agree(name, text, scenes, shots):
        return False
    read = COUNTED | PLACED
    return name not in read or read[name](text, rate) == frames_of(scenes, shots)


def times_agree(name: str, text: str, scenes: SceneData, shots: bool = False) -> bool:
    tolerance, read = TIMED[name]
    return read(text) == [pytest.approx(times, abs=tolerance + 1e-9) for times in times_of(scenes, shots)]


# --- frames and times agree with scenes.json ------------------------------------------------------------------------


@pytest.mark.parametrize("name", READ)
@settings(max_examples=25)
@given(video=steady_videos())
def test_at_a_constant_rate_every_format_has_the_frames_that_were_counted_and_their_times(
    name: str, video: tuple[SceneData, Fraction]
) -> None:
    scenes, rate = video
    for shots in (False, True):
        assert agrees(name, content(scenes, name, shots), scenes, rate, shots)


@pytest.mark.parametrize("name", READ)
@settings(max_examples=25)
@given(scenes=unsteady_videos())
def test_with_a_variable_rate_lists_have_frames_and_timestamps_and_timelines_use_times(
    name: str, scenes: SceneData
) -> None:
    rate, _ = timeline_rate(scenes, 60 if name == "edl" else 120)
    for shots in (False, True):
        text = content(scenes, name, shots)
        if name not in PLACED:
            assert agrees(name, text, scenes, rate, shots)
            continue
        places = PLACED[name](text, rate)
        assert all(end == start for (_, end), (start, _) in pairwise(places))
        assert all(start < end for start, end in places)
        # A shot that is shorter than a frame of the timeline takes one all the same, and may push those after it.
        most = 0.5 + 1e-6 + sum(shot.end - shot.start < 1 / rate for shot in scenes.shots)
        for (_, place), (_, time) in zip(places, times_of(scenes, shots), strict=True):
            assert place == pytest.approx(time * float(rate), abs=most)


def test_a_frame_rate_rounded_by_the_container_counts_as_constant() -> None:
    # As of a real video: the average rate is a little off, and so are times in milliseconds.
    times = [round(frame / 24, 3) for frame in range(14_316)]
    scenes = scene_list([1146, 201, 12_968], rate=24.00033, times=times)
    assert edl_frames(content(scenes, "edl"), Fraction(24)) == frames_of(scenes)
    # Where it is the rate that is a little off, timestamps drift by four frames in three hours.
    scenes = scene_list([100_000, 60_000, 99_200], rate=24.00033)
    assert edl_frames(content(scenes, "edl"), Fraction(24)) == frames_of(scenes)


# --- timelines ------------------------------------------------------------------------------------------------------


def test_an_edl_equals_the_expected_text() -> None:
    assert content(scene_list([1800, 16_182], rate=NTSC), "edl") == (
        "TITLE: video\n"
        "FCM: DROP FRAME\n"
        "\n"
        "001  AX       V     C        00:00:00;00 00:01:00;02 00:00:00;00 00:01:00;02\n"
        "* FROM CLIP NAME: video.mp4\n"
        "* COMMENT: Scene 1\n"
        "002  AX       V     C        00:01:00;02 00:10:00;00 00:01:00;02 00:10:00;00\n"
        "* FROM CLIP NAME: video.mp4\n"
        "* COMMENT: Scene 2\n"
    )


def test_the_transition_of_a_scene_is_that_of_its_last_shot() -> None:
    plain = scene_list([20, 30, 40, 10, 25], [1, 3, 4])
    ends = {
        0: Transition("wipe", 15, 25, 0.6, 1.0),
        1: Transition("dissolve", 45, 55, 1.8, 2.2),
        3: Transition("cut", 100, 100, 4.0, 4.0),
    }
    shots = tuple(replace(shot, transition=ends.get(shot.index)) for shot in plain.shots)
    scenes = replace(plain, shots=shots)
    assert [clip.transition for clip in timeline_of(scenes).clips] == [ends[1], ends[3], None]
    assert [clip.transition for clip in timeline_of(scenes, shots=True).clips] == [shot.transition for shot in shots]
    comments = [line for line in content(scenes, "edl").splitlines() if "ENDS WITH" in line]
    assert comments == ["* ENDS WITH DISSOLVE: 00:00:01.800 TO 00:00:02.200"]
    clips = json.loads(content(scenes, "otio"))["tracks"]["children"][0]["children"]
    actual = [clip["metadata"]["bassl"].get("transition") for clip in clips]
    assert [how and how["kind"] for how in actual] == ["dissolve", "cut", None]


@pytest.mark.parametrize(("rate", "display"), [(Fraction(25), "NDF"), (NTSC, "DF")], ids=str)
def test_a_final_cut_pro_project_describes_the_video_for_its_clips(rate: Fraction, display: str) -> None:
    root = ElementTree.fromstring(content(scene_list([20, 30], rate=rate), "fcpxml"))
    (form,), (asset,), (sequence,) = (list(root.iter(tag)) for tag in ("format", "asset", "sequence"))
    assert (root.tag, root.get("version")) == ("fcpxml", "1.10")
    assert (form.get("width"), form.get("height")) == ("640", "360")
    assert {asset.get("format"), sequence.get("format")} == {form.get("id")}
    assert {clip.get("ref") for clip in root.iter("asset-clip")} == {asset.get("id")}
    assert [Fraction(whole.attrib["duration"][:-1]) * rate for whole in (asset, sequence)] == [50, 50]
    assert [asset.get(name) for name in ("name", "start", "hasVideo", "hasAudio")] == ["video.mp4", "0s", "1", None]
    assert {each.get("kind") for each in root.iter("media-rep")} == {"original-media"}
    assert {each.get("tcFormat") for each in (sequence, *root.iter("asset-clip"))} == {display}


def test_final_cut_pro_7_clips_are_linked_to_their_sound_and_the_file() -> None:
    scenes = scene_list([20, 30])
    facts = replace(scenes.video, sound_tracks=1, sound_channels=2, sound_rate=48_000)
    root = ElementTree.fromstring(content(replace(scenes, video=facts), "fcp7"))
    assert (root.tag, root.get("version"), root.findtext("sequence/duration")) == ("xmeml", "5", "50")
    places = {}  # of each clip its kind of track, the number of the track of this kind, and its number there
    links = {}
    tracks = root.findall("sequence/media/video/track") + root.findall("sequence/media/audio/track")
    for number, (kind, track) in enumerate(zip(("video", "audio", "audio"), tracks, strict=True)):
        for at, item in enumerate(track.findall("clipitem"), 1):
            places[item.get("id")] = (kind, str(max(1, number)), str(at))
            assert item.findtext("sourcetrack/trackindex") == (str(number) if number else None)
            facts_of_clip = [item.findtext(tag) for tag in ("enabled", "duration", "rate/timebase", "rate/ntsc")]
            assert facts_of_clip == ["TRUE", "50", "25", "FALSE"]
            links[item.get("id")] = [[part.text for part in link] for link in item.findall("link")]
    assert len(places) == 6
    for clip, (_, _, scene) in places.items():
        assert links[clip] == [[other, *place] for other, place in places.items() if place[2] == scene]
    (file,) = [each for each in root.iter("file") if len(each)]
    assert {each.get("id") for each in root.iter("file")} == {file.get("id")}
    assert (file.findtext("duration"), file.findtext("rate/timebase")) == ("50", "25")
    assert file.findtext("media/audio/samplecharacteristics/samplerate") == "48000"
    assert file.findtext("media/audio/channelcount") == "2"
    silent = ElementTree.fromstring(content(scenes, "fcp7"))
    assert not silent.findall(".//audio") + silent.findall(".//link")


@pytest.mark.parametrize(
    ("path", "name", "uri"),
    [
        ("/videos/Video & <sound>.mp4", "Video & <sound>.mp4", "file:///videos/Video%20%26%20%3Csound%3E.mp4"),
        ("C:\\Videos\\My video.mp4", "My video.mp4", "file:///C:/Videos/My%20video.mp4"),
    ],
    ids=["POSIX", "Windows"],
)
def test_the_video_is_named_as_a_uri(path: str, name: str, uri: str) -> None:
    scenes = scene_list([50], path=path)
    assert f' src="{uri}"' in content(scenes, "fcpxml")
    assert f"<pathurl>{uri}</pathurl>" in content(scenes, "fcp7")
    assert f'"target_url": "{uri}"' in content(scenes, "otio")
    assert f"* FROM CLIP NAME: {name}\n" in content(scenes, "edl")


def test_a_video_that_is_not_a_video_is_reported_on_export(tmp_path: Path) -> None:
    (tmp_path / "video.mp4").write_text("no video")
    with pytest.raises(VideoError, match=r"video\.mp4: not a video that can be read"):
        content(scene_list([50], path=str(tmp_path / "video.mp4")), "edl")


# --- chapters -------------------------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("mkvmerge") is None, reason="mkvmerge is not installed")
def test_mkvmerge_accepts_the_chapters(video: Path, tmp_path: Path) -> None:
    scenes = named(scene_list([30, 31, 29, 30], [1, 3], Fraction(24)), "Übergang <1>", "A & B")
    export(scenes, tmp_path / "video.chapters.xml", "matroska")
    command = ["mkvmerge", "-q", "-o", "out.mkv", "--chapters", "video.chapters.xml", str(video)]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    with av.open(str(tmp_path / "out.mkv")) as container:
        chapters = container.chapters()
    assert [chapter["metadata"]["title"] for chapter in chapters] == ["Übergang <1>", "A & B"]
    starts = [float(chapter["start"] * (chapter["time_base"] or 0)) for chapter in chapters]
    assert starts == pytest.approx([0, 61 / 24], abs=1e-6)


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="the ffmpeg program is not installed")
def test_ffmpeg_accepts_the_chapters(video: Path, tmp_path: Path) -> None:
    scenes = named(scene_list([30, 31, 29, 30], [1, 3], Fraction(24)), "a=b;c#d\\e", "[CHAPTER]")
    export(scenes, tmp_path / "video.ffmetadata", "ffmetadata")
    command = ["ffmpeg", "-v", "error", "-i", str(video), "-i", "video.ffmetadata"]
    command += ["-map_metadata", "0", "-map_chapters", "1", "-codec", "copy", "out.mp4"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=60)
    with av.open(str(tmp_path / "out.mp4")) as container:
        chapters = container.chapters()
    assert [chapter["metadata"]["title"] for chapter in chapters] == ["a=b;c#d\\e", "[CHAPTER]"]
    assert [chapter["start"] for chapter in chapters] == [0, 2542]


# --- tables ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_the_exported_csv_can_be_read_as_labels_and_shots(tmp_path: Path, separator: str) -> None:
    scenes = scene_list([30, 31, 29], [1, 2], VIDEO_23)
    export(scenes, tmp_path / "video.csv", "csv", separator=separator)
    assert ("2,544" in (tmp_path / "video.csv").read_text()) == (separator == ";"), "decimals have commas"
    assert read_shot_list(tmp_path / "video.csv", 24.0).cuts == [61]
    labels = read_scenes_csv(tmp_path / "video.csv")
    assert labels.scenes_frames is not None
    assert labels.scenes_seconds is not None
    assert labels.scenes_frames.tolist() == [list(frames) for frames in frames_of(scenes)]
    assert labels.scenes_seconds.tolist() == [pytest.approx(times, abs=0.0005) for times in times_of(scenes)]


def test_csv_columns_are_those_of_pyscenedetect() -> None:
    from scenedetect import FrameTimecode
    from scenedetect.output import write_scene_list

    scenes = scene_list([50, 200, 25])
    theirs = io.StringIO()
    spans = [(FrameTimecode(a, 25.0), FrameTimecode(b, 25.0)) for a, b in frames_of(scenes)]
    write_scene_list(theirs, spans, include_cut_list=False)
    ours = [line.rsplit(",", 2)[0] for line in content(scenes, "csv").splitlines()]
    assert ours == theirs.getvalue().splitlines()


def test_json_lines_are_the_entries_of_scenes_json_with_what_is_said() -> None:
    scenes = scene_list([30, 31, 29], [1, 2])
    video = {"video": "/videos/video.mp4", "video_id": "video"}
    whole = scenes.to_dict()
    scenes = replace(scenes, lines=(Line(0.0, 1.0, "One."), Line(1.2, 1.6, "Two."), Line(2.0, 3.0, "\u2028Three")))
    said = {"scenes": ["One. Two. \u2028Three", ""], "shots": ["One.", "Two. \u2028Three", ""]}
    for shots, key in ((False, "scenes"), (True, "shots")):
        rows = [json.loads(line) for line in content(scenes, "jsonl", shots).splitlines()]
        expected = zip(whole[key], said[key], strict=True)
        assert rows == [{**video, **entry, "text": text} for entry, text in expected]


@pytest.mark.parametrize("store", ["chromadb", "qdrant_client"])
def test_the_documented_program_finds_scenes_in_a_vector_store(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(store, reason=f"{store} is not installed: pip install {store}")
    monkeypatch.chdir(tmp_path)
    scenes = scene_list([30] * 5)
    scenes = replace(scenes, lines=(Line(1.3, 2.0, "The harbor is cold."), Line(5.0, 6.0, "No harbor. Go home.")))
    vectors = np.random.default_rng(0).normal(size=(5, 1280)).tolist()
    export(scenes, Path("movie.scenes.jsonl"), "jsonl", fields=[{"vector": vector} for vector in vectors])
    page = (documentation.HOME / "docs" / "search.md").read_text()
    (program,) = [block for block in documentation.blocks(page, "python") if store in block]
    names: dict[str, Any] = {}
    exec(program, names)
    assert names["similar"][0]["start"] == scenes.scenes[0].start
    assert len(names["similar"]) == 3
    assert sorted(row["start"] for row in names["spoken"]) == [scenes.scenes[1].start, scenes.scenes[4].start]


def test_a_label_studio_task_has_the_scenes_as_predictions() -> None:
    (task,) = json.loads(content(scene_list([30, 31, 29], [1, 2], path="my videos/caf\udce9.mp4"), "label-studio"))
    assert task["data"] == {"video": "/data/local-files/?d=my%20videos/caf%E9.mp4", "fps": 25.0}
    (prediction,) = task["predictions"]
    assert prediction["model_version"].startswith("bassl")
    regions = prediction["result"]
    assert len({region["id"] for region in regions}) == 2
    for region in regions:
        assert (region["type"], region["from_name"], region["to_name"]) == ("timelinelabels", "segments", "video")
        assert region["value"]["timelinelabels"] == ["Scene"]
        assert 0 <= region["score"] <= 1


# --- harmful names -------------------------------------------------------------------------------------------

HOSTILE = (
    '=HYPERLINK("http://x")',
    "@SUM(1)",
    "]]></name><script>&amp;",
    "one\ntwo\r\n002  AX  V  C",
    "a --> b\n\nNOTE x",
    "\udcff\x00\x0b\ufffe",
    "[CHAPTER]\nSTART=0",
    "映画 \u2028 'quoted' \"twice\"",
)


@pytest.mark.parametrize("name", FORMATS)
def test_names_with_special_characters_change_only_the_name(name: str) -> None:
    plain = scene_list([50] * len(HOSTILE), path="/videos/x\n<&>\"'=.mp4")
    settings = {"odd": {"OTIO_SCHEMA": "Nothing.1"}, "half": "\ud83d"}
    text = content(replace(named(plain, *HOSTILE), settings=settings), name)
    text.encode()
    assert agrees(name, text, plain, Fraction(25))


def test_names_with_special_characters_are_read_back_unchanged() -> None:
    scenes = named(scene_list([50] * len(HOSTILE)), *HOSTILE)
    lines = [one_line(name) for name in HOSTILE]
    assert not any(re.search(r"[\x00-\x1f\u2028\ud800-\udfff]", line) for line in lines)
    chapters = ElementTree.fromstring(content(scenes, "matroska")).iter("ChapterString")
    assert [chapter.text for chapter in chapters] == lines
    assert [c.get("name") for c in ElementTree.fromstring(content(scenes, "fcpxml")).iter("asset-clip")] == lines
    with av.open(io.BytesIO(content(scenes, "ffmetadata").encode()), format="ffmetadata") as container:
        assert [chapter["metadata"]["title"] for chapter in container.chapters()] == lines
    assert [html.unescape(text) for *_, text in webvtt_cues(content(scenes, "webvtt"))] == lines


def test_csv_cells_cannot_be_formulas() -> None:
    names = ["=1+1", "+1", "-1", "@x", *"\uff1d\uff0b\uff0d\uff20", "x;=HYPERLINK(1)", "a; @b"]
    rows = csv_rows(content(named(scene_list([50] * 10), *names), "csv"))
    assert [row["Name"] for row in rows[:8]] == [f"'{name}" for name in names[:8]]
    assert [row["Name"] for row in rows[8:]] == ["x;'=HYPERLINK(1)", "a; '@b"]
    assert not any(value.startswith(("=", "+", "-", "@")) for row in rows for value in row.values())


# --- the file -------------------------------------------------------------------------------------------------------


def test_an_extension_selects_its_format() -> None:
    documented = (HOME / "docs" / "formats.md").read_text()
    for name, form in FORMATS.items():
        assert f"| `{name}` |" in documented
        for extension in form.extensions:
            if extension != ".xml":
                assert format_of(Path(f"a.b{extension.upper()}")) == name
            with pytest.raises(BasslError, match="is the name of a file; for several name a folder"):
                check_names_folder(Path(f"scenes{extension}"))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("a.txt", r"a\.txt: unknown extension \.txt; supported: \.json \.xmeml \.fcpxml"),
        ("a.xml", r"a\.xml: fcp7 and .* and matroska have the extension \.xml; choose one"),
        ("a", "a: unknown extension"),
    ],
)
def test_an_extension_of_no_or_several_formats_is_refused(name: str, words: str) -> None:
    with pytest.raises(BasslError, match=words):
        format_of(Path(name))
