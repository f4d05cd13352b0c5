"""What all seeds of a fine-tuning run share: its data, its kind of network, and the model that it makes."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from pipelines.errors import BasslError
from pipelines.models.boundary import BoundaryModel
from pipelines.models.calibration import Calibration
from pipelines.models.networks.kinds import MSLSTMSettings
from pipelines.models.networks.torch_networks import build_network
from pipelines.stages.finetune.data import EPOCHS, Epoch, LabeledBatch, LabeledVideos, Split, batches, video_logits
from pipelines.stages.finetune.settings import FinetuneSettings
from pipelines.stages.finetune.start import Encoding, PretrainedSource, shape_for
from pipelines.stores.features import keyframe_facts
from pipelines.stores.index import Index
from pipelines.training.distributed import Process
from pipelines.training.loop import weight_dtype
from pipelines.training.run_folder import settings_as_json

_NOT_IN_IDENTITY = {
    *("index", "features", "feature_folder", "output", "device", "workers", "resume", "overwrite"),
    *("log_steps", "logger", "init", "transfer", "encoder", "seeds", "deterministic"),
}


class FinetuneJob:
    """Labeled videos with features, the videos to train on, and a kind of network. Raises BasslError for impossible
    sizes, or a batch too small for the number of processes."""

    def __init__(
        self,
        settings: FinetuneSettings,
        index: Index,
        split: Split,
        start: PretrainedSource,
        encoding: Encoding,
        process: Process,
    ) -> None:
        self.settings, self.index, self.split, self.start, self.process = settings, index, split, start, process
        self.encoding = encoding
        self.hyperparameters = settings.hyperparameters(start.transfer == "encoder+crn")
        self._dtype = weight_dtype(settings.compute.precision)
        self._shape = shape_for(settings, start, encoding.features.width)
        self._videos = LabeledVideos(index, encoding.features, process.device, encoding.color)
        try:
            self._keyframe_facts = keyframe_facts(index)
        except BasslError:  # features without their keyframes are enough to learn from
            self._keyframe_facts = {}
        # A batch counts shots; the MS-LSTM's examples are sequences of them.
        shots = self._shape.sequence if isinstance(self._shape, MSLSTMSettings) else 1
        batch = self.hyperparameters.batch
        # The first epoch decides for all: views of a video may have a few more labels than the video itself.
        examples = len(self._epoch(0, 0).targets)
        self.epoch_steps = -(-examples // max(1, batch // shots))
        if examples // self.epoch_steps < process.world_size:
            raise BasslError(
                f"a batch of {batch} is too small for {process.world_size} processes; use a larger `batch`"
            )
        self.steps = self.epoch_steps * self.hyperparameters.epochs  # per seed
        # mean number over all processes
        self.shots_in_step = int(index.usable[index.rows(split.train)].sum()) / self.epoch_steps

    @property
    def identity(self) -> dict[str, Any]:
        """Return what must be the same to resume a run."""
        index = self.index
        return {
            **settings_as_json(self.settings, without=_NOT_IN_IDENTITY),
            "encoder": self.encoding.encoder,
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
        return video_logits(self.model(network, Calibration(), {}), self._videos, videos)

    def model(self, network: nn.Module, calibration: Calibration, training: Mapping[str, Any]) -> BoundaryModel:
        """Return the trained model, to be saved."""
        return BoundaryModel(
            crn=self.settings.crn,
            network=network,
            shape=self._shape,
            calibration=calibration,
            encoder=self.encoding.encoder,
            encoder_name=self.encoding.name,
            encoder_weights=self.encoding.weights,
            keyframes=self.index.keyframes or None,
            input_size=self.encoding.input_size,
            keyframe_facts=self._keyframe_facts,
            training=training,
        )

    def _epoch(self, seed: int, epoch: int) -> Epoch:
        return EPOCHS[self.settings.crn](self._videos, self.split.train, self._shape, self._dtype, seed, epoch)
