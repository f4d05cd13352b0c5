"""`save-images`: the saved frames, their names, and errors."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from pipelines.errors import BasslError, VideoError
from pipelines.options import with_options
from pipelines.scenes import SceneData, Segment, Transition, group_shots
from pipelines.stages.save_images import save_images
from pipelines.stages.settings import ImageSettings
from pipelines.video.decoding import VideoDecoder
from pipelines.video.reader import still_images
from tests import videos
from tests.command import Bassl, running
from tests.running import posix
from tests.videos import CUTS, FRAMES, GROUPS, scenes_of


@pytest.fixture(scope="module")
def movie(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return four shots, a keyframe each 12 frames, frames not stored in the order in which they are shown."""
    return videos.write_video(
        tmp_path_factory.mktemp("images") / "movie.mp4", videos.images(FRAMES, CUTS), options=GROUPS
    )


@pytest.fixture
def bassl(movie: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Bassl:
    monkeypatch.chdir(tmp_path)
    scenes_of(movie).save(tmp_path / "scenes.json")
    return running(monkeypatch, capfd, "save-images")


def numbers(folder: Path | str) -> list[int]:
    return [
        videos.number_of(np.asarray(Image.open(path).convert("RGB"))) for path in sorted(Path(folder).glob("[!.]*"))
    ]


def write_before_zero(path: Path, early: float, **options: str) -> Path:
    """Write a video whose first frames have times below zero."""
    container = {"avoid_negative_ts": "disabled", **options}
    times = [frame / 24 - early for frame in range(FRAMES)]
    groups = GROUPS | {"g": "12" if early > 1 else "250"}
    return videos.write_video(
        path, videos.images(FRAMES, CUTS), times=times, options=groups, container_options=container
    )


def write_without_an_index(path: Path) -> Path:
    """Write Matroska in which no block is marked as a key frame."""
    options = {"options": GROUPS | {"g": "250"}, "container_options": {"live": "1"}}
    content = videos.write_video(path, videos.images(FRAMES, CUTS), **options).read_bytes()
    path.write_bytes(re.sub(rb"(\xa3[^\xa3]{2}\x81..)\x80", lambda found: found[1] + b"\0", content, flags=re.DOTALL))
    return path


STORAGE: dict[str, Callable[[Path], Path]] = {
    "video.mp4": lambda path: videos.write_video(path, videos.images(FRAMES, CUTS), options=GROUPS),
    "video.ts": lambda path: videos.write_video(path, videos.images(FRAMES, CUTS), options=GROUPS),
    "video.avi": lambda path: videos.write_video(path, videos.images(FRAMES, CUTS), options=GROUPS | {"bf": "0"}),
    "before zero.mkv": lambda path: write_before_zero(path, 0.5),
    "long before zero.mkv": lambda path: write_before_zero(path, 2.0),
    "live.mkv": lambda path: write_before_zero(path, 0.05, live="1"),
    "without an index.mkv": write_without_an_index,
}


@pytest.mark.parametrize("name", STORAGE)
def test_frames_are_found_by_seeking_however_they_are_stored(tmp_path: Path, name: str) -> None:
    video, wanted = STORAGE[name](tmp_path / name), [0, 1, 11, 12, 13, 59, 110, 119]
    times, _ = videos.timed(video)
    with VideoDecoder(video) as reader:
        pairs = list(still_images(reader, [times[frame] + 0.01 for frame in wanted]))
    assert [videos.number_of(image) for _, image in pairs] == wanted
    assert [time for time, _ in pairs] == pytest.approx([times[frame] for frame in wanted], abs=0.002)
    with VideoDecoder(video) as reader, pytest.raises(BasslError, match=r"no frame can be decoded at 99\.000 s"):
        list(still_images(reader, [0.0, 99.0]))


def test_an_error_of_ffmpeg_names_the_video(movie: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise av.error.PermissionError(1, "Operation not permitted")  # FFmpeg's -1, as of a seek

    monkeypatch.setattr("pipelines.video.reader._seek", fail)
    with pytest.raises(VideoError, match=r"movie\.mp4: cannot be decoded \(operation not permitted\)"):
        save_images(scenes_of(movie), output=tmp_path / "images")
    assert not list((tmp_path / "images").iterdir())


def test_with_a_variable_frame_rate_the_frame_shown_at_the_time_is_returned(tmp_path: Path) -> None:
    times = [frame * 0.04 + (frame > 20) * 3.0 for frame in range(40)]
    video = videos.write_video(tmp_path / "video.mkv", videos.images(40), times=times, options=GROUPS)
    with VideoDecoder(video) as reader:
        frames = [videos.number_of(image) for _, image in still_images(reader, [0.43, 2.0, 3.9, 4.05])]
    assert frames == [10, 20, 22, 26]


def test_images_are_spread_over_the_scene_and_away_from_cuts(bassl: Bassl) -> None:
    assert bassl("-n", 3, "-q", "--format", "png") == (0, "", "")
    frames = np.array(numbers("movie-images")).reshape(4, 3)
    for row, (start, end) in zip(frames, zip((0, *CUTS), (*CUTS, FRAMES), strict=True), strict=True):
        assert start + 5 <= row[0] < row[1] < row[2] < end - 5
        assert row[2] - row[1] == pytest.approx(row[1] - row[0], abs=1)


@posix
def test_a_link_in_place_of_the_usual_folder_is_followed_only_if_it_is_named(bassl: Bassl, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    Path("movie-images").symlink_to("elsewhere")
    message = "bassl: movie-images: is a link to another folder; name a folder with --output\n"
    assert bassl("-q") == (2, "", message)
    assert not list((tmp_path / "elsewhere").iterdir())
    assert bassl("-q", "-n", 1, "-o", "movie-images").code == 0
    assert len(list((tmp_path / "elsewhere").glob("[!.]*"))) == 4


def test_frames_of_a_dissolve_are_left_out(movie: Path, tmp_path: Path) -> None:
    whole = scenes_of(movie)
    shots = list(whole.shots)
    shots[1] = replace(shots[1], transition=Transition("dissolve", 41, 81, 41 / 24, 81 / 24))
    scenes = SceneData(whole.video, {}, tuple(shots), group_shots(shots, [0, 3]))
    scenes.save(tmp_path / "scenes.json")
    images = save_images(tmp_path / "scenes.json", output=tmp_path / "out", images=20)
    second = [round(image.time * 24) for image in images if image.scene == 1]
    assert len(set(second)) == 20
    assert not {*range(41, 81)} & {*second}
    assert {image.shot for image in images if image.scene == 1} == {1, 2, 3}


def test_images_of_each_shot_are_named_by_a_template(bassl: Bassl) -> None:
    template = "$VIDEO_NAME $SHOT_NUMBER $SCENE_NAME at $TIMECODE"
    assert bassl("--shots", "-n", 1, "-f", template, "-o", "out", "-q").code == 0
    assert sorted(path.name for path in Path("out").glob("[!.]*"))[:2] == [
        "movie 001 Scene 1 at 00-00-00.625.jpg",
        "movie 002 Scene 2 at 00-00-01.875.jpg",
    ]


@pytest.mark.parametrize("shots", [False, True], ids=["scenes", "shots"])
def test_images_of_credits_are_left_out_and_numbers_stay(movie: Path, tmp_path: Path, shots: bool) -> None:
    whole = scenes_of(movie)
    credits, third = whole.shots[0], whole.shots[2]
    segments = (Segment("opening_credits", 0, third.start_frame - 5, 0.0, third.start - 0.2),)
    scenes = replace(whole, scenes=group_shots(whole.shots, [2, 3]), segments=segments)
    template = "$SCENE_NUMBER $SCENE_NAME $IMAGE_NUMBER" + " $SHOT_NUMBER" * shots
    images = save_images(
        scenes, output=tmp_path, images=1, skip_credits=True, shots=shots, filename=template, format="png"
    )
    assert [image.shot for image in images] == [2, 3]
    assert [image.path.name[:11] for image in images] == ["001 Scene 1", "002 Scene 2"]
    everything = (Segment("end_credits", 0, FRAMES, credits.start, whole.shots[-1].end),)
    with pytest.raises(BasslError, match=r"all its scenes are credits; leave `skip_credits` out"):
        save_images(replace(scenes, segments=everything), output=tmp_path, skip_credits=True)


@pytest.mark.parametrize(
    ("given", "size"), [("", (160, 96)), ("--width 80", (80, 48)), ("--width 50 --height 60", (50, 60))]
)
def test_images_have_the_video_s_size_or_another(bassl: Bassl, given: str, size: tuple[int, int]) -> None:
    code, out, _ = bassl("-n", 1, "--format", "webp", "--json", *given.split())
    image = json.loads(out)[1]
    assert (code, image["path"], image["scene"], image["shot"]) == (0, "movie-images/movie-scene-002-001.webp", 1, 1)
    assert Image.open(image["path"]).size == size


def test_images_of_rotated_phone_video_are_upright(movie: Path, tmp_path: Path) -> None:
    turned = videos.rotated(movie, tmp_path / "turned.mp4", 1)
    with VideoDecoder(turned) as reader:
        ((_, image),) = still_images(reader, [2.0])
    assert image.shape == (160, 96, 3)
    assert videos.number_of(np.rot90(image)) == 48


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("moved.json", "elsewhere.mp4: the video was not found"),
        ("-n 0", "from 1 to 1,000"),
        ("--quality 101", "1 to 100"),
        ("--width 0", "width must be from 1 to 16,383"),
        ("--format gif", "format must be one of jpg, png, webp, not 'gif'"),
        ("-f $NUMBER", "'$NUMBER' has an unknown variable; choose from $VIDEO_NAME, $SCENE_NUMBER"),
        ("-f $SCENE_NUMBER", "add $SCENE_NUMBER and $IMAGE_NUMBER to --filename"),
        ("--video video001.png -o. -n1 -fvideo$SCENE_NUMBER --format=png --overwrite", "an input of"),
        ("moved.json moved/scenes.json --overwrite", "moved/scenes.json and moved.json: are of videos with one name"),
        ("-o x.jpg", "x.jpg: is the name of a file; for several name a folder, such as x/"),
        ("-o full", "movie-scene-004-003.jpg: already exists"),
    ],
)
def test_wrong_options_are_one_line_and_write_nothing(bassl: Bassl, movie: Path, arguments: str, words: str) -> None:
    for folder in ("full", "moved"):
        Path(folder).mkdir()
    for file in ("moved.json", "moved/scenes.json"):
        Path(file).write_text(Path("scenes.json").read_text().replace("movie.mp4", "elsewhere.mp4"))
    Path("video001.png").write_bytes(movie.read_bytes())
    Path("full/movie-scene-004-003.jpg").write_text("kept")
    assert words in bassl(*arguments.split()).refusal
    assert [str(path.relative_to(Path.cwd())) for path in Path.cwd().rglob("*.jpg")] == ["full/movie-scene-004-003.jpg"]


def test_an_image_too_large_for_its_format_is_refused_before_images_are_read(movie: Path, tmp_path: Path) -> None:
    scenes_of(movie).save(tmp_path / "scenes.json")
    read: list[object] = []
    settings = with_options(ImageSettings, output=tmp_path / "out", images=1, format="webp", height=16000)
    words = "26667 x 16000 pixels, but the limit is 16383; choose a smaller `width` or `height`"
    with pytest.raises(BasslError, match=words):
        save_images(tmp_path / "scenes.json", settings, lambda *state: read.append(state))
    assert not read
    assert not list((tmp_path / "out").glob("*"))


def test_images_of_a_video_that_changes_its_size_have_one_size(tmp_path: Path) -> None:
    parts = [
        videos.write_video(tmp_path / "a.ts", videos.images(40, seed=1)),
        videos.write_video(tmp_path / "b.ts", videos.images(40, seed=2, width=320, height=128)),
    ]
    with VideoDecoder(videos.joined(parts, tmp_path / "both.ts")) as reader:
        images = still_images(reader, [0.5, 2.5], ImageSettings(width=160).size)
        assert [image.shape for _, image in images] == [(96, 160, 3)] * 2


def test_images_that_are_there_stay_and_missing_ones_are_made(bassl: Bassl, movie: Path) -> None:
    scenes_of(movie).save("scenes.json")
    assert bassl("scenes.json", "-n", 1)[0] == 0
    first, second, *_ = files = sorted(Path("movie-images").glob("[!.]*"))
    times = [file.stat().st_mtime_ns for file in files]
    second.unlink()
    assert bassl("scenes.json", "-n", 1)[0] == 0
    changed = [file for file, time in zip(files, times, strict=True) if file.stat().st_mtime_ns != time]
    assert changed == [second]
    code, _, err = bassl("scenes.json", "-n", 1, "--width", 64)
    assert (code, f"{first}: already exists" in err) == (2, True)
