"""Metrics of fine-tuned networks: after each epoch, of the best one, and over seeds."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from pipelines.evaluation.bootstrap import evaluate
from pipelines.evaluation.metrics import video_scores
from pipelines.models.calibration import Calibration, apply_calibration, fit_calibration
from pipelines.stages.finetune.data import Split
from pipelines.stages.finetune.job import FinetuneJob
from pipelines.stores.index import Index
from pipelines.training.loop import Trainer


@dataclass(eq=False)
class Epochs:
    """Record of one seed's epochs, and the weights of the best one so far."""

    rows: list[dict[str, Any]] = field(default_factory=list)  # loss and metrics of each epoch
    best: dict[str, Tensor] = field(default_factory=dict)
    best_epoch: int = 0  # from 1
    best_score: float = -math.inf

    def state(self) -> dict[str, Any]:
        best = {"best_epoch": self.best_epoch, "best_score": self.best_score, "best": self.best}
        return {"epochs": json.dumps(self.rows), **best}

    def load_state(self, saved: Mapping[str, Any]) -> None:
        """Continue from what :meth:`state` returned."""
        self.rows = json.loads(saved["epochs"])
        self.best_epoch, self.best_score, self.best = saved["best_epoch"], saved["best_score"], saved["best"]


def measure_videos(
    index: Index, videos: Sequence[int], logits: Sequence[NDArray[np.float64]], calibration: Calibration | None = None
) -> dict[str, float]:
    """Return metrics of videos whose labels include both kinds, from logits (N,) each, at the release's threshold of
    one half. A calibration adds F1 and mIoU at its operating point."""

    def metrics(calibration: Calibration) -> dict[str, float]:
        scores = [apply_calibration(values, calibration) for values in logits]
        scored = [video_scores(index, video, values) for video, values in zip(videos, scores, strict=True)]
        return evaluate(scored)

    values = metrics(Calibration())
    if calibration is not None:
        calibrated = metrics(calibration)
        values |= {"f1_calibrated": calibrated["f1"], "miou_calibrated": calibrated["miou"]}
    return values


def end_epoch(trainer: Trainer, epochs: Epochs, job: FinetuneJob, epoch: int) -> dict[str, float]:
    """Measure the network after an epoch, and keep its weights if they are the best so far. Returns metrics on the
    validation split."""
    split, measures = job.split, dict[str, float]()
    if split.val:
        metrics = measure_videos(job.index, split.val, job.logits(trainer.network, split.val))
        measures = {f"val_{metric}": metrics[metric] for metric in ("ap", "auc", "f1", "miou")}
    epochs.rows.append({"epoch": epoch, **trainer.mean_losses(job.epoch_steps), **measures})
    score = measures["val_ap"] if split.selected_on == "val" else float(epoch)
    if score > epochs.best_score:
        epochs.best_epoch, epochs.best_score = epoch, score
        weights = trainer.network.state_dict()
        epochs.best = {name: tensor.detach().cpu().clone() for name, tensor in weights.items()}
    trainer.network.train()
    return measures


def measure_best_epoch(
    trainer: Trainer, epochs: Epochs, job: FinetuneJob, seed: int, warn: Callable[[str], None]
) -> tuple[dict[str, Any], Calibration | None]:
    """Load the weights of the best epoch, calibrate and test them. Returns the seed's part of the result and the
    calibration."""
    trainer.network.load_state_dict(epochs.best)
    index, split, calibration = job.index, job.split, None
    logits = job.logits(trainer.network, split.val)
    if split.val:
        rows = index.rows(split.val)
        usable = index.usable[rows]
        try:
            ends = index.targets(rows[usable]).astype(np.uint8)
            calibration = fit_calibration(np.concatenate(logits)[usable], ends)
        except ValueError as error:
            warn(f"seed {seed}: scores are not calibrated ({error})")
    record: dict[str, Any] = {
        "seed": seed,
        "epochs": epochs.rows,
        "chosen_epoch": epochs.best_epoch,
        "calibration": asdict(calibration) if calibration is not None else None,
        "validation": measure_videos(index, split.val, logits, calibration) if split.val else None,
        "test": None,
    }
    if split.test:
        record["test"] = measure_videos(index, split.test, job.logits(trainer.network, split.test), calibration)
    return record, calibration


def summarize(
    records: Sequence[Mapping[str, Any]], split: Split
) -> tuple[dict[str, float], dict[str, float], str | None]:
    """Return mean and standard deviation over seeds of the test metrics, or of the validation metrics without a test
    split, and which of the two. A metric that some seed lacks (without a calibration) is left out."""
    which = "test" if split.test else "validation" if split.val else None
    if which is None or not records:
        return {}, {}, None
    names = [name for name in records[0][which] if all(name in record[which] for record in records)]
    table = {name: [record[which][name] for record in records] for name in names}
    mean = {name: float(np.mean(values)) for name, values in table.items()}
    std = {name: float(np.std(values, ddof=1)) for name, values in table.items()} if len(records) > 1 else {}
    return mean, std, which
