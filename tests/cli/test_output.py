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
import typer

from bassl_cli import console
from bassl_cli.commands import models
from pipelines.errors import BasslWarning
from pipelines.stages.models import ListedModel
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
@pytest.mark.parametrize("command", ["regroup s.json -o -", "models", "--version", "--help"])
def test_a_full_disk_behind_stdout_gives_a_one_line_error(scenes: Path, command: str) -> None:
    with Path("/dev/full").open("w") as full:
        run = bassl_process(command, scenes.parent, stdout=full)
    assert (run.code, run.err) == (2, "bassl: standard output cannot be written (no space left on device)\n")


def test_characters_that_the_terminal_does_not_know_are_escaped_on_stdout(tmp_path: Path) -> None:
    (tmp_path / "日本").mkdir()
    (tmp_path / "日本" / "state.pt").touch()
    code, out, err = bassl_process("models .", tmp_path, {"PYTHONIOENCODING": "latin-1"})
    assert (code, err) == (0, "")
    assert out.splitlines()[-2].split() == [r"\u65e5\u672c", "unfinished"]


@pytest.mark.parametrize(("shown", "line"), [("--json", ""), ("", "1 scene; wrote one.json\n")], ids=["JSON", "table"])
def test_a_closed_output_pipe_does_not_change_the_exit_code_or_the_result(scenes: Path, shown: str, line: str) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    run = bassl_process(f"regroup s.json {shown} --scenes 1 -o one.json", scenes.parent, stdout=writing)
    os.close(writing)
    assert (run.code, run.err) == (0, line)
    assert (scenes.parent / "one.json").exists()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
@posix
def test_split_removes_its_temporary_files_on_sigterm_and_sigint(
    tmp_path: Path, video: Path, number: signal.Signals, code: int
) -> None:
    scenes_of(video).save(tmp_path / "s.json")
    program = (
        "import sys, time; from pipelines.video.muxing import CopyWriter; from bassl_cli.app import main\n"
        "add = CopyWriter.add\n"
        "def slowly(self, packet): add(self, packet); print('now', flush=True); time.sleep(60)\n"
        "CopyWriter.add = slowly\n"
        "sys.argv = ['bassl', 'split', sys.argv[1], 's.json', '--chapters', '-o', 'out']; main()"
    )
    command = [sys.executable, "-c", program, str(video)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, cwd=tmp_path, env=ENVIRONMENT, text=True, **pipes)
    assert process.stdout is not None
    assert process.stdout.readline() == "now\n"
    assert len(list((tmp_path / "out").glob(".*.partial"))) == 1
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert process.returncode == code, err
    assert "Traceback" not in err
    assert list((tmp_path / "out").iterdir()) == []


@pytest.mark.parametrize("platform", [sys.platform, "win32"])  # Windows has no timer of signals
@pytest.mark.parametrize(("times", "printed"), [(1, "imported\n"), (2, "")])
@pytest.mark.parametrize(
    ("number", "code", "line"), [(signal.SIGINT, 130, "bassl: interrupted\n"), (signal.SIGTERM, 143, "")]
)
@posix
def test_a_signal_in_the_middle_of_an_import_waits_for_its_end_and_a_second_one_does_not(
    tmp_path: Path, number: signal.Signals, code: int, line: str, times: int, printed: str, platform: str
) -> None:
    interrupt = f"exec('os.kill(os.getpid(), {number:d})')\n"
    (tmp_path / "interrupted.py").write_text(f"import os\n{interrupt * times}print('imported', flush=True)\n")
    (tmp_path / "program.py").write_text(
        "import sys, time; from bassl_cli.interrupts import exit_on_sigint; exit_on_sigint()\n"
        "from bassl_cli.commands import models; from bassl_cli.app import main\n"
        "def act(*arguments):\n"
        f"    sys.platform = {platform!r}; import interrupted\n"
        "    for _ in range(6000): time.sleep(0.01)\n"
        "models.list_models = act; sys.argv = ['bassl', 'models']; main()"
    )
    # -m: Python ends by the signal, whatever the program does, if a KeyboardInterrupt left exec()
    command = [sys.executable, "-m", "program"]
    run = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
    assert (run.returncode, run.stdout, run.stderr) == (code, printed, line)


