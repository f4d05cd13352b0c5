"""The training loop of fine-tuning: one network after the other, each from another seed."""

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
from pipelines.stages.finetune.evaluation import best_of_seed, end_epoch, summary_of
from pipelines.stages.finetune.features import find_encoding, join_sound
from pipelines.stages.finetune.keyframes import KeyframeTask
from pipelines.stages.finetune.settings import FinetuneResult, FinetuneSettings, Hyperparameters
from pipelines.stages.finetune.start import Start, find_start
from pipelines.stages.finetune.step import Learner, finite_losses, not_finite_error, take_step
from pipelines.stages.finetune.task import FeatureTask, FinetuneTask
from pipelines.stores.index import read_index
from pipelines.training.checkpoints import load_state, save_state
from pipelines.training.distributed import Process, any_process, process_group
from pipelines.training.interruption import stop_signals
from pipelines.training.limits import limits_in_one_line
from pipelines.training.optimization import learning_rate
from pipelines.training.peers import first_decides
from pipelines.training.precision import mixed_precision
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
from pipelines.training.seeds import FINETUNE_DROPOUT, torch_seed
from pipelines.training.throughput import Throughput

SCHEMA, VERSION = "bassl.finetune", 1
_FREE = {
    *("index", "features", "sound", "feature_folder", "output", "device", "workers", "resume", "overwrite"),
    *("log_steps", "init", "transfer", "encoder", "seeds"),
}


