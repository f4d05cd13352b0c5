"""Fine-tuning: learning, use of splits, reproducible and resumable runs, and several processes."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score, f1_score

from pipelines.errors import BasslError
from pipelines.models.bassl import load_bassl_model
from pipelines.models.calibration import Calibration, apply_calibration, fit_calibration
from pipelines.models.checkpoints import part_of, read_arrays
from pipelines.models.encoder_loading import load_encoder
from pipelines.models.encoders.torch_encoders import torch_encoder
from pipelines.models.networks import MSLSTMSettings
from pipelines.models.networks.torch_networks import one_thread, tensors_of
from pipelines.models.opening import open_model
from pipelines.options import with_options
from pipelines.pretext import PretextSettings
from pipelines.progress import TrainingProgress
from pipelines.stages.finetune import FinetuneSettings, finetune, job, task
from pipelines.stages.finetune.data import (
    EPOCHS,
    LabeledVideos,
    loss_weights,
    weighted_cross_entropy,
)
from pipelines.stages.pretrain import PretrainSettings, pretrain
from pipelines.stores.features import features_of
from pipelines.stores.index import NO_LABEL, read_index
from pipelines.training.distributed import Process
from tests.generated_videos import write_generated_videos
from tests.labeled_videos import SPLITS, WIDTH, write_labeled_videos, write_relabeled
from tests.small_stores import features_in, put_features, refusal
from tests.training_runs import (
    KEYFRAMES,
    assert_equal,
    finetuning,
    left_by,
    pretraining,
    rows_of_log,
    train_in_two_processes,
    trained,
)

HERE = Process(0, 1, torch.device("cpu"))


@pytest.fixture(autouse=True)
def on_one_thread() -> Iterator[None]:
    """Networks this small are slower on several."""
    with one_thread():
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_labeled_videos(tmp_path_factory.mktemp("labeled")).parent


@pytest.fixture
def settings(data: Path, tmp_path: Path) -> FinetuneSettings:
    return finetuning(data / "index.h5", tmp_path / "runs" / "run")


def videos_of(index: Path) -> LabeledVideos:
    opened = read_index(index)
    return LabeledVideos(opened, features_of(opened, [index.parent / "features"]).features, HERE.device)


def result_of(settings: FinetuneSettings) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((settings.run.output / "result.json").read_text())
    return content


def weights(settings: FinetuneSettings, name: str = "model") -> dict[str, torch.Tensor]:
    arrays, _ = read_arrays(settings.run.output / f"{name}.safetensors", "boundary")
    return part_of(tensors_of(arrays), "networks.0")


# Learning


@pytest.mark.parametrize(
    ("crn", "sizes"),
    [
        ("transformer", {"width": 16, "heads": 2, "layers": 1}),
        ("mlp", {}),
        ("ms-lstm", {"width": 16, "dropout": None}),
        ("relational", {"heads": 2}),
    ],
)
def test_every_network_learns_and_its_reported_metrics_can_be_recomputed(
    settings: FinetuneSettings, crn: str, sizes: dict[str, Any]
) -> None:
    settings = with_options(settings, crn=crn, epochs=8, batch=15, **sizes)
    result = finetune(settings)
    assert (result.selected_on, result.tested_on, result.stopped) == ("val", "test", False)
    assert result.mean["ap"] > 0.75
    videos = videos_of(settings.data.index)
    model = open_model(settings.run.output).boundary_model()
    assert (model.crn, model.encoder, model.encoder_name) == (crn, "made up", None)
    span = videos.index.span(4)  # the video to test on
    known = videos.usable[span]
    logits = model.logits(videos.features[span], videos.durations[span])[known]
    label = videos.targets[span][known]
    (seed,) = result_of(settings)["seeds"]
    assert seed["test"]["ap"] == pytest.approx(average_precision_score(label, logits))
    assert seed["test"]["f1"] == pytest.approx(f1_score(label, apply_calibration(logits, Calibration()) >= 0.5))
    calibrated = apply_calibration(logits, model.calibration)
    assert seed["test"]["f1_calibrated"] == pytest.approx(f1_score(label, calibrated >= 0.5))
    assert asdict(model.calibration) == seed["calibration"]
    assert model.training["test"] == seed["test"]


def test_a_run_writes_its_models_result_and_logs(settings: FinetuneSettings) -> None:
    states: list[TrainingProgress] = []
    random_numbers = torch.random.get_rng_state()
    result = finetune(settings, states.append, seeds=2, seed=2)
    assert torch.equal(torch.random.get_rng_state(), random_numbers)  # of the program that calls it
    content = result_of(settings)
    assert (content["schema"], content["version"], content["encoder"]) == ("bassl.finetune", 1, "made up")
    assert (content["selected_on"], content["init"], content["transfer"]) == ("val", None, "none")
    assert content["index"]["train"] == {"videos": 3, "shots": 177, "scene_ends": 33}
    assert content["settings"]["crn"] == "mlp"
    assert [seed["seed"] for seed in content["seeds"]] == [2, 3]
    for seed in content["seeds"]:
        aps = [row["val_ap"] for row in seed["epochs"]]
        assert len(aps) == 3
        assert seed["chosen_epoch"] == 1 + int(np.argmax(aps))
        assert seed["validation"]["ap"] == max(aps)
        assert seed["epochs"][0]["loss"] > seed["epochs"][-1]["loss"]
    for name, value in content["mean"].items():
        both = [seed["test"][name] for seed in content["seeds"]]
        assert value == pytest.approx(np.mean(both))
        assert content["std"][name] == pytest.approx(np.std(both, ddof=1))
    assert result.mean == content["mean"]
    two, three = (seed["validation"]["ap"] for seed in content["seeds"])
    assert (two < three, content["chosen_seed"]) == (True, 3)
    chosen = settings.run.output / "seed-3.safetensors"
    assert (settings.run.output / "model.safetensors").read_bytes() == chosen.read_bytes()
    # 177 shots at 30 in a step are 6 steps.
    assert (result.step, result.steps) == (36, 36)
    assert [int(row["step"]) for row in rows_of_log(settings)] == list(range(1, 37))
    losses = np.array([float(row["loss"]) for row in rows_of_log(settings)]).reshape(2, 3, 6)  # seeds, epochs, steps
    of_epochs = [[row["loss"] for row in seed["epochs"]] for seed in content["seeds"]]
    np.testing.assert_allclose(of_epochs, losses.mean(axis=2), rtol=1e-6)
    assert [int(row["epoch"]) for row in rows_of_log(settings, "validation.csv")] == [1, 2, 3, 1, 2, 3]
    states = [state for state in states if not state.note]
    assert states[-1].validation.keys() == {"val_ap", "val_auc", "val_f1", "val_miou"}
    rate = [state.rate for state in states if not state.validation][:18]
    np.testing.assert_allclose(rate, 3e-3 * 0.5 * (1 + np.cos(np.pi * np.arange(18) / 18)))


def test_learning_rates_follow_the_release() -> None:
    new, transferred = FinetuneSettings().hyperparameters(False), FinetuneSettings().hyperparameters(True)
    assert (transferred.rate, new.rate) == (pytest.approx(1e-5), pytest.approx(1e-4))
    assert (new.batch, new.epochs, new.warm_up, new.weight_decay) == (1024, 20, 0.0, 0.0)
    assert FinetuneSettings(batch=256).hyperparameters(True).rate == pytest.approx(2.5e-6)
    assert FinetuneSettings(crn="relational").hyperparameters(False).rate == 2e-3
    assert FinetuneSettings(crn="relational", rate=1.0).hyperparameters(False).rate == 1.0


# The loss


def test_balanced_loss_equals_its_definition() -> None:
    rng = np.random.default_rng(0)
    logits = torch.from_numpy(rng.normal(size=(7, 4, 2)))
    targets, usable = (rng.random((7, 4)) < 0.3).astype(np.int64), rng.random((7, 4)) < 0.8
    expected = 0.0
    for wanted in (0, 1):
        chosen = logits.numpy()[usable & (targets == wanted)]
        expected += 0.5 * np.mean(np.logaddexp(chosen[:, 0], chosen[:, 1]) - chosen[:, wanted])
    weight = torch.from_numpy(loss_weights(targets, usable, "balanced"))
    found = weighted_cross_entropy(logits, torch.from_numpy(targets), weight)
    assert float(found) == pytest.approx(expected)
    assert weight[~torch.from_numpy(usable)].abs().sum() == 0
    single = weighted_cross_entropy(logits[..., 1] - logits[..., 0], torch.from_numpy(targets), weight)
    assert float(single) == pytest.approx(expected)
    plain = torch.from_numpy(loss_weights(targets, usable, "plain"))
    mean = torch.nn.functional.cross_entropy(logits[usable], torch.from_numpy(targets)[usable])
    assert float(weighted_cross_entropy(logits, torch.from_numpy(targets), plain)) == pytest.approx(float(mean))
    assert loss_weights(np.zeros(4, np.int64), np.ones(4, np.bool_), "balanced").tolist() == [0.125] * 4  # one class


# What an epoch shows


def test_sequences_contain_every_shot_once_with_a_new_offset_every_epoch(data: Path) -> None:
    videos = videos_of(data / "index.h5")
    shape = MSLSTMSettings(2, WIDTH, 8, sequence=7)
    begins = set()
    for number in range(6):
        epoch = EPOCHS["ms-lstm"](videos, [0, 2], shape, torch.float32, 0, number)
        # Video a has 60 shots: 10 sequences of 7 whatever the offset.
        assert epoch.targets.shape == epoch.usable.shape == (20, 7)
        cuts = epoch.inputs(np.arange(20))[torch.from_numpy(epoch.usable)]
        rows = [*range(59), *range(120, 179)]  # the last shot of a video has no label
        # The shot itself is the last of the first half; windows are clipped at the video's edges.
        around = [[min(max(row + k, row // 60 * 60), row // 60 * 60 + 59) for k in (-1, 0, 1, 2)] for row in rows]
        torch.testing.assert_close(cuts, videos.on_device.read(np.arange(len(videos.targets)))[around])
        begins.add(int(epoch.usable[0].argmax()))
    assert len(begins) > 1


def test_shots_without_a_label_do_not_affect_training(settings: FinetuneSettings, tmp_path: Path) -> None:
    finetune(settings)
    # A doubtful label where there was none is not learned from if the index says so, and is if it does not.
    label = read_index(settings.data.index).label.copy()
    label[59] = -1
    ignored = write_relabeled(settings.data.index, tmp_path / "ignored.h5", label, doubtful="ignore")
    assert_equal(weights(settings), weights(trained(settings, "again", index=ignored)))
    counted = write_relabeled(settings.data.index, tmp_path / "counted.h5", label)
    more = weights(trained(settings, "more", index=counted))
    assert any(not torch.equal(value, more[name]) for name, value in weights(settings).items())


# Choosing


def poisoned(data: Path, folder: Path, video: int) -> Path:
    """The same videos with the labels of one video inverted."""
    folder.mkdir()
    label = read_index(data / "index.h5").label.copy()
    span = slice(60 * video, 60 * video + 59)
    label[span] = 1 - label[span]
    return write_relabeled(data / "index.h5", folder / "index.h5", label)


def test_the_test_split_does_not_affect_training_and_videos_that_are_not_used_need_no_features(
    settings: FinetuneSettings, data: Path, tmp_path: Path
) -> None:
    settings = trained(settings, "run", seeds=2)
    other = trained(settings, "other", index=poisoned(data, tmp_path / "poisoned", 4))
    label = read_index(data / "index.h5").label
    unused = write_relabeled(data / "index.h5", tmp_path / "unused.h5", label, ["train"] * 3 + ["val", ""])
    features = features_in(data / "features")
    put_features(tmp_path / "some", "made up", {name: features[name] for name in "abcd"})
    some = trained(settings, "some", index=unused, features=(tmp_path / "some",))
    for seed in (0, 1):
        for run in (other, some):
            assert_equal(weights(settings, f"seed-{seed}"), weights(run, f"seed-{seed}"))
    one, two = result_of(settings), result_of(other)
    assert (one["chosen_seed"], one["summary_of"]) == (two["chosen_seed"], "test")
    for a, b in zip(one["seeds"], two["seeds"], strict=True):
        assert a.pop("test") != b.pop("test")
        assert a == b
    assert result_of(some)["summary_of"] == "validation"


def test_the_epoch_is_the_best_on_the_validation_split_or_on_request_and_on_movienet_the_last(
    settings: FinetuneSettings, data: Path, tmp_path: Path
) -> None:
    def result(name: str, **options: Any) -> tuple[int, str]:
        content = result_of(trained(settings, name, rate=5e-4, epochs=4, **options))
        return content["seeds"][0]["chosen_epoch"], content["selected_on"]

    assert result("run")[0] > 1
    # What was learned less is wrong less.
    val = poisoned(data, tmp_path / "3", 3)
    assert result("wrong", index=val) == (1, "val")
    assert result("last", select="last", index=val) == (4, "last epoch")
    movienet = write_labeled_videos(tmp_path, splits={f"tt{i:07}": split for i, split in enumerate(SPLITS.values())})
    assert result("movienet", index=movienet) == (4, "last epoch")
    assert result("chosen", index=movienet, select="val")[1] == "val"


NOT_VALIDATED = "the last epoch is taken, and scores are not calibrated"


@pytest.mark.parametrize(
    ("splits", "options", "tested_on", "notes"),
    [
        (
            SPLITS,
            {"splits": ("train", "val")},
            "test",
            [
                "the split val is used for training, so it neither selects the epoch nor tests the model",
                f"no videos to validate on in val: {NOT_VALIDATED}",
            ],
        ),
        ({"a": "", "b": ""}, {}, None, ["no video of the index has a split", NOT_VALIDATED]),
    ],
)
def test_splits_that_cannot_choose_an_epoch_or_test_the_model_are_reported(
    settings: FinetuneSettings, tmp_path: Path, splits: Any, options: Any, tested_on: str | None, notes: list[str]
) -> None:
    result = finetune(settings, index=write_labeled_videos(tmp_path, splits=splits), epochs=2, **options)
    assert (result.selected_on, result.tested_on) == ("last epoch", tested_on)
    assert bool(result.mean) == (tested_on is not None)
    assert all(words in note for words, note in zip(notes, result.notes, strict=True))
    assert result_of(settings)["seeds"][0]["chosen_epoch"] == 2
    assert open_model(settings.run.output).boundary_model().calibration == Calibration()


# The same again


def test_the_same_seed_repeats_a_run_and_another_seed_differs(settings: FinetuneSettings) -> None:
    settings = trained(settings, "run", dropout=0.3, seeds=2)
    again = trained(settings, "again")
    for seed in (0, 1):
        assert_equal(weights(settings, f"seed-{seed}"), weights(again, f"seed-{seed}"))
    assert result_of(settings)["seeds"] == result_of(again)["seeds"]
    first, second = (weights(settings, f"seed-{seed}")["layers.0.weight"] for seed in (0, 1))
    assert not torch.equal(first, second)
    # A seed alone is what it is among others.
    alone = trained(settings, "alone", seed=1, seeds=1)
    assert_equal(weights(alone, "seed-1"), weights(settings, "seed-1"))


@pytest.mark.parametrize(
    ("how", "sizes"),
    [
        ("stopped", {"crn": "relational", "heads": 2, "width": 8, "batch": 8}),
        ("killed", {"crn": "ms-lstm", "dropout": None, "width": 8}),
        ("killed", {"rate": 5e-4, "epochs": 4}),  # the best epoch is the first, before the kill
    ],
    ids=["stopped relational", "killed ms-lstm", "killed mlp"],
)
def test_a_resumed_run_equals_an_uninterrupted_one_bit_for_bit(
    settings: FinetuneSettings, data: Path, tmp_path: Path, how: str, sizes: dict[str, Any]
) -> None:
    label = read_index(data / "index.h5").label.copy()
    if sizes.get("crn") == "relational":  # varied views of a video have more certain labels than the video
        label[label == 1] = -1
        label[[5, 65, 125, 185, 245]] = 1
    elif "crn" not in sizes:  # what was learned less is wrong less
        label[180:239] = 1 - label[180:239]
    index = write_relabeled(data / "index.h5", tmp_path / "index.h5", label, doubtful="ignore")
    settings = with_options(settings, index=index, seeds=2, **sizes)
    whole = trained(settings, "whole")
    steps = len(rows_of_log(whole)) // 2

    middle = steps + 5 * steps // 6  # of the second seed: in its third epoch, or the fourth
    if how == "killed":
        with left_by(lambda state: state.step == middle) as stop:
            finetune(settings, stop)
    else:
        result = finetune(settings, lambda state: state.step == middle and os.kill(os.getpid(), signal.SIGTERM))
        assert result.stopped
        assert middle <= result.step < 2 * steps
    result = finetune(settings, resume=True)
    assert (result.step, result.stopped) == (2 * steps, False)
    assert result_of(settings)["seeds"] == result_of(whole)["seeds"]
    for seed in (0, 1):
        assert_equal(weights(settings, f"seed-{seed}"), weights(whole, f"seed-{seed}"))
    one, two = ([[row[c] for c in ("step", "seed", "loss")] for row in rows_of_log(each)] for each in (settings, whole))
    assert one == two
    # Nothing is left to do, and more seeds may follow.
    assert finetune(settings, resume=True).mean == result.mean
    finetune(settings, resume=True, seeds=3)
    assert [seed["seed"] for seed in result_of(settings)["seeds"]] == [0, 1, 2]


def test_a_failed_calibration_is_reported_also_by_a_resumed_run_and_has_no_part_in_the_mean(
    settings: FinetuneSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    calibrate, calls = job.fit_calibration, list[int]()

    def fail_once(*arguments: Any) -> Calibration:
        calls.append(1)
        if len(calls) == 2:
            raise ValueError("flat")
        return calibrate(*arguments)

    monkeypatch.setattr(job, "fit_calibration", fail_once)
    settings = with_options(settings, epochs=1, seeds=3)
    with left_by(lambda state: state.seed == 3 and state.step > 0) as stop:
        finetune(settings, stop)
    result = finetune(settings, resume=True)
    assert result.notes == tuple(result_of(settings)["notes"]) == ("seed 1: scores are not calibrated (flat)",)
    assert ["f1_calibrated" in seed["test"] for seed in result_of(settings)["seeds"]] == [True, False, True]
    assert ("f1" in result.mean, "f1_calibrated" in result.mean) == (True, False)


@pytest.mark.slow
def test_two_processes_train_the_same_model_as_one(settings: FinetuneSettings, tmp_path: Path) -> None:
    one = trained(settings, "one", crn="ms-lstm", width=8, dropout=None, precision="float64")
    two = with_options(one, output=tmp_path / "two")
    train_in_two_processes(two)
    torch.testing.assert_close(weights(two), weights(one), rtol=1e-6, atol=1e-9)
    losses = [[row["loss"] for row in result_of(run)["seeds"][0]["epochs"]] for run in (one, two)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-9)


# What goes wrong


@pytest.mark.slow
def test_a_batch_of_fewer_sequences_than_processes_is_refused(settings: FinetuneSettings) -> None:
    few = replace(settings, crn="ms-lstm", width=None, dropout=None, batch=16)
    with pytest.raises(AssertionError, match="a batch of 16 is too small for 2 processes; use a larger --batch"):
        train_in_two_processes(few)


def test_a_loss_that_is_not_finite_stops_the_run_and_names_step_and_cause(settings: FinetuneSettings) -> None:
    line = refusal(lambda: finetune(settings, rate=1e30), "step 2 of seed 0", "`rate`", error=BasslError)
    assert "features are finite" in line or "gradient is not finite" in line


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"init": "last"}, ("contains no pre-trained run", "`init=none`")),
        ({"init": "nowhere"}, ("nowhere: no such model", "`init`")),
        ({"transfer": "encoder"}, ("`transfer=encoder` needs a pre-trained model",)),
        ({"splits": ("train", "tarin")}, ("has no split 'tarin'", "test, train, val")),
        ({"index": Path("none.h5")}, ("no such",)),
        ({"features": (Path("unlike/features"),)}, ("has no features of",)),
        ({"crn": "ms-lstm"}, ("the ms-lstm has none",)),
        ({"crn": "transformer", "heads": 5}, ("cannot be shared",)),
        ({"seeds": 0}, ("seeds must be",)),
        ({"rate": 1e300}, ("rate must be",)),
        ({"dropout": 1.0}, ("dropout must be",)),
        ({"crn": "lstm"}, ("crn must be one of",)),
        ({"resume": True, "overwrite": True}, ("resumed or overwritten, not both",)),
    ],
)
def test_impossible_settings_are_refused_in_one_line(
    settings: FinetuneSettings, data: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], words: Any
) -> None:
    monkeypatch.chdir(data)
    if "features" in changes:
        Path("unlike").mkdir()
        write_labeled_videos(Path("unlike"), splits={"x": ""})
    refusal(lambda: finetune(settings, **changes), *words, error=Exception)
    assert not settings.run.output.exists()


def test_a_folder_with_a_run_is_not_changed_without_resume_or_overwrite(
    settings: FinetuneSettings, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*words: str, **options: Any) -> None:
        refusal(lambda: finetune(settings, **options), *words, error=BasslError)

    finetune(settings)
    before = weights(settings)
    with monkeypatch.context() as patch:
        patch.setattr(task, "find_video_features", lambda *arguments: pytest.fail("hours of encoding"))
        refused("contains a run", "`resume=True`", "`overwrite=True`")
        refused("none.h5", overwrite=True, index=Path("none.h5"))
    refused("batch 30, not 10", resume=True, batch=10)
    refused("another index", resume=True, index=poisoned(data, settings.run.output.with_name("poisoned"), 0))
    (settings.run.output / "state.pt").write_bytes(b"PK nothing")
    refused("state.pt", "is damaged", resume=True)
    finetune(settings, overwrite=True)
    assert_equal(before, weights(settings))


# From a pre-trained model


def pretraining_on_features(data: Path, output: Path, **options: Any) -> PretrainSettings:
    return pretraining(data / "index.h5", output, features=(data / "features",), batch=50, **options)


@pytest.fixture(scope="module")
def pretrained(data: Path) -> Path:
    """A run on the features: its CRN is a transformer of width 16 with K = 2."""
    settings = pretraining_on_features(data, data / "runs" / "pretrain", layers=1)
    with one_thread():
        pretrain(settings)
    return settings.run.output


@pytest.fixture
def after(settings: FinetuneSettings, data: Path, pretrained: Path) -> FinetuneSettings:
    options = {"crn": "transformer", "neighbors": None, "width": None, "epochs": 1, "rate": 1e-30}
    return with_options(settings, init=str(pretrained), **options)


def test_the_crn_is_transferred_and_the_head_is_new(after: FinetuneSettings, pretrained: Path) -> None:
    finetune(after)
    began = load_bassl_model(pretrained / "model.safetensors").crn
    ended = weights(after)
    assert all(torch.equal(ended[f"crn.{name}"], tensor) for name, tensor in began.items())
    model = open_model(after.run.output).boundary_model()
    assert (model.shape.neighbors, model.width) == (2, WIDTH)
    assert model.training["transfer"] == "encoder+crn"
    assert model.training["pretraining"]["pretext"]["method"] == "bassl"
    alone = trained(after, "alone", transfer="encoder", width=16, heads=2, layers=1, neighbors=2)
    name = "shot_embedding.shot_embedding.weight"
    assert not torch.equal(weights(alone)[f"crn.{name}"], began[name])
    assert result_of(alone)["transfer"] == "encoder"


def test_the_newest_pre_trained_run_is_found_and_untransferable_parts_are_reported(
    after: FinetuneSettings, pretrained: Path, data: Path
) -> None:
    last = with_options(after, init="last", output=pretrained.parent / "finetune")
    result = finetune(last)
    assert result.notes[0] == f"starts from {pretrained / 'model.safetensors'}"
    # A fine-tuned run beside it is none to begin with.
    mlp = trained(last, "mlp", crn="mlp", width=16, neighbors=2)
    assert any("mlp starts from scratch" in note for note in result_of(mlp)["notes"])

    def told(*words: str, **options: Any) -> None:
        refusal(lambda: finetune(after, **options), *words, error=BasslError)

    told("use `transfer=encoder`", crn="mlp", transfer="encoder+crn")
    told("has 2", "--neighbors 3", neighbors=3)
    told("has 16", "--width 8", width=8)
    told("has 1", "--layers 3", layers=3)
    told("has 2", "--heads 4", heads=4)
    told("is a fine-tuned model, but a pre-trained model is needed", init=str(last.run.output))
    (data / "other").mkdir()
    other = write_labeled_videos(data / "other", encoder="another").parent / "features"
    told("features of another", "pre-trained with made up", features=(other,))


def test_a_pre_training_method_without_a_crn_transfers_only_its_encoder(
    after: FinetuneSettings, data: Path, tmp_path: Path
) -> None:
    pretext = PretextSettings(method="simclr-temporal")
    simclr = pretraining_on_features(data, tmp_path / "runs" / "simclr", pretext=pretext)
    pretrain(simclr)
    settings = with_options(after, init=str(simclr.run.output), width=16, heads=2)
    refusal(lambda: finetune(settings, transfer="encoder+crn"), "without a CRN", error=BasslError)
    assert any("without a CRN" in note for note in finetune(settings).notes)


# From keyframes

ENCODER = "timm:test_resnet"


@pytest.fixture(scope="module")
def frames(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of the keyframes of three generated videos, every fourth shot a scene end; and a run beside it."""
    folder = tmp_path_factory.mktemp("frames")
    splits = {1: "train", 2: "train", 3: "val"}
    index = write_generated_videos(folder, splits, scenes=3, shots_per_scene=(4, 5), width=64, height=36)
    label = (np.arange(len(read_index(index).label)) % 4 == 3).astype(np.int8)
    label[-1] = NO_LABEL
    write_relabeled(index, index, label)
    with one_thread():
        pretrain(pretraining(index, folder / "runs" / "pretrain", encoder=ENCODER, **KEYFRAMES))
    return folder


