"""The training loop of fine-tuning: one network per seed, one after the other."""

from __future__ import annotations

import json
import math
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
from pipelines.stages.finetune.data import Split, labelled_shots, split_videos
from pipelines.stages.finetune.few_videos import comparison, few_labels, measure_built_in
from pipelines.stages.finetune.learner import (
    Learner,
    best_of_seed,
    end_epoch,
    finite_losses,
    not_finite_error,
    summary_of,
    take_step,
)
from pipelines.stages.finetune.settings import FinetuneResult, FinetuneSettings, Hyperparameters
from pipelines.stages.finetune.start import PretrainedSource, find_encoding, find_pretrained_source, join_sound
from pipelines.stages.finetune.tasks import FeatureTask, FinetuneTask, KeyframeTask
from pipelines.stores.index import read_index
from pipelines.training.distributed import Process, any_process, process_group
from pipelines.training.jobs import broadcast_from_rank0, stop_signals
from pipelines.training.loops import (
    FINETUNE_DROPOUT,
    Throughput,
    learning_rate,
    limits_in_one_line,
    load_state,
    mixed_precision,
    save_state,
    torch_seed,
)
from pipelines.training.run_folder import (
    LOG,
    RESULT,
    VALIDATION,
    RunLog,
    check_run_folder,
    open_run_folder,
    plain_settings,
    put_same_file,
    seed_file,
)

SCHEMA, VERSION = "bassl.finetune", 1
_NOT_IN_IDENTITY = {
    *("index", "features", "sound", "feature_folder", "output", "device", "workers", "resume", "overwrite"),
    *("log_steps", "logger", "init", "transfer", "encoder", "seeds"),
}