@dataclass(frozen=True, eq=False)
class Run:
    """What the trainings of all seeds share."""

    settings: FinetuneSettings
    task: FinetuneTask  # task, split, start: data and network, the use of the videos, and the pre-trained model
    split: Split
    start: Start
    hyperparameters: Hyperparameters  # with a rate
    process: Process
    report: Callable[[TrainingProgress], None]  # called with progress; does nothing in other processes than the first
    signals: list[int]  # empty until the run is asked to stop
    notes: list[str]  # lines that the user should know
    warn: Callable[[str], None]  # adds a line to them, and shows it

    @property
    def steps(self) -> int:
        """Steps in the training of one seed."""
        return self.task.epoch_steps * self.hyperparameters.epochs

    @property
    def identity(self) -> dict[str, Any]:
        """What must be the same when a run is resumed: not paths, logging, or how many seeds follow."""
        index = self.task.index
        return {
            **plain_settings(self.settings, without=_FREE),
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
    index = read_index(settings.index)
    split = split_videos(settings, index, warn)
    start = find_start(settings, note)
    with process_group(settings.device) as process, limits_in_one_line("use a smaller --batch or --width"):
        # Now, and not after hours of encoding; by the first process, which may soon write there.
        first_decides(process, lambda: check_run_folder(settings.output, settings.resume, settings.overwrite))
        # Encoding does not wait for signals: what it has done is kept when it is killed.
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
            chosen = settings.hyperparameters(start.transfer == "encoder+crn")
            run = Run(settings, task, split, start, chosen, process, report, signals, notes, warn)
            return _train_seeds(run, held)


def _train_seeds(run: Run, held: ExitStack) -> FinetuneResult:
    settings, process, identity = run.settings, run.process, run.identity
    folder = open_run_folder(settings.output, settings.resume, settings.overwrite)
    first_decides(process, lambda: held.enter_context(folder))
    saved = load_state(settings.output, identity, process) if settings.resume else None
    records: list[dict[str, Any]] = json.loads(saved["records"]) if saved is not None else []
    number = saved["number"] if saved is not None else 0
    step, stopped = number * run.steps, False
    before: list[str] = json.loads(saved.get("notes", "[]")) if saved is not None else []
    run.notes[:0] = [note for note in before if note not in run.notes]

    def save(number: int, state: Mapping[str, Any]) -> None:
        if process.is_first:
            here = {"settings": json.dumps(identity), "records": json.dumps(records), "number": number}
            here["notes"] = json.dumps(run.notes)
            save_state(settings.output, {**here, "step": number * run.steps + state["at"], **state})

    with RunLog(settings.output if process.is_first else None, saved["step"] if saved is not None else 0) as log:
        while number < settings.seeds and not stopped:
            learner = _new_learner(run, settings.seed + number)
            if saved is not None and saved["at"]:
                learner.load_state(saved)
            saved = None
            stopped = _train(run, learner, number, log, partial(save, number))
            step = number * run.steps + learner.step
            if not stopped:
                if process.is_first:
                    records.append(_finish(run, learner, settings.seed + number))
                number += 1
                save(number, {"at": 0, "model": {}, "optimizer": {}})
    mean, std, tested_on = summary_of(records, run.split)
    if process.is_first and records:
        _write_result(run, records, mean, std, tested_on)
    first_decides(process, lambda: None)  # no process ends before the files are there
    return FinetuneResult(
        model=settings.output / MODEL,
        report=settings.output / RESULT,
        step=step,
        steps=run.steps * settings.seeds,
        selected_on=run.split.selected_on,
        mean=mean,
        std=std,
        seeds=len(records),
        tested_on=tested_on,
        notes=tuple(run.notes),
        stopped=stopped,
    )


def _new_learner(run: Run, seed: int) -> Learner:
    torch.manual_seed(torch_seed(seed, 0))
    network = run.task.build()
    trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
    autocast, scaler = mixed_precision(run.settings.precision, run.process.device)
    # Without weight decay AdamW (Loshchilov & Hutter 2019) is Adam (Kingma & Ba 2015), as in appendix A.
    optimizer = torch.optim.AdamW(trained, lr=1.0, weight_decay=run.hyperparameters.weight_decay)
    return Learner(network, optimizer, scaler, autocast)


def _train(run: Run, learner: Learner, number: int, log: RunLog, save: Callable[[Mapping[str, Any]], None]) -> bool:
    """Train one network to the end, or until a stop is requested; returns whether one was."""
    chosen, process, settings = run.hyperparameters, run.process, run.settings
    seed = settings.seed + number
    assert chosen.rate is not None
    learner.network.train()
    batches_from = partial(run.task.batches, epochs=chosen.epochs, seed=seed)
    batches, throughput = batches_from(step=learner.step), Throughput()
    unchecked: list[tuple[Tensor, Tensor]] = []
    stopped = False
    while learner.step < run.steps and not stopped:
        batch = throughput.next_of(batches)
        torch.manual_seed(torch_seed(seed, FINETUNE_DROPOUT, learner.step, process.rank))
        rate = learning_rate(learner.step, run.steps, chosen.rate, chosen.warm_up)
        unchecked.append(take_step(learner, batch, rate=rate, clip=chosen.clip, process=process))
        ends_epoch = learner.step % run.task.epoch_steps == 0
        stopped = any_process(process, bool(run.signals)) and learner.step < run.steps
        if not (learner.step % settings.log_steps == 0 or ends_epoch or stopped):
            continue
        recent, fault = finite_losses(learner, unchecked, process)  # waits for the device, as nothing before does
        if fault is not None:
            inputs = "keyframes" if settings.end_to_end else "features"
            raise not_finite_error(fault, seed, next(batches_from(step=fault.step)), inputs, process)
        learner.losses += recent
        speed, waiting = throughput.measure(run.task.shots_in_step)
        state = TrainingProgress(
            step=number * run.steps + learner.step,
            steps=settings.seeds * run.steps,
            epoch=(learner.step - 1) // run.task.epoch_steps + 1,
            epochs=chosen.epochs,
            losses={"loss": math.fsum(recent) / len(recent)},
            rate=rate,
            speed=speed,
            waiting=waiting,
            seed=number + 1,
            seeds=settings.seeds,
            unit="shots",
        )
        here = {"step": state.step, "seed": seed, "epoch": state.epoch}
        log.write(LOG, {**here, "learning_rate": rate, **state.losses, "shots_per_second": speed, "waiting": waiting})
        run.report(state)
        if ends_epoch and process.is_first:
            measures = end_epoch(learner, run.task, run.split, state.epoch)
            if measures:
                log.write(VALIDATION, {**here, **measures})
                run.report(replace(state, validation=measures))
        if ends_epoch:
            learner.losses = []
        if stopped or (ends_epoch and learner.step < run.steps):
            save(learner.state())
        unchecked = []
        throughput.reset()
    return stopped


def _finish(run: Run, learner: Learner, seed: int) -> dict[str, Any]:
    """Write the model of a seed; returns the seed's part of the result."""
    record, calibration = best_of_seed(learner, run.task, run.split, seed, run.warn)
    start = run.start
    training = {
        "stage": "finetune",
        "seed": seed,
        "epoch": record["chosen_epoch"],
        "selected_on": run.split.selected_on,
        "init": str(start.path) if start.path is not None else None,
        "transfer": start.transfer,
        "pretraining": dict(start.weights.training) if start.weights is not None else None,
        "settings": run.identity,
        "trained_on": [run.task.index.video_ids[video] for video in run.split.train],
        "validation": record["validation"],
        "test": record["test"],
    }
    model = run.task.model(learner.network, calibration or Calibration(), training)
    save_boundary_model(run.settings.output / seed_file(seed), model)
    return record


def _write_result(
    run: Run, records: list[dict[str, Any]], mean: dict[str, float], std: dict[str, float], tested_on: str | None
) -> None:
    """Write the chosen seed's model under the name of a run's model, and the result as JSON."""
    settings, split, start = run.settings, run.split, run.start
    best = {"val": "validation", "test": "test"}.get(split.selected_on)
    chosen = records[0] if best is None else max(records, key=lambda record: float(record[best]["ap"]))
    put_same_file(settings.output / seed_file(chosen["seed"]), settings.output / MODEL)
    parts = {"train": split.train, "val": split.val, "test": split.test}
    counts = {name: (len(videos), *labelled_shots(run.task.index, videos)) for name, videos in parts.items()}
    names = ("videos", "shots", "scene_ends")
    content = {
        "schema": SCHEMA,
        "version": VERSION,
        "settings": plain_settings(settings),
        "recipe": asdict(run.hyperparameters),
        "index": {
            "path": str(settings.index),
            **{part: dict(zip(names, numbers, strict=True)) for part, numbers in counts.items()},
        },
        "init": str(start.path) if start.path is not None else None,
        "transfer": start.transfer,
        "encoder": run.task.encoder,
        "selected_on": split.selected_on,
        "seeds": records,
        "chosen_seed": chosen["seed"],
        "summary_of": tested_on,
        "mean": mean,
        "std": std,
        "notes": run.notes,
    }
    write_atomically(settings.output / RESULT, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())
