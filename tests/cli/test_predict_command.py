"""`bassl predict`: stdout, stderr, exit codes, and no partial files."""

import json
import os
import re
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import jsonschema
import opentimelineio
import pytest
from rich.console import Console

import pipelines
from bassl_cli import console
from pipelines.datasets.scenes_json import read_scene_list
from pipelines.outputs.exports import FORMATS
from pipelines.progress import VideoResult
from pipelines.stages.regroup import regroup
from pipelines.stores.keyframes import read_keyframes
from tests import videos
from tests.command import Bassl, bassl_process
from tests.outputs.exporting import scene_list
from tests.running import ENVIRONMENT, HOME, linux, posix
from tests.scenes_schema import SCHEMA
from tests.videos import CUTS


@pytest.mark.real_child
def test_predict_prints_a_table_and_writes_scenes_json(bassl: Bassl, video: Path, model: Path) -> None:
    run = bassl("predict", video, "--model", model, "--scenes", 2)
    assert run.code == 0
    header, *rows = run.out.splitlines()
    assert header.split() == ["scene", "start", "end", "length", "shots", "confidence"]
    written = json.loads(Path("video.scenes.json").read_text())
    jsonschema.validate(written, SCHEMA)
    assert [row.split()[:3] for row in rows] == [
        [str(scene["index"] + 1), scene["start_timecode"], scene["end_timecode"]] for scene in written["scenes"]
    ]
    assert run.err.splitlines() == ["reading video.mp4", "2 scenes, 4 shots; wrote video.scenes.json"]
    assert [path.name for path in Path.cwd().iterdir()] == ["video.scenes.json"]
    assert bassl("predict", video, "--model", model, "--quiet") == (0, "", "")


def test_json_is_printed_alone_or_also_written(bassl: Bassl, video: Path, model: Path) -> None:
    alone = bassl("predict", video, "--model", model, "--json", "--quiet")
    jsonschema.validate(json.loads(alone.out), SCHEMA)
    assert (alone.code, alone.err, list(Path.cwd().iterdir())) == (0, "", [])
    run = bassl("predict", video, "--model", model, "--json", "-o", "made/on/the/way/out.json")
    written = json.loads(Path("made/on/the/way/out.json").read_text())
    del written["video"]["relative_path"]  # from the folder of the file
    assert json.loads(run.out) == written


def test_shots_come_from_an_earlier_scenes_json(bassl: Bassl, video: Path, model: Path) -> None:
    first = bassl("predict", video, "--model", model, "--json", "-o", "first.json")
    again = bassl("predict", video, "--model", model, "--json", "--shots", "first.json")
    # Only a detector sees how a shot ends; a list contains where it ends.
    expected = [{k: v for k, v in shot.items() if k != "transition"} for shot in json.loads(first.out)["shots"]]
    assert json.loads(again.out)["shots"] == expected
    recorded = json.loads(again.out)["settings"]
    assert (recorded["shots"], recorded["detector"]) == ("first.json", None)


@pytest.mark.real_child
def test_a_damaged_video_gives_a_warning_and_the_scenes_until_then(bassl: Bassl, model: Path, tmp_path: Path) -> None:
    whole = videos.write_video(tmp_path / "whole.mkv", videos.images(120, CUTS))
    run = bassl("predict", videos.truncated(whole, tmp_path / "cut.mkv", 0.6), "--model", model, "--json")
    assert run.code == 0
    result = json.loads(run.out)
    assert result["scenes"][-1]["end"] == result["video"]["duration"] < 4
    (warning,) = run.complaints
    assert re.match("warning: .* ends early", warning)


# --- several videos ---------------------------------------------------------------------------------------------------


@pytest.fixture
def library(video: Path, tmp_path: Path) -> Path:
    """A video, a copy of it, and a damaged one."""
    folder = tmp_path / "videos"
    folder.mkdir()
    for name in ("one [x].mp4", "two.mp4"):
        shutil.copy(video, folder / name)
    videos.truncated(video, folder / "broken.mp4", 0.5)
    return folder


