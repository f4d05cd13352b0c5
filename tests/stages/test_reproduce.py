"""The paper's tables on tiny data: every row, resumable, failing alone, never over files of others."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bassl_cli import app
from pipelines.datasets import synthetic
from pipelines.datasets.synthetic import SyntheticVideoSettings, write_video
from pipelines.errors import BasslError
from pipelines.evaluation import paper_tables
from pipelines.models import encoder_loading as encoders
from pipelines.models.encoders import torch_encoders
from pipelines.models.networks.torch_networks import one_thread
from pipelines.options import with_options
from pipelines.stages.baseline import baseline
from pipelines.stages.reproduce import (
    ROWS,
    TABLES,
    ReproduceResult,
    ReproduceSettings,
    RowResult,
    measuring,
    plan,
    planning,
    reproduce,
)
from pipelines.stages.reproduce.measuring import heading, screen_tables, text_table
from pipelines.stages.reproduce.planning import Line, PlannedRow, find_data, planned_rows
from pipelines.stores.index import read_index
from pipelines.training import Machines
from tests.command import Bassl
from tests.datasets.movienet_files import put_keyframes, put_labels, put_shots, put_split
from tests.running import free_port, posix, put_programs
from tests.small_stores import features_in, refusal

SHOTS = 30
SPLIT = "write-split"
ON_CPU = Machines(gpus=0)
LEARNING = ("Siamese", "MS-LSTM", "LGSS", "BaSSL (10 epochs)", "BaSSL (40 epochs)", "Relational network")
_NETWORK = {"width": 16, "heads": 2}
RECIPE: dict[str, dict[str, Any]] = {
    "pretrain": {"batch": 40, "neighbors": 2, "validate_epochs": 0, **_NETWORK},
    "long pretrain": {"base_rate": 0.25},
    "finetune": {"epochs": 2, "batch": 64, "rate": 1e-3},
    "transformer": {"neighbors": 2, **_NETWORK},
    "mlp": {"width": 8},
    "ms-lstm": {"width": 8},
    "relational": {"epochs": 1},
}
_TINY = {"encoder": "timm:test_resnet", "size": 32, "kernel_size": 3, "workers": 0}
VIDEO_RECIPE = {**RECIPE, "pretrain": {**RECIPE["pretrain"], **_TINY, "batch": 12}}
TINY = {"features": RECIPE, **dict.fromkeys(("movienet", "videos", "generated"), VIDEO_RECIPE)}
SHIPPED = planning.OPTIONS

run_in_process_of_its_own = measuring.run_command


def run_here(words: Sequence[str], report: Callable[[float, float | None], None]) -> str:
    """Run a command line in the process of the tests, where torch is loaded already."""
    output, errors = StringIO(), StringIO()
    code: Any = 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(output), redirect_stderr(errors):
        patch.setattr(sys, "argv", ["bassl", *words[1:]])
        report(0, None)
        try:
            code = app.main() if words[0] == "bassl" else synthetic.main([*words[3:]])
        except SystemExit as end:
            code = end.code
    if code:
        raise BasslError(errors.getvalue().partition("bassl: ")[2].splitlines()[0])
    return output.getvalue()


@pytest.fixture(scope="module", autouse=True)
def in_this_process() -> Iterator[None]:
    with one_thread(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(measuring, "run_command", run_here)
        patch.setattr(planning, "OPTIONS", TINY)
        yield


@pytest.fixture
def shipped_options(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "OPTIONS", SHIPPED)


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the commands that are run."""
    names: list[str] = []

    def counted(words: Sequence[str], report: Any) -> str:
        names.append(words[1] if words[0] == "bassl" else "make-video")
        return run_here(words, report)

    monkeypatch.setattr(measuring, "run_command", counted)
    return names


