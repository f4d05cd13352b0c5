"""`bassl split`: what it prints, writes and refuses."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import av
import pytest

from tests import videos
from tests.command import Bassl, running
from tests.videos import CUTS, FRAMES, GROUPS, numbers, scenes_of


@pytest.fixture(scope="module")
def movie(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return videos.write_video(
        tmp_path_factory.mktemp("cli") / "movie.mp4", videos.images(FRAMES, CUTS), options=GROUPS, sound_seconds=5
    )


@pytest.fixture
def bassl(movie: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Bassl:
    """Run the command in this process, in a folder with the video's scenes.json."""
    monkeypatch.chdir(tmp_path)
    scenes_of(movie).save(tmp_path / "movie.scenes.json")
    return running(monkeypatch, capfd, "split")


def names(folder: str) -> list[str]:
    return sorted(path.name for path in Path(folder).glob("[!.]*"))


def test_split_writes_one_clip_per_scene(bassl: Bassl, movie: Path) -> None:
    code, out, err = bassl(movie)
    assert code == 0
    header, *rows = out.splitlines()
    assert header.split() == ["scene", "start", "end", "early", "late"]
    assert rows[1].split()[:5] == ["2", "00:00:01.250", "00:00:02.542", "0.250", "s"]
    reading, warning, done = err.splitlines()
    assert reading == "reading movie.mp4"
    assert warning.startswith("warning: cuts are at key frames: 3 scenes of 4 begin early, by ")
    assert warning.endswith("0.25 s at most; --exact cuts to the frame")
    assert done == "4 clips; wrote movie-scenes"
    assert names("movie-scenes") == [f"movie-scene-00{i}.mp4" for i in (1, 2, 3, 4)]


def test_exact_prints_no_note_on_key_frames_and_a_higher_crf_makes_smaller_clips(bassl: Bassl, movie: Path) -> None:
    code, out, err = bassl(movie, "movie.scenes.json", "--exact", "--crf", 10, "--preset", "ultrafast", "-o", "10")
    assert (code, out.splitlines()[0].split()) == (0, ["scene", "start", "end"])
    assert err.splitlines() == ["reading movie.mp4", "4 clips; wrote 10"]
    assert bassl(movie, "--exact", "--crf", 40, "--preset", "ultrafast", "-o", "40", "-q").code == 0
    sizes = []
    for folder in ("10", "40"):
        with av.open(f"{folder}/movie-scene-001.mp4") as container:
            sizes.append(sum(packet.size for packet in container.demux(video=0)))
    assert sizes[1] < sizes[0] / 2


def test_clips_are_named_by_the_filename_template(bassl: Bassl, movie: Path) -> None:
    assert bassl(movie, "-f", "$SCENE_NUMBER $SCENE_NAME at $START_TIME", "-o", "out", "-q")[0] == 0
    assert names("out")[:2] == ["001 Scene 1 at 00-00-00.000.mp4", "002 Scene 2 at 00-00-01.250.mp4"]


def test_clips_of_several_videos_are_told_apart_and_never_overwritten(bassl: Bassl, movie: Path) -> None:
    shutil.copy(movie, "other.mp4")
    scenes_of(Path("other.mp4"), CUTS[:1]).save("other.json")
    _, out, err = bassl("other.json", "movie.scenes.json", "-o", "out")
    assert [line for line in err.splitlines() if "wrote" in line] == [
        "other.json: 2 clips; wrote out",
        "movie.scenes.json: 4 clips; wrote out",
    ]
    assert [line for line in out.splitlines() if line.endswith(".json")] == ["other.json", "movie.scenes.json"]
    Path("a").mkdir()
    shutil.copy(movie, "a/movie.mp4")
    scenes_of(Path("a/movie.mp4"), CUTS[:1]).save("a/scenes.json")
    code, _, err = bassl("a/scenes.json", "movie.scenes.json")
    assert (code, len(names("movie-scenes"))) == (1, 2)
    assert "movie-scene-002.mp4: already exists" in err  # the first scene is the same, of the same video