@pytest.mark.parametrize(
    ("number", "code", "line"), [(signal.SIGINT, 130, "bassl: interrupted\n"), (signal.SIGTERM, 143, "")]
)
@posix
def test_a_command_that_ends_just_as_a_signal_comes_has_its_own_exit_code_or_that_of_the_signal(
    tmp_path: Path, number: signal.Signals, code: int, line: str
) -> None:
    # Sent in an import, so that it waits, and then at other times of the end: Python removes all handlers before it
    # clears modules, such as this one with an object that takes its time.
    (tmp_path / "interrupted.py").write_text(f"import os\nos.kill(os.getpid(), {number:d})\n")
    (tmp_path / "program.py").write_text(
        "import os, sys, time; from bassl_cli.interrupts import exit_on_sigint; exit_on_sigint()\n"
        "from bassl_cli.commands import models; from bassl_cli.app import main\n"
        "class Slow:\n"
        "    def __del__(self, sleep=time.sleep): sleep(0.1)\n"
        "slow, when = Slow(), sys.argv[1]\n"
        "def act(*arguments):\n"
        "    if when == 'import': import interrupted\n"
        "    return []\n"
        "models.list_models = act; sys.argv = ['bassl', 'models']\n"
        "try: main()\n"
        f"finally: when == 'end' and os.kill(os.getpid(), {number:d})"
    )

    def run(when: str) -> tuple[int, str]:
        command = [sys.executable, "-m", "program", when]
        ended = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
        return ended.returncode, ended.stderr

    assert run("import") in ((0, ""), (code, line))
    assert run("end") in ((code, line), (-number, line))  # a shell shows both as the same


@posix
def test_a_signal_that_waits_for_an_import_reaches_the_handler_that_is_there_by_then(tmp_path: Path) -> None:
    (tmp_path / "interrupted.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n")
    (tmp_path / "program.py").write_text(
        "import signal, time; from bassl_cli.interrupts import raise_outside_imports\n"
        "signal.signal(signal.SIGTERM, raise_outside_imports); import interrupted\n"
        "signal.signal(signal.SIGTERM, lambda *_: print('state saved')); time.sleep(0.1)"
    )
    command = [sys.executable, "-m", "program"]
    run = subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=120)
    assert (run.returncode, run.stdout, run.stderr) == (0, "state saved\n", "")


RESUME = "stopped after step 3 of 9; continue with --resume"


def interrupted(*arguments: object) -> None:
    raise KeyboardInterrupt


def interrupted_in_torch(*arguments: object) -> None:
    try:
        raise KeyboardInterrupt
    finally:
        raise RuntimeError("trying to pop from empty mode stack")


def stopped(*arguments: object) -> None:
    console.print_error(RESUME)
    raise typer.Exit(130)


@pytest.mark.parametrize(
    ("act", "line"), [(interrupted, "interrupted"), (interrupted_in_torch, "interrupted"), (stopped, RESUME)]
)
def test_an_interrupt_prints_one_line_and_a_stopped_run_only_how_to_resume(
    bassl: Bassl, monkeypatch: pytest.MonkeyPatch, act: Callable[..., None], line: str
) -> None:
    monkeypatch.setattr(models, "list_models", act)
    assert bassl("models") == (130, "", f"bassl: {line}\n")


def test_a_warning_is_shown_once_and_only_by_the_first_process_of_a_job(
    bassl: Bassl, monkeypatch: pytest.MonkeyPatch
) -> None:
    def doubtful(*arguments: object) -> list[ListedModel]:
        for _ in range(2):
            warnings.warn("m.safetensors: has no digest", BasslWarning, stacklevel=1)
        return []

    monkeypatch.setattr(models, "list_models", doubtful)
    assert bassl("models").err == "warning: m.safetensors: has no digest\n"
    monkeypatch.setenv("RANK", "1")
    assert bassl("models").err == ""