@pytest.mark.real_child
def test_a_folder_of_videos_gives_a_folder_of_results(bassl: Bassl, library: Path, model: Path) -> None:
    run = bassl("predict", library, "--model", model, "-o", "out")
    assert run.code == 1
    assert [" ".join(line.split()[:5]) for line in run.out.splitlines()] == [
        "video status length shots scenes", "broken failed", "one_x done 5.0 s 4", "two done 5.0 s 4",
    ]  # fmt: skip
    *said, complaint, summary = run.err.splitlines()
    assert said == ["broken: failed", "one_x: done", "two: done"]
    assert complaint.startswith(f"bassl: {library / 'broken.mp4'}: ")
    assert summary == "2 done, 0 kept, 1 failed; scenes in out"
    assert sorted(path.name for path in Path("out").iterdir()) == ["one [x].scenes.json", "two.scenes.json"]


def test_finished_videos_are_kept_or_regrouped_unread(bassl: Bassl, library: Path, model: Path) -> None:
    (library / "broken.mp4").unlink()
    files = library / "*.mp4"
    assert bassl("predict", files, "--model", model, "-q").code == 0
    again = bassl("predict", library / "one [x].mp4", library / "two.mp4", "--model", model, "--json")
    assert (again.code, [video["status"] for video in json.loads(again.out)]) == (0, ["kept", "kept"])
    assert [video["output"][7:] for video in json.loads(again.out)] == ["one [x].scenes.json", "two.scenes.json"]
    other = bassl("predict", files, "--model", model, "--threshold", "0.7", "--report")
    assert (other.code, [line.split()[1] for line in other.out.splitlines()[1:]]) == (0, ["regrouped", "regrouped"])
    assert "0 done, 2 regrouped from their scores, 0 kept, 0 failed; scenes in scenes, " in other.err
    assert Path("scenes/two.scenes.html").exists()
    last = bassl("predict", files, "--model", model, "--threshold", "0.7", "--overwrite")
    assert (last.code, last.err.splitlines()[-1]) == (0, "2 done, 0 kept, 0 failed; scenes in scenes")


@linux
def test_a_video_that_cannot_be_read_any_more_fails_alone(bassl: Bassl, library: Path, model: Path) -> None:
    assert bassl("predict", library / "one*", library / "two.mp4", "--model", model, "-q").code == 0
    (library / "two.mp4").unlink()
    (library / "two.mp4").symlink_to("/proc/self/mem")  # no byte of it can be read
    run = bassl("predict", library, "--model", model, "--json", "-q")
    assert run.code == 1
    assert [video["status"] for video in json.loads(run.out)] == ["failed", "kept", "failed"]
    assert f"bassl: {library / 'two.mp4'}: cannot be read (input/output error)" in run.err


@pytest.mark.parametrize("jobs", [1, 2])
def test_json_lines_has_an_object_as_soon_as_a_video_is_done_or_failed(
    bassl: Bassl, library: Path, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    results: list[list[str]] = []
    print_json = console.print_json

    def print_and_look(content: VideoResult, indent: int | None) -> None:
        results.append([path.name for path in sorted(Path("scenes").glob("*.json"))])
        print_json(content, indent)

    monkeypatch.setattr(console, "print_json", print_and_look)
    monkeypatch.setattr(console, "err", Console(stderr=True, force_terminal=True, force_interactive=True))  # with bars
    Path("scenes/two.scenes.edl").mkdir(parents=True)
    run = bassl("predict", library, "--json-lines", "--to", "edl", "--jobs", jobs)
    objects = {result["video_id"]: result for result in map(json.loads, run.out.splitlines())}
    statuses = {name: result["status"] for name, result in objects.items()}
    assert (run.code, statuses) == (1, {"broken": "failed", "one_x": "done", "two": "failed"})
    assert jobs == 2 or results == [[], [], ["one [x].scenes.json"]]
    assert objects["broken"]["error"].startswith(f"{library / 'broken.mp4'}: ")
    assert objects["two"]["error"].endswith("two.scenes.edl: is a folder; name a file to write")
    assert (objects["one_x"]["video"], objects["one_x"]["error"]) == (str(library / "one [x].mp4"), "")
    assert json.loads(Path(objects["one_x"]["output"]).read_text())["video"]["id"] == "one_x"
    last = bassl("predict", library / "one [x].mp4", "--json-lines")
    assert [*json.loads(last.out)] == [*objects["one_x"]]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "wait4"), reason="peak memory of a process and its children: os.wait4 of POSIX")
