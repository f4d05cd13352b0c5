"""`bassl reproduce` as a process: help, plan, bad input."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pipelines.stages.reproduce import timing
from tests.command import Bassl

HOME = Path(__file__).parents[2]


def reproduce(folder: Path, *arguments: str, columns: int = 200) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bassl_cli", "reproduce", *arguments]
    environment = {"PYTHONPATH": str(HOME), "COLUMNS": str(columns)}
    return subprocess.run(command, cwd=folder, env=environment, text=True, capture_output=True)


def test_help_names_the_tables(tmp_path: Path) -> None:
    run = reproduce(tmp_path, "--help")
    assert run.returncode == 0
    assert "table1, table2, table3, table4, nmi, bbc-ovsd" in " ".join(run.stdout.split())


def test_a_plan_has_commands_costs_and_disk_and_does_nothing(tmp_path: Path) -> None:
    run = reproduce(tmp_path, "table1", "--plan", "--rows", "BaSSL (10*", columns=40)
    assert run.returncode == 0
    lines = run.stdout.splitlines()
    assert sum(line.startswith("bassl pretrain ") for line in lines) == 1
    assert sum(line.startswith("bassl finetune ") for line in lines) == 1
    # What goes to a pipe is not cut for a terminal's width.
    assert "pretrain bassl-10 768 10 epochs, 19 images a window" in [" ".join(line.split()) for line in lines]
    assert "Disk:" in lines
    assert any(line.startswith("keyframes ") for line in lines)
    assert not list(tmp_path.iterdir())


def test_hours_on_this_machine_are_a_column_of_the_plan(bassl: Bassl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "seconds_per_image", lambda settings: 0.36 if settings.device == "cpu" else 0.0)
    run = bassl("reproduce", "table1", "--plan", "--time", "--gpus", 0, "--rows", "BaSSL (10*")
    # 1.6 million windows of 19 images, ten epochs
    assert "pretrain bassl-10 768 30,400 10 epochs, 19 images a window" in [
        " ".join(line.split()) for line in run.out.splitlines()
    ]
    assert bassl("reproduce", "table1", "--time").code == 2


def test_a_table_that_there_is_not_is_one_line(tmp_path: Path) -> None:
    run = reproduce(tmp_path, "table11")
    assert (run.returncode, run.stdout) == (2, "")
    (line,) = run.stderr.splitlines()
    assert line.startswith("bassl: there is no table 'table11'; there are table1,")
