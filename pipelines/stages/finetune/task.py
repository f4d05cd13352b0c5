"""Fine-tuning as a task of the training loop: one network per seed, one after the other, and the result of all."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor

from pipelines.files import write_atomically
from pipelines.models.boundary import save_boundary_model
from pipelines.models.calibration import Calibration
from pipelines.models.opening import MODEL
from pipelines.progress import TrainingProgress
from pipelines.stages.finetune import FinetuneResult, FinetuneSettings
from pipelines.stages.finetune.data import LabeledBatch, labeled_shots, split_videos, weighted_cross_entropy
from pipelines.stages.finetune.job import Epochs, FinetuneJob, end_epoch, measure_best_epoch, summarize
from pipelines.stages.finetune.start import find_pretrained_source, find_video_features
from pipelines.stores.index import read_index
from pipelines.training import broadcast_from_rank0, stop_signals
from pipelines.training.data import translate_resource_errors
from pipelines.training.distributed import process_group
from pipelines.training.loop import (
    FINETUNE_DROPOUT,
    Task,
    Trainer,
    logged_run,
    make_trainer,
    resolved_precision,
    torch_seed,
    train,
)
from pipelines.training.run_folder import RESULT, check_run_folder, open_run, save_state, seed_file, settings_as_json

SCHEMA, VERSION = "bassl.finetune", 1
Note = Callable[..., None]  # adds a line to the notes of the run and shows it, with ``warning=True`` as a warning


def run(settings: FinetuneSettings, progress: Callable[[TrainingProgress], None]) -> FinetuneResult:
    """Fine-tune a model; see :func:`pipelines.stages.finetune.finetune`."""
    with (
        process_group(settings.compute.device) as process,
        translate_resource_errors("use a smaller `batch` or `width`"),
    ):
        notes: list[str] = []
        report = progress if process.is_first else lambda state: None

        def note(line: str, warning: bool = False) -> None:
            notes.append(line)
            report(TrainingProgress(note=line, warning=warning))

        index = read_index(settings.data.index)
        settings = replace(settings, select=settings.select or ("last" if index.is_movienet else "val"))
        split = split_videos(settings, index, partial(note, warning=True))
        start = find_pretrained_source(settings, note)
        options = settings.run
        # Check before hours of encoding, in the first process, because only that one writes there.
        broadcast_from_rank0(process, lambda: check_run_folder(options.output, options.resume, options.overwrite))
        # Encoding ignores signals: finished videos are kept if it is killed.
        stored = find_video_features(settings, index, split.train + split.val + split.test, start, note)
        with stop_signals() as signals:
            job = FinetuneJob(settings, index, split, start, stored, process)
            with open_run(options, job.identity, process) as saved:
                return _train_seeds(job, saved, notes, note, report, signals)


def _train_seeds(
    job: FinetuneJob,
    saved: Mapping[str, Any] | None,
    notes: list[str],
    note: Note,
    report: Callable[[TrainingProgress], None],
    signals: list[int],
) -> FinetuneResult:
    settings, process, identity = job.settings, job.process, job.identity
    output, seeds = settings.run.output, settings.seeds
    saved = saved or {"records": "[]", "notes": "[]", "number": 0, "at": 0, "step": 0}
    records: list[dict[str, Any]] = json.loads(saved["records"])
    notes[:0] = [line for line in json.loads(saved["notes"]) if line not in notes]
    step, stopped = saved["step"], False

    def save(number: int, seed_step: int, state: Mapping[str, Any]) -> None:
        if process.is_first:
            plain = {"settings": identity, "records": records, "notes": notes}
            texts = {name: json.dumps(value) for name, value in plain.items()}
            place = {"number": number, "at": seed_step, "step": number * job.steps + seed_step}
            save_state(output, {**texts, **place, **state})

    with logged_run(settings, process, step, seed_steps=job.steps) as log:
        for number in range(saved["number"], seeds):
            trainer, epochs = _new_trainer(job, settings.run.seed + number), Epochs()
            if number == saved["number"] and saved["at"]:
                trainer.load_state(saved, saved["at"])
                epochs.load_state(saved)
            trainer.network.train()
            task = _task_of_seed(job, trainer, epochs, number, save)
            stopped = train(task, trainer, log=log, report=report, signals=signals)
            step = number * job.steps + trainer.step
            if stopped:
                break
            if process.is_first:
                records.append(_write_model(job, trainer, epochs, settings.run.seed + number, note))
            save(number + 1, 0, {"model": {}, "optimizer": {}})
    mean, std, tested_on = summarize(records, job.split)
    if process.is_first and records:
        _write_result(job, records, {"summary_of": tested_on, "mean": mean, "std": std, "notes": notes})
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
        notes=tuple(notes),
        stopped=stopped,
    )


def _new_trainer(job: FinetuneJob, seed: int) -> Trainer:
    torch.manual_seed(torch_seed(seed, 0))
    network = job.new_network()
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    # Without weight decay AdamW (Loshchilov & Hutter 2019) is Adam (Kingma & Ba 2015), as in appendix A.
    optimizer = torch.optim.AdamW(trained, lr=1.0, weight_decay=job.hyperparameters.weight_decay)
    return make_trainer(network, optimizer, job.settings.compute.precision, job.process)


def _task_of_seed(
    job: FinetuneJob, trainer: Trainer, epochs: Epochs, number: int, save: Callable[[int, int, Mapping[str, Any]], None]
) -> Task[LabeledBatch]:
    process, hyperparameters, steps, seeds = job.process, job.hyperparameters, job.steps, job.settings.seeds
    seed = job.settings.run.seed + number
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
        return end_epoch(trainer, epochs, job, epoch) if process.is_first else {}

    return Task(
        batches=lambda step: job.batches(seed, step),
        backward=backward,
        validate=validate,
        save=lambda: save(number, trainer.step, {**trainer.state(), **epochs.state()}),
        inputs=lambda batch: batch.inputs,
        epoch_steps=job.epoch_steps,
        epochs=hyperparameters.epochs,
        items=job.shots_in_step,
        rate=hyperparameters.rate,
        warm_up=hyperparameters.warm_up,
        dropout_seed=(seed, FINETUNE_DROPOUT),
        progress=TrainingProgress(step=number * steps, steps=seeds * steps, seed=number + 1, seeds=seeds, unit="shots"),
        inputs_name="features",
        rate_option="rate",
        log_steps=job.settings.run.log_steps,
        clip=hyperparameters.clip,
        seed=seed,
    )


def _write_model(job: FinetuneJob, trainer: Trainer, epochs: Epochs, seed: int, note: Note) -> dict[str, Any]:
    """Write the model of a seed. Returns the seed's part of the result."""
    record, calibration = measure_best_epoch(trainer, epochs, job, seed, partial(note, warning=True))
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
        "precision": resolved_precision(job.settings.compute.precision, job.process.device),
        "trained_on": [job.index.video_ids[video] for video in job.split.train],
        "validation": record["validation"],
        "test": record["test"],
    }
    model = job.model(trainer.network, calibration or Calibration(), training)
    save_boundary_model(job.settings.run.output / seed_file(seed), model)
    return record


def _write_result(job: FinetuneJob, records: list[dict[str, Any]], summary: Mapping[str, Any]) -> None:
    """Write the best seed's model as the run's model, and the result as JSON."""
    settings, split, start = job.settings, job.split, job.start
    best_record = records[0]
    if split.selected_on == "val":
        best_record = max(records, key=lambda record: float(record["validation"]["ap"]))
    best_model = settings.run.output / seed_file(best_record["seed"])
    write_atomically(settings.run.output / MODEL, best_model.read_bytes())
    counts = {}
    for name, videos in (("train", split.train), ("val", split.val), ("test", split.test)):
        shots, ends = labeled_shots(job.index, videos)
        counts[name] = {"videos": len(videos), "shots": shots, "scene_ends": ends}
    content = {
        "schema": SCHEMA,
        "version": VERSION,
        "settings": settings_as_json(settings),
        "recipe": asdict(job.hyperparameters),
        "index": {"path": str(settings.data.index), **counts},
        "init": str(start.path) if start.path is not None else None,
        "transfer": start.transfer,
        "encoder": job.encoder,
        "selected_on": split.selected_on,
        "seeds": records,
        "chosen_seed": best_record["seed"],
        **summary,
    }
    write_atomically(settings.run.output / RESULT, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())
