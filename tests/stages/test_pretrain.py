"""Pre-training: data, reproducible and resumable runs, independence of the number of processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pipelines.errors import BasslError
from pipelines.evaluation.metrics import knn_precision
from pipelines.models.bassl import load_bassl_model
from pipelines.options import with_options
from pipelines.pretext import PretextSettings
from pipelines.pretext.pseudo_boundary import draw_noise
from pipelines.progress import TrainingProgress
from pipelines.stages.build_index import build_index
from pipelines.stages.encode import encode_shots
from pipelines.stages.finetune import FinetuneSettings, finetune
from pipelines.stages.pretrain import PretrainSettings, pretrain, task
from pipelines.stages.pretrain.data import PretextWindows, noise_of
from pipelines.stores.features import features_of
from pipelines.stores.index import read_index, save_index, window_rows
from pipelines.training import loop, run_folder
from pipelines.training.data import WindowOrder
from pipelines.training.distributed import Process
from tests import another_device
from tests.datasets.annotation_files import put_npz
from tests.generated_videos import write_generated_videos
from tests.labeled_videos import write_labeled_videos
from tests.running import has_lines, soon
from tests.small_stores import features_in, put_features, refusal
from tests.training_runs import (
    KEYFRAMES,
    assert_equal,
    command_of,
    left_by,
    pretraining,
    rows_of_log,
    train_in_two_processes,
    trained,
)

HERE = Process(0, 1, torch.device("cpu"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("features")
    return write_labeled_videos(folder, splits={"a": "train", "b": "train", "c": "val"}).parent


@pytest.fixture
def settings(data: Path, tmp_path: Path) -> PretrainSettings:
    sizes = {"neighbors": 3, "epochs": 2, "batch": 20, "width": 32, "heads": 4}
    return pretraining(data / "index.h5", tmp_path / "run", features=(data / "features",), **sizes)


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index of the keyframes of two generated videos, with their labels, the second to validate on."""
    folder = tmp_path_factory.mktemp("videos")
    return write_generated_videos(folder, {1: "train", 2: "val"}, scenes=4, shots_per_scene=(4, 6))


@pytest.fixture
def pixels(videos: Path, tmp_path: Path) -> PretrainSettings:
    return pretraining(videos, tmp_path / "run", encoder="timm:test_resnet", width=32, heads=4, **KEYFRAMES)


def weights(settings: PretrainSettings) -> dict[str, torch.Tensor]:
    state: dict[str, Any] = torch.load(settings.run.output / "state.pt", weights_only=True)
    return dict(state["model"])


# Learning


def test_losses_fall_and_the_run_is_logged(settings: PretrainSettings) -> None:
    settings = replace(settings, epochs=8, base_rate=3.0, validate_epochs=4)
    states: list[TrainingProgress] = []
    result = pretrain(settings, states.append)
    assert (result.step, result.steps, result.stopped) == (72, 72, False)
    first = np.mean([state.losses["loss"] for state in states[:9]])
    assert result.losses["loss"] < 0.9 * first
    assert result.losses["msm"] < np.mean([state.losses["msm"] for state in states[:9]])
    log = rows_of_log(settings)
    assert [int(row["step"]) for row in log] == list(range(1, 73))
    assert float(log[-1]["ssm"]) == pytest.approx(states[-1].losses["ssm"], rel=1e-6)
    assert [int(row["epoch"]) for row in rows_of_log(settings, "validation.csv")] == [4, 8]
    assert {"knn@1", "knn@5", "ap_pp"} <= result.validation.keys()
    assert list((settings.run.output / "tensorboard").iterdir())


def test_the_model_file_contains_the_trained_parts_and_record_and_model_the_precision_that_auto_became(
    settings: PretrainSettings,
) -> None:
    model = load_bassl_model(pretrain(settings, deterministic=True).model)
    assert not torch.are_deterministic_algorithms_enabled()  # only while it trains
    assert model.settings.encoder == "made up"
    assert (model.encoder, model.head_names) == ({}, ["head_cgm", "head_msm", "head_nce", "head_pp"])
    crn = model.settings.crn
    assert crn is not None
    assert (crn.neighbors, crn.input_width, crn.hidden) == (3, 16, 128)
    assert model.training["pretext"]["method"] == "bassl"
    assert model.training["data"] == {"path": str(settings.data.index), "videos": 3, "shots": 180}
    saved = weights(settings)
    assert all(torch.equal(tensor, saved[f"crn.{name}"]) for name, tensor in model.crn.items())
    (part,) = json.loads((settings.run.output / "run.json").read_text())["parts"]
    assert (part["settings"]["precision"], part["settings"]["epochs"]) == ("auto", 2)
    assert part["precision"] == model.training["precision"] == "float32"


