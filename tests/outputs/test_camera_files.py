"""Files as cameras, phones and screen recorders make them, in editing formats: read back by OpenTimelineIO's adapters,
which take no code from here, and compared with the true times of the frames; their timecodes and rates."""

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pytest
from hypothesis import given, strategies as st

from pipelines.outputs.exports.timeline import DROP_RATES, parse_smpte, smpte, timeline_of, timeline_rate
from pipelines.scenes import SceneData
from tests import videos
from tests.outputs.exporting import NTSC, RATES, VIDEO_23, content, scene_list, warnings_of

FILM_30 = Fraction(30)
CUTS = (69, 104)


class Camera(NamedTuple):
    """A kind of file: how it is written, and what is true of it."""

    write: Callable[[Path], Path]
    times: list[float]  # of each frame, and the end
    rate: Fraction  # of its timeline
    edl_rate: Fraction  # of its timeline in an EDL
    start: float  # seconds of the first frame on the clock that the camera's timecode counts
    drop: bool = False
    warning: str = ""  # what the export says


def steady(rate: Fraction, frames: int = 120) -> list[float]:
    return [float(frame / rate) for frame in range(frames + 1)]


def written(name: str, rate: Fraction, timecode: str = "", **options: Any) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        metadata = {"timecode": timecode} if timecode else None
        return videos.write_video(folder / name, videos.images(120, CUTS, 64, 48), rate, metadata=metadata, **options)

    return write