def write_set(folder: Path, videos: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    for i in range(videos):
        ends = np.zeros(SHOTS, np.uint8)
        places = np.cumsum(rng.integers(4, 8, 12))
        ends[places[places < SHOTS - 1]] = 1
        scene = np.cumsum(ends) - ends
        features = rng.normal(size=(int(scene.max()) + 1, 12))[scene] + 0.4 * rng.normal(size=(SHOTS, 12))
        cuts = np.append(0, np.cumsum(rng.integers(20, 100, SHOTS)))
        shots = np.stack([cuts[:-1], cuts[1:]], axis=1)
        np.savez(folder / f"{i:02}.npz", features=features.astype(np.float32), shots=shots, scene_end=ends)


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sets of features, named as sets that the paper has numbers for."""
    folder = tmp_path_factory.mktemp("features")
    write_set(folder / "bbc", 4, 0)
    write_set(folder / "ovsd", 4, 1)
    return folder


Table1 = tuple[ReproduceSettings, ReproduceResult]


@pytest.fixture(scope="module")
def table1(sets: Path, tmp_path_factory: pytest.TempPathFactory) -> Table1:
    output = tmp_path_factory.mktemp("runs")
    settings = ReproduceSettings("table1", sets, machines=ON_CPU, epochs=1, seeds=2, output=output)
    return settings, reproduce(settings)


def row_of(result: ReproduceResult, label: str, table: int = 0) -> RowResult:
    return next(row for row in result.tables[table].rows if row.label == label)


def folder_of(settings: ReproduceSettings) -> Path:
    """The folder of the tables."""
    assert settings.data is not None
    return settings.output / settings.table / settings.data.name


def rows_of(settings: ReproduceSettings) -> list[PlannedRow]:
    return [row for row in planned_rows(settings, find_data(settings)) if row.wanted]


def planned_lines(settings: ReproduceSettings) -> list[Line]:
    return [line for row in rows_of(settings) for line in row.lines]


def output_of(command: str, settings: ReproduceSettings) -> Path:
    return next(line.output for line in planned_lines(settings) if line.command == command and line.output)


def arguments_of(line: str) -> list[str]:
    """The arguments of bassl in a shell line, or of what else it runs."""
    words = shlex.split(line.partition(" > ")[0].rpartition(" && ")[2])
    return words[1:]


def row_8(sets: Path, output: Path, **changes: Any) -> ReproduceSettings:
    """One row of table 4b on one data set: an index, a pre-training, a fine-tuning."""
    return ReproduceSettings(
        "table4", sets / "bbc", ("8",), machines=ON_CPU, output=output, **{"seeds": 1, "epochs": 1, **changes}
    )


# --- what is measured -------------------------------------------------------------------------------------------------


def test_every_row_of_table_1_is_measured_in_both_directions(table1: Table1) -> None:
    settings, result = table1
    assert not result.failed
    assert not result.comparable
    assert [table.protocol for table in result.tables] == [
        "trained on bbc, tested on ovsd",
        "trained on ovsd, tested on bbc",
    ]
    for table in result.tables:
        labels = [row.label for row in table.rows]
        assert labels[:-2] == list(paper_tables.TABLES["table1"].rows)  # then one of ours, and chance
        for row in table.rows[:-1]:
            assert set(row.cells) == {"AP", "mIoU", "AUC-ROC", "F1"}
            for cell in row.cells.values():
                assert cell.absent == ("needs videos" if row.label == "ShotCoL" else "")
                assert len(cell.values) == (0 if cell.absent else 2 if row.label in LEARNING else 1)
                assert all(0 <= value <= 1 for value in cell.values)
    assert sorted(path.name for path in result.files) == ["commands.sh", "table.json", "table.md", "table.tex"]
    assert "not comparable" in (folder_of(settings) / "table.md").read_text()
    assert r"\pm" in (folder_of(settings) / "table.tex").read_text()


def test_table_numbers_equal_the_results_of_the_commands(table1: Table1) -> None:
    settings, result = table1
    work = settings.output / "work" / folder_of(settings).name
    (report,) = work.glob("bbc/bassl-10-transformer-*/result.json")
    tuned = json.loads(report.read_text())
    cells = row_of(result, "BaSSL (10 epochs)", 1).cells
    for column, name in (("AP", "ap"), ("mIoU", "miou"), ("AUC-ROC", "auc"), ("F1", "f1")):
        assert cells[column].mean == pytest.approx(tuned["mean"][name])
        assert cells[column].deviation == pytest.approx(tuned["std"][name])
    assert tuned["transfer"] == "encoder+crn"
    content = json.loads((folder_of(settings) / "table.json").read_text())
    row = content["tables"][1]["rows"][-4]
    assert (row["label"], row["cells"]["AP"]["values"]) == ("BaSSL (10 epochs)", list(cells["AP"].values))
    stores = tuple(sorted(work.glob("features-*/*")))
    (index,) = work.glob("bbc-to-ovsd-*.h5")
    again = baseline(system="grouping", index=index, features=stores, frame_rate=25.0)
    assert row_of(result, "Grouping").cells["AP"].values == (again.measures["ap"].value,)
    assert len(again.videos) == 4


def test_a_printed_table_alone_says_what_was_run(table1: Table1) -> None:
    settings, result = table1
    first = heading(result, result.tables[0])
    assert "trained on bbc, tested on ovsd" in first
    assert "percent, ± standard deviation over 2 fine-tuning or training seeds" in first
    table = text_table(result.tables[0])
    runs = {row[0]: row[-1] for row in table.rows}
    assert runs["BaSSL (10 epochs)"] == "pretrain (epochs 1); finetune (epochs 2, seeds 2)"
    assert runs["BaSSL (40 epochs)"].startswith("pretrain (epochs 4)")  # and may have a rate of its own
    assert all(" --base-rate 0.25 " in line.text for line in planned_lines(settings) if " --epochs 4 " in line.text)
    assert (runs["LGSS"], runs["GraphCut"]) == ("baseline (seeds 2)", "-")
    by_label = {row[0]: dict(zip(table.header, row, strict=True)) for row in table.rows}
    ends, shots = 0, 0
    for video in (settings.data or Path()).glob("ovsd/*.npz"):
        with np.load(video) as content:
            ends, shots = ends + int(content["scene_end"].sum()), shots + len(content["scene_end"])
    assert by_label["Chance"]["AP measured"] == f"{100 * ends / shots:.1f}"
    for part in screen_tables(result.tables[0]):  # the same numbers in at most 120 columns
        assert {cell for row in part.rows for cell in row} <= {cell for row in table.rows for cell in row}
        columns = zip(part.header, *part.rows, strict=True)
        assert sum(max(map(len, column)) + 2 for column in columns) <= 122


def test_commands_of_a_table_can_be_run_where_it_was_made(table1: Table1, bassl: Bassl) -> None:
    settings, _ = table1
    script = (folder_of(settings) / "commands.sh").read_text()
    lines = [arguments_of(line) for line in script.splitlines() if "bassl " in line and not line.startswith("#")]
    assert len(lines) > 20
    results = {path: json.loads(path.read_text())["mean"] for path in settings.output.rglob("result.json")}
    for arguments in {line[0]: line for line in lines}.values():  # one of each command
        assert bassl(*arguments).code == 0, arguments
    assert {path: json.loads(path.read_text())["mean"] for path in results} == results


def test_bbc_and_ovsd_have_a_table_of_the_runs_of_table_1(table1: Table1) -> None:
    result = reproduce(replace(table1[0], table="bbc-ovsd"))
    assert [row.label for table in result.tables for row in table.rows] == ["OVSD", "BBC"]
    for table, first in zip(result.tables, table1[1].tables, strict=True):
        cells = table.rows[0].cells
        assert cells["BaSSL"] == next(row for row in first.rows if row.label == "BaSSL (10 epochs)").cells["AP"]
    assert any("39.98" in cell for cell in text_table(result.tables[1]).rows[0])


def test_a_single_data_set_is_split_by_video(sets: Path, tmp_path: Path) -> None:
    result = reproduce(table="nmi", data=sets / "bbc", gpus=0, seeds=1, output=tmp_path)
    assert not result.failed
    (file,) = tmp_path.glob("work/bbc/split-*.json")
    splits = json.loads(file.read_text())
    assert [len(splits[name]) for name in ("train", "val", "test")] == [2, 1, 1]
    (imagenet, *others) = result.tables[0].rows
    assert {cell.absent for cell in imagenet.cells.values()} == {"not defined"}  # thirty shots are not 8 scenes
    assert {cell.absent for row in others for cell in row.cells.values()} == {"needs videos"}


# --- what is kept -----------------------------------------------------------------------------------------------------


def test_finished_rows_are_kept_and_a_changed_setting_repeats_only_dependent_steps(
    table1: Table1, commands: list[str]
) -> None:
    some = replace(table1[0], rows=("GraphCut", "BaSSL w/o*", "MS-LSTM"), seeds=1)
    result = reproduce(some)
    assert len(row_of(result, "MS-LSTM").cells["AP"].values) == 1
    assert row_of(result, "LGSS").cells == {}  # measured with other settings, but not in this run
    assert "not run" in {cell for row in text_table(result.tables[0]).rows for cell in row}
    assert reproduce(table1[0]).tables == table1[1].tables
    assert commands == ["finetune"] * 2  # in each direction: the other rows have no seeds


def test_overwriting_runs_each_step_of_the_rows_once(sets: Path, tmp_path: Path, commands: list[str]) -> None:
    settings = ReproduceSettings(
        "table4", sets / "bbc", ("10", "DTW*"), machines=ON_CPU, epochs=1, seeds=1, output=tmp_path
    )
    first = reproduce(settings)
    ran = [*commands]
    assert ran == ["build-index", "build-index", "pretrain", "finetune"]
    again = reproduce(with_options(settings, overwrite=True))
    assert commands == 2 * ran
    assert row_of(again, "10", 2).cells == row_of(first, "10", 2).cells


@pytest.mark.parametrize("content", [None, '{"seeds": 1, "summary_of": "test"}', "[" * 100_000])
def test_what_the_same_commands_made_is_adopted_if_its_result_is_missing_or_damaged(
    content: str | None, sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = row_8(sets, tmp_path)
    first = reproduce(settings)
    (file,) = tmp_path.glob("work/bbc/results/finetune-*")
    file.unlink() if content is None else file.write_text(content)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.suffix in (".h5", ".safetensors")}

    def never(*arguments: Any, **options: Any) -> Any:
        raise AssertionError("trained again")

    monkeypatch.setattr("pipelines.training.loop.take_step", never)
    assert row_of(reproduce(settings), "8", 1).cells == row_of(first, "8", 1).cells
    assert {path: path.read_bytes() for path in before} == before
    assert json.loads(file.read_text())["summary_of"] == "test"


def test_options_of_the_machines_go_to_every_training_and_encoding_step(sets: Path, tmp_path: Path) -> None:
    root, machines = put_movienet_of_five(tmp_path / "movienet"), Machines(8, 1, 2, 1, "host:1")
    rows = rows_of(ReproduceSettings("table1", root, ("BaSSL*", "GraphCut"), machines, output=Path("runs")))
    options = "--gpus 8 --nodes 2 --node-rank 1 --rdzv-endpoint host:1"
    lines = {line.text for row in rows for line in row.lines}
    assert all("--device cuda" in line for line in lines if "bassl baseline" in line)
    assert {arguments_of(line)[0]: options in line for line in lines} == {
        **dict.fromkeys(("build-index", "score", "baseline"), False),
        **dict.fromkeys(("encode", "pretrain", "finetune"), True),
    }
    (without,) = (row.lines for row in rows if row.spec.label.startswith("BaSSL w/o"))
    assert [line.command for line in without] == ["build-index", "pretrain", "encode", "score"]


@pytest.mark.slow
@posix
def test_what_two_machines_made_by_the_lines_of_a_plan_is_used_on_one(
    sets: Path, tmp_path: Path, commands: list[str]
) -> None:
    machines = Machines(gpus=0, nodes=2, rdzv_endpoint=f"127.0.0.1:{free_port()}")
    settings = row_8(sets, tmp_path)
    programs = put_programs(tmp_path / "programs")
    for text in plan(replace(settings, machines=machines)).splitlines():
        hosts = [subprocess.Popen(["sh", "-c", text], env=programs) for _ in range(2 if "--nodes 2" in text else 1)]
        assert [host.wait(timeout=120) for host in hosts] == [0] * len(hosts)
    assert row_of(reproduce(settings), "8", 1).cells["AP"].values
    assert not commands


def test_what_is_not_its_own_is_named_and_never_overwritten(sets: Path, tmp_path: Path, bassl: Bassl) -> None:
    settings = row_8(sets, tmp_path)
    path = output_of("pretrain", settings) / "model.safetensors"
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    options = ("--rows", "8", "--gpus", 0, "--seeds", 1, "--epochs", 1, "--output", tmp_path)
    code, out, err = bassl("reproduce", "table4", "--data", sets / "bbc", *options)
    (line,) = (line for line in err.splitlines() if line.startswith("bassl: "))
    assert (code, "failed" in out) == (1, True)
    assert line.startswith(f"bassl: table4b, 8: {path.parent}")
    assert "has a model but no state.pt" in line
    assert path.read_text() == "mine"


# --- what goes wrong --------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:seed 0")
def test_an_interrupted_table_continues_to_the_same_numbers(
    sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal reaches the command, which is a process of its own, and it saves its state."""
    settings = row_8(sets, tmp_path / "runs", seeds=2)
    asked = False

    def stop(doing: str, done: float, total: float | None) -> None:
        nonlocal asked
        if doing == "8: finetune" and done and not asked:
            asked = True
            assert total == 4  # epochs, of both seeds
            os.kill(os.getpid(), signal.SIGINT)

    def run(words: Sequence[str], report: Callable[[float, float | None], None]) -> str:
        return (run_in_process_of_its_own if words[1] == "finetune" else run_here)(words, report)

    monkeypatch.setattr(measuring, "run_command", run)
    first = reproduce(settings, stop)
    assert first.stopped
    assert not row_of(first, "8", 1).cells
    (run,) = tmp_path.glob("runs/work/bbc/bbc/*")
    assert (run / "state.pt").exists()
    monkeypatch.setattr(measuring, "run_command", run_here)
    result = reproduce(settings)
    assert not result.stopped
    uninterrupted = reproduce(with_options(settings, output=tmp_path / "other"))
    assert row_of(result, "8", 1).cells == row_of(uninterrupted, "8", 1).cells


def test_a_failed_row_is_named_and_fails_alone(sets: Path, tmp_path: Path) -> None:
    settings = ReproduceSettings("table1", sets, ("MS-LSTM", "GraphCut"), ON_CPU, epochs=1, seeds=1, output=tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "OPTIONS", {"features": {**RECIPE, "ms-lstm": {"dropout": 0.5}}})
        result = reproduce(settings)
    assert len(result.failed) == 2  # in each direction
    assert all("MS-LSTM" in line and "--dropout" in line for line in result.failed)
    assert row_of(result, "GraphCut").cells
    text = (folder_of(settings) / "table.md").read_text()
    assert "failed" in text
    assert "the ms-lstm has none" in text
    assert "\n1 seed, " in text
    assert not reproduce(settings).failed


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["bassl", "score", "absent.json", "absent.csv"], "absent.json: no such file"),
        (["python", "-m", "pipelines.absent"], "python -m pipelines.absent: ended with exit code 1"),
    ],
)
def test_a_command_that_fails_gives_its_reason_in_one_line_and_reads_no_defaults_of_the_user(
    words: list[str], reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "bassl").mkdir()
    (tmp_path / "bassl/bassl.toml").write_text("no TOML")
    line = refusal(lambda: run_in_process_of_its_own(words, lambda done, total: None), reason, error=BasslError)
    assert not line.startswith("bassl")


