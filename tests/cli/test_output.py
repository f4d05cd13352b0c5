"""Terminal output: no control characters, one line per error, and exit codes that do not depend on the output."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from bassl_cli import console
from bassl_cli.commands import paper
from pipelines.errors import BasslWarning
from tests.command import Bassl, bassl_process
from tests.outputs.exporting import scene_list
from tests.running import ENVIRONMENT, posix
from tests.videos import scenes_of


@pytest.fixture
def scenes(tmp_path: Path) -> Path:
    path = tmp_path / "s.json"
    scene_list([30, 31, 29], [1, 2]).save(path)
    return path


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("\x1b[31mred\x07.json", r"\x1b[31mred\x07.json"),
        ("two\nlines\r.json", r"two\nlines\r.json"),
        ("gpj\u202enosj.json", r"gpj\u202enosj.json"),
        (os.fsdecode(b"latin-\xe9.json"), r"latin-\udce9.json"),
        ("at:warning:.json", "at:warning:.json"),  # no emoji of rich
        ("3.45\u202fPM \U0001f468\u200d\U0001f469 \u3000.json", "3.45\u202fPM \U0001f468\u200d\U0001f469 \u3000.json"),
    ],
)
def test_names_in_messages_are_as_they_are_with_control_characters_escaped(bassl: Bassl, name: str, shown: str) -> None:
    code, out, err = bassl("export", name, "--to", "csv")
    assert (code, out) == (2, "")
    assert err == f"bassl: {shown}: no such file; make it with: bassl predict VIDEO --output {shown}\n"


@pytest.mark.parametrize("command", ["predict", "models", "build-index"])
def test_a_name_that_no_file_can_have_gives_a_one_line_error_which_is_not_too_long(bassl: Bassl, command: str) -> None:
    run = bassl(command, "x" * 300)
    assert (run.code, run.out, run.complaints) == (2, "", [f"bassl: {'x' * 300}: file name too long"])
    (line,) = bassl(command, "x" * 100_000).complaints
    assert line.startswith("bassl: xxxx")
    assert line.endswith("x: file name too long")
    assert len(line) < 2100


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no /dev/full")
@pytest.mark.parametrize("command", ["regroup s.json -o -", "--help"])
def test_a_full_disk_behind_stdout_gives_a_one_line_error(scenes: Path, command: str) -> None:
    with Path("/dev/full").open("w") as full:
        run = bassl_process(command, scenes.parent, stdout=full)
    assert (run.code, run.err) == (2, "bassl: no space left on device\n")


def test_characters_that_the_terminal_does_not_know_are_escaped_on_stdout(tmp_path: Path) -> None:
    (tmp_path / "日本").mkdir()
    (tmp_path / "日本" / "state.pt").touch()
    code, out, err = bassl_process("models .", tmp_path, {"PYTHONIOENCODING": "latin-1"})
    assert (code, err) == (0, "")
    assert [r"\u65e5\u672c", "unfinished"] in [line.split() for line in out.splitlines()]


def test_a_closed_output_pipe_ends_a_command_silently_and_its_result_is_kept(scenes: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    run = bassl_process("regroup s.json --scenes 1 -o one.json --json", scenes.parent, stdout=writing)
    os.close(writing)
    assert (run.code, run.err) == (1, "")
    assert (scenes.parent / "one.json").exists()


@posix
def test_split_removes_its_temporary_files_on_sigterm(tmp_path: Path, video: Path) -> None:
    scenes_of(video).save(tmp_path / "s.json")
    program = (
        "import sys, time; from pipelines.video.clips import ClipFile; from bassl_cli.__main__ import main\n"
        "add = ClipFile.add_frame\n"
        "def slowly(self, frame): add(self, frame); print('now', flush=True); time.sleep(60)\n"
        "ClipFile.add_frame = slowly\n"
        "sys.argv = ['bassl', 'split', sys.argv[1], 's.json', '--chapters', '-o', 'out']; main()"
    )
    command = [sys.executable, "-c", program, str(video)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, cwd=tmp_path, env=ENVIRONMENT, text=True, **pipes)
    assert process.stdout is not None
    assert process.stdout.readline() == "now\n"
    assert len(list((tmp_path / "out").glob(".*.partial"))) == 1
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 143, err
    assert "Traceback" not in err
    assert list((tmp_path / "out").iterdir()) == []


WARNING, RESUME = "m.safetensors: has no digest", "stopped after step 3 of 9; continue with --resume"


def interrupted(*arguments: object) -> None:
    raise KeyboardInterrupt


def interrupted_in_torch(*arguments: object) -> None:
    try:
        raise KeyboardInterrupt
    finally:
        raise RuntimeError("trying to pop from empty mode stack")


def stopped(*arguments: object) -> None:
    for _ in range(2):
        warnings.warn(WARNING, BasslWarning, stacklevel=1)
    console.print_error(RESUME)
    raise SystemExit(130)


@pytest.mark.parametrize(
    ("act", "lines"),
    [
        (interrupted, "bassl: interrupted\n"),
        (interrupted_in_torch, "bassl: interrupted\n"),
        (stopped, f"warning: {WARNING}\nbassl: {RESUME}\n"),
    ],
)
def test_an_interrupt_prints_one_line_and_a_stopped_run_each_warning_once_and_how_to_resume(
    bassl: Bassl, monkeypatch: pytest.MonkeyPatch, act: Callable[..., None], lines: str
) -> None:
    monkeypatch.setattr(paper, "list_models", act)
    assert bassl("models") == (130, "", lines)