@dataclass(frozen=True, eq=False)
class FinetuneJob:
    """What all seeds share."""

    settings: FinetuneSettings
    task: FinetuneTask  # data and network
    split: Split
    start: PretrainedSource
    hyperparameters: Hyperparameters  # the rate is resolved
    process: Process
    report: Callable[[TrainingProgress], None]  # does nothing except in the first process
    signals: list[int]  # signals received; empty until the run is asked to stop
    notes: list[str]  # lines for the user
    note: Callable[..., None]  # adds a line to the notes and shows it, with ``warning=True`` as a warning
    built_in: tuple[dict[str, float], bool]  # see `measure_built_in`

    @property
    def steps(self) -> int:  # per seed
        return self.task.epoch_steps * self.hyperparameters.epochs

    @property
    def identity(self) -> dict[str, Any]:
        """What must be the same to resume a run."""
        index = self.task.index
        return {
            **plain_settings(self.settings, without=_NOT_IN_IDENTITY),
            "encoder": self.task.encoder,
            "sound": self.settings.sound is not None,
            "start": self.task.start_digest,
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
    settings = replace(settings, select=settings.select or ("last" if index.of_movienet else "val"))
    split = split_videos(settings, index, warn)
    start = find_pretrained_source(settings, note)
    if line := few_labels(settings, index, split.train):
        warn(line)
    with process_group(settings.compute.device) as process, limits_in_one_line("use a smaller `batch` or `width`"):
        # Check before hours of encoding, in the first process, because only that one writes there.
        options = settings.run
        broadcast_from_rank0(process, lambda: check_run_folder(options.output, options.resume, options.overwrite))
        # Encoding ignores signals: finished videos are kept if it is killed.
        videos = split.videos
        encoding = None if settings.end_to_end else find_encoding(settings, index, videos, start, process, note)
        if encoding is not None and settings.sound is not None:
            encoding = join_sound(encoding, index, settings.sound, videos, warn)
        with stop_signals() as signals, ExitStack() as held:
            task: FinetuneTask = (
                KeyframeTask(settings, index, split, start, process)
                if encoding is None
                else FeatureTask(settings, index, split, start, encoding, process)
            )
            hyperparameters = settings.hyperparameters(start.transfer == "encoder+crn")
            built_in = broadcast_from_rank0(
                process, lambda: measure_built_in(settings, index, split.val, process, note)
            )
            job = FinetuneJob(
                settings, task, split, start, hyperparameters, process, report, signals, notes, note, built_in
            )
            return _train_seeds(job, held)


def _train_seeds(job: FinetuneJob, held: ExitStack) -> FinetuneResult:
    settings, process, identity = job.settings, job.process, job.identity
    folder = open_run_folder(settings.run.output, settings.run.resume, settings.run.overwrite)
    broadcast_from_rank0(process, lambda: held.enter_context(folder))
    saved = load_state(settings.run.output, identity, process) if settings.run.resume else None
    records: list[dict[str, Any]] = json.loads(saved["records"]) if saved is not None else []
    number = saved["number"] if saved is not None else 0
    step, stopped = number * job.steps, False
    if saved is not None:
        job.notes[:0] = [note for note in json.loads(saved["notes"]) if note not in job.notes]

    def save(number: int, state: Mapping[str, Any]) -> None:
        if process.is_first:
            plain = {"settings": identity, "records": records, "notes": job.notes}
            texts = {name: json.dumps(value) for name, value in plain.items()}
            here = {**texts, "number": number, "step": number * job.steps + state["at"]}
            save_state(settings.run.output, {**here, **state})

    logs = RunLog(
        settings.run.output if process.is_first else None,
        saved["step"] if saved is not None else 0,
        logger=settings.run.logger,
        seed_steps=job.steps,
    )
    with logs as log:
        while number < settings.seeds and not stopped:
            learner = _new_learner(job, settings.run.seed + number)
            if saved is not None and saved["at"]:
                learner.load_state(saved)
            saved = None
            stopped = _train(job, learner, number, log, partial(save, number))
            step = number * job.steps + learner.step
            if not stopped:
                if process.is_first:
                    records.append(_finish(job, learner, settings.run.seed + number))
                number += 1
                save(number, {"at": 0, "model": {}, "optimizer": {}})
    mean, std, tested_on = summary_of(records, job.split)
    if process.is_first and records:
        _write_result(job, records, {"summary_of": tested_on, "mean": mean, "std": std})
    broadcast_from_rank0(process, lambda: None)  # no process ends before the files are there
    return FinetuneResult(
        model=settings.run.output / MODEL,
        report=settings.run.output / RESULT,
        step=step,
        steps=job.steps * settings.seeds,
        selected_on=job.split.selected_on,
        mean=mean,
        std=std,
        seeds=len(records),
        tested_on=tested_on,
        notes=tuple(job.notes),
        stopped=stopped,
    )


def _new_learner(job: FinetuneJob, seed: int) -> Learner:
    torch.manual_seed(torch_seed(seed, 0))
    network = job.task.new_network()
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    autocast, scaler = mixed_precision(job.settings.compute.precision, job.process.device)
    # Without weight decay AdamW (Loshchilov & Hutter 2019) is Adam (Kingma & Ba 2015), as in appendix A.
    optimizer = torch.optim.AdamW(trained, lr=1.0, weight_decay=job.hyperparameters.weight_decay)
    return Learner(network, optimizer, scaler, autocast)


def _train(
    job: FinetuneJob, learner: Learner, number: int, log: RunLog, save: Callable[[Mapping[str, Any]], None]
) -> bool:
    """Train one network to the end or until a signal; returns whether a signal stopped it."""
    hyperparameters, process, settings = job.hyperparameters, job.process, job.settings
    seed = settings.run.seed + number
    assert hyperparameters.rate is not None
    learner.network.train()
    batches_from = partial(job.task.batches, epochs=hyperparameters.epochs, seed=seed)
    batches, throughput = batches_from(step=learner.step), Throughput()
    unchecked: list[tuple[Tensor, Tensor]] = []
    stopped = False
    while learner.step < job.steps and not stopped:
        batch = throughput.next_of(batches)
        torch.manual_seed(torch_seed(seed, FINETUNE_DROPOUT, learner.step, process.rank))
        rate = learning_rate(learner.step, job.steps, hyperparameters.rate, hyperparameters.warm_up)
        unchecked.append(take_step(learner, batch, rate=rate, clip=hyperparameters.clip, process=process))
        ends_epoch = learner.step % job.task.epoch_steps == 0
        stopped = any_process(process, bool(job.signals)) and learner.step < job.steps
        if not (learner.step % settings.run.log_steps == 0 or ends_epoch or stopped):
            continue
        recent, fault = finite_losses(learner, unchecked, process)  # the only wait for the device
        if fault is not None:
            inputs = "keyframes" if settings.end_to_end else "features"
            batch, where = next(batches_from(step=fault[0])), f"step {fault[0] + 1} of seed {seed}"
            raise not_finite_error(where, fault[1], batch, inputs, process)
        learner.losses += recent
        speed, waiting = throughput.measure(job.task.shots_in_step)
        state = TrainingProgress(
            step=number * job.steps + learner.step,
            steps=settings.seeds * job.steps,
            epoch=(learner.step - 1) // job.task.epoch_steps + 1,
            epochs=hyperparameters.epochs,
            losses={"loss": math.fsum(recent) / len(recent)},
            rate=rate,
            speed=speed,
            seconds=job.task.shots_in_step / speed,
            waiting=waiting,
            seed=number + 1,
            seeds=settings.seeds,
            unit="shots",
        )
        here = {"step": state.step, "seed": seed, "epoch": state.epoch}
        log.write(LOG, {**here, "learning_rate": rate, **state.losses, "shots_per_second": speed, "waiting": waiting})
        job.report(state)
        if ends_epoch and process.is_first:
            measures = end_epoch(learner, job.task, job.split, state.epoch)
            if measures:
                log.write(VALIDATION, {**here, **measures})
                job.report(replace(state, validation=measures))
        if ends_epoch:
            learner.losses = []
        if stopped or (ends_epoch and learner.step < job.steps):
            save(learner.state())
        unchecked = []
        throughput.reset()
    return stopped


def _finish(job: FinetuneJob, learner: Learner, seed: int) -> dict[str, Any]:
    """Write the model of a seed. Returns the seed's part of the result."""
    record, calibration = best_of_seed(learner, job.task, job.split, seed, partial(job.note, warning=True))
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
        "trained_on": [job.task.index.video_ids[video] for video in job.split.train],
        "validation": record["validation"],
        "test": record["test"],
    }
    model = job.task.model(learner.network, calibration or Calibration(), training)
    save_boundary_model(job.settings.run.output / seed_file(seed), model)
    return record


