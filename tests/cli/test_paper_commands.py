"""``bassl score``, ``bassl figure`` and ``bassl reproduce``: stdout, stderr, exit codes, and no partial files."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from pipelines.stages.reproduce import ReproduceSettings, measuring, planning, reproduce
from pipelines.training import Machines
from tests.command import Bassl, Run, assert_refused
from tests.running import posix, put_programs
from tests.scored_things import WIDTH, plain, put_csv, put_index, put_run, put_scenes

# --- score ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scored")
    put_index(folder)
    put_run(folder / "run", seeds=(3, 5))
    return folder


@pytest.fixture
def on_index(home: Path) -> list[object]:
    return ["--index", home / "index.h5", "--features", home / "features" / f"npz-{WIDTH}d", "--resamples", 20]


def rows(run: Run) -> dict[str, list[str]]:
    return {line[:20].strip(): line[20:].split() for line in run.out.splitlines()[1:]}


def test_score_prints_a_table_for_a_run(bassl: Bassl, home: Path, on_index: list[object]) -> None:
    run = bassl("score", home / "run", *on_index, "--frame-rate", 25)
    assert run.code == 0
    assert "scoring 3 videos\n" in run.err  # however many seeds the run has
    header = "metric pooled 95 % interval mean of videos 95 % interval mean of 2 seeds"
    assert " ".join(run.out.splitlines()[0].split()) == header
    names = [line.split("  ")[0].strip() for line in run.out.splitlines()[1:]]
    assert names == [
        *("AP", "AUC-ROC", "F1", "precision", "recall", "mIoU", "Recall@3s", "Sum", "coverage", "overflow"),
        *("F of the two", "boundary precision", "boundary recall", "boundary F1"),
    ]
    assert "±" in run.out
    assert run.err.splitlines()[-1].startswith("3 videos, 90 shots, ")
    assert bassl("score", "default", *on_index, "--quiet", "--table", "made/t.md") == (0, "", "")
    assert Path("made/t.md").read_text().startswith("| metric | pooled | 95 % interval |")


def test_with_json_stdout_has_only_json(bassl: Bassl, home: Path, on_index: list[object]) -> None:
    run = bassl("score", home / "run", *on_index, "--json", "--representation")
    content: Any = plain(run.out)
    assert (run.code, content["schema"], content["version"]) == (0, "bassl.score", 1)
    assert len(content["videos"]) == 3
    assert set(content["seeds"]["ap"]["values"]) == {"3", "5"}
    assert content["metrics"]["boundary_f1"]["pooled"] is None
    assert set(content["representation"]["nmi"]) == {"8", "16", "32"}
    put_scenes(Path("a.json"))
    put_csv(Path("t.csv"), 0, 20.5, 25, 50)
    content = plain(bassl("score", "a.json", "t.csv", "--json").out)
    assert content["metrics"]["miou"]["pooled"] is None
    assert content["matching"]["t"]["shots"] == "shots of the prediction"
    assert content["matching"]["t"]["truth"]["unmatched"] == [25.0]


def test_a_scene_list_is_scored_against_the_truth(bassl: Bassl) -> None:
    put_scenes(Path("a.json"))
    put_csv(Path("truth.csv"), 0, 20.5, 25, 90)
    run = bassl("score", "a.json", "truth.csv")
    assert run.code == 0
    assert rows(run)["F1"] == ["50.0", "50.0"]
    assert "on shots of the prediction: 1 of 2 true scene ends matched, 0.50 s away on average; the others" in run.err
    assert "are they of the same video?" in run.err
    assert run.err.splitlines()[-1] == "1 video, 6 shots, 2 true scene ends"
    assert rows(bassl("score", "a.json", "truth.csv", "--threshold", 0.8))["precision"] == ["100.0", "100.0"]
    assert rows(bassl("score", "a.json", "truth.csv", "--within", 0.1))["boundary F1"] == ["0.0", "0.0"]
    put_scenes(Path("guess/b.json"))
    put_csv(Path("truth/b.csv"), 0, 20, 40, 50)
    Path("guess/broken.json").write_text("{")
    run = bassl("score", "guess", "truth")
    (complaint,) = (line for line in run.err.splitlines() if line.startswith("bassl: "))
    assert (run.code, rows(run)["F1"], complaint[:24]) == (1, ["100.0", "100.0"], "bassl: guess/broken.json")


def test_wrong_options_give_a_one_line_error(bassl: Bassl) -> None:
    put_scenes(Path("a.json"))
    put_csv(Path("t.csv"), 0, 20, 50)
    assert_refused(bassl("score"), "nothing to score", "'default'")
    assert_refused(bassl("score", "a.json", "t.csv", "--table", "t.doc"), "t.doc", ".md, .tex, .csv or .json")
    assert_refused(bassl("score", "default", "--index", "no.h5"), "no.h5", "bassl build-index")
    assert sorted(path.name for path in Path.cwd().iterdir()) == ["a.json", "t.csv"]


# --- figure -----------------------------------------------------------------------------------------------------------


def test_each_figure_command_writes_its_figure(bassl: Bassl) -> None:
    put_index(Path("data"))
    put_scenes(Path("a.json"))
    put_csv(Path("t.csv"), 0, 20, 50)
    Path("runs/a").mkdir(parents=True)
    Path("runs/a/log.csv").write_text("step,epoch,loss\n1,1,2\n2,1,1\n")
    for arguments, made in (
        (("pseudo-boundaries", "npz/00:9", "npz/01:4", "--neighbors", 4), "pseudo-boundaries.png"),
        (("boundaries", "a.json", "--truth", "t.csv"), "boundaries.png"),
        (("curves", "runs/a", "--label", "mine"), "curves.png"),
    ):
        assert bassl("figure", *arguments) == (0, "", f"wrote {made}\n")
        with Image.open(made) as picture:
            assert picture.width > 400
    assert bassl("figure", "curves", "runs/a", "-q", "-o", "new/c.pdf") == (0, "", "")
    assert Path("new/c.pdf").exists()
    refused = bassl("figure", "curves", "runs/a", "-o", "c.gif")
    assert (refused.code, refused.err) == (
        2,
        "bassl: c.gif: unknown extension .gif; a plot is a .png, .svg or .pdf file\n",
    )


# --- reproduce --------------------------------------------------------------------------------------------------------


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
