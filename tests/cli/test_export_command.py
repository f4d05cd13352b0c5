"""`bassl export`: formats, suffixes, messages, and files that are never overwritten."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

from bassl import export, predict, save_images
from pipelines.datasets.scenes_json import read_scene_list
from pipelines.datasets.synthetic import SyntheticVideo
from pipelines.errors import BasslError
from pipelines.outputs.exports import FORMATS
from tests import videos
from tests.command import Bassl, running
from tests.outputs.exporting import NTSC, named, scene_list
from tests.predicting import predict_file
from tests.running import ENVIRONMENT
from tests.scenes_schema import SCHEMA


@pytest.fixture
def bassl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Bassl:
    """Run the command in this process, in a folder with a scenes.json."""
    monkeypatch.chdir(tmp_path)
    scene_list([30, 31, 29], [1, 2], NTSC, path="video.mp4").save(tmp_path / "scenes.json")
    return running(monkeypatch, capfd)


@pytest.mark.parametrize("name", FORMATS)
def test_each_format_can_be_chosen_by_name(bassl: Bassl, name: str) -> None:
    path = Path(f"scenes{FORMATS[name].extension}")
    code, out, err = bassl("export", "--to", name)
    assert (code, out, err.splitlines()[-1]) == (0, "", f"2 scenes; wrote {path}")
    missing = "warning: video.mp4: the video was not found, or was changed since; name it with --video; "
    assert err.startswith(f"{missing}{path} still references it") == FORMATS[name].media
    assert ("YouTube" in err) == (name == "youtube")
    assert path.read_text() == FORMATS[name].content(read_scene_list(Path("scenes.json"))).text
    assert sorted(Path.cwd().iterdir()) == sorted(Path.cwd() / name for name in ("scenes.json", path.name))


@pytest.mark.parametrize(
    ("arguments", "says", "path", "start"),
    [
        (["-o", "made/cut list.EDL", "--shots"], "3 shots", "made/cut list.EDL", "TITLE: video\nFCM: DROP FRAME\n"),
        (["--to", "jsonl", "-o", "list.txt"], "2 scenes", "list.txt", "{"),
        (["--to", "kodi", "-o", "video.edl"], "2 scenes", "video.edl", "0.000\t"),
        (["--to", "csv"], "2 scenes", "scenes.csv", "Scene Number,"),
        (["--to", "csv", "--csv-separator", "semicolon"], "2 scenes", "scenes.csv", "Scene Number;"),
    ],
)
def test_a_format_is_chosen_by_name_or_extension(
    bassl: Bassl, arguments: list[str], says: str, path: str, start: str
) -> None:
    Path("scenes.csv").write_text("old")
    code, out, err = bassl("export", "scenes.json", *arguments)
    assert (code, out, err.splitlines()[-1]) == (0, "", f"{says}; wrote {path}")
    assert Path(path).read_text().startswith(start)


def test_the_rate_of_a_project_is_said_once_for_several_formats(bassl: Bassl) -> None:
    scene_list([69, 30], rate=15).save(Path("scenes.json"))
    code, _, err = bassl("export", "--to", "edl,resolve-markers,kdenlive,fcp7", "-o", "exports/")
    warnings = [line for line in err.splitlines() if "set this rate in the project" in line]
    said = "has 15 frames per second; the timeline has 30 frames per second: set this rate in the project"
    assert (code, warnings) == (0, [f"warning: /videos/video.mp4: {said}"])


def with_timecode(path: Path) -> Path:
    """A video with sound whose first frame has the camera timecode 01:00:00:00."""
    images = videos.images(60, (30,))
    return videos.write_video(path, images, rate=25, sound_seconds=1.0, metadata={"timecode": "01:00:00:00"})


def test_exports_find_the_video_in_a_moved_folder(bassl: Bassl, model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Path("job").absolute()
    (job / "videos").mkdir(parents=True)
    with_timecode(job / "videos/cam.mov")
    monkeypatch.chdir(job)
    assert bassl("predict", "videos/cam.mov", "--model", model, "--scenes", 2, "-o", "lists/s.json", "-q")[0] == 0
    video = json.loads(Path("lists/s.json").read_text())["video"]
    jsonschema.validate(json.loads(Path("lists/s.json").read_text()), SCHEMA)
    assert (video["path"], video["relative_path"]) == (str(job / "videos/cam.mov"), "../videos/cam.mov")
    assert (video["start_timecode"], video["sound_tracks"], video["sound_channels"]) == ("01:00:00:00", 1, 2)
    monkeypatch.chdir("/")
    moved = job.rename(job.with_name("moved"))
    code, _, err = bassl("export", moved / "lists/s.json", "--to", "otio")
    assert (code, "warning" in err) == (0, False)
    assert (moved / "videos/cam.mov").as_uri() in (moved / "lists/s.otio").read_text()
    assert bassl("regroup", moved / "lists/s.json", "--scenes", 1, "-o", moved / "one.json", "-q")[0] == 0
    assert json.loads((moved / "one.json").read_text())["video"]["relative_path"] == "videos/cam.mov"


def test_without_the_video_exports_have_its_timecode_and_sound(bassl: Bassl, video: Path, model: Path) -> None:
    camera = with_timecode(Path("cam.mov"))
    assert bassl("predict", camera, "--model", model, "--scenes", 2, "-o", "s.json", "-q")[0] == 0
    assert bassl("export", "s.json", "-o", "before.edl", "-q") == (0, "", "")
    assert bassl("export", "s.json", "--to", "fcp7", "-o", "before.xml", "-q") == (0, "", "")
    assert "01:00:00:00" in Path("before.edl").read_text()
    path = camera.absolute()
    hidden = camera.rename("elsewhere")
    lost = "the video was not found, or was changed since; name it with --video; after.edl still references it"
    for wrong in (None, video):  # none there, and another one of its name
        if wrong:
            camera.write_bytes(wrong.read_bytes())
        code, _, err = bassl("export", "s.json", "-o", "after.edl")
        assert (code, err.splitlines()[0]) == (0, f"warning: {path}: {lost}")
        assert Path("after.edl").read_bytes() == Path("before.edl").read_bytes()
        camera.unlink(missing_ok=True)
    assert bassl("export", "s.json", "--to", "fcp7", "-o", "after.xml", "-q")[0] == 0
    assert Path("after.xml").read_bytes() == Path("before.xml").read_bytes()
    assert bassl("export", "s.json", "-o", "named.otio", "--video", hidden) == (0, "", "2 scenes; wrote named.otio\n")
    assert hidden.absolute().as_uri() in Path("named.otio").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("", "or --output FILE"),
        ("--to avid", "'avid'"),
        ("-o scenes.txt", "scenes.txt: unknown extension .txt; supported: "),
        ("-o other.json", "kdenlive and label-studio have the extension .json; choose one with --to"),
        ("--to csv -o other.json", "other.json: the extension means scenes.json, but --to is csv"),
        ("--to edl -o other.xml", "the extension means fcp7 or fcp7-markers or matroska, but --to is edl"),
        ("-o -", "-: can be any format; give one with --to"),
        ("-o .", "is a folder; give the format of the file with --to"),
        ("--to kdenlive -o scenes.json", "scenes.json: is an input of this command"),
        ("text.json --to csv", "text.json: is not a scenes.json"),
        ("scenes.json text.json -o out.csv", "--to FORMAT"),
        ("--to edl,csv -o cut.edl", "cut.edl: is the name of a file; for several name a folder"),
        ("--to edl,youtube --csv-separator semicolon", "--csv-separator is for --to csv"),
        ("--to csv --csv-separator |", "csv_separator must be one of comma, semicolon, tab"),
        ("--to edl --video {video}", "video.mp4: has 5.0 s, but the scenes are of a video with 3.0 s"),
    ],
)
def test_wrong_options_give_a_one_line_error(bassl: Bassl, video: Path, arguments: str, words: str) -> None:
    Path("text.json").write_text("{}")
    before = {path.name: path.read_bytes() for path in Path.cwd().iterdir()}
    assert words in bassl("export", *arguments.format(video=video).split()).refusal
    assert {path.name: path.read_bytes() for path in Path.cwd().iterdir()} == before


def test_a_dash_is_stdin_and_stdout_which_is_utf_8_whatever_the_terminal_is(tmp_path: Path) -> None:
    scenes = named(scene_list([30, 31, 29], [1, 2], NTSC, path="video.mp4"), "Café", "Home")
    scenes.save(tmp_path / "scenes.json")

    def run(*arguments: str, content: bytes) -> bytes:
        command, ascii_only = [sys.executable, "-m", "bassl_cli", *arguments], {"PYTHONIOENCODING": "ascii"}
        options = {"cwd": tmp_path, "env": ENVIRONMENT | ascii_only, "capture_output": True, "timeout": 60}
        return subprocess.run(command, input=content, check=True, **options).stdout

    fewer = run("regroup", "-", "--scenes", "1", "-o", "-", content=(tmp_path / "scenes.json").read_bytes())
    assert len(json.loads(fewer)["scenes"]) == 1
    assert run("export", "-", "--to", "youtube", "-o", "-", content=fewer).decode().startswith("0:00 Café\n")
    assert [path.name for path in tmp_path.iterdir()] == ["scenes.json"]


def test_predict_can_write_an_export(bassl: Bassl, video: Path, model: Path) -> None:
    predict = ("predict", video, "--model", model, "--scenes", 2, "-q")
    assert bassl(*predict, "--to", "edl")[:2] == (0, "")
    assert Path(f"{video.stem}.scenes.edl").read_text().startswith("TITLE: ")
    code, out, _ = bassl(*predict, "--to", "edl", "-o", "-")
    assert (code, out) == (0, Path(f"{video.stem}.scenes.edl").read_text())
    assert bassl(*predict, "--to", "fcp7", "-o", "other.xml").code == 0
    assert "<xmeml" in Path("other.xml").read_text()
    code, out, _ = bassl(*predict, "-o", "-")
    assert (code, len(json.loads(out)["scenes"])) == (0, 2)
    code, _, err = bassl(*predict, "--to", "edl", "-o", "a.csv")
    assert (code, "a.csv: the extension means csv, but --to is edl" in err) == (2, True)
    assert bassl(*predict, "--to", "avid")[0] == 2


# --- for search: text, keyframes and vectors of scenes, and the programs of docs/search.md ----------------------------


SUBTITLES = "1\n00:00:00,500 --> 00:00:01,500\nThe harbor is cold.\n\n2\n00:00:10,000 --> 00:00:11,000\nGo home.\n"


@pytest.fixture(scope="module")
def place(synthetic_video: tuple[Path, SyntheticVideo], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a video, subtitles, and a result of six scenes."""
    folder = tmp_path_factory.mktemp("search")
    shutil.copy(synthetic_video[0], folder / "movie.mp4")
    (folder / "movie.srt").write_text(SUBTITLES)
    predict_file(folder / "movie.mp4", folder / "movie.scenes.json", scenes=6)
    return folder


