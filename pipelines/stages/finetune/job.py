"""Data and kind of network that all seeds of a fine-tuning run share, and metrics of the trained networks."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor, nn

from pipelines.errors import BasslError
from pipelines.evaluation.bootstrap import evaluate
from pipelines.evaluation.metrics import video_scores
from pipelines.models.boundary import BoundaryModel
from pipelines.models.calibration import Calibration, apply_calibration, fit_calibration
from pipelines.models.encoders import named_encoder
from pipelines.models.networks import MSLSTMSettings
from pipelines.models.networks.relational import relational_logits
from pipelines.models.networks.torch_networks import build_network
from pipelines.stages.finetune import FinetuneSettings
from pipelines.stages.finetune.data import EPOCHS, Epoch, LabeledBatch, LabeledVideos, Split, batches, view_of
from pipelines.stages.finetune.start import PretrainedSource, shape_for
from pipelines.stores.features import IndexedFeatures
from pipelines.stores.index import Index
from pipelines.training.distributed import Process
from pipelines.training.loop import Trainer, weight_dtype
from pipelines.training.run_folder import settings_as_json

_NOT_IN_IDENTITY = {
    *("index", "features", "feature_folder", "output", "device", "workers", "resume", "overwrite"),
    *("log_steps", "init", "transfer", "encoder", "seeds", "deterministic"),
}


class FinetuneJob:
    """Labeled videos with features, and a kind of network. Raises BasslError for impossible sizes or batches."""

    def __init__(
        self,
        settings: FinetuneSettings,
        index: Index,
        split: Split,
        start: PretrainedSource,
        stored: IndexedFeatures,
        process: Process,
    ) -> None:
        self.settings, self.index, self.split, self.start, self.process = settings, index, split, start, process
        self.encoder = stored.encoder
        self.hyperparameters = settings.hyperparameters(start.transfer == "encoder+crn")
        self._dtype = weight_dtype(settings.compute.precision)
        self._shape = shape_for(settings, start, stored.features.width)
        self._videos = LabeledVideos(index, stored.features, process.device, stored.color)
        # A batch counts shots; the MS-LSTM's examples are sequences of them.
        shots = self._shape.sequence if isinstance(self._shape, MSLSTMSettings) else 1
        batch = self.hyperparameters.batch
        # The first epoch decides for all: views of a video may have a few more labels than the video itself.
        examples = len(self._epoch(0, 0).targets)
        self.epoch_steps = -(-examples // max(1, batch // shots))
        if examples // self.epoch_steps < process.world_size:
            raise BasslError(f"a batch of {batch} is too small for {process.world_size} processes; raise `batch`")
        self.steps = self.epoch_steps * self.hyperparameters.epochs  # per seed
        self.shots_in_step = int(index.usable[index.rows(split.train)].sum()) / self.epoch_steps  # of all processes

    @property
    def identity(self) -> dict[str, Any]:
        """Return what must be the same to resume a run."""
        index = self.index
        return {
            **settings_as_json(self.settings, without=_NOT_IN_IDENTITY),
            "encoder": self.encoder,
            "start": self.start.crn_digest,
            "labels of the index": zlib.crc32(index.label.tobytes(), zlib.crc32(index.first_row.tobytes())),
            "keyframes of the index": index.shots_crc32,
            "splits of the index": zlib.crc32("\n".join(index.splits).encode()),
        }

    def new_network(self) -> nn.Module:
        """Return a network to train, on its device; new weights are drawn from torch's generator."""
        network: Any = build_network(self.settings.crn, self._shape)
        if self.start.weights is not None and self.start.transfer == "encoder+crn":
            network.crn.load_state_dict(self.start.weights.crn)
        moved: nn.Module = network.to(self.process.device, self._dtype)
        return moved

    def batches(self, seed: int, step: int) -> Iterator[LabeledBatch]:
        """Yield this process's batches, from a step of the whole training on."""
        steps, loss, process = self.epoch_steps, self.settings.loss, self.process
        for epoch in range(step // steps, self.hyperparameters.epochs):
            examples, first = self._epoch(seed, epoch), max(0, step - epoch * steps)
            yield from batches(examples, steps, seed=seed, number=epoch, first=first, loss=loss, process=process)

    def logits(self, network: nn.Module, videos: Sequence[int]) -> list[NDArray[np.float64]]:
        """Return logits of whole videos, (N,) each. Leaves the network in evaluation mode."""
        model, labeled = self.model(network, Calibration(), {}), self._videos
        if model.crn == "relational":
            return [relational_logits(model.network, view_of(labeled, video, 0)[0].numpy()) for video in videos]
        spans = [self.index.span(video) for video in videos]
        return [model.logits(labeled.features[span], labeled.durations[span]) for span in spans]

    def model(self, network: nn.Module, calibration: Calibration, training: Mapping[str, Any]) -> BoundaryModel:
        """Return the trained model, to be saved."""
        pretrained = self.start.weights if self.start.encoder_weights else None
        return BoundaryModel(
            crn=self.settings.crn,
            network=network,
            shape=self._shape,
            calibration=calibration,
            encoder=self.encoder,
            encoder_name=named_encoder(self.encoder) if pretrained is None else pretrained.settings.encoder,
            encoder_weights=self.start.encoder_weights,
            keyframes=self.index.keyframes or None,
            input_size=None if pretrained is None else pretrained.input_size,
            preparation=None if pretrained is None else self.settings.preparation or "center",
            keyframe_facts=self.index.keyframe_facts,
            training=training,
        )

    def _epoch(self, seed: int, epoch: int) -> Epoch:
        return EPOCHS[self.settings.crn](self._videos, self.split.train, self._shape, self._dtype, seed, epoch)


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
    """Return metrics of videos from logits (N,) each, at one half (release), and at a calibration's operating point."""

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
    """Measure the network after an epoch on the validation split, and keep its weights if they are the best so far."""
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
    """Calibrate and test the weights of the best epoch. Returns the seed's part of the result and the calibration."""
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
