"""``bassl pretrain`` as a process: what it writes and prints, and how a job of several processes ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from pipelines.models.bassl import load_bassl_model
from tests.command import Bassl
from tests.labelled_videos import write_labelled_videos
from tests.running import children_of, has_lines, soon

BASSL = [sys.executable, "-m", "bassl_cli", "pretrain"]


@pytest.fixture
def small(tmp_path: Path) -> list[str]:
    """Options of a run of three epochs of six steps."""
    index = write_labelled_videos(tmp_path, splits={"a": ""})
    paths = ["--index", index, "--features", tmp_path / "features.h5", "--output", tmp_path / "run"]
    sizes = "--neighbours 2 --epochs 3 --batch 10 --width 16 --heads 2 --gpus 0 --log-steps 1"
    return [*map(str, paths), *sizes.split()]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    return subprocess.run([*BASSL, *arguments], capture_output=True, text=True, env=environment, timeout=120)


def test_the_command_trains_a_run_and_logs_its_progress(small: list[str], tmp_path: Path, bassl: Bassl) -> None:
    ended = run(*small, "--tasks", "pp,msm", "--pseudo-boundary", "mean")
    assert (ended.returncode, ended.stdout) == (0, "")
    assert "epoch 3/3" in ended.stderr
    assert "knn@1" in ended.stderr
    assert "18 steps; wrote" in ended.stderr
    model = load_bassl_model(tmp_path / "run" / "model.safetensors")
    assert model.head_names == ["head_msm", "head_nce", "head_pp"]
    again = bassl("pretrain", *small)
    assert again.code == 2
    assert again.err.count("\n") == 1
    assert "contains a run" in again.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--gpus", "1600"], ["1600 are requested", "--nodes", "--node-rank", "--rdzv-endpoint"]),
        (["--gpus", "3", "--nodes", "2", "--rdzv-endpoint", "a:1"], ["3 GPUs cannot be shared equally by 2 machines"]),
        (["--gpus", "4", "--nodes", "2"], ["--rdzv-endpoint HOST:PORT"]),
        (["--processes", "2"], ["add --gpus 0"]),
        (["--tasks", "ssm,fun"], ["tasks[1] must be one of ssm, cgm, pp, msm, not 'fun'"]),
        (["--batch", "1"], ["batch must be at least 2"]),
        (["--scale", "1,a"], ["--scale: '1,a' is not float"]),
        (["--index", "nowhere.h5"], ["nowhere.h5"]),
    ],
)
def test_wrong_options_give_a_one_line_error(arguments: list[str], words: list[str], bassl: Bassl) -> None:
    code, _, err = bassl("pretrain", *arguments)
    assert code == 2
    assert err.count("\n") == 1, err
    assert all(word in err for word in words)


@pytest.mark.slow
def test_several_processes_train_one_run_and_report_an_error_once(small: list[str]) -> None:
    ended = run(*small, "--processes", "2")
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.count("18 steps; wrote") == 1
    again = run(*small, "--processes", "2")
    assert (again.returncode, again.stderr.count("\n")) == (2, 1), again.stderr
    assert "contains a run" in again.stderr


@pytest.mark.slow
@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_the_job_ends_when_one_process_dies(small: list[str], tmp_path: Path, how: str) -> None:
    endless = [*small, "--epochs", "100000", "--processes", "2"]
    job = subprocess.Popen([*BASSL, *endless], stderr=subprocess.PIPE, text=True)
    assert soon(has_lines(tmp_path / "run" / "log.csv", 10), 240)
    if how == "killed":
        environments = {pid: Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") for pid in children_of(job.pid)}
        os.kill(next(pid for pid, names in environments.items() if b"RANK=1" in names), signal.SIGKILL)
    else:
        job.send_signal(signal.SIGTERM)
    _, said = job.communicate(timeout=90)
    lines = [line for line in said.splitlines() if line.startswith("bassl:")]
    assert len(lines) == 1, said
    assert "Traceback" not in said
    assert "--resume" in lines[0]
    if how == "killed":
        assert job.returncode == 2
        assert "process 1 was killed by signal 9 (SIGKILL)" in lines[0]
    else:
        assert job.returncode == 143
        assert torch.load(tmp_path / "run" / "state.pt", weights_only=True)["step"] >= 10