def test_memory_does_not_grow_with_the_length_of_the_video(tmp_path: Path) -> None:
    short = videos.write_video(tmp_path / "short.ts", videos.images(1440, range(0, 1440, 240), 160, 90))
    long = videos.joined([short] * 10, tmp_path / "long.ts")

    def peak(video: Path) -> int:
        command = [sys.executable, "-m", "bassl_cli", "predict", video, "--report", "--quiet"]
        process = subprocess.Popen(command, cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.PIPE)
        with process, process.stderr as errors:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            assert process.returncode == 0, errors.read()
        return usage.ru_maxrss  # of the larger one of its processes

    assert peak(long) < 1.15 * peak(short)


def test_the_same_video_again_says_what_was_done_with_its_result(bassl: Bassl, video: Path, model: Path) -> None:
    predict = ("predict", video, "--model", model, "-o", "scenes.json")
    assert bassl(*predict).err.splitlines() == ["reading video.mp4", "3 scenes, 4 shots; wrote scenes.json"]
    assert bassl(*predict, "--to", "edl").err.splitlines() == [
        "note: scenes.json: unchanged; kept (--overwrite reads the video again)",
        "3 scenes, 4 shots; in scenes.json, scenes.edl",
    ]
    assert bassl(*predict, "--scenes", "2", "--json").err.splitlines() == []
    assert bassl(*predict, "--scenes", "1").err.splitlines() == [
        "note: scenes.json: regrouped from its scores (scenes 1, was 2)",
        "1 scene, 4 shots; in scenes.json",
    ]
    content = json.loads(Path("scenes.json").read_text())
    content["scenes"][0]["name"] = "The chase"
    Path("scenes.json").write_text(json.dumps(content))
    left = "scenes.json: was corrected by hand and is left as it is"
    assert bassl(*predict).err.splitlines()[0] == f"note: {left}"
    others = "other scenes from its scores: bassl regroup scenes.json; --discard-corrections replaces it"
    assert bassl(*predict, "--overwrite") == (2, "", f"bassl: {left}; {others}\n")
    assert json.loads(Path("scenes.json").read_text()) == content
    assert bassl(*predict, "--discard-corrections", "-q").code == 0
    assert "The chase" not in Path("scenes.json").read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([f"{'long [name] ' * 15}.mp4"], f"{'long [name] ' * 15}.mp4: no such file"),
        (["a.mp4", "--scenes", "5", "-o", "old.json", "--overwrite"], "the video has 4 shots"),
        pytest.param(["a.mp4", "-o", "/proc/scenes.json"], "/proc/scenes.json: cannot be written", marks=linux),
        (["a.mp4", "--dask", "tcp://127.0.0.1:9"], "--dask is for several videos"),
        (["a.mp4", "empty"], "empty: contains no videos"),
        (["a.mp4", "b.mp4", "-o", "-"], "-: stdout takes one file; for several name a folder"),
        (["a.mp4", "b.mp4", "-o", "all.csv"], "all.csv: is the name of a file"),
        (["a.mp4", "--to", "edl,csv", "-o", "cut.edl"], "name a folder"),
    ],
)
def test_unusable_input_is_one_line_and_writes_nothing(
    bassl: Bassl, video: Path, model: Path, arguments: list[str], words: str
) -> None:
    for name in ("a.mp4", "b.mp4"):
        shutil.copy(video, name)
    Path("empty").mkdir()
    Path("old.json").write_text("old")
    assert words in bassl("predict", *arguments, "--model", model).refusal
    assert {path.name for path in Path.cwd().iterdir()} == {"a.mp4", "b.mp4", "empty", "old.json"}
    assert Path("old.json").read_text() == "old"


