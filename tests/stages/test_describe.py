"""`predict --describe`: names of scenes by a program."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from bassl import PredictSettings, predict
from pipelines.datasets.scenes_json import read_scene_list
from pipelines.options import with_options
from pipelines.outputs import images
from tests.command import Bassl
from tests.predicting import predict_file
from tests.running import ENVIRONMENT, alive, posix, soon

Program = Callable[[str], str]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Write a program, with the facts of a scene in `facts`; gives its command. It appends its facts to `seen`."""

    def write(text: str) -> str:
        path = tmp_path / "a program; touch shell.py"
        beginning = "import json, os, sys\nfacts = json.load(sys.stdin)\n"
        beginning += f"facts['is_image'] = os.path.isfile(facts['image'])\nopen({str(tmp_path / 'seen')!r}, 'a')"
        path.write_text(f"{beginning}.write(json.dumps(facts) + '\\n')\n{text}\n")
        return shlex.join([sys.executable, str(path)])

    return write


@pytest.fixture
def settings(model: Path, video: Path, tmp_path: Path) -> PredictSettings:
    """Return settings for the video in four shots, each a scene, with subtitles in the first."""
    words = tmp_path / "words.srt"
    words.write_text("1\n00:00:00,500 --> 00:00:01,000\nHello\n")
    return with_options(PredictSettings, model=model, device="cpu", scenes=4, subtitles=words)


def names(scenes: Any) -> list[tuple[str | None, str | None]]:
    return [(scene.name, scene.named_by) for scene in scenes.scenes]


def seen(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "seen").read_text().splitlines()]


NAME = "print('Scene at', facts['start'], facts['text'], '\\x1b[1m')\nprint('more')"


def test_the_first_line_names_the_scene(
    video: Path, settings: PredictSettings, program: Program, tmp_path: Path
) -> None:
    result = predict(video, settings, describe=program(NAME))
    assert names(result)[:2] == [("Scene at 0.0 Hello  [1m", "program"), ("Scene at 1.25   [1m", "program")]
    assert result.warnings == ()
    facts = seen(tmp_path)
    assert [fact["index"] for fact in facts] == [0, 1, 2, 3]
    assert [fact["text"] for fact in facts] == ["Hello", "", "", ""]
    assert all(fact["is_image"] and fact["video"] == str(video) for fact in facts)
    assert not list(Path().glob("shell.py"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [("print('partial'); sys.exit(3)", "exit status 3"), ("import time; time.sleep(60)", "timed out")],
)
def test_scenes_keep_their_names_if_the_program_fails(
    video: Path, settings: PredictSettings, program: Program, text: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "sleep" in text:
        monkeypatch.setattr(images, "_MOST_SECONDS", 0.5)
    result = predict(video, settings, describe=program(f"if facts['index'] < 2:\n  {text}\nprint('Fine')"))
    first, fine = result.scenes[0], ("Fine", "program")
    assert (first.name, first.named_by) in ((None, None), ("Hello", "words"))
    assert names(result)[1:] == [(None, None), fine, fine]
    (warning,) = result.warnings
    assert "failed for 2 scenes, which keep their names" in warning
    assert reason in warning


@posix
def test_a_server_of_a_program_goes_on(
    video: Path, settings: PredictSettings, program: Program, tmp_path: Path
) -> None:
    pid = tmp_path / "pid"
    server = "sys.stdin.close(); os.close(0)\nimport subprocess\n"
    server += f"open({str(pid)!r}, 'w').write(str(subprocess.Popen(['sleep', '600']).pid))\n"
    result = predict(video, settings, scenes=1, describe=program(f"{server}print('\\n \\n' + 'Name' * 50)"))
    assert (names(result), result.warnings) == ([("Name" * 50, "program")], ())
    assert alive(int(pid.read_text()))
    os.kill(int(pid.read_text()), signal.SIGKILL)


@posix
@pytest.mark.parametrize(("number", "videos"), [(signal.SIGTERM, 2), (signal.SIGINT, 1)])
def test_programs_end_with_the_command(video: Path, program: Program, tmp_path: Path, number: int, videos: int) -> None:
    folder, pids = tmp_path / "videos", tmp_path / "pids"
    folder.mkdir()
    for i in range(videos):
        shutil.copy(video, folder / f"{i}.mp4")
    start = f"import subprocess, time\nserver = subprocess.Popen(['sleep', '600'])\nopen({str(pids)!r}, 'a')"
    command = program(f"{start}.write(f'{{os.getpid()}} {{server.pid}} ')\ntime.sleep(600)")
    arguments = ["predict", folder, "--jobs", "2", "--scenes", "4", "--describe", command, "-o", tmp_path / "out"]
    running = subprocess.Popen(
        [sys.executable, "-m", "bassl_cli", *map(str, arguments)],
        env=ENVIRONMENT,
        stderr=subprocess.DEVNULL,
    )
    assert soon(lambda: pids.exists() and len(pids.read_text().split()) == 2 * videos)
    running.send_signal(number)
    assert running.wait() == 128 + number
    assert soon(lambda: not any(alive(int(pid)) for pid in pids.read_text().split()))


def test_a_program_sees_the_keyframes_and_may_print_nothing(
    video: Path, settings: PredictSettings, program: Program, tmp_path: Path
) -> None:
    copy = tmp_path / "copy.png"
    command = program(f"import shutil; shutil.copy(facts['image'], {str(copy)!r}); print()")
    result = predict(video, settings, describe=command, scenes=2)
    assert (names(result), result.warnings) == (names(predict(video, settings, scenes=2)), ())
    assert Image.open(copy).width in (168, 2 * 168, 3 * 168)


@pytest.mark.parametrize("command", [" ", "no-such-program-here --fast", "/tmp"])
def test_a_program_that_does_not_exist_is_refused_before_the_video_is_read(bassl: Bassl, command: str) -> None:
    run = bassl("predict", "missing.mp4", "--describe", command)
    assert run.code == 2
    assert "there is no program" in run.err
    assert len(run.err.strip().splitlines()) == 1


def test_a_result_is_described_once_by_each_program_and_names_by_hand_stay(
    video: Path, settings: PredictSettings, program: Program, tmp_path: Path
) -> None:
    file, command = tmp_path / "video.scenes.json", program("print('Described')")

    def again(describe: str) -> tuple[str, int]:
        (note,) = predict_file(video, file, settings, describe=describe).notes
        return note, len(seen(tmp_path))

    before = predict_file(video, file, settings, describe=command)
    assert names(before) == [("Described", "program")] * 4
    assert again(command) == (f"{file}: unchanged; kept (`overwrite=True` reads the video again)", 4)
    first, *others = before.scenes
    replace(before, scenes=(replace(first, name="By hand", named_by=None), *others)).save(file)
    left = f"{file}: was corrected by hand and is left as it is"
    assert again(command) == (left, 4)
    other = program("print('Otherwise')") + " --other"
    assert again(other) == (f"{left}, except for names by {other}", 7)
    assert again(other) == (left, 7)
    content = read_scene_list(file)
    assert names(content) == [("By hand", None), *[("Otherwise", "program")] * 3]
    assert content.lines == before.lines
    assert command not in file.read_text()