# --- videos -----------------------------------------------------------------------------------------------------------


def test_generated_videos_are_made_indexed_and_used_for_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    video = {"scenes": 4, "shots_per_scene": [2, 3], "shot_seconds": [0.4, 0.6], "width": 64, "height": 48}
    monkeypatch.setattr(planning, "GENERATED", video)
    monkeypatch.setattr(planning, "VIDEOS", 3)
    settings = ReproduceSettings("table4", rows=("Fixed",), machines=ON_CPU, epochs=1, seeds=1, output=Path("runs"))
    result = reproduce(settings)
    assert not result.failed
    assert "3 generated videos" in result.data
    row = row_of(result, "Fixed")
    commands = ["extract-keyframes", SPLIT, "build-index", "pretrain", "finetune"]
    assert [line.command for line in rows_of(settings)[0].lines] == ["make-video"] * 3 + commands
    assert len(row.cells["AP"].values) == 1
    assert [len(table.rows) for table in result.tables] == [5, 4, 5]


def test_videos_of_ones_own_need_their_labels_beside_them_and_a_removed_one_has_no_part_in_the_next_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawing = SyntheticVideoSettings(scenes=4, shots_per_scene=(2, 3), shot_seconds=(0.4, 0.6), width=64, height=48)
    videos = tmp_path / "videos"
    for seed, name in enumerate("abcd"):
        write_video(videos / f"{name}.mp4", replace(drawing, seed=seed))
    monkeypatch.setattr(planning, "PAPER_ENCODER", encoders.DEFAULT_ENCODER)  # needs no download
    planning.image_encoder.cache_clear()
    settings = ReproduceSettings("table1", videos, ("Grouping",), machines=ON_CPU, output=tmp_path / "runs")
    result = reproduce(settings)
    assert not result.failed
    assert result.data == f"videos in {videos}, 2 to train, 1 to validate, 1 to test"
    commands = ["extract-keyframes", SPLIT, "build-index", "encode", "baseline"]
    assert [line.command for line in rows_of(settings)[0].lines] == commands
    assert row_of(result, "Grouping").cells["AP"].values
    for file in videos.glob("b.*"):
        file.unlink()
    assert not reproduce(settings).failed
    assert read_index(output_of("build-index", settings)).video_ids == ("a", "c", "d")
    (videos / "c.mp4").write_bytes(b"damaged")
    (failed,) = reproduce(settings).failed
    assert str(videos / "c.mp4") in failed
    planning.image_encoder.cache_clear()