@posix
def test_an_interrupt_during_start_up_gives_one_line() -> None:
    code = (
        "import os, signal, sys; from bassl_cli.__main__ import main\n"
        "class Interrupt:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'typer': os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupt()); sys.argv = ['bassl', 'predict', 'none.mp4']; main()"
    )
    run = subprocess.run([sys.executable, "-c", code], env=ENVIRONMENT, capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout, run.stderr) == (130, "", "bassl: interrupted\n")


def test_predict_writes_nothing_but_its_results_also_with_closed_standard_streams(video: Path, tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    # ONNX Runtime sends no telemetry if one of these is set
    environment = {key: value for key, value in ENVIRONMENT.items() if key not in ("CI", "ORT_DISABLE_TELEMETRY")}
    environment |= {"HOME": str(home), "XDG_CACHE_HOME": str(home / "cache")}
    command = f'exec "{sys.executable}" -m bassl_cli predict "$@" --report -o s.json <&- >&- 2>&-'
    subprocess.run(["sh", "-c", command, "sh", video], cwd=work, env=environment, check=True)
    jsonschema.validate(json.loads((work / "s.json").read_text()), SCHEMA)
    assert sorted(path.name for path in work.iterdir()) == ["s.html", "s.json"]
    assert list(home.rglob("*")) == []


def test_an_error_after_torch_was_imported_is_one_line() -> None:
    code = (
        "import sys, torch, triton._C.libtriton; from bassl_cli.__main__ import main\n"
        "sys.argv = ['bassl', 'predict', 'none.mp4']; main()"
    )
    pytest.importorskip("triton", reason="Triton comes with PyTorch on Linux only")
    run = subprocess.run([sys.executable, "-c", code], cwd=HOME, capture_output=True, text=True, timeout=120)
    assert (run.returncode, run.stderr) == (2, "bassl: none.mp4: no such file\n")


def test_debug_shows_the_traceback_of_an_error(tmp_path: Path) -> None:
    run = bassl_process("predict gone.mp4 --debug", tmp_path)
    assert (run.code != 0, "Traceback" in run.err, "VideoError: gone.mp4: no such file" in run.err) == (True,) * 3


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("predict", "missing argument 'VIDEOS'; see --help"),
        ("predict a.mp4 --scenes many", "--scenes must be a whole number, not 'many'"),
        ("predict a.mp4 --modl a", "no such option: --modl (Possible options: --model, --to); see --help"),
        ("prdict a.mp4", "prdict: is not a command; did you mean predict?; bassl --help lists all"),
    ],
)
def test_a_wrong_use_is_one_line_and_exits_with_code_2(bassl: Bassl, command: str, message: str) -> None:
    assert bassl(*command.split()) == (2, "", f"bassl: {message}\n")


@pytest.mark.parametrize(
    ("word", "advice"),
    [
        ("gone movie.mkv", "to find its scenes: bassl predict 'gone movie.mkv'"),
        ("folder", "to find its scenes: bassl predict folder"),
        ("a.scenes.json", "to view its scenes: bassl report a.scenes.json"),
    ],
)
def test_a_path_in_place_of_a_command_names_the_command_that_takes_it(bassl: Bassl, word: str, advice: str) -> None:
    Path("folder").mkdir()
    assert bassl(word) == (2, "", f"bassl: {word}: is not a command; {advice}\n")


@pytest.mark.parametrize("command", ["predict", "models", "predict . -o", "score a.mp4 a.mp4 --table"])
def test_an_empty_name_is_refused_and_not_taken_for_the_working_folder(bassl: Bassl, command: str) -> None:
    line = "bassl: an argument is empty (an unset variable of the shell?); for the working folder write .\n"
    assert bassl(*command.split(), "") == (2, "", line)
    assert not [*Path.cwd().iterdir()]