@pytest.mark.parametrize(
    "pretext",
    [
        *(PretextSettings(tasks=(task,)) for task in ("ssm", "cgm", "pp", "msm")),
        *(PretextSettings(pseudo_boundary=name) for name in ("mean", "random", "fixed", "synthesized")),
        PretextSettings(variant="paper", alignment="encodings"),
        *(PretextSettings(method=name) for name in ("simclr-temporal", "simclr-nn", "bassl+simclr-nn")),
    ],
    ids=lambda p: "-".join([p.method, *p.tasks, p.pseudo_boundary, p.variant]),
)
def test_every_method_trains_on_features(settings: PretrainSettings, pretext: PretextSettings) -> None:
    result = pretrain(settings, pretext=pretext, epochs=1)
    tasks = {*pretext.tasks} if pretext.has_windows else set()
    assert set(result.losses) == {"loss", *tasks, *(["simclr"] if "simclr" in pretext.method else [])}
    assert load_bassl_model(result.model).settings.crn is None or pretext.needs_crn


# The same again


def test_the_same_seed_repeats_a_run_and_another_seed_differs(settings: PretrainSettings) -> None:
    pretrain(settings)
    assert_equal(weights(settings), weights(trained(settings, "again")))
    other = weights(trained(settings, "other", seed=1))
    assert not torch.equal(weights(settings)["objective.head_pp.weight"], other["objective.head_pp.weight"])


def test_the_state_is_saved_by_time_within_an_epoch_and_resumed_bit_for_bit(settings: PretrainSettings) -> None:
    for minutes, saved in ((0.0, 9), (1000.0, 9), (1e-9, 12)):
        settings = with_options(settings, log_steps=2, save_minutes=minutes, overwrite=True)
        with left_by(lambda state: state.step == 14) as stop:
            pretrain(settings, stop)
        assert torch.load(settings.run.output / "state.pt", weights_only=True)["step"] == saved
    pretrain(settings, overwrite=False, resume=True)
    assert_equal(weights(settings), weights(trained(settings, "whole")))


