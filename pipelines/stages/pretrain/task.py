"""Pre-training as a task of the training loop: its data, network, losses, validation, and what a run saves."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from pipelines.errors import BasslError
from pipelines.models.bassl import BasslSettings, BasslWeights, save_bassl_model
from pipelines.models.opening import MODEL
from pipelines.progress import TrainingProgress
from pipelines.stages.pretrain.data import FeatureWindows, PretextWindows, make_views, noise_of
from pipelines.stages.pretrain.model import PretrainModel, backward_windows, choose_micro_batch, make_model
from pipelines.stages.pretrain.settings import PretrainResult, PretrainSettings
from pipelines.stages.pretrain.validation import labeled_videos, validate
from pipelines.stores.index import Index, read_index
from pipelines.training.distributed import Process, process_group
from pipelines.training.jobs import broadcast_from_rank0, stop_signals
from pipelines.training.keyframe_windows import KeyframeWindows, WindowBatch, WindowOrder
from pipelines.training.loop import (
    PRETRAIN_DROPOUT,
    Task,
    make_lars,
    make_trainer,
    plain_weights,
    torch_seed,
    train,
    weight_dtype,
)
from pipelines.training.memory import FEWER_WINDOWS, translate_resource_errors
from pipelines.training.run_folder import RunLog, load_state, open_run_folder, save_state, settings_as_json

Report = Callable[[TrainingProgress], None]


def run(settings: PretrainSettings, report: Report) -> PretrainResult:
    """Pre-train a model; see :func:`pipelines.stages.pretrain.pretrain`."""
    with (
        process_group(settings.compute.device) as process,
        stop_signals() as signals,
        translate_resource_errors(FEWER_WINDOWS),
        ExitStack() as lock,
    ):
        return _pretrain(settings, process, report if process.is_first else lambda state: None, signals, lock)


def _pretrain(
    settings: PretrainSettings, process: Process, report: Report, signals: list[int], lock: ExitStack
) -> PretrainResult:
    # Data
    index = read_index(settings.data.index)
    order = window_order(settings, index, process.world_size)
    windows = PretextWindows(index.first_row, settings.pretext, settings.neighbors, settings.run.seed, order.rows)
    videos = labeled_videos(settings, index)
    learned = index.videos_of(settings.data.splits or None)
    used = sorted({*learned, *videos.numbers})
    source: FeatureWindows | KeyframeWindows
    if settings.data.features:
        source = FeatureWindows(index, settings.data.features, windows, process, used)
    else:
        index.check_keyframes(used)
        source = KeyframeWindows(index, windows.rows, process, settings.compute.workers or 0, settings.decoded_size)
    features = source if isinstance(source, FeatureWindows) else None

    # Network
    encoder, model = make_model(settings, features, process)
    augmentation = replace(settings.augmentation, mean=encoder.mean, std=encoder.std) if encoder else None
    micro_batch, note = 0, ""
    if model.encoder is not None:
        micro_batch, note = choose_micro_batch(settings, model.encoder, model, windows, process)

    # Folder and state
    output, identity = settings.run.output, identity_of(settings, index, features)
    folder = open_run_folder(output, settings.run.resume, settings.run.overwrite)
    broadcast_from_rank0(process, lambda: lock.enter_context(folder))
    saved = load_state(output, identity, process) if settings.run.resume else None
    before = saved.get("micro_batch") if saved is not None and settings.micro_batch is None else None
    if before and not 0 < micro_batch < before:
        micro_batch, note = before, f"encodes {before} windows at a time, as before"
    if note:
        report(TrainingProgress(note=note))
    optimizer = make_lars(model, settings.momentum, settings.weight_decay, settings.trust, settings.lars_exclude)
    if settings.compile:
        model.compile_networks()
    if process.device.type == "cuda":
        torch.backends.cudnn.benchmark = True  # all inputs have one size
    # Micro-batches accumulate the encoder's gradients over several passes; DDP would average after each.
    trainer = make_trainer(model, optimizer, settings.compute.precision, process, ddp=not micro_batch)
    metrics: dict[str, float] = {}
    if saved is not None:
        trainer.load_state(saved, saved["step"])
        metrics = saved["validation"]

    local, dtype = settings.batch // process.world_size, weight_dtype(settings.compute.precision)

    def backward(batch: WindowBatch) -> Mapping[str, Tensor]:
        views = make_views(windows, order, batch, process, augmentation=augmentation, dtype=dtype)
        shots = len(windows.dense)
        noise = noise_of(order, batch.step, shots, process) if settings.pretext.needs_noise else None
        seed = torch_seed(settings.run.seed, PRETRAIN_DROPOUT, batch.step, process.rank)
        loss = backward_windows(trainer, model, views, local, micro_batch, noise=noise, joins=batch.joins, seed=seed)
        return {"loss": loss.total, **loss.parts}

    def validate_epoch(epoch: int) -> dict[str, float]:
        nonlocal metrics
        every = settings.validate_epochs
        if not every or epoch % every or not len(videos.rows):
            return {}
        size = settings.augmentation.size
        metrics = validate(trainer, model, source, encoder, videos, neighbors=settings.neighbors, size=size)
        return metrics

    def save() -> None:
        if process.is_first:
            # Save the state first: a model alone cannot be resumed.
            state = {"step": trainer.step, **trainer.state(), "validation": metrics, "micro_batch": micro_batch}
            save_state(output, {"settings": json.dumps(identity), **state})
            data = {"path": str(settings.data.index), "videos": len(learned), "shots": len(order.rows)}
            facts = {"step": trainer.step, "micro_batch": micro_batch, "data": data}
            name = settings.encoder if features is None else features.encoder
            save_bassl_model(output / MODEL, model_weights(settings, model, name, facts))

    task = Task(
        batches=lambda step: source.batches(order, step),
        backward=backward,
        validate=validate_epoch,
        save=save,
        inputs=lambda batch: batch.shots,
        epoch_steps=order.epoch_steps,
        epochs=settings.epochs,
        items=settings.batch,
        rate=settings.peak_rate,
        warm_up=settings.warm_up,
        clip=None,
        dropout_seed=(settings.run.seed, PRETRAIN_DROPOUT),
        progress=TrainingProgress(steps=order.steps),
        inputs_name="keyframes" if features is None else "features",
        rate_option="base_rate",
    )
    if trainer.step == task.steps:  # killed after its last state was saved and before its model was
        save()
    with RunLog(output if process.is_first else None, trainer.step, logger=settings.run.logger) as log:
        model.train()
        stopped = train(
            task,
            trainer,
            log=log,
            log_steps=settings.run.log_steps,
            save_minutes=settings.save_minutes,
            report=report,
            signals=signals,
        )
    losses = trainer.mean_losses(order.epoch_steps)
    return PretrainResult(output / MODEL, trainer.step, task.steps, losses, metrics, stopped)


def window_order(settings: PretrainSettings, index: Index, world_size: int) -> WindowOrder:
    """Return the windows of each step. Raises BasslError for splits without videos, or an impossible batch size."""
    if settings.batch % world_size:
        raise BasslError(f"a batch of {settings.batch} cannot be shared equally by {world_size} processes")
    index.check_splits(settings.data.splits)
    index.check_splits([settings.validate_split], [PretrainSettings().validate_split])
    rows = index.rows_of(settings.data.splits or None)
    order = WindowOrder(rows, settings.batch, settings.epochs, settings.run.seed)
    if not order.epoch_steps:
        raise BasslError(f"{index.path}: {len(rows)} shots do not fill a batch of {settings.batch}; lower `batch`")
    if settings.pretext.pseudo_boundary == "synthesized" and len(index.videos_of(settings.data.splits or None)) < 2:
        raise BasslError(f"{index.path}: synthesized pseudo-boundaries need at least two videos")
    return order


def model_weights(
    settings: PretrainSettings, model: PretrainModel, encoder: str, facts: dict[str, Any]
) -> BasslWeights:
    """Return the contents of the model file; ``encoder`` is the name of its shot encoder, or with features its id;
    ``facts`` are about the run so far."""
    # Frozen ImageNet weights need no copy.
    published = settings.freeze_encoder and settings.init == "imagenet"
    return BasslWeights(
        BasslSettings(encoder, model.crn.settings if model.crn is not None else None),
        {} if published else plain_weights(model.encoder),
        plain_weights(model.crn),
        plain_weights(model.objective),
        {"stage": "pretrain", **settings_as_json(settings, without=_NOT_IN_IDENTITY), **facts},
    )


_NOT_IN_IDENTITY = {
    *("index", "features", "output", "device", "workers", "micro_batch", "compile", "resume", "overwrite"),
    *("log_steps", "logger", "save_minutes", "validate_split", "validate_epochs"),
}


def identity_of(settings: PretrainSettings, index: Index, features: FeatureWindows | None) -> dict[str, Any]:
    """Return what must be the same to resume a run."""
    return {
        **settings_as_json(settings, without=_NOT_IN_IDENTITY),
        "shots of the index": zlib.crc32(index.first_row.tobytes()),
        "keyframes of the index": index.shots_crc32,
        "encoder of the features": features and features.encoder,
    }