@pytest.fixture
def on_keyframes(frames: Path, settings: FinetuneSettings) -> FinetuneSettings:
    options = {"crn": "transformer", "neighbors": None, "width": None, "epochs": 1, "batch": 8}
    places = {"index": frames / "index.h5", "feature_folder": frames / "features"}
    return with_options(settings, init=str(frames / "runs" / "pretrain"), **options, **places)


def test_features_are_computed_once_and_the_model_records_their_encoder(on_keyframes: FinetuneSettings) -> None:
    result = finetune(on_keyframes)
    assert any("computes the features" in note for note in result.notes)
    model = open_model(on_keyframes.run.output).boundary_model()
    assert model.encoder == result_of(on_keyframes)["encoder"]
    store = on_keyframes.feature_folder / str(model.encoder)
    assert (model.encoder_name, model.keyframes, model.input_size) == (ENCODER, 3, 32)
    assert model.keyframe_facts["keyframes"] == 3
    encoder = torch_encoder(ENCODER, model.encoder_weights, "cpu", size=32)
    assert encoder.id == model.encoder
    made = store.stat().st_mtime_ns
    again = finetune(on_keyframes, overwrite=True)
    assert not any("computes the features" in note for note in again.notes)
    assert store.stat().st_mtime_ns == made
    squeezed = open_model(trained(on_keyframes, "squeezed", preparation="squeeze").run.output).boundary_model()
    assert squeezed.encoder == torch_encoder(ENCODER, model.encoder_weights, "cpu", size=32, preparation="squeeze").id
    named = {"encoder": "efficientnet_lite0", "preparation": "center", "init": "none"}
    other = open_model(trained(on_keyframes, "other", width=16, heads=2, **named).run.output).boundary_model()
    assert other.encoder == load_encoder("efficientnet_lite0", "cpu", preparation="center").id


def test_the_calibration_uses_only_shots_with_a_known_label(settings: FinetuneSettings, tmp_path: Path) -> None:
    label = read_index(settings.data.index).label.copy()
    label[180:200] = -1  # doubtful scene ends in the validation video
    index = write_relabeled(settings.data.index, tmp_path / "index.h5", label, doubtful="ignore")
    finetune(settings, index=index)
    videos = LabeledVideos(read_index(index), videos_of(settings.data.index).features, HERE.device)
    span = videos.index.span(3)
    model = open_model(settings.run.output).boundary_model()
    logits = model.logits(videos.features[span], videos.durations[span])
    known, ends = videos.usable[span], videos.targets[span].astype(np.uint8)
    assert model.calibration == fit_calibration(logits[known], ends[known])
    assert model.calibration != fit_calibration(logits, ends)
