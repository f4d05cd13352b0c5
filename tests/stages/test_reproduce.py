"""The paper's tables on tiny data: every row, resumable, failing alone; and the cost at full size."""

from __future__ import annotations

import json
import os
import shlex
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from bassl_cli import app
from pipelines.datasets.synthetic import SyntheticVideoSettings, write_video
from pipelines.errors import BasslError
from pipelines.evaluation import paper_tables
from pipelines.models import encoders, torch_encoders
from pipelines.models.threads import one_thread
from pipelines.stages.baseline import BaselineSettings, baseline
from pipelines.stages.pretrain import PretrainSettings
from pipelines.stages.pretrain.step import take_step
from pipelines.stages.reproduce import (
    ReproduceResult,
    ReproduceSettings,
    data as data_module,
    plan,
    planning,
    reproduce,
    running,
    timing,
)
from pipelines.stages.reproduce.cost import images_of, needs
from pipelines.stages.reproduce.result import RowResult
from pipelines.stages.reproduce.rows import BASSL, INSTANCE, NEAREST, ROWS, TABLES, TEMPORAL
from pipelines.stages.reproduce.settings import NAMES, StageOptions
from pipelines.stages.reproduce.steps import Step
from pipelines.stages.reproduce.tables import text_table
from pipelines.stores.features import open_features
from pipelines.stores.index import read_index
from pipelines.training.settings import AugmentationSettings
from tests.command import Bassl
from tests.datasets.movienet_files import put_keyframes, put_labels, put_shots, put_split
from tests.small_stores import refusal

SHOTS = 30
LEARNING = ("Siamese", "MS-LSTM", "LGSS", "BaSSL (10 epochs)", "BaSSL (40 epochs)", "Relational network")
_NETWORK = {"width": 16, "heads": 2}
RECIPE = StageOptions(
    pretrain={"batch": 40, "neighbours": 2, "validate_epochs": 0, **_NETWORK},
    long_pretrain={"base_rate": 0.25},
    finetune={
        **{crn: {"epochs": 2, "batch": 64, "rate": 1e-3} for crn in ("transformer", "mlp", "ms-lstm")},
        "relational": {"epochs": 1},
    },
    network={"transformer": {"neighbours": 2, **_NETWORK}, "mlp": {"width": 8}, "ms-lstm": {"width": 8}},
    epochs=1,
)
VIDEO_RECIPE = replace(
    RECIPE,
    pretrain={
        "encoder": "timm:test_resnet",
        "size": 32,
        "kernel_size": 3,
        "decoded_size": 36,
        "workers": 0,
        "batch": 12,
        "neighbours": 2,
        "validate_epochs": 0,
        **_NETWORK,
    },
)


@pytest.fixture(scope="module", autouse=True)
def on_one_thread() -> Iterator[None]:
    with one_thread():
        yield


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
    """Two sets of features, with the names that the paper has numbers of."""
    folder = tmp_path_factory.mktemp("features")
    write_set(folder / "bbc", 4, 0)
    write_set(folder / "ovsd", 4, 1)
    return folder