def test_version_and_help_go_to_stdout(bassl: Bassl) -> None:
    assert bassl("--version") == (0, f"bassl {pipelines.__version__}\n", "")
    for arguments in (["--help"], ["-h"], ["predict", "-h"]):
        run = bassl(*arguments)
        assert (run.code, run.err) == (0, "")
        assert "Usage: bassl" in run.out


@pytest.mark.parametrize(("words", "completed"), [("bassl pred", "predict"), ("bassl predict --thr", "--threshold")])
def test_commands_and_options_are_completed(
    bassl: Bassl, monkeypatch: pytest.MonkeyPatch, words: str, completed: str
) -> None:
    monkeypatch.setenv("_BASSL_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    assert bassl().out.split() == [completed]


@posix
def test_a_link_with_the_name_of_the_usual_folder_of_several_results_is_not_followed(bassl: Bassl) -> None:
    for folder in ("videos", "elsewhere"):
        Path(folder).mkdir()
    Path("scenes").symlink_to("elsewhere")
    message = "bassl: scenes: is a link to another folder; name a folder with --output\n"
    assert bassl("predict", "videos") == (2, "", message)


# --- a part of a video, and scenes without the short ones -------------------------------------------------------------


def read(path: str) -> dict[str, Any]:
    return json.loads(Path(path).read_text())  # type: ignore[no-any-return]


def test_predict_of_a_part_keeps_the_times_of_the_whole_video(bassl: Bassl, video: Path, model: Path) -> None:
    predict = ("predict", video, "--model", model, "--scenes", 2, "-q")
    assert bassl(*predict, "--start", "0.5", "--end", "00:00:04.750", "-o", "part.json", "--report")[0] == 0
    part = read("part.json")
    jsonschema.validate(part, SCHEMA)
    shots = [(shot["start_frame"], shot["end_frame"]) for shot in part["shots"]]
    assert shots == [(12, 30), (30, 61), (61, 90), (90, 114)]
    assert (part["shots"][0]["start"], part["shots"][-1]["end"]) == (0.5, 4.75)
    assert (part["settings"]["start"], part["settings"]["end"], part["video"]["id"]) == (0.5, 4.75, "video")
    assert part["video"]["fingerprint"] == read_scene_list(Path("part.json")).video.fingerprint
    assert bassl(*predict, "--start", "0.5s", "--duration", "4.25", "-o", "same.json")[0] == 0
    assert read("same.json")["shots"] == part["shots"]
    for name in ("edl", "otio"):
        assert bassl("export", "part.json", "--to", name, "-q")[0] == 0
    clip = Path("part.edl").read_text().splitlines()[3].split()[4:]
    assert (clip[0], clip[2]) == ("00:00:00:12", "00:00:00:00")
    track = opentimelineio.adapters.read_from_file("part.otio").tracks[0]
    assert track[0].source_range.start_time.value == 12
    assert bassl("report", "part.json", "-o", "again.html", "-q") == (0, "", "")
    assert bassl("save-images", "part.json", "-n", 1, "-q") == (0, "", "")
    assert bassl("regroup", "part.json", "--scenes", 3, "-o", "three.json", "-q")[0] == 0
    assert len(read("three.json")["scenes"]) == 3
    assert bassl("score", "part.json", "part.json", "-q")[0] == 0


def test_only_the_predicted_part_is_scored(bassl: Bassl, video: Path, model: Path) -> None:
    predict = ("predict", video, "--model", model, "-q", "-t", "0.0001")
    assert bassl(*predict, "--start", "0.5", "--end", "4.75", "-o", "part.json")[0] == 0
    ends = ["0.3", *(str(scene["end"]) for scene in read("part.json")["scenes"][:-1]), "4.9", "5"]
    rows = [f"{start},{end}" for start, end in pairwise(["0", *ends])]
    Path("truth.csv").write_text("\n".join(["start,end", *rows]))
    code, _, err = bassl("score", "part.json", "truth.csv", "--table", "score.json", "--tolerance", "0.1")
    assert (code, "only the part from 00:00:00.500 to 00:00:04.750 is scored" in err) == (0, True)
    scored = read("score.json")
    assert scored["matching"]["truth"]["part"] == [0.5, 4.75]
    assert (scored["scene_ends"], scored["metrics"]["f1"]["pooled"]) == (len(ends) - 3, 1.0)


def test_keyframes_of_a_part_equal_those_of_the_whole_video(bassl: Bassl, video: Path) -> None:
    assert bassl("extract-keyframes", video, "-o", "whole", "-q")[0] == 0
    assert bassl("extract-keyframes", video, "-o", "part", "--start", "0:01", "--duration", "4", "-q")[0] == 0
    whole, part = (read_keyframes(Path(name) / "video.h5") for name in ("whole", "part"))
    assert part.frames.tolist() == [[24, 61], [61, 90], [90, 120]]
    assert part.seconds[1:].tolist() == whole.seconds[2:].tolist()
    assert part.keyframes[1:].tolist() == whole.keyframes[2:].tolist()
    assert (part.settings["start"], part.settings["end"]) == (1.0, 5.0)
    assert "1 kept" in bassl("extract-keyframes", video, "-o", "part", "--start", "1", "--end", "5")[2]
    code, _, err = bassl("extract-keyframes", video, "-o", "part")
    assert (code, "start 1.0 and not None, end 5.0 and not None" in err) == (1, True)
    assert bassl("build-index", "part", "-o", "index.h5", "-q")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--end 3 --duration 3", "not both"),
        ("--start 3 --end 2", "ends at 2 s"),
        ("--start 1:99", "--start must be seconds or a timecode"),
        ("--start 1:00", "has no frame after 60 s; the one before it ends at 5.000 s"),
        ("--start 1.01 --end 1.02", "no frame from 1.01 s to 1.02 s"),
        ("--start 4.99", "no frame after 4.99 s"),
        ("--drop-short", "--drop-short leaves out scenes that are shorter than --min-scene; use both"),
    ],
)
def test_an_unusable_part_is_one_line(bassl: Bassl, video: Path, model: Path, arguments: str, words: str) -> None:
    assert words in bassl("predict", video, "--model", model, *arguments.split()).refusal
    assert list(Path.cwd().iterdir()) == []


