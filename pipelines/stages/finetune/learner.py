"""The network of one seed in fine-tuning: its steps, the evaluation after an epoch, and its result."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pipelines.errors import BasslError
from pipelines.evaluation.bootstrap import evaluate
from pipelines.evaluation.metrics import video_scores
from pipelines.models.calibration import Calibration, apply_calibration, fit_calibration
from pipelines.pretext.gather import mean_over_processes
from pipelines.stages.finetune.data import LabelledBatch, Split, weighted_cross_entropy
from pipelines.stages.finetune.tasks import FinetuneTask
from pipelines.stores.index import Index
from pipelines.training.distributed import Process, any_process, average_gradients
from pipelines.training.loops import Autocast, set_learning_rate


@dataclass(eq=False)
class Learner:
    """The network of one seed, its optimizer, and the record of its epochs."""

    network: nn.Module  # on its device
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    autocast: Autocast  # the context to compute losses in
    step: int = 0  # steps taken
    losses: list[float] = field(default_factory=list)  # of the current epoch's steps
    epochs: list[dict[str, Any]] = field(default_factory=list)  # loss and metrics of each epoch
    best: dict[str, Tensor] = field(default_factory=dict)  # weights of the best epoch so far
    best_epoch: int = 0  # from 1
    best_score: float = -math.inf

    def state(self) -> dict[str, Any]:
        return {
            "at": self.step,
            "model": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "losses": self.losses,
            "epochs": json.dumps(self.epochs),
            "best_epoch": self.best_epoch,
            "best_score": self.best_score,
            "best": self.best,
        }

    def load_state(self, saved: Mapping[str, Any]) -> None:
        """Resume from what :meth:`state` returned."""
        self.network.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        if saved["scaler"]:  # empty if the run began without fp16
            self.scaler.load_state_dict(saved["scaler"])
        self.step, self.losses, self.epochs = saved["at"], saved["losses"], json.loads(saved["epochs"])
        self.best_epoch, self.best_score, self.best = saved["best_epoch"], saved["best_score"], saved["best"]


def take_step(
    learner: Learner, batch: LabelledBatch, *, rate: float, clip: float | None, process: Process
) -> tuple[Tensor, Tensor]:
    """Update the weights with this process's share of a batch. Returns its part of the loss and the gradient's norm, as
    float64 on the device."""
    set_learning_rate(learner.optimizer, rate)
    with learner.autocast():
        logits = learner.network(batch.inputs)
    logits = logits if logits.dtype == torch.float64 else logits.float()
    loss = weighted_cross_entropy(logits, batch.targets, batch.weights)
    learner.scaler.scale(loss * process.world_size).backward()  # type: ignore[no-untyped-call]
    trained = [parameter for parameter in learner.network.parameters() if parameter.requires_grad]
    average_gradients(process, trained)  # each is of a share of the loss, scaled by the world size above
    learner.scaler.unscale_(learner.optimizer)
    norm = torch.nn.utils.get_total_norm([parameter.grad for parameter in trained if parameter.grad is not None])
    if clip is not None:
        torch.nn.utils.clip_grads_with_norm_(trained, clip, norm)
    learner.scaler.step(learner.optimizer)
    learner.scaler.update()
    learner.optimizer.zero_grad(set_to_none=True)
    learner.step += 1
    return loss.detach().double(), norm.double()


def finite_losses(
    learner: Learner, steps: Sequence[tuple[Tensor, Tensor]], process: Process
) -> tuple[list[float], tuple[int, float] | None]:
    """The losses of the last steps (results of :func:`take_step`) over all processes, and number (from 0) and loss of
    the first step whose loss or gradient is not finite. Waits for the device."""
    losses = mean_over_processes(torch.stack([loss for loss, _ in steps])) * process.world_size
    values, norms = losses.tolist(), torch.stack([norm for _, norm in steps]).tolist()
    for step, (loss, norm) in enumerate(zip(values, norms, strict=True), start=learner.step - len(steps)):
        # In fp16, gradients overflow now and then; the scaler skips such a step.
        if not math.isfinite(loss) or not (math.isfinite(norm) or learner.scaler.is_enabled()):
            return values, (step, loss)
    return values, None


def not_finite_error(where: str, loss: float, batch: LabelledBatch, inputs: str, process: Process) -> BasslError:
    """Why the loss or a gradient of a step (``where``) is not finite. ``batch`` is the step's batch of ``inputs``
    (features or keyframes). All processes call this."""
    if any_process(process, not bool(torch.isfinite(batch.inputs).all())):
        remedy = "; make the feature store again" if inputs == "features" else ""
        return BasslError(f"{where}: its {inputs} are not all finite numbers{remedy}")
    advice = "try a smaller `rate`, or `precision=float32`"
    if math.isfinite(loss):
        return BasslError(f"{where}: its gradient is not finite, though its loss is ({loss:.4g}); {advice}")
    return BasslError(f"{where}: its loss is {loss}, though its {inputs} are finite; {advice}")


def measure_videos(
    index: Index, videos: Sequence[int], logits: Sequence[NDArray[np.float64]], calibration: Calibration | None = None
) -> dict[str, float]:
    """Metrics of videos whose labels include both kinds, from logits (N,) each, at the release's threshold of one half.
    A calibration adds F1 and mIoU at its operating point."""

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
    """Load the weights of the best epoch, calibrate and test them. Returns the seed's part of the result and the
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