@pytest.fixture(scope="module")
def table1(sets: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[ReproduceSettings, ReproduceResult]:
    settings = ReproduceSettings("table1", sets, gpus=0, seeds=2, output=tmp_path_factory.mktemp("runs"))
    return settings, reproduce(settings, options=RECIPE)


def row_of(result: ReproduceResult, label: str, table: int = 0) -> RowResult:
    return next(row for row in result.tables[table].rows if row.label == label)


def test_every_row_of_table_1_is_measured_in_both_directions(
    table1: tuple[ReproduceSettings, ReproduceResult],
) -> None:
    settings, result = table1
    assert not result.failed
    assert not result.comparable
    assert [table.protocol for table in result.tables] == [
        "trained on bbc, tested on ovsd",
        "trained on ovsd, tested on bbc",
    ]
    for table in result.tables:
        labels = [row.label for row in table.rows]
        assert labels[:-1] == list(paper_tables.TABLES["table1"].rows)  # then one of ours
        for row in table.rows:
            assert set(row.cells) == {"AP", "mIoU", "AUC-ROC", "F1"}
            for one in row.cells.values():
                assert one.absent == ("needs videos" if row.label == "ShotCoL" else "")
                assert len(one.values) == (0 if one.absent else 2 if row.label in LEARNING else 1)
                assert all(0 <= value <= 1 for value in one.values)
    folder = settings.output / "table1" / sets_name(settings)
    assert sorted(path.name for path in result.files) == ["commands.sh", "table.json", "table.md", "table.tex"]
    assert "not comparable" in (folder / "table.md").read_text()
    assert r"\pm" in (folder / "table.tex").read_text()


def sets_name(settings: ReproduceSettings) -> str:
    assert settings.data is not None
    return settings.data.name


def test_table_numbers_equal_the_results_of_the_commands(table1: tuple[ReproduceSettings, ReproduceResult]) -> None:
    settings, result = table1
    work = settings.output / "work" / sets_name(settings)
    tuned = json.loads((work / "ovsd-to-bbc" / "bassl-10-transformer" / "result.json").read_text())
    cells = row_of(result, "BaSSL (10 epochs)", 1).cells
    for column, name in (("AP", "ap"), ("mIoU", "miou"), ("AUC-ROC", "auc"), ("F1", "f1")):
        assert cells[column].mean == pytest.approx(tuned["mean"][name])
        assert cells[column].deviation == pytest.approx(tuned["std"][name])
    assert tuned["transfer"] == "encoder+crn"
    content = json.loads((settings.output / "table1" / sets_name(settings) / "table.json").read_text())
    first = content["tables"][0]["rows"][-2]
    assert (first["label"], first["paper"]["AP"]) == ("BaSSL (40 epochs)", {"mean": 57.4, "deviation": 0.08})
    stores = tuple(sorted((work / "features").glob("*.h5")))
    index = work / "bbc-to-ovsd.h5"
    again = baseline(BaselineSettings("grouping", index, stores, frame_rate=25.0))
    assert row_of(result, "Grouping").cells["AP"].values == (again.measures["ap"].value,)
    assert len(again.videos) == 4


def test_commands_of_a_table_can_be_run_where_it_was_made(
    table1: tuple[ReproduceSettings, ReproduceResult], bassl: Bassl
) -> None:
    settings, _ = table1
    script = settings.output / "table1" / sets_name(settings) / "commands.sh"
    lines = [shlex.split(line) for line in script.read_text().splitlines() if line.startswith("bassl ")]
    assert len(lines) > 20
    results = {path: json.loads(path.read_text())["mean"] for path in settings.output.rglob("result.json")}
    for _, *arguments in lines:
        assert bassl(*arguments).code == 0, arguments
    assert {path: json.loads(path.read_text())["mean"] for path in results} == results


def test_the_40_epoch_run_has_four_times_the_epochs_and_may_have_its_own_rate(
    table1: tuple[ReproduceSettings, ReproduceResult],
) -> None:
    _, result = table1
    (ten,), (forty,) = (
        [line for line in row_of(result, f"BaSSL ({n} epochs)").commands if "pretrain" in line.split()[1]]
        for n in (10, 40)
    )
    assert " --epochs 1 " in f"{ten} "
    assert " --epochs 4 " in f"{forty} "
    assert " --base-rate 0.25 " in f"{forty} "
    assert "--base-rate" not in ten


def test_finished_steps_are_kept(
    table1: tuple[ReproduceSettings, ReproduceResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, result = table1

    def never(*arguments: Any) -> Any:
        raise AssertionError("run again")

    monkeypatch.setattr(running, "run", never)
    assert reproduce(settings, options=RECIPE).tables == result.tables


def test_a_changed_setting_repeats_only_dependent_steps(
    table1: tuple[ReproduceSettings, ReproduceResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, _ = table1
    ran: list[str] = []
    whole = running.run

    def counted(stage: Any, *rest: Any) -> Any:
        ran.append(stage.command)
        return whole(stage, *rest)

    monkeypatch.setattr(running, "run", counted)
    some = replace(settings, rows=("GraphCut", "BaSSL w/o*", "MS-LSTM"), seeds=1)
    result = reproduce(some, options=RECIPE)
    assert "score" not in ran  # seeds are of fine-tuning alone
    assert "baseline" not in ran
    assert ran.count("finetune") == 2
    assert len(row_of(result, "MS-LSTM").cells["AP"].values) == 1
    assert row_of(result, "LGSS").cells == {}  # measured with other settings, and not asked for
    assert "not run" in {cell for row in text_table(result.tables[0]).rows for cell in row}


def test_an_interrupted_table_continues_to_the_same_numbers(
    sets: Path, tmp_path: Path, table1: tuple[ReproduceSettings, ReproduceResult]
) -> None:
    rows = ("GraphCut", "BaSSL (10 epochs)", "Relational network")
    settings = ReproduceSettings("table1", sets, rows, gpus=0, seeds=2, output=tmp_path)
    told: list[str] = []
    asked = False

    def stop(row: str, doing: str, done: int, total: int) -> None:
        nonlocal asked
        told.append(row)
        if (row, doing) == ("BaSSL (10 epochs)", "fine-tuning") and done and not asked:
            asked = True
            os.kill(os.getpid(), signal.SIGINT)

    first = reproduce(settings, stop, RECIPE)
    assert first.stopped
    assert row_of(first, "GraphCut").cells
    assert not row_of(first, "BaSSL (10 epochs)").cells
    told.clear()
    result = reproduce(settings, lambda row, *rest: told.append(row), RECIPE)
    assert not result.stopped
    _, uninterrupted = table1
    for label in rows:
        for table in (0, 1):
            assert row_of(result, label, table).cells == row_of(uninterrupted, label, table).cells
    assert told.count("GraphCut") < told.count("BaSSL (10 epochs)")


def test_a_stopped_table_keeps_the_finished_rows_of_all_its_parts(sets: Path, tmp_path: Path) -> None:
    settings = ReproduceSettings("table4", sets / "bbc", ("8", "Random"), gpus=0, seeds=2, output=tmp_path)
    reproduce(replace(settings, rows=("8",)), options=RECIPE)
    asked = False

    def stop(row: str, doing: str, done: float, total: float | None) -> None:
        nonlocal asked
        if doing == "fine-tuning" and done and not asked:
            asked = True
            os.kill(os.getpid(), signal.SIGINT)

    result = reproduce(settings, stop, RECIPE)
    assert result.stopped
    assert [table.name for table in result.tables] == ["table4a", "table4b", "table4c"]
    assert row_of(result, "8", 1).cells["AP"].values


def test_a_failed_row_is_named_and_fails_alone(sets: Path, tmp_path: Path) -> None:
    broken = replace(RECIPE, network={**RECIPE.network, "ms-lstm": {"dropout": 0.5}})
    settings = ReproduceSettings("table1", sets, ("MS-LSTM", "GraphCut"), gpus=0, seeds=1, output=tmp_path)
    result = reproduce(settings, options=broken)
    assert len(result.failed) == 2  # in each direction
    assert all("MS-LSTM" in line and "--dropout" in line for line in result.failed)
    assert row_of(result, "GraphCut").cells
    text = (tmp_path / "table1" / sets.name / "table.md").read_text()
    assert "failed" in text
    assert "the ms-lstm has none" in text
    assert "\n1 seed, " in text
    mended = reproduce(settings, options=RECIPE)
    assert not mended.failed


def test_with_two_data_sets_each_is_tested_on_the_other(
    sets: Path, table1: tuple[ReproduceSettings, ReproduceResult]
) -> None:
    settings = replace(table1[0], table="bbc-ovsd")
    result = reproduce(settings, options=RECIPE)
    assert [row.label for table in result.tables for row in table.rows] == ["OVSD", "BBC"]
    for table, first in zip(result.tables, table1[1].tables, strict=True):
        (row,) = table.rows
        assert row.cells["SimCLR (NN)"].absent == "needs videos"
        # The same run as in Table 1.
        assert row.cells["BaSSL"] == next(one for one in first.rows if one.label == "BaSSL (10 epochs)").cells["AP"]
    assert any("39.98" in cell for cell in text_table(result.tables[1]).rows[0])


def test_a_single_data_set_is_split_by_video(sets: Path, tmp_path: Path) -> None:
    settings = ReproduceSettings("nmi", sets / "bbc", gpus=0, seeds=1, output=tmp_path)
    result = reproduce(settings, options=RECIPE)
    assert not result.failed
    splits = json.loads((tmp_path / "work" / "bbc" / "split.json").read_text())
    assert [len(splits[name]) for name in ("train", "val", "test")] == [2, 1, 1]
    (of_given, *others) = result.tables[0].rows
    assert {one.absent for one in of_given.cells.values()} == {"not defined"}  # videos of thirty shots have not 8
    assert {one.absent for row in others for one in row.cells.values()} == {"needs videos"}
    refusal(lambda: reproduce(replace(settings, table="bbc-ovsd")), "two folders of features", error=BasslError)


def test_generated_videos_are_made_indexed_and_used_for_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    video = {"scenes": 4, "shots_per_scene": [2, 3], "shot_seconds": [0.4, 0.6], "width": 64, "height": 48}
    monkeypatch.setattr(data_module, "GENERATED", video)
    monkeypatch.setattr(data_module, "VIDEOS", 3)
    settings = ReproduceSettings("table4", rows=("Fixed",), gpus=0, seeds=1, output=Path("runs"))
    result = reproduce(settings, options=VIDEO_RECIPE)
    assert not result.failed
    assert "3 generated videos" in result.data
    row = row_of(result, "Fixed")
    assert [line.split()[1 if line.startswith("bassl") else 2] for line in row.commands] == [
        *["pipelines.datasets.synthetic"] * 3,
        *("extract-keyframes", "build-index", "pretrain", "finetune"),
    ]
    assert len(row.cells["AP"].values) == 1
    assert [len(table.rows) for table in result.tables] == [4, 4, 5]

    # The same videos, as videos of one's own with their labels beside them.
    monkeypatch.setattr(planning, "PAPER_ENCODER", encoders.DEFAULT_ENCODER)
    planning.image_encoder.cache_clear()
    movies = Path("runs/work/generated/movies")
    own = reproduce(
        ReproduceSettings("table1", movies, ("Grouping",), gpus=0, output=Path("own")), options=VIDEO_RECIPE
    )
    planning.image_encoder.cache_clear()
    assert not own.failed
    assert own.data == f"videos in {movies}"
    assert [line.split()[1 if line.startswith("bassl") else 2] for line in row_of(own, "Grouping").commands] == [
        *("extract-keyframes", "build-index", "encode", "baseline"),
    ]
    assert row_of(own, "Grouping").cells["AP"].values


def put_videos(folder: Path, names: str) -> None:
    drawing = SyntheticVideoSettings(scenes=4, shots_per_scene=(2, 3), shot_seconds=(0.4, 0.6), width=64, height=48)
    for seed, name in enumerate(names):
        write_video(folder / f"{name}.mp4", replace(drawing, seed=seed))


def test_a_video_that_was_removed_has_no_part_in_the_next_table(tmp_path: Path) -> None:
    videos = tmp_path / "videos"
    put_videos(videos, "abcd")
    settings = ReproduceSettings("table4", videos, ("Fixed",), gpus=0, seeds=1, output=tmp_path / "runs")
    assert not reproduce(settings, options=VIDEO_RECIPE).failed
    for file in videos.glob("b.*"):
        file.unlink()
    assert not reproduce(settings, options=VIDEO_RECIPE).failed
    assert read_index(tmp_path / "runs" / "work" / "videos" / "index.h5").video_ids == ("a", "c", "d")


def test_a_table_below_the_data_folder_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_set(tmp_path / "set", 3, 0)
    monkeypatch.chdir(tmp_path)
    settings = ReproduceSettings("table1", Path(), ("GraphCut",), gpus=0, output=Path("runs/reproduce"))
    first = reproduce(settings, options=RECIPE)
    assert row_of(first, "GraphCut").cells
    assert reproduce(settings, options=RECIPE).tables == first.tables


@pytest.mark.parametrize("output", [".", "set", "set/runs"])
def test_changed_data_are_measured_again_wherever_the_output_is(tmp_path: Path, output: str) -> None:
    def planned() -> list[str]:
        settings = ReproduceSettings("table1", tmp_path / "set", ("GraphCut",), gpus=0, output=tmp_path / output)
        return [row.steps[-1].identity for row in plan(settings, RECIPE)]

    write_set(tmp_path / "set", 3, 0)
    first = planned()
    (tmp_path / output / "work" / "set").mkdir(parents=True)
    (tmp_path / output / "work" / "set" / "index.h5").write_bytes(b"written by the table")
    assert planned() == first
    os.utime(tmp_path / "set" / "00.npz", (0, 0))
    assert planned() != first


def test_an_unreadable_video_is_named_as_the_reason(tmp_path: Path) -> None:
    put_videos(tmp_path / "videos", "abcd")
    (tmp_path / "videos" / "c.mp4").write_bytes(b"damaged")
    settings = ReproduceSettings("table4", tmp_path / "videos", ("Fixed",), gpus=0, seeds=1, output=tmp_path / "runs")
    (failed,) = reproduce(settings, options=VIDEO_RECIPE).failed
    assert str(tmp_path / "videos" / "c.mp4") in failed


def put_movienet_of_five(root: Path) -> Path:
    """MovieNet's layout with labels of eight videos, keyframes of five labelled videos and of one without labels."""
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
    settings = ReproduceSettings("table1", root, gpus=0, seeds=1, output=tmp_path / "runs")
    result = reproduce(settings, options=VIDEO_RECIPE)
    planning.image_encoder.cache_clear()
    assert not result.failed
    assert result.data == "MovieNet with keyframes of 5 of 8 labelled videos"
    assert not result.comparable
    for row in result.tables[0].rows:
        assert all(one.values and 0 <= one.values[0] <= 1 for one in row.cells.values()), row.label
    work = settings.output / "work" / "movienet"
    index = read_index(work / "index.h5")
    assert len(index.video_ids) == 6
    for store in (work / "features").glob("*.h5"):
        assert len(open_features(store).videos) == 5  # those with labels alone


def test_rows_on_movienet_use_the_sizes_of_their_papers(tmp_path: Path) -> None:
    root = put_movienet_of_five(tmp_path / "movienet")
    lines = {row.label: row.steps[-1].line() for row in plan(ReproduceSettings("table1", root, output=Path("runs")))}
    assert lines["LGSS"].startswith("bassl baseline lgss-movienet ")
    assert lines["BaSSL (10 epochs)"] == (
        "bassl finetune --index runs/work/movienet/index.h5 --output runs/work/movienet/movienet/bassl-10-transformer "
        "--crn transformer --seeds 5 --feature-folder runs/work/movienet/features "
        "--init runs/work/movienet/pretrain/bassl-10 --transfer encoder+crn"
    )


def test_on_movienet_the_imagenet_encoder_uses_the_preparation_of_pre_trained_ones(tmp_path: Path) -> None:
    root = put_movienet_of_five(tmp_path / "movienet")
    for table in ("table1", "table2", "nmi"):
        steps = [step for row in plan(ReproduceSettings(table, root, output=Path("runs"))) for step in row.steps]
        named = [step for step in steps if step.options.get("encoder") == "resnet50"]
        assert named
        assert all(step.options["preparation"] == "centre" for step in named)


def test_nmi_is_measured_without_fine_tuning(tmp_path: Path, sets: Path) -> None:
    root = put_movienet_of_five(tmp_path / "movienet")
    rows = plan(ReproduceSettings("nmi", root, output=Path("runs")))
    commands = {row.label: [step.command for step in row.steps] for row in rows}
    assert commands.pop("ImageNet") == ["build-index", "encode", "score"]
    assert len(commands) == 7
    assert set(map(tuple, commands.values())) == {("build-index", "pretrain", "score")}
    costed = [cost.stage.split()[0] for cost in needs(ReproduceSettings("nmi"))[0]]
    assert costed == ["pretrain"] * 6 + ["encode"]
    for data, tested_on in ((sets, ["ovsd", "bbc"]), (sets / "bbc", ["bbc"])):
        rows = plan(ReproduceSettings("nmi", data, rows=("ImageNet",), output=Path("runs")))
        assert [[step.command for step in row.steps] for row in rows] == [["build-index", "score"]] * len(tested_on)
        assert [Path(row.steps[-1].subjects[0]).stem.partition("-")[0] for row in rows] == tested_on


def test_without_resnet50_weights_the_built_in_encoder_is_used_and_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def none(*_: Any, **__: Any) -> Any:
        raise BasslError("cannot be downloaded")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch_encoders, "trainable_encoder", none)
    planning.image_encoder.cache_clear()
    try:
        name, identity = planning.image_encoder("squeeze")
        assert (name, identity.split("-")[0]) == ("efficientnet_lite0", "efficientnet_lite0")
    finally:
        planning.image_encoder.cache_clear()
    places = [row for row in plan(ReproduceSettings("table2")) if row.label == "M2 Places365"]
    assert [row.absent for row in places] == ["weights not there (data/README.md)"]


def test_tables_have_the_rows_and_columns_of_the_paper() -> None:
    ours = {"Relational network"}
    for name, rows in ROWS.items():
        printed = paper_tables.TABLES[name]
        labels = [row.label for row in rows if row.label not in ours]
        assert labels == list(printed.rows)
        for row in rows:
            if row.label in ours:
                continue
            numbers = set(printed.rows[row.label])
            further = {"no pre-training", "Relational network"} if name == "table7" else {"AUC-ROC", "F1", "mIoU"}
            assert numbers <= set(row.cells) | {"gain"}
            assert set(row.cells) - numbers <= further
    assert sorted({name for names in TABLES.values() for name in names}) == sorted(ROWS)
    assert tuple(TABLES) == NAMES


def test_table_3_has_every_combination_of_pretext_tasks_once() -> None:
    combinations = {frozenset(row.note.partition(";")[0].split()) for row in ROWS["table3"]}
    assert len(combinations) == len(ROWS["table3"]) == 2**4 - 1
    assert set.union(*map(set, combinations)) == {"SSM", "CGM", "PP", "MSM"}


def test_each_row_of_table_4b_has_its_own_k(sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also on generated videos, whose default K differs; elsewhere K = 8 shares the run of the other tables."""
    monkeypatch.chdir(tmp_path)

    def trainings(data: Path | None) -> dict[tuple[str, str], Step]:
        rows = plan(ReproduceSettings("table4", data, output=Path("runs")))
        return {(row.table, row.label): step for row in rows for step in row.steps if step.command == "pretrain"}

    generated, given = trainings(None), trainings(sets / "bbc")
    for k in (4, 8, 12, 16):
        assert generated["table4b", str(k)].options["neighbours"] == k
    assert len({generated["table4b", str(k)].output for k in (4, 8, 12, 16)}) == 4
    assert given["table4b", "8"] == given["table4a", "DTW (ours)"]


@pytest.mark.parametrize("name", NAMES)
def test_planned_options_exist_in_the_command_line(
    name: str, sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The options of every command of every row are those that the command has."""
    monkeypatch.chdir(tmp_path)
    commands = {command: app.load(command) for command in app.NAMES}
    for data in (None, sets):
        if name == "bbc-ovsd" and data is None:
            continue
        planned = plan(ReproduceSettings(name, data, gpus=2, output=Path("runs")))
        assert all(row.steps or row.absent for row in planned)
        for line in {stage.line(2) for row in planned for stage in row.steps}:
            words = shlex.split(line)
            if words[0] == "bassl":
                commands[words[1]].make_context(words[1], words[2:])
    assert not list(tmp_path.rglob("*"))  # a plan leaves nothing


def test_costs_are_scaled_from_the_cost_in_the_paper() -> None:
    assert [images_of(one.options) for one in (BASSL, INSTANCE, TEMPORAL, NEAREST)] == [19, 2, 2, 18]
    by_stage = {cost.stage: cost.hours for cost in needs(ReproduceSettings("table1"))[0]}
    assert by_stage["pretrain bassl-10"] == pytest.approx(768)
    assert by_stage["pretrain bassl-40"] == pytest.approx(4 * 768)
    assert by_stage["pretrain simclr-nn"] == pytest.approx(768 * 18 / 19)
    assert 0.5 < by_stage["encode the labelled videos"] < 20
    half = {cost.stage: cost.hours for cost in needs(ReproduceSettings("table1", epochs=5, rows=("BaSSL (10*",)))[0]}
    assert half["pretrain bassl-10"] == pytest.approx(384)
    assert "pretrain bassl-40" not in half
    space = {need.what: need.gigabytes for need in needs(ReproduceSettings("table1"))[1]}
    assert 20 < space["keyframes"] < 200
    assert space["features"] > 4
    # A row without GPU work costs the features that it reads; rows that share an encoder count it once.
    (encoding,) = needs(ReproduceSettings("table1", rows=("GraphCut", "DP")))[0]
    assert encoding.images == pytest.approx(500_000)  # a third of three keyframes of each labelled shot


def test_the_machine_speed_is_measured_on_pre_training_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = PretrainSettings(
        encoder="timm:test_resnet",
        augmentation=AugmentationSettings(size=32, kernel_size=3),
        batch=2,
        device="cpu",
        width=16,
        heads=2,
    )
    steps = 0

    def counted(*arguments: Any, **options: Any) -> Any:
        nonlocal steps
        steps += 1
        return take_step(*arguments, **options)

    monkeypatch.setattr(timing, "take_step", counted)
    monkeypatch.setattr(timing.time, "perf_counter", lambda: 10.0 * steps)  # a step takes ten seconds
    assert timing.seconds_per_image(settings, steps=3) == pytest.approx(10 / (2 * 19))
    assert steps == 4


def test_impossible_reproductions_give_a_one_line_error(
    sets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="table9"):
        ReproduceSettings("table9")
    refusal(lambda: plan(ReproduceSettings(rows=("GrafCut",))), "GrafCut", "GraphCut", error=BasslError)
    refusal(lambda: plan(ReproduceSettings(data=tmp_path / "none")), "no such folder", error=BasslError)
    (tmp_path / "empty").mkdir()
    refusal(lambda: plan(ReproduceSettings(data=tmp_path / "empty")), "contains no videos", error=BasslError)
    write_set(tmp_path / "two", 2, 0)
    refusal(lambda: plan(ReproduceSettings(data=tmp_path / "two")), "holds 2 videos", "three", error=BasslError)
    monkeypatch.setattr(data_module, "MOVIENET", tmp_path / "movienet")
    labels = tmp_path / "movienet" / "scene318" / "label318"
    labels.mkdir(parents=True)
    (labels / "tt0000001.txt").write_text("0000 0\n0001 1\n")
    (tmp_path / "movienet" / "240P_frames" / "tt0000001").mkdir(parents=True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    refusal(lambda: reproduce(ReproduceSettings()), "MovieNet", "--plan", error=BasslError)
