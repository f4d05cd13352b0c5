"""`bassl reproduce`: help, plan, bad input."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.stages.reproduce import timing
from tests.command import Bassl


def test_help_names_the_tables(bassl: Bassl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    run = bassl("reproduce", "--help")
    assert run.code == 0
    assert "table1, table2, table3, table4, nmi, bbc-ovsd" in " ".join(run.out.split())


def test_a_plan_prints_commands_costs_and_disk_space_and_runs_nothing(
    bassl: Bassl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    run = bassl("reproduce", "table1", "--plan", "--rows", "BaSSL (10*")
    assert run.code == 0
    lines = run.out.splitlines()
    assert sum(line.startswith("bassl pretrain ") for line in lines) == 1
    assert sum(line.startswith("bassl finetune ") for line in lines) == 1
    # What goes to a pipe is not cut for a terminal's width.
    assert "pretrain bassl-10 768 10 epochs, 19 images per window" in [" ".join(line.split()) for line in lines]
    assert "Disk:" in lines
    assert any(line.startswith("keyframes ") for line in lines)
    assert not list(Path().iterdir())


def test_plan_with_time_adds_hours_for_this_machine(bassl: Bassl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "seconds_per_image", lambda settings: 0.36 if settings.device == "cpu" else 0.0)
    run = bassl("reproduce", "table1", "--plan", "--time", "--gpus", 0, "--rows", "BaSSL (10*")
    # 1.6 million windows of 19 images, ten epochs
    assert "pretrain bassl-10 768 30,400 10 epochs, 19 images per window" in [
        " ".join(line.split()) for line in run.out.splitlines()
    ]
    assert bassl("reproduce", "table1", "--time").code == 2


def test_an_unknown_table_gives_a_one_line_error(bassl: Bassl) -> None:
    run = bassl("reproduce", "table11")
    assert (run.code, run.out) == (2, "")
    (line,) = run.err.splitlines()
    assert line.startswith("bassl: there is no table 'table11'; there are table1,")