@pytest.mark.parametrize("output", [".", "set/runs"])
def test_changed_data_are_measured_again_wherever_the_output_is(tmp_path: Path, output: str) -> None:
    settings = ReproduceSettings("table1", tmp_path / "set", ("GraphCut",), machines=ON_CPU, output=tmp_path / output)
    write_set(tmp_path / "set", 3, 0)
    first = planned_lines(settings)[-1].result
    (tmp_path / output / "work" / "set").mkdir(parents=True)
    (tmp_path / output / "work" / "set" / "index.h5").write_bytes(b"written by the table")
    assert planned_lines(settings)[-1].result == first
    os.utime(tmp_path / "set" / "00.npz", (0, 0))
    assert planned_lines(settings)[-1].result != first


# --- MovieNet ---------------------------------------------------------------------------------------------------------


def put_movienet_of_five(root: Path) -> Path:
    """MovieNet's layout with labels of eight videos, keyframes of five labeled videos and of one without labels."""
    names = [f"tt{video:07}" for video in range(8)]
    shots = 12
    for seed, name in enumerate(names):
        put_shots(root, name, [(24 * shot, 24 * shot + 23) for shot in range(shots)])
        put_labels(root, [int(shot % 4 == 3) for shot in range(shots - 1)], name)
        if seed < 5:
            put_keyframes(root, name, shots, seed=seed)
    put_keyframes(root, "tt0000009", shots, seed=9)
    (put_keyframes(root, "tt0000010", shots, seed=10) / "shot_0003_img_1.jpg").unlink()
    put_split(root, train=[names[0], names[1], names[5]], val=[names[2], names[6]], test=[*names[3:5], names[7]])
    return root


