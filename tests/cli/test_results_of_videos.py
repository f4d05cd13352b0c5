"""What commands that need scenes take, and that no command overwrites a file that it reads."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from tests import small_stores, videos
from tests.command import Bassl
from tests.outputs.exporting import scene_list
from tests.videos import CUTS, FRAMES, scenes_of

COMMANDS = {
    "export": (["--to", "csv"], "{}.scenes.csv"),
    "report": ([], "{}.scenes.html"),
    "save-images": (["-n", "1"], "{}-images/{}-scene-001-001.jpg"),
    "split": ([], "{}-scenes/{}-scene-001.mp4"),
}
"""By command: options, and a file that it writes for a video, with its name."""


@pytest.fixture(scope="module")
def movie(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return videos.write_video(tmp_path_factory.mktemp("results") / "movie.mp4", videos.images(FRAMES, CUTS))


@pytest.fixture
def place(movie: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with a video and its result, and a folder with a video."""
    monkeypatch.chdir(tmp_path)
    Path("videos").mkdir()
    for copy in (Path("movie.mp4"), Path("videos/other.mp4")):
        shutil.copy(movie, copy)
    scenes_of(Path("movie.mp4")).save("movie.scenes.json")
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_takes_a_video_its_result_their_folder_or_nothing(bassl: Bassl, place: Path, command: str) -> None:
    options, made = COMMANDS[command]
    for sources in (["movie.mp4"], ["movie.scenes.json"], ["."], []):
        assert bassl(command, *sources, *options, "-q", *["--overwrite"] * (command == "split")).code == 0
        Path(made.replace("{}", "movie")).unlink()


@pytest.mark.parametrize("command", COMMANDS)
def test_of_a_folder_of_videos_one_without_a_result_fails_alone(bassl: Bassl, place: Path, command: str) -> None:
    options, made = COMMANDS[command]
    run = bassl(command, "videos", *options, "-q")
    line = "videos: its videos have no NAME.scenes.json; make them with: bassl predict videos"
    assert (run.code, run.err) == (2, f"bassl: {line}\n")
    run = bassl(command, "movie.mp4", "videos/other.mp4", *options, "-q")
    line = "bassl: videos/other.mp4: other.scenes.json: no such file; make it with: bassl predict videos/other.mp4"
    assert (run.code, [line for line in run.complaints if line.startswith("bassl: ")]) == (1, [line])
    assert Path(made.replace("{}", "movie")).is_file()
    Path("scenes").mkdir()
    scenes_of(Path("videos/other.mp4"), CUTS[:2]).save("scenes/other.scenes.json")
    assert bassl(command, "videos", *options, "-q").code == 0
    folder = "scenes/" if command in ("export", "report") else ""
    assert Path(folder + made.replace("{}", "other")).is_file()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_result_of_another_video_with_the_name_is_not_taken(bassl: Bassl, place: Path, command: str) -> None:
    Path("movie.scenes.json").unlink()
    assert bassl("predict", "movie.mp4", "--scenes", 2, "-q").code == 0
    videos.write_video(Path("videos/movie.mp4"), videos.images(60, (30,)))
    before = sorted(place.rglob("*"))
    run = bassl(command, "videos/movie.mp4", *COMMANDS[command][0], "-q")
    line = (
        "movie.scenes.json: has the scenes of another video than videos/movie.mp4; run: bassl predict videos/movie.mp4"
    )
    assert (run.code, run.err) == (2, f"bassl: {line}\n")
    assert sorted(place.rglob("*")) == before


def test_a_video_that_was_moved_is_used_where_it_is_named(bassl: Bassl, place: Path) -> None:
    Path("movie.mp4").rename("videos/movie.mp4")
    assert bassl("export", "videos/movie.mp4", "--to", "otio") == (0, "", "4 scenes; wrote movie.scenes.otio\n")
    assert (place / "videos/movie.mp4").resolve().as_uri() in Path("movie.scenes.otio").read_text()


