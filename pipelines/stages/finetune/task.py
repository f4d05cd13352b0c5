"""Fine-tuning as a task of the training loop: one network per seed, one after the other, and the result of all."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from pipelines.files import write_atomically
from pipelines.models.boundary import save_boundary_model
from pipelines.models.calibration import Calibration
from pipelines.models.opening import MODEL
from pipelines.progress import TrainingProgress
from pipelines.stages.finetune.data import LabeledBatch, Split, labeled_shots, split_videos, weighted_cross_entropy
from pipelines.stages.finetune.measuring import Epochs, end_epoch, measure_best_epoch, summarize
from pipelines.stages.finetune.networks import FeatureNetwork
from pipelines.stages.finetune.settings import FinetuneResult, FinetuneSettings, Hyperparameters
from pipelines.stages.finetune.start import PretrainedSource, find_encoding, find_pretrained_source
from pipelines.stores.index import read_index
from pipelines.training.distributed import Process, deterministic_algorithms, device_name, process_group
from pipelines.training.jobs import broadcast_from_rank0, stop_signals
from pipelines.training.loop import FINETUNE_DROPOUT, Task, Trainer, make_trainer, resolved_precision, torch_seed, train
from pipelines.training.memory import translate_resource_errors
from pipelines.training.run_folder import (
    RESULT,
    RunLog,
    check_run_folder,
    link_or_copy,
    load_state,
    open_run_folder,
    record_run,
    save_state,
    seed_file,
    settings_as_json,
)

SCHEMA, VERSION = "bassl.finetune", 1
_NOT_IN_IDENTITY = {
    *("index", "features", "feature_folder", "output", "device", "workers", "resume", "overwrite"),
    *("log_steps", "logger", "init", "transfer", "encoder", "seeds", "deterministic"),
}


@dataclass(frozen=True, eq=False)
class FinetuneJob:
    """What all seeds share."""

    settings: FinetuneSettings
    networks: FeatureNetwork  # and their data
    split: Split
    start: PretrainedSource
    hyperparameters: Hyperparameters  # the rate is resolved
    process: Process
    report: Callable[[TrainingProgress], None]  # does nothing except in the first process
    signals: list[int]  # signals received; empty until the run is asked to stop
    notes: list[str]  # lines for the user
    note: Callable[..., None]  # adds a line to the notes and shows it, with ``warning=True`` as a warning

    @property
    def steps(self) -> int:  # per seed
        return self.networks.epoch_steps * self.hyperparameters.epochs

    @property
    def precision(self) -> str:
        """Return the precision that the settings stand for on this device."""
        return resolved_precision(self.settings.compute.precision, self.process.device)

    @property
    def identity(self) -> dict[str, Any]:
        """Return what must be the same to resume a run."""
        index = self.networks.index
        return {
            **settings_as_json(self.settings, without=_NOT_IN_IDENTITY),
            "encoder": self.networks.encoder,
            "start": self.networks.start_digest,
            "labels of the index": zlib.crc32(index.label.tobytes(), zlib.crc32(index.first_row.tobytes())),
            "keyframes of the index": index.shots_crc32,
            "splits of the index": zlib.crc32("\n".join(index.splits).encode()),
        }


def run(settings: FinetuneSettings, progress: Callable[[TrainingProgress], None]) -> FinetuneResult:
    """Fine-tune a model; see :func:`pipelines.stages.finetune.finetune`."""
    notes: list[str] = []
    is_first = os.environ.get("RANK", "0") == "0"
    report = progress if is_first else lambda state: None

    def note(line: str, warning: bool = False) -> None:
        notes.append(line)
        report(TrainingProgress(note=line, warning=warning))

    warn = partial(note, warning=True)
    index = read_index(settings.data.index)
    settings = replace(settings, select=settings.select or ("last" if index.is_movienet else "val"))
    split = split_videos(settings, index, warn)
    start = find_pretrained_source(settings, note)
    with (
        process_group(settings.compute.device) as process,
        translate_resource_errors("use a smaller `batch` or `width`"),
    ):
        # Check before hours of encoding, in the first process, because only that one writes there.
        options = settings.run
        broadcast_from_rank0(process, lambda: check_run_folder(options.output, options.resume, options.overwrite))
        # Encoding ignores signals: finished videos are kept if it is killed.
        encoding = find_encoding(settings, index, split.videos, start, process, note)
        with stop_signals() as signals, ExitStack() as lock:
            networks = FeatureNetwork(settings, index, split, start, encoding, process)
            hyperparameters = settings.hyperparameters(start.transfer == "encoder+crn")
            job = FinetuneJob(settings, networks, split, start, hyperparameters, process, report, signals, notes, note)
            return _finetune(job, lock)


def _finetune(job: FinetuneJob, lock: ExitStack) -> FinetuneResult:
    settings, process, identity = job.settings, job.process, job.identity
    output, seeds = settings.run.output, settings.seeds
    folder = open_run_folder(output, settings.run.resume, settings.run.overwrite)
    broadcast_from_rank0(process, lambda: lock.enter_context(folder))
    saved = load_state(output, identity, process) if settings.run.resume else None
    records: list[dict[str, Any]] = json.loads(saved["records"]) if saved is not None else []
    number = saved["number"] if saved is not None else 0
    step, stopped = number * job.steps, False
    if saved is not None:
        job.notes[:0] = [note for note in json.loads(saved["notes"]) if note not in job.notes]

    def save(number: int, seed_step: int, state: Mapping[str, Any]) -> None:
        if process.is_first:
            plain = {"settings": identity, "records": records, "notes": job.notes}
            texts = {name: json.dumps(value) for name, value in plain.items()}
            place = {"number": number, "at": seed_step, "step": number * job.steps + seed_step}
            save_state(output, {**texts, **place, **state})

    first_step = saved["step"] if saved is not None else 0
    log_folder, logger = output if process.is_first else None, settings.run.logger
    with (
        deterministic_algorithms(settings.run.deterministic),
        record_run(output, settings, process, device=device_name(process.device), precision=job.precision),
        RunLog(log_folder, first_step, logger=logger, seed_steps=job.steps) as log,
    ):
        while number < seeds and not stopped:
            trainer, epochs = _new_trainer(job, settings.run.seed + number), Epochs()
            if saved is not None and saved["at"]:
                trainer.load_state(saved, saved["at"])
                epochs.load_state(saved)
            saved = None
            trainer.network.train()
            stopped = train(
                _task_of_seed(job, trainer, epochs, number, save),
                trainer,
                log=log,
                log_steps=settings.run.log_steps,
                save_minutes=0,
                report=job.report,
                signals=job.signals,
            )
            step = number * job.steps + trainer.step
            if not stopped:
                if process.is_first:
                    records.append(_write_model(job, trainer, epochs, settings.run.seed + number))
                number += 1
                save(number, 0, {"model": {}, "optimizer": {}})
    mean, std, tested_on = summarize(records, job.split)
    if process.is_first and records:
        _write_result(job, records, {"summary_of": tested_on, "mean": mean, "std": std})
    broadcast_from_rank0(process, lambda: None)  # no process ends before the files are there
    return FinetuneResult(
        model=output / MODEL,
        report=output / RESULT,
        step=step,
        steps=job.steps * seeds,
        selected_on=job.split.selected_on,
        mean=mean,
        std=std,
        seeds=len(records),
        tested_on=tested_on,
        notes=tuple(job.notes),
        stopped=stopped,
    )


def _new_trainer(job: FinetuneJob, seed: int) -> Trainer:
    torch.manual_seed(torch_seed(seed, 0))
    network = job.networks.new_network()
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    # Without weight decay AdamW (Loshchilov & Hutter 2019) is Adam (Kingma & Ba 2015), as in appendix A.
    optimizer = torch.optim.AdamW(trained, lr=1.0, weight_decay=job.hyperparameters.weight_decay)
    return make_trainer(network, optimizer, job.settings.compute.precision, job.process)


def _task_of_seed(
    job: FinetuneJob, trainer: Trainer, epochs: Epochs, number: int, save: Callable[[int, int, Mapping[str, Any]], None]
) -> Task[LabeledBatch]:
    settings, process, hyperparameters = job.settings, job.process, job.hyperparameters
    seed = settings.run.seed + number
    assert hyperparameters.rate is not None

    def backward(batch: LabeledBatch) -> Mapping[str, Tensor]:
        with trainer.autocast():
            logits = trainer.module(batch.inputs)
        logits = logits if logits.dtype == torch.float64 else logits.float()
        # The weights of a batch add up over all processes, whose gradients and losses are averaged.
        loss = weighted_cross_entropy(logits, batch.targets, batch.weights) * process.world_size
        trainer.scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        return {"loss": loss}

    def validate(epoch: int) -> dict[str, float]:
        return end_epoch(trainer, epochs, job.networks, job.split, epoch) if process.is_first else {}

    return Task(
        batches=lambda step: job.networks.batches(epochs=hyperparameters.epochs, seed=seed, step=step),
        backward=backward,
        validate=validate,
        save=lambda: save(number, trainer.step, {**trainer.state(), **epochs.state()}),
        inputs=lambda batch: batch.inputs,
        epoch_steps=job.networks.epoch_steps,
        epochs=hyperparameters.epochs,
        items=job.networks.shots_in_step,
        rate=hyperparameters.rate,
        warm_up=hyperparameters.warm_up,
        clip=hyperparameters.clip,
        dropout_seed=(seed, FINETUNE_DROPOUT),
        progress=TrainingProgress(
            step=number * job.steps,
            steps=settings.seeds * job.steps,
            seed=number + 1,
            seeds=settings.seeds,
            unit="shots",
        ),
        inputs_name="features",
        rate_option="rate",
        seed=seed,
    )


def _write_model(job: FinetuneJob, trainer: Trainer, epochs: Epochs, seed: int) -> dict[str, Any]:
    """Write the model of a seed. Returns the seed's part of the result."""
    record, calibration = measure_best_epoch(
        trainer, epochs, job.networks, job.split, seed, partial(job.note, warning=True)
    )
    start = job.start
    training = {
        "stage": "finetune",
        "seed": seed,
        "epoch": record["chosen_epoch"],
        "selected_on": job.split.selected_on,
        "init": str(start.path) if start.path is not None else None,
        "transfer": start.transfer,
        "pretraining": dict(start.weights.training) if start.weights is not None else None,
        "settings": job.identity,
        "precision": job.precision,
        "trained_on": [job.networks.index.video_ids[video] for video in job.split.train],
        "validation": record["validation"],
        "test": record["test"],
    }
    model = job.networks.model(trainer.network, calibration or Calibration(), training)
    save_boundary_model(job.settings.run.output / seed_file(seed), model)
    return record