@pytest.mark.slow
def test_table_1_is_measured_on_movienet_with_keyframes_of_five_videos(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = put_movienet_of_five(tmp_path / "movienet")
    monkeypatch.setattr(planning, "PAPER_ENCODER", encoders.DEFAULT_ENCODER)  # needs no download
    planning.image_encoder.cache_clear()
    settings = ReproduceSettings("table1", root, machines=ON_CPU, epochs=1, seeds=1, output=tmp_path / "runs")
    result = reproduce(settings)
    planning.image_encoder.cache_clear()
    assert not result.failed
    assert result.data == "MovieNet with keyframes of 5 of 8 labeled videos"
    assert not result.comparable
    for row in result.tables[0].rows:
        assert all(cell.values and 0 <= cell.values[0] <= 1 for cell in row.cells.values()), row.label
    work = settings.output / "work" / "movienet"
    (index,) = work.glob("index-*.h5")
    assert len(read_index(index).video_ids) == 6
    stores = [*work.glob("features-efficientnet_lite0-*/*"), *work.glob("features/timm-test_resnet-*")]
    assert len(stores) > 1
    for store in stores:
        assert len(features_in(store)) == 5  # those with labels alone


@pytest.mark.usefixtures("shipped_options")
def test_rows_on_movienet_use_the_sizes_and_the_preparation_of_their_papers(tmp_path: Path) -> None:
    root = put_movienet_of_five(tmp_path / "movienet")
    planned = {row.spec.label: row.lines for row in rows_of(ReproduceSettings("table1", root, output=Path("runs")))}
    assert "bassl baseline lgss-movienet " in planned["LGSS"][-1].text
    index, pretrained, tuned = planned["BaSSL (10 epochs)"]
    assert str(pretrained.output).startswith("runs/work/movienet/pretrain/bassl-10-")
    assert str(tuned.output).startswith("runs/work/movienet/movienet/bassl-10-transformer-")
    assert " ".join(tuned.words) == (
        f"bassl finetune --index {index.output} --crn transformer --seeds 5 --select last --init "
        f"{pretrained.output} --transfer encoder+crn --feature-folder runs/work/movienet/features "
        f"--output {tuned.output} --resume --json"
    )
    rows = rows_of(ReproduceSettings("nmi", root, output=Path("runs")))
    steps = {row.spec.label: [line.command for line in row.lines] for row in rows}  # without fine-tuning
    assert steps.pop("ImageNet") == ["build-index", "encode", "score"]
    assert set(map(tuple, steps.values())) == {("build-index", "pretrain", "encode", "score")}
    own_k = rows_of(ReproduceSettings("table4", root, ("4", "8", "12", "16"), output=Path("runs")))
    pretrained_k = {row.spec.label: row.lines[1] for row in own_k}
    assert [k for k, line in pretrained_k.items() if f" --neighbors {k} " in line.text] == ["4", "12", "16"]
    assert pretrained_k["8"] == pretrained  # the default
    for table in ("table1", "table2", "nmi"):
        lines = plan(ReproduceSettings(table, root, output=Path("runs"))).splitlines()
        lines = [line for line in lines if f"--encoder {planning.image_encoder()}" in line]
        assert lines
        assert all("--preparation center" in line for line in lines)


def test_without_resnet50_weights_the_built_in_encoder_is_used_and_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def none(*_: Any, **__: Any) -> Any:
        raise BasslError("cannot be downloaded")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch_encoders, "trainable_encoder", none)
    planning.image_encoder.cache_clear()
    try:
        assert planning.image_encoder() == "efficientnet_lite0"
    finally:
        planning.image_encoder.cache_clear()
    assert "# table2: M2 Places365 (needs data/places365/model.safetensors)\n" in plan(ReproduceSettings("table2"))