def test_drop_short_leaves_out_short_scenes(bassl: Bassl) -> None:
    """Scenes of 2, 1, 3 and 1 seconds."""
    scene_list([50, 25, 75, 25], path="video.mp4").save(Path("scenes.json"))
    assert bassl("regroup", "-t", "0.05", "--min-scene", "0:02", "--drop-short", "-o", "long.json", "-q")[0] == 0
    content = read("long.json")
    jsonschema.validate(content, SCHEMA)
    assert [(scene["start_frame"], scene["end_frame"]) for scene in content["scenes"]] == [(0, 50), (75, 150)]
    assert [scene["index"] for scene in content["scenes"]] == [0, 1]
    assert read_scene_list(Path("long.json")).settings["drop_short"] is True
    for command in ("report", "score long.json", *(f"export --to {name}" for name in FORMATS)):
        name, *options = command.split()
        assert bassl(name, "long.json", *options, "-q").code == 0
    records = [line.split()[4:] for line in Path("long.edl").read_text().splitlines() if line.startswith("00")]
    assert records == [
        ["00:00:00:00", "00:00:02:00", "00:00:00:00", "00:00:02:00"],
        ["00:00:03:00", "00:00:06:00", "00:00:02:00", "00:00:05:00"],
    ]
    again = regroup(Path("long.json"), threshold=0.05, min_scene=0.0)
    assert [(a.end_shot, b.start_shot) for a, b in pairwise(again.scenes)] == [(1, 1), (2, 2), (3, 3)]
    del content["settings"]["drop_short"]
    Path("gap.json").write_text(json.dumps(content))
    assert "scene 1 starts at 75" in bassl("export", "gap.json", "--to", "csv").refusal