@pytest.mark.parametrize("writes", [1, 3], ids=["after the state of the first epoch", "before the last model"])
def test_a_run_killed_between_the_writes_of_its_state_and_its_model_can_be_resumed(
    settings: PretrainSettings, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    class KilledError(Exception):
        pass

    written: list[str] = []

    def killed_after(name: str, write: Callable[..., None]) -> Callable[..., None]:
        def wrapped(*arguments: Any) -> None:
            if len(written) == writes:
                raise KilledError
            write(*arguments)
            written.append(name)

        return wrapped

    with monkeypatch.context() as patched:
        for name in ("save_state", "save_bassl_model"):
            patched.setattr(task, name, killed_after(name, getattr(task, name)))
        with pytest.raises(KilledError):
            pretrain(settings)
    pretrain(settings, resume=True)
    whole = trained(settings, "whole")
    assert_equal(weights(settings), weights(whole))
    one, two = ((run.run.output / "model.safetensors").read_bytes() for run in (settings, whole))
    assert one == two


@pytest.mark.slow
def test_one_and_two_processes_train_the_same_model_and_can_resume_each_other(settings: PretrainSettings) -> None:
    one = trained(settings, "one", dropout=0.0, precision="float64", validate_epochs=1)
    two = with_options(one, output=one.run.output.with_name("two"))
    train_in_two_processes(two)
    torch.testing.assert_close(weights(two), weights(one), rtol=1e-9, atol=1e-12)
    for row, other in zip(rows_of_log(one), rows_of_log(two), strict=True):
        for name in ("loss", "ssm", "cgm", "pp", "msm"):
            assert float(row[name]) == pytest.approx(float(other[name]), rel=1e-6)
    for row, other in zip(*(rows_of_log(run, "validation.csv") for run in (one, two)), strict=True):
        assert {name: float(value) for name, value in row.items()} == pytest.approx(
            {name: float(value) for name, value in other.items()}, abs=1e-3
        )
    assert pretrain(two, resume=True).losses == pytest.approx(pretrain(one, resume=True).losses)
    # One process takes an epoch and a bit, two go on from its checkpoint.
    begun = with_options(one, output=one.run.output.with_name("begun"))
    with left_by(lambda state: state.step == 11) as stop:
        pretrain(begun, stop)
    train_in_two_processes(with_options(begun, resume=True))
    assert [row["step"] for row in rows_of_log(begun)] == [row["step"] for row in rows_of_log(one)]
    torch.testing.assert_close(weights(begun), weights(one), rtol=1e-9, atol=1e-12)


def test_an_epoch_has_every_row_once_except_an_incomplete_last_batch_and_processes_share_its_draws() -> None:
    plan = WindowOrder(np.arange(50), 12, 2, seed=3)
    steps = list(plan.centers(0))
    assert [(step, epoch) for step, epoch, _ in steps] == [(step, step // 4) for step in range(8)]
    assert all(len(np.unique(np.concatenate([c for _, e, c in steps if e == epoch]))) == 48 for epoch in (0, 1))
    assert not np.array_equal(steps[0][2], steps[4][2])
    np.testing.assert_equal(list(plan.centers(3)), steps[3:])
    whole = noise_of(plan, 1, 5, HERE)
    parts = [noise_of(plan, 1, 5, Process(rank, 3, HERE.device)) for rank in range(3)]
    assert torch.equal(torch.cat(parts), whole)
    assert whole.shape == draw_noise(12, 5, torch.Generator()).shape


# Windows


def test_each_method_gets_its_window_rows(data: Path) -> None:
    first_row = read_index(data / "index.h5").first_row
    centers = np.array([0, 30, 59, 60, 100, 179])

    def chooser(**pretext: Any) -> PretextWindows:
        return PretextWindows(first_row, PretextSettings(**pretext), 3, 0)

    plain = window_rows(first_row, centers, 3, "shift")
    rows, joins = chooser().rows(0, centers)
    np.testing.assert_array_equal(rows, plain)
    assert joins is None
    assert chooser().slow == (0, 6)
    assert chooser(method="bassl+simclr-nn").slow == (0, 6, 3)
    rows, joins = chooser(pseudo_boundary="synthesized").rows(0, centers)
    assert joins is not None
    for window, left, join, center in zip(rows, plain, joins, centers, strict=True):
        np.testing.assert_array_equal(window[: join + 1], left[: join + 1])
        videos = window // 60
        assert (videos[: join + 1] == center // 60).all()
        assert (videos[join + 1 :] != center // 60).all()
        assert len(set(videos[join + 1 :])) == 1
    joined_rows = PretextWindows(first_row, PretextSettings(pseudo_boundary="synthesized"), 3, 0, np.r_[0:60, 120:180])
    rows, _ = joined_rows.rows(0, np.array([0, 30, 59, 120, 179]))
    assert set((rows // 60).ravel()) == {0, 2}  # only of training videos
    temporal = chooser(method="simclr-temporal")
    rows, _ = temporal.rows(1, centers)
    assert (temporal.dense, temporal.slow) == ((0,), (1,))
    assert all(b != a and b in window for (a, b), window in zip(rows, plain, strict=True))
    np.testing.assert_array_equal(chooser(method="simclr-instance").rows(0, centers)[0], centers[:, None])
    some = chooser(pseudo_boundary="synthesized").rows(0, centers[3:])[0]
    np.testing.assert_array_equal(some, chooser(pseudo_boundary="synthesized").rows(0, centers)[0][3:])


# Keyframes


def test_videos_of_other_splits_need_no_keyframes(pixels: PretrainSettings, videos: Path, tmp_path: Path) -> None:
    put_npz(tmp_path / "npz", "bare")
    (tmp_path / "split.json").write_text('{"train": ["video001"], "val": ["npz/bare"]}')
    sources, output = [videos.parent / "stores" / "video001.h5", tmp_path / "npz"], tmp_path / "index" / "index.h5"
    build_index(sources, output=output, split=tmp_path / "split.json", feature_folder=tmp_path / "index")
    words = ("no keyframes of npz/bare", "`only_complete=True`")
    refusal(lambda: pretrain(pixels, index=output, validate_epochs=1), *words, error=BasslError)
    assert pretrain(pixels, index=output, validate_epochs=1, splits=("train",)).step > 0


@pytest.mark.parametrize(
    ("method", "encoder", "norm"),
    [
        ("bassl", "resnet18", "layer4.1.bn2"),
        *(
            (method, "timm:test_resnet", "layer4.0.bn2")
            for method in ("simclr-instance", "simclr-temporal", "simclr-nn", "bassl+simclr-nn")
        ),
    ],
)
def test_every_method_trains_on_keyframes(pixels: PretrainSettings, method: Any, encoder: str, norm: str) -> None:
    model = load_bassl_model(pretrain(pixels, encoder=encoder, pretext=PretextSettings(method=method)).model)
    assert model.settings.encoder == encoder
    assert model.encoder[f"{norm}.weight"].abs().max() > 0  # zero at first: it has learned
    assert (model.settings.crn is None) == ("bassl" not in method)


def with_free_memory(monkeypatch: pytest.MonkeyPatch, size: float) -> None:
    """Free memory in bytes, with a program that takes none itself: a window of the tests takes 2.8 MB."""
    monkeypatch.setattr("pipelines.training.data.free_memory", lambda: int(size))
    monkeypatch.setattr("pipelines.stages.pretrain.model._PROGRAM", 0)


def test_as_many_windows_are_encoded_at_a_time_as_the_free_memory_holds_and_a_batch_that_cannot_fit_is_refused(
    pixels: PretrainSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def notes_of(name: str, **options: Any) -> list[str]:
        told: list[TrainingProgress] = []
        output = pixels.run.output.with_name(name)
        pretrain(pixels, told.append, output=output, **options)
        return [state.note for state in told if state.note]

    with_free_memory(monkeypatch, 2e9)
    assert notes_of("all") == []
    with_free_memory(monkeypatch, 25e6)
    (note,) = notes_of("parts")
    assert re.match(r"encodes ([2-7]) of 8 windows at a time \(0\.0 GB of 0\.0 GB of free memory\); batch", note), note
    size = int(note.split()[1])
    assert load_bassl_model(pixels.run.output.with_name("parts") / "model.safetensors").training["micro_batch"] == size
    trained(pixels, "by hand", micro_batch=size, workers=2)  # threads that read keyframes change nothing
    assert_equal(*(weights(with_options(pixels, output=pixels.run.output.with_name(n))) for n in ("parts", "by hand")))
    with_free_memory(monkeypatch, 2e9)
    assert notes_of("parts", resume=True) == [f"encodes {size} windows at a time, as before"]
    for free, batches, refused in (
        (5e6, {}, r"to encode 1 window of 7 images .* GB are free; use fewer `neighbors`"),
        (13e6, {"micro_batch": 0}, r"to encode 8 windows .* or more, .*; `micro_batch=\d` fits"),
    ):
        with_free_memory(monkeypatch, free)
        with pytest.raises(BasslError, match=refused):
            notes_of("refused", **batches)
        assert not pixels.run.output.with_name("refused").exists()


def test_micro_batches_give_the_gradients_of_the_whole_batch(pixels: PretrainSettings) -> None:
    # A network without batch normalization, for that is the exception.
    whole = trained(pixels, "whole", encoder="timm:test_convnext3", precision="float64", batch=16)
    parts = trained(whole, "parts", micro_batch=6)
    torch.testing.assert_close(weights(parts), weights(whole), rtol=1e-7, atol=1e-10)


@pytest.mark.slow
def test_a_resumed_run_on_keyframes_equals_an_uninterrupted_one(pixels: PretrainSettings) -> None:
    settings = with_options(pixels, epochs=2)
    with left_by(lambda state: state.step > state.steps // 2) as stop:
        pretrain(settings, stop)
    pretrain(settings, resume=True)
    assert_equal(weights(settings), weights(trained(settings, "whole")))


# Validation on keyframes


def test_validation_scores_keyframes(pixels: PretrainSettings, videos: Path) -> None:
    settings = with_options(pixels, validate_epochs=1, workers=2)
    result = pretrain(settings)
    assert [int(row["epoch"]) for row in rows_of_log(settings, "validation.csv")] == [1]
    assert 0 <= result.validation["ap_pp"] <= 1
    # The same as of the features that `bassl encode` makes of the second video with the model.
    index = read_index(videos)
    rows = np.arange(index.first_row[1], index.first_row[2])
    store = encode_shots(index=videos, encoder=result.model, output=pixels.run.output / "features", device="cpu")
    encodings = features_of(index, [store], [1]).features[rows].astype(np.float32)
    scenes = np.cumsum(np.append(0, index.targets(rows)[:-1]))
    expected = knn_precision(encodings, scenes, np.zeros(len(rows), np.int64)).pooled
    logged = {k: result.validation[f"knn@{k}"] for k in expected if f"knn@{k}" in result.validation}
    assert logged == pytest.approx({k: expected[k] for k in logged})
    assert 1 in logged


@pytest.mark.slow
def test_ctrl_c_ends_a_run_whose_keyframes_are_read_ahead_after_its_step(pixels: PretrainSettings) -> None:
    settings = with_options(pixels, workers=2, epochs=1000)
    command = [sys.executable, *command_of(settings)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert soon(has_lines(settings.run.output / "log.csv", 4), 240)
    os.killpg(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert torch.load(settings.run.output / "state.pt", weights_only=True)["step"] >= 3


# On another device


def test_a_run_on_another_device_keeps_tensors_there(pixels: PretrainSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = with_options(pixels, pretext=PretextSettings(method="bassl+simclr-nn"), dropout=0.0)
    here = pretrain(settings)

    @contextmanager
    def elsewhere(device: str) -> Iterator[Process]:
        yield Process(0, 1, another_device.DEVICE)

    monkeypatch.setattr(task, "process_group", elsewhere)
    monkeypatch.setattr(task, "save_state", lambda *_: None)  # such tensors cannot be pickled
    with another_device.AnotherDevice(monkeypatch):
        there = pretrain(settings, output=settings.run.output.with_name("there"))
    assert there.losses == pytest.approx(here.losses, rel=1e-4)


# On labels


@pytest.mark.minutes
@pytest.mark.timeout(900)
@pytest.mark.parametrize("seed", [0, 1])
def test_pre_training_on_generated_videos_beats_none(tmp_path: Path, seed: int) -> None:
    splits = {seed: ("train", "train", "train", "val", "test", "test")[seed % 6] for seed in range(12)}
    index = write_generated_videos(tmp_path, splits, scenes=12, shots_per_scene=(4, 8))
    sizes = {"neighbors": 4, "batch": 32, "width": 64, "heads": 4}
    keyframes = {**KEYFRAMES, "encoder": "timm:test_resnet"}
    settings = pretraining(index, tmp_path / "bassl", epochs=8, base_rate=6.0, seed=seed, **sizes, **keyframes)
    states: list[TrainingProgress] = []
    result = pretrain(settings, states.append)
    epoch = states[: result.steps // settings.epochs]
    for name in ("ssm", "cgm", "pp"):
        assert result.losses[name] < sum(state.losses[name] for state in epoch) / len(epoch), name
    # The same network with the statistics of its norms, and weights as they began.
    nothing = with_options(settings, output=tmp_path / "nothing", epochs=1, base_rate=1e-12, warm_up=0.0)
    pretrain(nothing)
    after = with_options(
        FinetuneSettings,
        index=index,
        epochs=20,
        rate=3e-3,
        **sizes,
        seeds=1,
        seed=seed,
        device="cpu",
        workers=0,
        feature_folder=tmp_path / "features",
    )
    precision = {
        run.name: finetune(after, init=str(run), transfer=transfer, output=tmp_path / f"after-{run.name}").mean["ap"]
        for run, transfer in ((nothing.run.output, "encoder"), (settings.run.output, "encoder+crn"))
    }
    assert precision["bassl"] > precision["nothing"] + 0.1, precision


# What is refused


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"batch": 256}, "180 shots do not fill a batch of 256"),
        ({"splits": ("train", "test")}, "has no split 'test'"),
        ({"features": ()}, "no keyframes"),
        ({"precision": "fp16"}, "fp16 needs a GPU"),
        ({"encoder": "vgg", "features": (), "index": "of keyframes"}, "no encoder 'vgg'"),
        ({"batch": 1}, "batch must be"),
        ({"width": 30}, "a width of 30 cannot be shared among 4"),
        ({"micro_batch": 2}, "micro_batch"),
        ({"base_rate": 1e300}, "base_rate and trust must be"),
    ],
)
def test_impossible_settings_are_refused_in_one_line(
    settings: PretrainSettings, videos: Path, changes: dict[str, Any], words: str
) -> None:
    if "index" in changes:
        changes = changes | {"index": videos}
    refusal(lambda: pretrain(settings, **changes), words, error=Exception)
    assert not list(settings.run.output.glob("*"))


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ("loss", "its loss is nan, though its features are finite; try a smaller `base_rate`"),
        ("gradient", "its gradient is not finite, though its loss is"),
        ("weight", "a weight is not finite"),
    ],
)
def test_a_step_that_is_not_finite_ends_the_run_and_keeps_the_saved_model(
    settings: PretrainSettings, monkeypatch: pytest.MonkeyPatch, what: str, words: str
) -> None:
    take_step = loop.take_step

    def step(trainer: Any, *arguments: Any, **options: Any) -> Any:
        weight, broken = trainer.network.objective.head_pp.weight, trainer.step == 10
        if what == "gradient" and broken:
            weight.register_hook(lambda gradient: gradient * torch.nan)
        losses, norm = take_step(trainer, *arguments, **options)
        if what == "weight" and broken:
            weight.data[0, 0] = torch.inf
        return {name: loss * (torch.nan if what == "loss" and broken else 1) for name, loss in losses.items()}, norm

    monkeypatch.setattr(loop, "take_step", step)
    refusal(lambda: pretrain(settings), f"step 11: {words}", error=BasslError)
    saved = load_bassl_model(settings.run.output / "model.safetensors")  # at the end of the first epoch
    assert saved.training["step"] == torch.load(settings.run.output / "state.pt", weights_only=True)["step"] == 9
    assert [int(row["step"]) for row in rows_of_log(settings)] == list(range(1, 11))


def fill_the_gpu(*_: Any, **__: Any) -> None:
    raise torch.OutOfMemoryError("Tried to allocate 2 GiB\nmore")


@pytest.mark.parametrize(
    "step",
    [fill_the_gpu, lambda *_, **__: torch.empty(10**15), lambda *_, **__: np.empty(10**15)],
    ids=["gpu", "torch", "numpy"],
)
def test_a_step_that_lacks_memory_ends_the_run_in_one_line(
    settings: PretrainSettings, monkeypatch: pytest.MonkeyPatch, step: Callable[..., Any]
) -> None:
    monkeypatch.setattr(loop, "take_step", step)
    refusal(lambda: pretrain(settings), "not enough memory (", "`micro_batch`", error=BasslError)


def test_a_folder_with_a_run_is_resumed_only_with_the_same_data_and_settings(
    settings: PretrainSettings, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*words: str, resume: bool = True, **options: Any) -> None:
        refusal(lambda: pretrain(settings, resume=resume, **options), *words, error=BasslError)

    pretrain(settings)
    before = weights(settings)
    refused("contains a run", "`resume=True`", "`overwrite=True`", resume=False)
    put_features(tmp_path / "other", "other", features_in(data / "features"))
    refused("encoder of the features made up, not other", features=(tmp_path / "other",))
    index = read_index(settings.data.index)
    save_index(replace(index, path=tmp_path / "index.h5", frames=index.frames + 1))
    refused("another index", index=tmp_path / "index.h5")
    with monkeypatch.context() as patched:  # as if another machine had another folder
        patched.setattr(run_folder, "gather_objects", lambda process, own: [own, False])
        refused("not all processes find the same")
    pretrain(settings, overwrite=True)
    assert_equal(before, weights(settings))
