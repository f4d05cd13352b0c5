"""``bassl finetune`` as a process: what it writes and prints, and how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from pipelines.models.opening import open_model
from tests.command import Bassl
from tests.labelled_videos import write_labelled_videos
from tests.running import alive, children_of, has_lines, soon

BASSL = [sys.executable, "-m", "bassl_cli", "finetune"]
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}


@pytest.fixture
def small(tmp_path: Path) -> list[str]:
    """Options of two runs of three epochs of six steps."""
    paths = ["--index", str(write_labelled_videos(tmp_path)), "--output", str(tmp_path / "runs" / "run")]
    sizes = "--init none --crn mlp --neighbours 2 --width 16 --epochs 3 --batch 30 --rate 3e-3 --seeds 2 --gpus 0"
    return [*paths, *sizes.split()]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*BASSL, *arguments], capture_output=True, text=True, env=ENVIRONMENT, timeout=120)


def test_the_command_trains_a_run_and_prints_its_metrics(small: list[str], tmp_path: Path) -> None:
    ended = run(*small, "--select", "test")
    assert ended.returncode == 0, ended.stderr
    folder = tmp_path / "runs" / "run"
    mean = json.loads((folder / "result.json").read_text())["mean"]
    assert "mlp on test, 2 seeds, epoch chosen on the test split itself" in ended.stdout
    assert f"{100 * mean['ap']:.1f} ±" in ended.stdout
    assert "warning: the epoch is chosen on the test split" in ended.stderr
    assert "seed 2/2  epoch 3/3  val_ap" in ended.stderr
    assert "wrote" in ended.stderr
    assert open_model(folder).boundary_model().crn == "mlp"


def test_with_quiet_the_result_is_only_in_its_file(small: list[str], tmp_path: Path, bassl: Bassl) -> None:
    assert bassl("finetune", *small, "--quiet") == (0, "", "")
    assert (tmp_path / "runs" / "run" / "result.json").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--crn", "lstm"], ["crn must be one of transformer, mlp, ms-lstm, relational"]),
        (["--seeds", "0"], ["seeds must be at least 1"]),
        (["--gpus", "1600"], ["1600 are requested", "bassl finetune --gpus 1600"]),
        (["--index", "nowhere.h5"], ["nowhere.h5"]),
    ],
    ids=["crn", "seeds", "gpus", "index"],
)
def test_wrong_options_are_refused_in_one_line(
    small: list[str], arguments: list[str], words: list[str], bassl: Bassl
) -> None:
    code, _, err = bassl("finetune", *small, *arguments)
    assert code == 2
    assert "Traceback" not in err
    assert all(word in err for word in words), err


@pytest.mark.slow
def test_two_stopped_processes_can_be_resumed(small: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "run"
    long = [*small, "--epochs", "100000", "--log-steps", "1", "--processes", "2"]
    job = subprocess.Popen([*BASSL, *long], stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    assert soon(has_lines(folder / "log.csv", 10), 240)
    job.send_signal(signal.SIGTERM)
    _, said = job.communicate(timeout=90)
    lines = [line for line in said.splitlines() if line.startswith("bassl:")]
    assert (job.returncode, len(lines)) == (143, 1), said
    assert "--resume" in lines[0]
    state = torch.load(folder / "state.pt", weights_only=True)
    assert state["at"] >= 8
    assert state["number"] == 0
    again = run(*small, "--resume", "--epochs", "7")
    assert again.returncode == 2
    assert "epochs 100000, not 7" in again.stderr


@pytest.mark.slow
def test_ctrl_c_stops_a_run_with_exit_code_130_and_it_can_be_resumed(small: list[str], tmp_path: Path) -> None:
    long = [*small, "--epochs", "100000", "--log-steps", "1"]
    job = subprocess.Popen([*BASSL, *long], stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    assert soon(has_lines(tmp_path / "runs" / "run" / "log.csv", 4), 240)
    job.send_signal(signal.SIGINT)
    _, said = job.communicate(timeout=90)
    assert job.returncode == 130, said
    assert "--resume" in said
    assert "Traceback" not in said


@pytest.mark.slow
def test_training_processes_end_when_their_launcher_is_killed(small: list[str], tmp_path: Path) -> None:
    long = [*small, "--epochs", "100000", "--log-steps", "1", "--processes", "2"]
    job = subprocess.Popen([*BASSL, *long], stderr=subprocess.DEVNULL, env=ENVIRONMENT)
    try:
        assert soon(has_lines(tmp_path / "runs" / "run" / "log.csv", 4), 240)
        workers = children_of(job.pid)
        assert len(workers) == 2
        again = run(*small, "--resume", "--epochs", "100000")
        assert (again.returncode, again.stderr.count("\n")) == (2, 1)
        assert "another process is training in it" in again.stderr
    finally:
        job.kill()
        job.wait()
    assert soon(lambda: not any(map(alive, workers)))
