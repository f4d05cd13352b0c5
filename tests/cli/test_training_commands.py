"""``bassl pretrain`` and ``bassl finetune`` as processes: what they write and print, and how their jobs end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from pipelines.models.bassl import load_bassl_model
from pipelines.models.opening import open_model
from tests.command import Bassl, assert_refused, bassl_process, running
from tests.labeled_videos import write_labeled_videos
from tests.running import ENVIRONMENT, alive, children_of, has_lines, linux, posix, soon

# Three epochs of six steps; fine-tuning does this for two seeds.
PRETRAIN = "pretrain --index index.h5 --features features --output run --neighbors 2 --epochs 3 --batch 50 --width 16 \
    --heads 2 --gpus 0 --log-steps 1"
FINETUNE = (
    "finetune --index index.h5 --output run --init none --crn mlp --neighbors 2 --width 16 --epochs 3 --batch 30 \
    --rate 3e-3 --seeds 2 --gpus 0 --log-steps 1"
)


@pytest.fixture
def bassl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Bassl:
    """Runs ``bassl`` in a folder with an index and its features."""
    monkeypatch.chdir(write_labeled_videos(tmp_path).parent)
    return running(monkeypatch, capfd)


def start(command: str) -> subprocess.Popen[str]:
    """A job that would not end by itself, after its tenth step."""
    endless = [sys.executable, "-m", "bassl_cli", *command.split(), "--epochs", "100000"]
    job = subprocess.Popen(endless, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True)
    ten_steps = has_lines(Path("run/log.csv"), 11)
    assert soon(lambda: ten_steps() or job.poll() is not None, 240)
    assert job.poll() is None, job.communicate()[1]
    return job


def end_of(job: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code of a job, and its only line about the end."""
    _, printed = job.communicate(timeout=90)
    (line,) = (line for line in printed.splitlines() if line.startswith("bassl:"))
    assert "Traceback" not in printed
    return job.returncode, line


def test_pretrain_writes_a_model_and_logs_its_progress(bassl: Bassl) -> None:
    ended = bassl(*PRETRAIN.split(), "--tasks", "pp,msm", "--pseudo-boundary", "mean")
    assert (ended.code, ended.out) == (0, ""), ended.err
    for words in ("epoch 3/3", "knn@1", "18 steps; wrote", "curves: tensorboard --logdir run/tensorboard\n"):
        assert words in ended.err
    assert load_bassl_model(Path("run/model.safetensors")).head_names == ["head_msm", "head_nce", "head_pp"]
    assert_refused(bassl(*PRETRAIN.split()), "contains a run")


def test_finetune_writes_a_model_and_prints_its_metrics_and_with_json_its_result(bassl: Bassl) -> None:
    ended = bassl(*FINETUNE.split())
    assert ended.code == 0, ended.err
    content = json.loads(Path("run/result.json").read_text())
    assert "mlp on test, 2 seeds, epoch chosen on val" in ended.out
    assert f"{100 * content['mean']['ap']:.1f} ±" in ended.out
    for words in ("seed 2/2  epoch 3/3  val_ap", "wrote"):
        assert words in ended.err
    assert ended.err.endswith("curves: tensorboard --logdir run/tensorboard\n")
    assert sorted(path.name for path in Path("run/tensorboard").iterdir()) == ["seed-0", "seed-1"]
    assert open_model(Path("run")).boundary_model().crn == "mlp"
    code, out, err = bassl(*FINETUNE.split(), "--json", "--overwrite", "--quiet")
    assert (code, json.loads(out)["mean"], json.loads(out)["seeds"]) == (0, content["mean"], content["seeds"])
    assert all(line.startswith("warning: ") for line in err.splitlines()), err


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("finetune --init none --gpus 1600", "bassl finetune --init none --gpus 1600 --nodes"),
        ("pretrain --gpus 4 --nodes 2", "--rdzv-endpoint HOST:PORT"),
        ("pretrain --tasks ssm,fun", "tasks[1] must be one of ssm, cgm, pp, msm, not 'fun'"),
    ],
)
def test_wrong_options_give_a_one_line_error(bassl: Bassl, command: str, words: str) -> None:
    assert_refused(bassl(*command.split()), words)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "processes", "number", "code"),
    [(PRETRAIN, 2, signal.SIGTERM, 143), (FINETUNE, 1, signal.SIGINT, 130)],
)
@posix
def test_a_stopped_run_saves_its_state_and_can_be_resumed(
    bassl: Bassl, command: str, processes: int, number: signal.Signals, code: int
) -> None:
    job = start(f"{command} --processes {processes}")
    job.send_signal(number)
    ended, line = end_of(job)
    assert (ended, "--resume" in line) == (code, True), line
    state = torch.load("run/state.pt", weights_only=True)
    assert state["step" if command == PRETRAIN else "at"] >= 10
    again = bassl_process(f"{command} --resume --epochs 7")
    assert again.code == 2
    assert "epochs 100000, not 7" in again.err


@pytest.mark.slow
@linux
def test_a_job_ends_when_one_of_its_processes_is_killed(bassl: Bassl) -> None:
    job = start(f"{PRETRAIN} --processes 2")
    environments = {pid: Path(f"/proc/{pid}/environ").read_bytes().split(b"\0") for pid in children_of(job.pid)}
    os.kill(next(pid for pid, names in environments.items() if b"RANK=1" in names), signal.SIGKILL)
    code, line = end_of(job)
    assert code == 2
    assert "process 1 was killed by signal 9 (SIGKILL)" in line
    assert "--resume" in line


@pytest.mark.slow
def test_training_processes_end_when_their_launcher_is_killed(bassl: Bassl) -> None:
    job = start(f"{FINETUNE} --processes 2")
    try:
        workers = children_of(job.pid)
        assert len(workers) == 2
        again = bassl_process(f"{FINETUNE} --resume --epochs 100000")
        (line,) = again.err.splitlines()
        assert (again.code, "another process is training in it" in line) == (2, True)
    finally:
        job.kill()
        job.wait()
    assert soon(lambda: not any(map(alive, workers)))