def test_handles_extend_clips_within_the_video_and_json_lists_them(bassl: Bassl, movie: Path) -> None:
    code, out, err = bassl(movie, "--expand", "0.5s", "-o", "out", "--json", "-q")
    assert (code, err.count("\n"), err.startswith("warning: ")) == (0, 1, True)
    clips, wide = json.loads(out), [(0, 42), (18, 73), (49, 102), (78, 120)]
    assert [clip["path"] for clip in clips] == [f"out/movie-scene-00{i}.mp4" for i in (1, 2, 3, 4)]
    assert clips[1].keys() == {"scene", "path", "start", "end", "early", "late"}
    for clip, (start, end) in zip(clips, wide, strict=True):
        assert (clip["start"], clip["end"]) == pytest.approx((start / 24, end / 24), abs=1e-4)
        frames = numbers(Path(clip["path"]))
        assert frames[0] == start // 12 * 12
        assert end - 1 <= frames[-1] <= end + 2


@pytest.mark.parametrize("exact", [True, False])
def test_scenes_with_gaps_are_cut(bassl: Bassl, movie: Path, exact: bool) -> None:
    whole = scenes_of(movie)
    scenes = tuple(replace(whole.scenes[i], index=index) for index, i in enumerate((0, 2)))
    replace(whole, settings={"drop_short": True}, scenes=scenes).save(Path("list.json"))
    assert bassl(movie, "list.json", "-o", "out", "-q", *["--exact"] * exact).code == 0
    for name, (start, end) in zip(names("out"), [(0, 30), (61, 90)], strict=True):
        clip = sorted(numbers(Path("out", name)))
        assert clip[0] == (start if exact else start // 12 * 12)
        assert 0 <= clip[-1] - (end - 1) <= (0 if exact else 3)


def test_chapters_option_writes_one_copy_with_chapters(bassl: Bassl, movie: Path) -> None:
    said = "reading movie.mp4\n4 chapters; wrote movie-scenes/movie-chapters.mp4\n"
    assert bassl(movie, "--chapters") == (0, "", said)
    with av.open("movie-scenes/movie-chapters.mp4") as container:
        assert len(container.chapters()) == 4


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("gone.mp4", "gone.mp4: no such file"),
        ("moved.json", "elsewhere.mp4: the video was not found"),
        ("{movie} text.json", "text.json: is not a scenes.json"),
        ("{movie} --chapters --exact", "--chapters copies the video in one piece"),
        ("{movie} --chapters --expand 1 -f $SCENE_NUMBER", "only --output, --overwrite and --video"),
        ("{movie} -o text.json", "text.json: is the name of a file"),
        ("{movie} --expand -1", "expand must be at least 0"),
        ("{movie} --crf 20", "add --exact"),
        ("{movie} --exact --crf 52", "must be from 0 to 51"),
        ("{movie} --exact --preset warp", "ultrafast"),
        ("{movie} -f $NUMBER", "'$NUMBER' has an unknown variable; choose from $VIDEO_NAME, $SCENE_NUMBER"),
        ("{movie} -f $1", "($$ is a $)"),
        ("movie.scenes.json moved.json -o out -f $SCENE_NUMBER --overwrite", "add $VIDEO_NAME to --filename"),
        ("moved/scenes.json moved.json --overwrite", "moved.json and moved/scenes.json: are of videos with one name"),
        ("{movie} -f $VIDEO_NAME", "several files would have this name; add $SCENE_NUMBER to --filename"),
        ("{movie} -o full", "movie-scene-004.mp4: already exists"),
    ],
)
def test_wrong_options_are_one_line_and_write_nothing(bassl: Bassl, movie: Path, arguments: str, words: str) -> None:
    for folder in ("full", "moved"):
        Path(folder).mkdir()
    for file in ("moved.json", "moved/scenes.json"):
        Path(file).write_text(Path("movie.scenes.json").read_text().replace("movie.mp4", "elsewhere.mp4"))
    Path("text.json").write_text("{}")
    Path("full/movie-scene-004.mp4").write_text("kept")
    assert words in bassl(*arguments.format(movie=movie).split()).refusal
    assert [str(path.relative_to(Path.cwd())) for path in Path.cwd().rglob("*.mp4")] == ["full/movie-scene-004.mp4"]
    assert Path("full/movie-scene-004.mp4").read_text() == "kept"
