"""`bassl reproduce`: plan, signals, bad input."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.stages.reproduce import ReproduceSettings, measuring, planning, reproduce
from pipelines.training import Machines
from tests.command import Bassl
from tests.running import posix, put_programs


def test_a_plan_prints_commands_and_runs_nothing(bassl: Bassl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    run = bassl("reproduce", "table1", "--plan", "--rows", "BaSSL (10*")
    assert run.code == 0
    lines = run.out.splitlines()
    assert sum(line.startswith("bassl pretrain ") for line in lines) == 1
    assert sum("bassl finetune " in line for line in lines) == 1
    assert not list(Path().iterdir())


@pytest.mark.slow
@posix
def test_a_plan_pasted_into_a_shell_measures_its_rows(bassl: Bassl, monkeypatch: pytest.MonkeyPatch) -> None:
    video = {"scenes": 4, "shots_per_scene": [2, 3], "shot_seconds": [0.4, 0.6], "width": 64, "height": 48}
    monkeypatch.setattr(planning, "GENERATED", video)
    monkeypatch.setattr(planning, "VIDEOS", 3)
    monkeypatch.setattr(planning, "image_encoder", lambda: "efficientnet_lite0")  # needs no download
    plan = bassl("reproduce", "table1", "--plan", "--rows", "DP", "--gpus", "0").out
    subprocess.run(["sh", "-e"], input=plan, env=put_programs(Path("programs")), text=True, check=True, timeout=300)

    def run_again(*_: object) -> str:
        raise AssertionError("everything is measured")

    monkeypatch.setattr(measuring, "run_command", run_again)
    (table,) = reproduce(ReproduceSettings("table1", rows=("DP",), machines=Machines(gpus=0))).tables
    (cells,) = (row.cells for row in table.rows if row.label == "DP")
    assert set(cells) == {"AP", "mIoU", "AUC-ROC", "F1"}
    assert all(cell.values for cell in cells.values())


@posix
def test_a_signal_ends_the_running_command_and_the_table(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bassl_cli", "reproduce", "table4", "--rows", "8", "--gpus", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "8: make-video\n"
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert err.splitlines()[-1] == "bassl: stopped; run it again to continue"
    assert "not run" in out
    assert (tmp_path / "runs/reproduce/table4/generated/table.md").exists()
