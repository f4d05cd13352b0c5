"""Pre-training: the data and the network of a run, its training loop, and the contents of its model file."""

from __future__ import annotations

import json
import math
import time
import zlib
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pipelines.errors import BasslError
from pipelines.models.bassl import BasslSettings, BasslWeights, save_bassl_model
from pipelines.models.encoders.image_networks import TrainableEncoder, trainable_encoder
from pipelines.models.networks.crn import ContextualRelationNetwork
from pipelines.models.networks.kinds import CRNSettings
from pipelines.models.opening import MODEL, open_model
from pipelines.pretext.gather import mean_over_processes
from pipelines.pretext.objective import PretextLoss, PretextObjective
from pipelines.progress import TrainingProgress
from pipelines.stages.pretrain.data import FeatureWindows, PretextWindows, make_views, noise_of
from pipelines.stages.pretrain.model import PretrainModel, choose_micro_batch, make_trainer, take_step
from pipelines.stages.pretrain.settings import PretrainResult, PretrainSettings
from pipelines.stages.pretrain.validation import labelled_videos, validate
from pipelines.stores.index import Index, read_index
from pipelines.training.distributed import Process, any_process, process_group
from pipelines.training.jobs import broadcast_from_rank0, stop_signals
from pipelines.training.keyframe_windows import KeyframeWindows, WindowOrder
from pipelines.training.loops import (
    FEWER_WINDOWS,
    PRETRAIN_DROPOUT,
    Throughput,
    learning_rate,
    limits_in_one_line,
    load_state,
    plain_weights,
    save_state,
    torch_seed,
    weight_dtype,
)
from pipelines.training.run_folder import LOG, VALIDATION, RunLog, open_run_folder, plain_settings

Report = Callable[[TrainingProgress], None]


def run(settings: PretrainSettings, report: Report) -> PretrainResult:
    """Pre-train a model; see :func:`pipelines.stages.pretrain.pretrain`."""
    with (
        process_group(settings.compute.device) as process,
        stop_signals() as signals,
        limits_in_one_line(FEWER_WINDOWS),
        ExitStack() as held,
    ):
        return _train(settings, process, report if process.is_first else lambda state: None, signals, held)


@dataclass
class EpochLosses:
    """Losses by task, summed over the current epoch's steps, on the device."""

    names: list[str] = field(default_factory=list)
    last: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.float64))
    sums: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.float64))

    def add(self, loss: PretextLoss, begins_epoch: bool) -> None:
        """Add the losses of a step, averaged over all processes."""
        self.names = ["loss", *loss.parts]
        self.last = mean_over_processes(torch.stack([loss.total, *loss.parts.values()]).detach().double())
        self.sums = self.last if begins_epoch else self.sums + self.last

    def means(self, steps: int) -> dict[str, float]:
        """Means over ``steps`` steps, by task."""
        return dict(zip(self.names, (self.sums / steps).tolist(), strict=True)) if self.names else {}