@pytest.fixture(scope="module")
def searchable(place: Path) -> list[dict[str, Any]]:
    """Return the lines of the export with vectors."""
    result = export(place / "movie.scenes.json", to="jsonl", vectors=True)
    return rows_of(result.paths[0])


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_each_scene_has_its_text_and_mean_encoding(place: Path, searchable: list[dict[str, Any]]) -> None:
    assert [row["index"] for row in searchable] == list(range(6))
    assert {row["video_id"] for row in searchable} == {"movie"}
    assert "".join(row["text"] for row in searchable) == "The harbor is cold.Go home."
    assert searchable[0]["text"].startswith("The harbor is cold.")
    of_shots = rows_of(export(place / "movie.scenes.json", output=place / "s.jsonl", vectors=True, shots=True).paths[0])
    for row in searchable:
        own = [np.array(shot["vector"]) for shot in of_shots[row["start_shot"] : row["end_shot"]]]
        np.testing.assert_allclose(row["vector"], np.mean(own, axis=0), atol=2e-5)


def test_a_keyframe_is_the_middle_of_newer_images(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(place / "movie.scenes.json", tmp_path)
    saved = save_images("movie.scenes.json", video=place / "movie.mp4", width=32)

    def keyframes() -> list[str | None]:
        return [row.get("keyframe") for row in rows_of(export("movie.scenes.json", to="jsonl").paths[0])]

    assert keyframes() == [str(image.path.absolute()) for image in saved[1::3]]
    later = saved[0].path.stat().st_mtime + 10
    os.utime("movie.scenes.json", (later, later))
    assert keyframes() == [None] * 6, "they may show other scenes"


def test_vectors_are_refused_for_other_formats_and_need_the_video(place: Path, tmp_path: Path) -> None:
    with pytest.raises(BasslError, match="`vectors` are for `to=jsonl`"):
        export(place / "movie.scenes.json", to="csv", vectors=True)
    lost = json.loads((place / "movie.scenes.json").read_text())
    lost["video"] |= {"path": "/nowhere/gone.mp4", "relative_path": "gone.mp4"}
    (tmp_path / "a.scenes.json").write_text(json.dumps(lost))
    with pytest.raises(BasslError, match="the video was not found"):
        export(tmp_path / "a.scenes.json", to="jsonl", vectors=True)


def test_the_command_and_scenes_in_memory_write_the_same_vectors(
    place: Path, bassl: Bassl, searchable: list[dict[str, Any]]
) -> None:
    assert bassl("export", str(place / "movie.mp4"), "--to", "jsonl", "--vectors", "-o", "a.jsonl").code == 0
    scenes = predict(place / "movie.mp4", scenes=6)
    for path in (Path("a.jsonl"), *scenes.export("b.jsonl", vectors=True).paths):
        assert [row["vector"] for row in rows_of(path)] == [row["vector"] for row in searchable]