# On a grid of 1/30 s, frames only when something moves; 16.3 of them per second.
SCREEN = [sum((1, 1, 4, 2, 1)[: i % 5]) / 30 + i // 5 * 9 / 30 for i in range(121)]
DROP_30 = 107_892 + 92  # frames of 01:00:03;02

CAMERAS = {
    "webcam at 15": Camera(
        written("webcam.mp4", Fraction(15)),
        steady(Fraction(15)),
        FILM_30,
        FILM_30,
        0.0,
        warning="has 15 frames per second; the timeline has 30 frames per second: set this rate in the project",
    ),
    "screen recording": Camera(
        written("screen.mp4", FILM_30, times=SCREEN[:-1], ticks=Fraction(1, 30)),
        SCREEN,
        FILM_30,
        FILM_30,
        0.0,
        warning="has a variable frame rate; the timeline has 30 frames per second",
    ),
    "phone, drop-frame at 30.00": Camera(
        written("phone.mov", FILM_30, "01:00:03;02"), steady(FILM_30), FILM_30, FILM_30, DROP_30 / 30
    ),
    "120 with a frame field of three digits": Camera(
        written("fast.mov", Fraction(120), "01:00:00:110"),
        steady(Fraction(120)),
        Fraction(120),
        Fraction(60),
        3600 + 110 / 120,
        warning="has 120 frames per second; the timeline has 60 frames per second: set this rate in the project",
    ),
    "four mono tracks": Camera(
        written(
            "mono.mxf",
            Fraction(25),
            "10:00:00:00",
            codec="mpeg2video",
            sound=videos.tone(4.8)._replace(codec="pcm_s16le", layout="mono"),
            sound_tracks=4,
        ),
        steady(Fraction(25)),
        Fraction(25),
        Fraction(25),
        36_000.0,
    ),
    "Matroska, whose tags are upper case": Camera(
        written("camera.mkv", Fraction(25), "10:00:00:00"), steady(Fraction(25)), Fraction(25), Fraction(25), 36_000.0
    ),
    "over midnight": Camera(
        written("midnight.mov", NTSC, "23:59:58;00"),
        steady(NTSC),
        NTSC,
        NTSC,
        float((24 * 107_892 - 60) / NTSC),
        drop=True,
    ),
}


@pytest.fixture(scope="module", params=CAMERAS)
def camera(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Camera, SceneData]:
    kind = CAMERAS[request.param]
    return kind, videos.scenes_of(kind.write(tmp_path_factory.mktemp("camera")), CUTS)


Clips = list[tuple[float, float, float]]
"""Of each clip, in seconds: its start on the timecode of the video, its start on the timeline, and its length."""
ADAPTERS = {"edl": "cmx_3600", "fcpxml": "fcpx_xml", "fcp7": "fcp_xml", "otio": "otio_json"}
DAY = {True: float(24 * 107_892 / NTSC), False: 86_400.0}  # by whether the timecode is drop-frame


def read_clips(name: str, text: str, rate: Fraction) -> Clips:
    otio = pytest.importorskip("opentimelineio")
    if name == "fcpxml" and rate.denominator > 1:  # the adapter takes 23.976 for 23
        clips = ElementTree.fromstring(text).iter("asset-clip")
        places = [[float(Fraction(clip.attrib[key][:-1])) for key in ("start", "offset", "duration")] for clip in clips]
        return [(start, at, length) for start, at, length in places]
    if name == "edl" and " 00:00:00;09 " in text:  # the adapter takes an end after midnight for one before the start
        seconds = otio.opentime.from_timecode
        events = [line.split()[4:] for line in text.splitlines() if line[:3].isdigit()]
        labels = [[seconds(label, float(rate)).to_seconds() for label in event] for event in events]
        return [(start, at, end - at) for start, _, at, end in labels]
    for package in ("otio_cmx3600_adapter", "otio_fcp_adapter", "otio_fcpx_xml_adapter"):
        pytest.importorskip(package)
    options = {"rate": float(rate)} if name == "edl" else {}
    timeline = otio.adapters.read_from_string(text, ADAPTERS[name], **options)
    if not isinstance(timeline, otio.schema.Timeline):
        (timeline,) = timeline
    spans = [(clip.source_range, clip.trimmed_range_in_parent()) for clip in timeline.video_tracks()[0]]
    assert all(span.start_time.rate == pytest.approx(float(rate)) for both in spans for span in both)
    return [(a.start_time.to_seconds(), b.start_time.to_seconds(), b.duration.to_seconds()) for a, b in spans]


def test_independent_readers_find_the_true_times_of_camera_files(camera: tuple[Camera, SceneData]) -> None:
    kind, scenes = camera
    true = [kind.times[frame] for frame in (0, *CUTS, 120)]
    day = DAY[kind.drop]
    for name in ADAPTERS:
        rate = kind.edl_rate if name == "edl" else kind.rate
        half = float(1 / (2 * rate)) + 1e-6
        clips = read_clips(name, content(scenes, name), rate)
        for (start, at, length), (begin, end) in zip(clips, pairwise(true), strict=True):
            assert at == pytest.approx(begin, abs=half), name
            assert at + length == pytest.approx(end, abs=half), name
            # The timecode of the first frame is rounded, too.
            assert (start - kind.start - begin + day / 2) % day - day / 2 == pytest.approx(0, abs=2 * half), name


def test_an_export_says_once_which_frame_rate_the_project_needs(camera: tuple[Camera, SceneData]) -> None:
    kind, scenes = camera
    for name in (*ADAPTERS, "resolve-markers", "kdenlive"):
        is_slowed = kind.rate == kind.edl_rate or name in ("edl", "resolve-markers")
        warnings = warnings_of(scenes, name)
        assert len(warnings) == bool(kind.warning and is_slowed), name
        assert all(kind.warning in warning and scenes.video.path in warning for warning in warnings), name


def test_all_sound_tracks_are_in_the_timelines(tmp_path: Path) -> None:
    scenes = videos.scenes_of(CAMERAS["four mono tracks"].write(tmp_path), CUTS)
    assert (scenes.video.sound_tracks, scenes.video.sound_channels) == (4, 4)
    assert "001  AX       AA/V  C" in content(scenes, "edl")
    kinds = [track["kind"] for track in json.loads(content(scenes, "otio"))["tracks"]["children"]]
    assert kinds == ["Video", *["Audio"] * 4]
    asset = ElementTree.fromstring(content(scenes, "fcpxml")).find("resources/asset")
    assert asset is not None
    assert [asset.get(f"audio{what}") for what in ("Sources", "Channels", "Rate")] == ["4", "4", "48000"]
    root = ElementTree.fromstring(content(scenes, "fcp7"))
    tracks = root.findall("sequence/media/audio/track")
    assert [track.findtext("clipitem/sourcetrack/trackindex") for track in tracks] == ["1", "2", "3", "4"]
    assert root.findtext(".//file/media/audio/channelcount") == "4"


@pytest.mark.parametrize(
    ("frame", "label"),
    [
        (1799, "00:00:59;29"),
        (1800, "00:01:00;02"),
        (17981, "00:09:59;29"),
        (17982, "00:10:00;00"),
        (107_892, "01:00:00;00"),
        (2_589_407, "23:59:59;29"),
    ],
)
def test_drop_frame_labels_equal_published_examples(frame: int, label: str) -> None:
    assert smpte(frame, NTSC, True) == label
    assert parse_smpte(label, 30) == (frame, True)


@given(frame=st.integers(0, 2_000_000), rate=st.sampled_from(RATES), drop=st.booleans())
def test_timecodes_agree_with_opentimelineio_and_are_read_back(frame: int, rate: Fraction, drop: bool) -> None:
    opentime = pytest.importorskip("opentimelineio").opentime
    drop = drop and rate in DROP_RATES
    label = smpte(frame, rate, drop)
    assert label == opentime.to_timecode(opentime.RationalTime(frame, float(rate)), float(rate), drop)
    assert parse_smpte(label, round(rate)) == (frame, drop)


@pytest.mark.parametrize(
    "text", ["", "00:00:00", "00:60:00:00", "00:00:00:30", "00:01:00;00", "00:01:00;01", "a:b:c:d"]
)
def test_invalid_timecode_labels_are_not_parsed(text: str) -> None:
    assert parse_smpte(text, 30) is None
    assert parse_smpte("00:00:00;00", 25) is None


@pytest.mark.parametrize("text", ["01:00:00:25", "01:00:00;00", "soon"])
def test_a_timecode_that_cannot_be_used_is_said_once(text: str) -> None:
    scenes = scene_list([50, 50])
    scenes = replace(scenes, video=replace(scenes.video, start_timecode=text))
    for name in (*ADAPTERS, "resolve-markers"):
        (warning,) = warnings_of(scenes, name)
        assert f"its timecode {text} does not exist at 25 frames per second, and is left out" in warning
    assert "01:00:00:00 01:00:00:01" in content(scenes, "resolve-markers")  # as without a timecode


@pytest.mark.parametrize(
    ("rate", "text", "start"),
    [(Fraction(30), "01:00:03;18", 108_000), (Fraction(60), "25:00:00:00", 5_400_000), (NTSC, "01:00:00:00", 108_000)],
)
def test_a_timecode_counts_at_the_rate_of_its_video(rate: Fraction, text: str, start: int) -> None:
    scenes = scene_list([50, 50], rate=rate)
    scenes = replace(scenes, video=replace(scenes.video, start_timecode=text))
    assert (timeline_of(scenes).timecode, timeline_of(scenes).drop) == (start, False)
    assert warnings_of(scenes, "edl") == ()


@pytest.mark.parametrize(
    ("rate", "fastest", "timeline"),
    [
        (23.98, 120, VIDEO_23),
        (24.0003, 120, 24),
        (29.9, 120, 30),
        (12.5, 120, 25),
        (14.985, 120, NTSC),
        (1, 120, 24),
        (17.43, 120, 24),  # no multiple of it is standard
        (119.88, 60, Fraction(60_000, 1001)),
        (119.88, 120, Fraction(120_000, 1001)),
        (240, 120, 120),
        (100, 60, 50),
        (48 * 1000 / 1001, 60, Fraction(48_000, 1001)),
    ],
)
def test_a_constant_rate_becomes_a_standard_one(rate: float, fastest: int, timeline: Fraction | int) -> None:
    scenes = scene_list([50, 60], rate=rate)
    assert timeline_rate(scenes, fastest)[0] == timeline
    for clip, scene in zip(timeline_of(scenes, fastest=fastest).clips, scenes.scenes, strict=True):
        assert clip.start / timeline == pytest.approx(scene.start, abs=0.5 / float(timeline) + 1e-6)


@pytest.mark.parametrize(
    ("rate", "base", "timeline"),
    [
        (16.3, 30.0, 30),
        (16.3, float(NTSC), NTSC),
        (26.67, 120.0, 30),
        (29.98, 30.0, 30),
        (25.0, 50.0, 25),
        (50.0, 50.0, 50),
        (26.0, 90_000.0, 25),
        (23.5, None, 24),
    ],
)
def test_a_variable_rate_takes_the_grid_of_the_frames_or_the_nearest_rate(
    rate: float, base: float | None, timeline: Fraction | int
) -> None:
    scenes = scene_list([50, 60], times=[frame / rate * (1.2 if frame > 40 else 1) for frame in range(111)])
    scenes = replace(scenes, video=replace(scenes.video, frame_rate=rate, base_rate=base))
    assert timeline_rate(scenes) == (timeline, False)


class Shape(NamedTuple):
    """The stored size of frames and how they are shown; and what Final Cut Pro 7 XML says of that."""

    size: tuple[int, int]
    aspect: Fraction = Fraction(1)  # width of a pixel, divided by its height
    turns: int = 0  # clockwise, in quarters
    name: str = "square"
    anamorphic: str = "FALSE"
    rotation: str | None = None
    warning: str = ""


SHAPES = {
    "square": Shape((720, 576)),
    "PAL 16:9": Shape((720, 576), Fraction(64, 45), name="PAL-601", anamorphic="TRUE"),
    "PAL 16:9, ITU": Shape((704, 576), Fraction(16, 11), name="PAL-601", anamorphic="TRUE"),
    "PAL 4:3": Shape((720, 576), Fraction(12, 11), name="PAL-601"),
    "NTSC 16:9": Shape((720, 480), Fraction(32, 27), name="NTSC-601", anamorphic="TRUE"),
    "NTSC 4:3": Shape((720, 480), Fraction(8, 9), name="NTSC-601"),
    "HDV": Shape((1440, 1080), Fraction(4, 3), name="HD-(1440x1080)"),
    "other": Shape((320, 240), Fraction(2), warning="2 times as wide"),
    "phone": Shape((320, 180), turns=1, rotation="90", warning="rotated by 90"),
    "upside down": Shape((320, 180), turns=2, rotation="180", warning="by 180"),
    "other side": Shape((320, 180), turns=3, rotation="-90", warning="by 270"),
    "wide phone": Shape((1440, 1080), Fraction(4, 3), turns=1, rotation="90", warning="rotated by 90"),
}


@pytest.mark.parametrize("kind", SHAPES)
def test_the_shape_of_pixels_and_the_rotation_are_kept_in_xml_of_final_cut(tmp_path: Path, kind: str) -> None:
    shape = SHAPES[kind]
    path = videos.write_video(
        tmp_path / "video.mp4", videos.plain_images(2, (90, 90, 90), *shape.size), pixel_aspect=shape.aspect
    )
    if shape.turns:
        path = videos.rotated(path, tmp_path / "turned.mp4", shape.turns)
    scenes = videos.scenes_of(path, (1,))
    with_video = content(scenes, "fcpxml"), content(scenes, "fcp7")
    path.unlink()
    assert (content(scenes, "fcpxml"), content(scenes, "fcp7")) == with_video, "also without its video"
    is_turned = shape.turns % 2
    shown_size = shape.size[::-1] if is_turned else shape.size
    aspect = 1 / shape.aspect if is_turned else shape.aspect
    form = ElementTree.fromstring(with_video[0]).find("resources/format")
    assert form is not None
    assert (form.get("width"), form.get("height")) == tuple(map(str, shown_size))
    ratio = None if aspect == 1 else f"{aspect.numerator}:{aspect.denominator}"
    assert (form.get("paspH") and f"{form.get('paspH')}:{form.get('paspV')}") == ratio
    root = ElementTree.fromstring(with_video[1])
    for place, size in (("sequence/media/video/format", shown_size), (".//file/media/video", shape.size)):
        sides = [root.findtext(f"{place}/samplecharacteristics/{side}") for side in ("width", "height")]
        assert sides == [*map(str, size)]
    samples = "sequence/media/video/format/samplecharacteristics"
    assert [root.findtext(f"{samples}/{tag}") for tag in ("pixelaspectratio", "anamorphic")] == [
        shape.name, shape.anamorphic,
    ]  # fmt: skip
    turned = [clip.findtext("filter/effect/parameter/value") for clip in root.findall(".//video/track/clipitem")]
    assert turned == [shape.rotation] * 2
    warnings = warnings_of(scenes, "fcp7")
    assert bool(warnings) == bool(shape.warning)
    assert shape.warning in " ".join(warnings)