def test_tables_have_the_rows_and_columns_of_the_paper_and_every_combination_of_pretext_tasks() -> None:
    for name, rows in ROWS.items():
        printed = paper_tables.TABLES[name]
        theirs = [row for row in rows if row.label not in ("Relational network", "Chance")]
        assert [row.label for row in theirs] == list(printed.rows)
        for row in theirs:
            numbers = set(printed.rows[row.label])
            further = {"AUC-ROC", "F1", "mIoU", "no pre-training", "Relational network", "Chance"}
            assert numbers - {"gain"} <= set(row.cells) <= numbers | further
    assert sorted({name for names in TABLES.values() for name in names}) == sorted(ROWS)
    combinations = {frozenset(row.note.partition(";")[0].split()) for row in ROWS["table3"][:-1]}
    assert len(combinations) == len(ROWS["table3"]) - 1 == 2**4 - 1
    assert set.union(*map(set, combinations)) == {"SSM", "CGM", "PP", "MSM"}


@pytest.mark.usefixtures("shipped_options")
@pytest.mark.parametrize("name", TABLES)
def test_planned_options_exist_in_the_command_line(
    name: str, sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The options of every command of every row are those that the command has."""
    monkeypatch.chdir(tmp_path)
    commands = {command: app.load(command) for command in app.MODULES}
    for data in (None, sets):
        if name == "bbc-ovsd" and data is None:
            continue
        for words in {line.words for line in planned_lines(ReproduceSettings(name, data, machines=Machines(gpus=2)))}:
            if words[0] == "bassl":
                commands[words[1]].make_context(words[1], [*words[2:]])
    assert not list(tmp_path.rglob("*"))  # a plan leaves nothing


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"table": "table9"}, "unknown table 'table9'; choose from table1,"),
        ({"rows": ("GrafCut",)}, "table1 has no row 'GrafCut'; choose from Siamese,"),
        ({"data": Path("none")}, "none: no such folder"),
        ({"machines": Machines(0, 2, 2, None, "host:1")}, "reproduce runs on one machine; run the lines of --plan"),
        ({"data": Path("empty")}, "empty: "),
        ({"data": Path("two")}, "two: contains 2 videos, but three are needed"),
        ({"data": Path("three"), "table": "bbc-ovsd"}, "two folders of features"),
        ({"data": Path("sets")}, "sets: contains 3 sets of features; give one, or two"),
        ({}, "MovieNet needs a GPU"),
    ],
)
def test_impossible_reproductions_give_a_one_line_error(
    changes: dict[str, Any], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    for folder, videos in (("two", 2), ("three", 3), ("sets/a", 1), ("sets/b", 1), ("sets/c", 1)):
        write_set(Path(folder), videos, 0)
    put_labels(Path("data/movienet"), [0, 1], "tt0000001")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    refusal(lambda: reproduce(ReproduceSettings(**changes)), words, error=Exception)
    assert not Path("runs").exists()