def _write_result(job: FinetuneJob, records: list[dict[str, Any]], summary: dict[str, Any]) -> None:
    """Write the best seed's model as the run's model, and the result as JSON."""
    settings, split, start = job.settings, job.split, job.start
    best = {"val": "validation", "test": "test"}.get(split.selected_on)
    best_record = records[0] if best is None else max(records, key=lambda record: float(record[best]["ap"]))
    put_same_file(settings.run.output / seed_file(best_record["seed"]), settings.run.output / MODEL)
    built_in, learned = job.built_in
    if built_in and len(records) == settings.seeds:
        line, worse = comparison(best_record["validation"], built_in, len(split.val), learned)
        job.note(line, warning=worse)
    counts = {}
    for name, videos in (("train", split.train), ("val", split.val), ("test", split.test)):
        shots, ends = labelled_shots(job.task.index, videos)
        counts[name] = {"videos": len(videos), "shots": shots, "scene_ends": ends}
    content = {
        "schema": SCHEMA,
        "version": VERSION,
        "settings": plain_settings(settings),
        "recipe": asdict(job.hyperparameters),
        "index": {"path": str(settings.data.index), **counts},
        "init": str(start.path) if start.path is not None else None,
        "transfer": start.transfer,
        "encoder": job.task.encoder,
        "selected_on": split.selected_on,
        "seeds": records,
        "chosen_seed": best_record["seed"],
        "built_in": built_in or None,
        **summary,
        "notes": job.notes,
    }
    write_atomically(settings.run.output / RESULT, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())