def _write_result(job: FinetuneJob, records: list[dict[str, Any]], summary: dict[str, Any]) -> None:
    """Write the best seed's model as the run's model, and the result as JSON."""
    settings, split, start = job.settings, job.split, job.start
    best = {"val": "validation", "test": "test"}.get(split.selected_on)
    best_record = records[0] if best is None else max(records, key=lambda record: float(record[best]["ap"]))
    link_or_copy(settings.run.output / seed_file(best_record["seed"]), settings.run.output / MODEL)
    counts = {}
    for name, videos in (("train", split.train), ("val", split.val), ("test", split.test)):
        shots, ends = labeled_shots(job.networks.index, videos)
        counts[name] = {"videos": len(videos), "shots": shots, "scene_ends": ends}
    content = {
        "schema": SCHEMA,
        "version": VERSION,
        "settings": settings_as_json(settings),
        "recipe": asdict(job.hyperparameters),
        "index": {"path": str(settings.data.index), **counts},
        "init": str(start.path) if start.path is not None else None,
        "transfer": start.transfer,
        "encoder": job.networks.encoder,
        "selected_on": split.selected_on,
        "seeds": records,
        "chosen_seed": best_record["seed"],
        **summary,
        "notes": job.notes,
    }
    write_atomically(settings.run.output / RESULT, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())