def _train(
    settings: PretrainSettings, process: Process, report: Report, signals: list[int], held: ExitStack
) -> PretrainResult:
    index = read_index(settings.data.index)
    order = window_order(settings, index, process.world_size)
    windows = PretextWindows(index.first_row, settings.pretext, settings.neighbours, settings.run.seed, order.rows)
    videos = labelled_videos(settings, index)
    learned = index.videos_of(settings.data.splits or None)
    source = open_source(settings, index, sorted({*learned, *videos.numbers}), windows, process)
    features = source if isinstance(source, FeatureWindows) else None
    encoder, model = make_model(settings, features, process)
    augmentation = replace(settings.augmentation, mean=encoder.mean, std=encoder.std) if encoder else None
    micro_batch, note = 0, ""
    if model.encoder is not None:
        micro_batch, note = choose_micro_batch(settings, model.encoder, model, windows, process)
    identity = identity_of(settings, index, features)
    facts = {"data": {"path": str(settings.data.index), "videos": len(learned), "shots": len(order.rows)}}
    folder = open_run_folder(settings.run.output, settings.run.resume, settings.run.overwrite)
    broadcast_from_rank0(process, lambda: held.enter_context(folder))

    saved = load_state(settings.run.output, identity, process) if settings.run.resume else None
    before = saved.get("micro_batch") if saved is not None and settings.micro_batch is None else None
    if before and not 0 < micro_batch < before:
        micro_batch, note = before, f"encodes {before} windows at a time, as before"
    if note:
        report(TrainingProgress(note=note))
    trainer = make_trainer(settings, model, micro_batch, process)
    step, losses, validation = 0, EpochLosses(), dict[str, float]()
    if saved is not None:
        trainer.load_state(saved)
        step, validation = saved["step"], saved["validation"]
        losses = EpochLosses(saved["names"], sums=saved["sums"].to(process.device))

    def save() -> None:
        if process.is_first:
            name = settings.encoder if features is None else features.encoder
            rest = {"sums": losses.sums.cpu(), "names": losses.names, "validation": validation}
            rest |= {"micro_batch": micro_batch}
            # Save the state first: a model alone cannot be resumed.
            save_state(settings.run.output, {"settings": json.dumps(identity), "step": step, **trainer.state(), **rest})
            here = {"step": step, "micro_batch": micro_batch, **facts}
            save_bassl_model(settings.run.output / MODEL, model_weights(settings, model, name, here))

    if step == order.steps:  # killed after its last state was saved and before its model was
        save()
    stopped, saved_at = False, time.monotonic()
    dtype = weight_dtype(settings.compute.precision)
    with RunLog(settings.run.output if process.is_first else None, step, logger=settings.run.logger) as log:
        model.train()
        batches, throughput = source.batches(order, step), Throughput()
        while step < order.steps and not stopped:
            batch = throughput.next_of(batches)
            rate = learning_rate(step, order.steps, settings.peak_rate, settings.warm_up)
            loss = take_step(
                trainer,
                make_views(windows, order, batch, process, augmentation=augmentation, dtype=dtype),
                settings.batch // process.world_size,
                noise=noise_of(order, step, len(windows.dense), process) if settings.pretext.needs_noise else None,
                joins=batch.joins,
                rate=rate,
                seed=torch_seed(settings.run.seed, PRETRAIN_DROPOUT, step, process.rank),
            )
            losses.add(loss, begins_epoch=step % order.epoch_steps == 0)
            step += 1
            ends_epoch = step % order.epoch_steps == 0
            stopped = any_process(process, bool(signals)) and step < order.steps
            state = TrainingProgress(step, order.steps, batch.epoch + 1, settings.epochs)
            written = step % settings.run.log_steps == 0 or ends_epoch or stopped
            if written:
                # The only wait for the device. Weights are those after the step, so that a bad gradient shows.
                recent = dict(zip(losses.names, losses.last.tolist(), strict=True))
                weights = torch.nn.utils.get_total_norm(list(model.parameters()))
                for what, value in (("the loss", recent["loss"]), ("a weight", weights)):
                    if not math.isfinite(value):
                        advice = "try a smaller `base_rate`, or `precision=float32`"
                        raise BasslError(f"{what} of step {step} is not finite; {advice}")
                speed, waiting = throughput.measure(settings.batch)
                state = replace(
                    state, losses=recent, rate=rate, speed=speed, seconds=settings.batch / speed, waiting=waiting
                )
                row = {"step": step, "epoch": state.epoch, "learning_rate": rate, **recent}
                log.write(LOG, {**row, "windows_per_second": speed, "waiting": waiting})
                report(state)
                throughput.reset()
            every = settings.validate_epochs
            if ends_epoch and every and state.epoch % every == 0 and len(videos.rows):
                size = settings.augmentation.size
                validation = validate(trainer, source, encoder, videos, neighbours=settings.neighbours, size=size)
                if validation:
                    log.write(VALIDATION, {"step": step, "epoch": state.epoch, **validation})
                    report(replace(state, validation=validation))
                throughput.reset()
            if ends_epoch or stopped or (written and time.monotonic() - saved_at >= 60 * settings.save_minutes > 0):
                save()
                saved_at = time.monotonic()
    means = losses.means((step - 1) % order.epoch_steps + 1)
    return PretrainResult(settings.run.output / MODEL, step, order.steps, means, validation, stopped)


