"""Evaluation during fine-tuning: metrics after an epoch, choice of the epoch, calibration, and a seed's result."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.evaluation.bootstrap import evaluate
from pipelines.evaluation.metrics import video_scores
from pipelines.models.calibration import Calibration, apply_calibration, fit_calibration
from pipelines.stages.finetune.data import Split
from pipelines.stages.finetune.step import Learner
from pipelines.stages.finetune.task import FinetuneTask
from pipelines.stores.index import Index


def measure_videos(
    index: Index, videos: Sequence[int], logits: Sequence[NDArray[np.float64]], calibration: Calibration | None = None
) -> dict[str, float]:
    """Metrics of videos, whose labels include both kinds, from logits (N,) each. A shot is a scene end if softmax gives
    it at least one half, as in the release. A calibration adds F1 and mIoU at its operating point."""

    def metrics(calibration: Calibration) -> dict[str, float]:
        scores = [apply_calibration(values, calibration) for values in logits]
        scored = [video_scores(index, video, values) for video, values in zip(videos, scores, strict=True)]
        return evaluate(scored)

    values = metrics(Calibration())
    if calibration is not None:
        calibrated = metrics(calibration)
        values |= {"f1_calibrated": calibrated["f1"], "miou_calibrated": calibrated["miou"]}
    return values


def end_epoch(learner: Learner, task: FinetuneTask, split: Split, epoch: int) -> dict[str, float]:
    """Measure the network after an epoch, and keep its weights if they are the best so far. Returns metrics on the
    validation split, and on the test split if the epoch is chosen on it."""
    measures: dict[str, float] = {}
    for name, videos in (("val", split.val), ("test", split.test if split.selected_on == "test" else [])):
        if videos:
            metrics = measure_videos(task.index, videos, task.logits(learner.network, videos))
            measures |= {f"{name}_{metric}": metrics[metric] for metric in ("ap", "auc", "f1", "miou")}
    learner.epochs.append({"epoch": epoch, "loss": math.fsum(learner.losses) / len(learner.losses), **measures})
    score = float(epoch) if split.selected_on == "last epoch" else measures.get(f"{split.selected_on}_ap")
    if score is not None and score > learner.best_score:
        learner.best_epoch, learner.best_score = epoch, score
        weights = learner.network.state_dict()
        learner.best = {name: tensor.detach().cpu().clone() for name, tensor in weights.items()}
    learner.network.train()
    return measures


def best_of_seed(
    learner: Learner, task: FinetuneTask, split: Split, seed: int, warn: Callable[[str], None]
) -> tuple[dict[str, Any], Calibration | None]:
    """Load the weights of the best epoch, calibrate and test them. Returns the seed's part of the result, and the
    calibration."""
    learner.network.load_state_dict(learner.best)
    logits = task.logits(learner.network, split.val)
    calibration = _calibration(task.index, split.val, logits, seed, warn) if split.val else None
    record: dict[str, Any] = {
        "seed": seed,
        "epochs": learner.epochs,
        "chosen_epoch": learner.best_epoch,
        "calibration": asdict(calibration) if calibration is not None else None,
        "validation": measure_videos(task.index, split.val, logits, calibration) if split.val else None,
        "test": None,
    }
    if split.test:
        logits = task.logits(learner.network, split.test)
        record["test"] = measure_videos(task.index, split.test, logits, calibration)
    return record, calibration


def _calibration(
    index: Index, videos: Sequence[int], logits: Sequence[NDArray[np.float64]], seed: int, warn: Callable[[str], None]
) -> Calibration | None:
    rows = index.rows(videos)
    usable = index.usable[rows]
    try:
        return fit_calibration(np.concatenate(logits)[usable], index.targets(rows[usable]).astype(np.uint8))
    except ValueError as error:
        warn(f"seed {seed}: scores are not calibrated ({error})")
        return None


def summary_of(
    records: Sequence[Mapping[str, Any]], split: Split
) -> tuple[dict[str, float], dict[str, float], str | None]:
    """Mean and standard deviation over seeds of the test metrics, or of the validation metrics without a test split,
    and which of the two. A metric that some seed lacks (without a calibration) is left out."""
    which = "test" if split.test else "validation" if split.val else None
    if which is None or not records:
        return {}, {}, None
    names = [name for name in records[0][which] if all(name in record[which] for record in records)]
    table = {name: [record[which][name] for record in records] for name in names}
    mean = {name: float(np.mean(values)) for name, values in table.items()}
    std = {name: float(np.std(values, ddof=1)) for name, values in table.items()} if len(records) > 1 else {}
    return mean, std, which