@pytest.mark.parametrize("output", ["out/", "made"])
def test_an_output_that_ends_with_a_slash_or_exists_is_a_folder(bassl: Bassl, place: Path, output: str) -> None:
    Path("made").mkdir()
    assert bassl("export", "movie.mp4", "--to", "csv", "-o", output, "-q").code == 0
    assert bassl("report", "movie.mp4", "-o", output, "-q").code == 0
    names = ["movie.scenes.csv", "movie.scenes.html"]
    assert sorted(path.name for path in Path(output).iterdir()) == names
    assert bassl("predict", "movie.mp4", "-o", output, "--to", "edl", "--report", "-q").code == 0
    names += ["movie.scenes.edl", "movie.scenes.json"]
    assert sorted(path.name for path in Path(output).iterdir()) == sorted(names)


def test_several_formats_are_written_at_once(bassl: Bassl, place: Path) -> None:
    said = "4 scenes; wrote movie.scenes.edl, movie.scenes.otio, movie.scenes.youtube.txt"
    run = bassl("export", "movie.mp4", "--to", "edl,otio,youtube")
    assert (run.code, run.err.splitlines()[-1]) == (0, said)
    for arguments, file in (
        (("export", "movie.mp4", "-o", "out"), "out/movie"),
        (("predict", "movie.mp4", "-o", "new/"), "new/movie"),
        (("predict", "videos", "-o", "all"), "all/other"),
    ):
        assert bassl(*arguments, "--to", "edl,csv", "-q").code == 0
        assert {".csv", ".edl"} <= {path.suffix for path in Path(file).parent.glob(f"{Path(file).name}.scenes.*")}


def test_score_takes_a_video_with_a_result(bassl: Bassl, place: Path) -> None:
    shutil.copy("movie.scenes.json", "truth.json")
    assert bassl("score", "movie.mp4", "truth.json").code == 0
    words = "make it with: bassl predict videos/other.mp4"
    assert words in bassl("score", "videos/other.mp4", "truth.json").refusal


# --- no command overwrites a file that it reads ----------------------------------------------------------------------


OVERWRITING = {
    "score a list": "score a.json b.json --table a.json",
    "score the truth": "score a.json b.json --table b.json",
    "score in the truth's folder": "score a.json truth --table truth/t.csv",
    "baseline": "baseline dp --index index.csv --table index.csv",
    "figure": "figure boundaries a.svg b.json -o a.svg",
    "video": "export own.json -o video.csv --video video.csv",
    "split": "split own.json -f video -o . --overwrite",
    "learn": "learn a.json old.safetensors -o old.safetensors --overwrite",
    "page of another video": "predict video.mp4 video.scenes.html -o . --report",
    "shots": "predict video.mp4 --shots index.csv -o index.csv",
    "export": "predict video.mp4 --shots index.csv --to csv -o index.json",
    "subtitles": "predict video.mp4 --subtitles video.csv -o video.csv",
    "page": "predict video.mp4 --shots video.html --report -o video.json",
    "build-index": "build-index stores -o stores/video.h5 --overwrite",
    "build-index labels": "build-index stores --labels b.json -o b.json --overwrite",
    "import-checkpoint": "import-checkpoint old.ckpt -o old.ckpt --overwrite",
}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    for name in ("a.json", "b.json", "a.svg"):
        scene_list([30, 31, 29], [1, 2], path="video.mp4").save(folder / name)
    for name in ("truth/t.csv", "index.csv", "old.ckpt", "old.safetensors", "video.html", "video.scenes.html"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("start,end\n0,1.2\n1.2,3.6\n")
    videos.scenes_of(videos.write_video(folder / "video.mp4", videos.images(20)), ()).save(folder / "own.json")
    (folder / "video.csv").write_bytes((folder / "video.mp4").read_bytes())
    (folder / "stores").mkdir()
    small_stores.put_store(folder / "stores/video.h5", 4)
    return folder


@pytest.mark.parametrize("command", OVERWRITING.values(), ids=OVERWRITING)
def test_no_input_is_overwritten(inputs: Path, bassl: Bassl, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(inputs)
    before = {path: path.read_bytes() for path in sorted(inputs.rglob("*")) if path.is_file()}
    assert re.search(
        "is an input of this command|is in a folder that this command reads", bassl(*command.split()).refusal
    )
    assert {path: path.read_bytes() for path in sorted(inputs.rglob("*")) if path.is_file()} == before