def window_order(settings: PretrainSettings, index: Index, world_size: int) -> WindowOrder:
    """The windows of each step. Raises BasslError for splits without videos, or an impossible batch size."""
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


def open_source(
    settings: PretrainSettings, index: Index, videos: Sequence[int], windows: PretextWindows, process: Process
) -> FeatureWindows | KeyframeWindows:
    if settings.data.features:
        return FeatureWindows(index, settings.data.features, windows, process, videos)
    index.check_keyframes(videos)
    return KeyframeWindows(index, windows.rows, process, settings.compute.workers or 0, settings.decoded_size)


def make_model(
    settings: PretrainSettings, features: FeatureWindows | None, process: Process
) -> tuple[TrainableEncoder | None, PretrainModel]:
    """The encoder (None with features), and the network to train, on its device. Raises BasslError for an encoder or
    initial weights that cannot be used."""
    torch.manual_seed(settings.run.seed)
    if features is not None and settings.init == "imagenet":
        raise BasslError("`init=imagenet` initializes an encoder, but `features` trains none; leave one of them out")
    encoder = None
    if features is None:
        encoder = trainable_encoder(settings.encoder, settings.init == "imagenet", settings.augmentation.size)
    source = encoder or features
    assert source is not None
    input_width = source.width
    crn = None
    if settings.pretext.needs_crn:
        crn = ContextualRelationNetwork(
            CRNSettings(
                neighbors=settings.neighbours,
                input_width=input_width,
                width=settings.width,
                layers=settings.layers,
                heads=settings.heads,
                hidden=4 * settings.width,
                dropout=settings.dropout,
            )
        )
    objective = PretextObjective(settings.pretext, input_width, settings.width)
    model = PretrainModel(encoder.network if encoder else None, crn, objective, settings.freeze_encoder)
    if settings.init not in (None, "imagenet"):
        opened = open_model(settings.init)
        _load_weights(model, opened.file, opened.weights)
    if process.device.type == "cuda" and process.world_size > 1:
        model.synchronise_norms(settings.compile)
    model.to(process.device, weight_dtype(settings.compute.precision))
    if encoder is not None:
        model.to(memory_format=torch.channels_last)
    return encoder, model


def _load_weights(model: PretrainModel, path: Path, weights: BasslWeights) -> None:
    loaded = False
    for part, module, tensors in (("encoder", model.encoder, weights.encoder), ("CRN", model.crn, weights.crn)):
        if module is not None and tensors:
            try:
                module.load_state_dict(tensors)
            except RuntimeError as error:
                raise BasslError(f"{path}: its {part} has another shape; choose the same encoder and CRN") from error
            loaded = True
    if not loaded:
        raise BasslError(f"{path}: has neither an encoder nor a CRN that this run trains; name another model")


def model_weights(
    settings: PretrainSettings, model: PretrainModel, encoder: str, facts: dict[str, Any]
) -> BasslWeights:
    """The contents of the model file; ``encoder`` is the name of its shot encoder, or with features its id; ``facts``
    are about the run so far."""
    # Frozen ImageNet weights need no copy.
    published = settings.freeze_encoder and settings.init == "imagenet"
    return BasslWeights(
        BasslSettings(encoder, model.crn.settings if model.crn is not None else None),
        {} if published else plain_weights(model.encoder),
        plain_weights(model.crn),
        plain_weights(model.objective),
        {"stage": "pretrain", **plain_settings(settings, without=_NOT_IN_IDENTITY), **facts},
    )


_NOT_IN_IDENTITY = {
    *("index", "features", "output", "device", "workers", "micro_batch", "compile", "resume", "overwrite"),
    *("log_steps", "logger", "save_minutes", "validate_split", "validate_epochs"),
}


def identity_of(settings: PretrainSettings, index: Index, features: FeatureWindows | None) -> dict[str, Any]:
    """What must be the same to resume a run."""
    return {
        **plain_settings(settings, without=_NOT_IN_IDENTITY),
        "shots of the index": zlib.crc32(index.first_row.tobytes()),
        "keyframes of the index": index.shots_crc32,
        "encoder of the features": features and features.encoder,
    }
