"""The training loop of pre-training."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from pipelines.errors import BasslError
from pipelines.models.bassl import save_bassl_model
from pipelines.models.opening import MODEL
from pipelines.pretext.gather import mean_over_processes
from pipelines.pretext.objective import PretextLoss
from pipelines.progress import TrainingProgress
from pipelines.stages.pretrain.data import FeatureWindows, PretextWindows, make_views, noise_of
from pipelines.stages.pretrain.model import make_trainer, take_step
from pipelines.stages.pretrain.settings import PretrainResult, PretrainSettings
from pipelines.stages.pretrain.start import identity_of, make_model, model_weights, open_source, window_order
from pipelines.stages.pretrain.validation import available, labelled_videos, validate
from pipelines.stores.index import read_index
from pipelines.training.distributed import Process, any_process, process_group
from pipelines.training.interruption import stop_signals
from pipelines.training.loops import (
    FEWER_WINDOWS,
    PRETRAIN_DROPOUT,
    Throughput,
    learning_rate,
    limits_in_one_line,
    load_state,
    save_state,
    torch_seed,
    weight_dtype,
)
from pipelines.training.peers import broadcast_from_rank0
from pipelines.training.run_folder import LOG, VALIDATION, RunLog, open_run_folder

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
    """Losses by task, summed over the current epoch's steps; they stay on the device until they are requested."""

    names: list[str] = field(default_factory=list)
    last: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.float64))
    sums: Tensor = field(default_factory=lambda: torch.zeros(0, dtype=torch.float64))

    def add(self, loss: PretextLoss, begins_epoch: bool) -> None:
        """Add the losses of a step, averaged over all processes."""
        self.names = ["loss", *loss.parts]
        self.last = mean_over_processes(torch.stack([loss.total, *loss.parts.values()]).detach().double())
        self.sums = self.last if begins_epoch else self.sums + self.last

    def of_last_step(self) -> dict[str, float]:
        """Losses of the last step by task; waits for the device."""
        return dict(zip(self.names, self.last.tolist(), strict=True))

    def means(self, steps: int) -> dict[str, float]:
        """Means over ``steps`` steps, by task."""
        return dict(zip(self.names, (self.sums / steps).tolist(), strict=True)) if self.names else {}


def _train(
    settings: PretrainSettings, process: Process, report: Report, signals: list[int], held: ExitStack
) -> PretrainResult:
    index = read_index(settings.data.index)
    order = window_order(settings, index, process.world_size)
    windows = PretextWindows(index.first_row, settings.pretext, settings.neighbours, settings.run.seed, order.rows)
    videos = labelled_videos(index, settings.validate_split, available(settings, index))
    learned = index.videos_of(settings.data.splits or None)
    source = open_source(settings, index, sorted({*learned, *videos.numbers}), windows, process)
    features = source if isinstance(source, FeatureWindows) else None
    encoder, model = make_model(settings, features, process)
    augmentation = replace(settings.augmentation, mean=encoder.mean, std=encoder.std) if encoder else None
    identity = identity_of(settings, index, features)
    data = {"path": str(settings.data.index), "videos": len(learned), "shots": len(order.rows)}
    folder = open_run_folder(settings.run.output, settings.run.resume, settings.run.overwrite)
    broadcast_from_rank0(process, lambda: held.enter_context(folder))

    trainer = make_trainer(settings, model, process)
    step, losses, validation = 0, EpochLosses(), dict[str, float]()
    if settings.run.resume and (saved := load_state(settings.run.output, identity, process)) is not None:
        trainer.load_state(saved)
        step, validation = saved["step"], saved["validation"]
        losses = EpochLosses(saved["names"], sums=saved["sums"].to(process.device))

    def save() -> None:
        if process.is_first:
            name = settings.encoder if features is None else features.encoder
            rest = {"sums": losses.sums.cpu(), "names": losses.names, "validation": validation}
            # Save the state first: a model alone cannot be resumed.
            save_state(settings.run.output, {"settings": json.dumps(identity), "step": step, **trainer.state(), **rest})
            save_bassl_model(settings.run.output / MODEL, model_weights(settings, model, name, step, data))

    if step == order.steps:  # killed after its last state was saved and before its model was
        save()
    stopped = False
    dtype = weight_dtype(settings.compute.precision)
    with RunLog(settings.run.output if process.is_first else None, step) as log:
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
            if step % settings.run.log_steps == 0 or ends_epoch or stopped:
                recent = losses.of_last_step()  # the only wait for the device
                weights = torch.nn.utils.get_total_norm(
                    list(model.parameters())
                )  # after the step, so that a bad gradient shows
                for what, value in (("the loss", recent["loss"]), ("a weight", weights)):
                    if not math.isfinite(value):
                        advice = "try a smaller --base-rate, or --precision float32"
                        raise BasslError(f"{what} of step {step} is not finite; {advice}")
                speed, waiting = throughput.measure(settings.batch)
                state = replace(state, losses=recent, rate=rate, speed=speed, waiting=waiting)
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
            if ends_epoch or stopped:
                save()
    means = losses.means((step - 1) % order.epoch_steps + 1)
    return PretrainResult(settings.run.output / MODEL, step, order.steps, means, validation, stopped)
