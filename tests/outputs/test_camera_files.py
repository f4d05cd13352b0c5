"""Files as cameras, phones and screen recorders make them, in editing formats: read back by OpenTimelineIO's adapters,
which take no code from here, and compared with the true times of the frames."""

import json
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pytest

from pipelines.outputs.exports.timeline import timeline_of, timeline_rate
from pipelines.scenes import SceneData
from tests import videos
from tests.outputs.exporting import NTSC, content, scene_list, warnings_of

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
        return videos.write_video(folder / name, videos.images(120, CUTS), rate, metadata=metadata, **options)

    return write


# On a grid of 1/30 s, frames only when something moves; 16.3 of them per second.
SCREEN = [sum((1, 1, 4, 2, 1)[: i % 5]) / 30 + i // 5 * 9 / 30 for i in range(121)]
HALF = [i / 24 if i < 60 else 2.5 + (i - 60) / 30 for i in range(121)]
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
    "half 24, half 30": Camera(
        written("half.mp4", FILM_30, times=HALF[:-1], ticks=Fraction(1, 120)),
        HALF,
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


@pytest.mark.parametrize("name", ADAPTERS)
def test_independent_readers_find_the_true_times_of_camera_files(camera: tuple[Camera, SceneData], name: str) -> None:
    kind, scenes = camera
    rate = kind.edl_rate if name == "edl" else kind.rate
    true = [kind.times[frame] for frame in (0, *CUTS, 120)]
    clips = read_clips(name, content(scenes, name), rate)
    assert len(clips) == 3
    half = float(1 / (2 * rate)) + 1e-6
    day = DAY[kind.drop]
    for (start, at, length), (begin, end) in zip(clips, pairwise(true), strict=True):
        assert at == pytest.approx(begin, abs=half)
        assert at + length == pytest.approx(end, abs=half)
        # The timecode of the first frame is rounded, too.
        assert (start - kind.start - begin + day / 2) % day - day / 2 == pytest.approx(0, abs=2 * half)


@pytest.mark.parametrize("name", [*ADAPTERS, "resolve-markers", "kdenlive"])
def test_an_export_says_once_which_frame_rate_the_project_needs(camera: tuple[Camera, SceneData], name: str) -> None:
    kind, scenes = camera
    warnings = warnings_of(scenes, name)
    slow = kind.edl_rate if name in ("edl", "resolve-markers") else kind.rate
    if kind.warning and not (kind.rate != kind.edl_rate and slow == kind.rate):
        (warning,) = warnings
        assert kind.warning in warning
        assert scenes.video.path in warning
    else:
        assert warnings == ()


def test_all_sound_tracks_are_in_the_timelines(tmp_path: Path) -> None:
    scenes = videos.scenes_of(CAMERAS["four mono tracks"].write(tmp_path), CUTS)
    assert (scenes.video.sound_tracks, scenes.video.sound_channels) == (4, 4)
    assert "001  AX       AA/V  C" in content(scenes, "edl")
    kinds = [track["kind"] for track in json.loads(content(scenes, "otio"))["tracks"]["children"]]
    assert kinds == ["Video", *["Audio"] * 4]
    asset = ElementTree.fromstring(content(scenes, "fcpxml")).find("resources/asset")
    assert asset is not None
    assert (asset.get("audioSources"), asset.get("audioChannels")) == ("4", "4")
    root = ElementTree.fromstring(content(scenes, "fcp7"))
    tracks = root.findall("sequence/media/audio/track")
    assert [track.findtext("clipitem/sourcetrack/trackindex") for track in tracks] == ["1", "2", "3", "4"]
    assert root.findtext(".//file/media/audio/channelcount") == "4"


def test_a_timecode_in_matroska_whose_tags_are_upper_case_is_read(tmp_path: Path) -> None:
    scenes = videos.scenes_of(written("camera.mkv", Fraction(25), "10:00:00:00")(tmp_path), CUTS)
    assert timeline_of(scenes).timecode == 900_000


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
    [(Fraction(30), "01:00:03;18", 108_000), (Fraction(60), "25:00:00:00", 5_400_000)],
)
def test_a_timecode_counts_at_the_rate_of_its_video(rate: Fraction, text: str, start: int) -> None:
    scenes = scene_list([50, 50], rate=rate)
    scenes = replace(scenes, video=replace(scenes.video, start_timecode=text))
    assert timeline_of(scenes).timecode == start
    assert warnings_of(scenes, "edl") == ()


@pytest.mark.parametrize(
    ("rate", "fastest", "timeline"),
    [
        (12.5, 120, 25),
        (14.985, 120, NTSC),
        (10, 120, 30),
        (1, 120, 24),
        (17, 120, 24),  # no multiple of it is standard
        (59.94, 60, Fraction(60_000, 1001)),
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
    assert all(
        abs(clip.start / timeline - segment.start) <= 0.5 / timeline + 1e-6
        for clip, segment in zip(timeline_of(scenes, fastest=fastest).clips, scenes.scenes, strict=True)
    )


@pytest.mark.parametrize(
    ("rate", "base", "timeline"),
    [
        (16.3, 30.0, 30),
        (16.3, float(NTSC), NTSC),
        (26.67, 120.0, 30),
        (24.2, 120.0, 24),
        (29.98, 30.0, 30),
        (25.0, 50.0, 25),
        (50.0, 50.0, 50),
        (26.0, 90_000.0, 25),
        (23.5, None, 24),
        (14.6, None, 24),
    ],
)
def test_a_variable_rate_takes_the_grid_of_the_frames_or_the_nearest_rate(
    rate: float, base: float | None, timeline: Fraction | int
) -> None:
    scenes = scene_list([50, 60], times=[frame / rate * (1.2 if frame > 40 else 1) for frame in range(111)])
    scenes = replace(scenes, video=replace(scenes.video, frame_rate=rate, base_rate=base))
    assert timeline_rate(scenes) == (timeline, False)


# name -> pixel aspect ratio, size, quarter turns; and of FCPXML paspH and paspV, of Final Cut Pro 7 XML the size of the
# sequence and of the file, the name of the ratio, whether it is anamorphic, and a word of the warning
SHAPES: dict[str, tuple[Fraction | None, tuple[int, int], int, tuple[Any, ...], tuple[Any, ...]]] = {
    "square": (None, (720, 576), 0, (None, None), ((720, 576), (720, 576), "square", "FALSE", None, "")),
    "PAL 16:9": (Fraction(64, 45), (720, 576), 0, ("64", "45"), ((720, 576), (720, 576), "PAL-601", "TRUE", None, "")),
    "PAL 16:9, ITU": (Fraction(16, 11), (704, 576), 0, ("16", "11"), ((704, 576),) * 2 + ("PAL-601", "TRUE", None, "")),
    "PAL 4:3": (Fraction(12, 11), (720, 576), 0, ("12", "11"), ((720, 576),) * 2 + ("PAL-601", "FALSE", None, "")),
    "NTSC 16:9": (Fraction(32, 27), (720, 480), 0, ("32", "27"), ((720, 480),) * 2 + ("NTSC-601", "TRUE", None, "")),
    "NTSC 4:3": (Fraction(8, 9), (720, 480), 0, ("8", "9"), ((720, 480),) * 2 + ("NTSC-601", "FALSE", None, "")),
    "HDV": (Fraction(4, 3), (1440, 1080), 0, ("4", "3"), ((1440, 1080),) * 2 + ("HD-(1440x1080)", "FALSE", None, "")),
    "other": (Fraction(2), (320, 240), 0, ("2", "1"), ((320, 240),) * 2 + ("square", "FALSE", None, "2 times as wide")),
    "phone": (None, (320, 180), 1, (None, None), ((180, 320), (320, 180), "square", "FALSE", "90", "rotated by 90")),
    "upside down": (None, (320, 180), 2, (None, None), ((320, 180),) * 2 + ("square", "FALSE", "180", "by 180")),
    "other side": (None, (320, 180), 3, (None, None), ((180, 320), (320, 180), "square", "FALSE", "-90", "by 270")),
    "wide phone": (
        Fraction(4, 3),
        (1440, 1080),
        1,
        ("3", "4"),
        ((1080, 1440), (1440, 1080), "square", "FALSE", "90", ""),
    ),
}


@pytest.mark.parametrize("is_gone", [False, True], ids=["with its video", "without its video"])
@pytest.mark.parametrize("kind", SHAPES)
def test_the_shape_of_pixels_and_the_rotation_are_kept_in_xml_of_final_cut(
    tmp_path: Path, kind: str, is_gone: bool
) -> None:
    aspect, (width, height), turns, fcpx, (sequence, stored, name, anamorphic, rotation, warning) = SHAPES[kind]
    images = videos.plain_images(12, (90, 90, 90), width, height)
    path = videos.write_video(tmp_path / "video.mp4", images, pixel_aspect=aspect)
    if turns:
        path = videos.rotated(path, tmp_path / "turned.mp4", turns)
    scenes = videos.scenes_of(path, (6,))
    if is_gone:
        path.unlink()
    form = ElementTree.fromstring(content(scenes, "fcpxml")).find("resources/format")
    assert form is not None
    assert (form.get("paspH"), form.get("paspV")) == fcpx
    assert (form.get("width"), form.get("height")) == tuple(map(str, sequence))
    root = ElementTree.fromstring(content(scenes, "fcp7"))
    (file,) = [each for each in root.iter("file") if len(each)]
    sizes = [
        tuple(int(each.findtext(f"samplecharacteristics/{side}") or 0) for side in ("width", "height"))
        for each in (root.find("sequence/media/video/format"), file.find("media/video"))
        if each is not None
    ]
    assert sizes == [sequence, stored]
    samples = root.find("sequence/media/video/format/samplecharacteristics")
    assert samples is not None
    assert [samples.findtext(tag) for tag in ("pixelaspectratio", "anamorphic")] == [name, anamorphic]
    turned = [clip.findtext("filter/effect/parameter/value") for clip in root.findall(".//video/track/clipitem")]
    assert turned == [rotation] * 2
    said = " ".join(warnings_of(scenes, "fcp7"))
    assert warning in said
    assert bool(said) == (bool(warning) or bool(turns))
