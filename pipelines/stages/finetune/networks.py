"""The data and network of fine-tuning, from features of a frozen shot encoder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from pipelines.errors import BasslError
from pipelines.models.boundary import BoundaryModel
from pipelines.models.calibration import Calibration
from pipelines.models.networks.kinds import NETWORKS, MSLSTMSettings
from pipelines.models.networks.torch_networks import build_network
from pipelines.stages.finetune.data import EPOCHS, Epoch, LabeledBatch, LabeledVideos, Split, batches, video_logits
from pipelines.stages.finetune.settings import FinetuneSettings
from pipelines.stages.finetune.start import (
    Encoding,
    PretrainedSource,
    digest_of,
    known_keyframe_facts,
    shape_for,
    transfer_crn,
)
from pipelines.stores.index import Index
from pipelines.training.distributed import Process
from pipelines.training.loop import weight_dtype


class FeatureNetwork:
    """Features of labeled videos, the videos to train on, and a kind of network. Raises BasslError for impossible
    sizes, or a batch too small for the number of processes."""

    index: Index
    encoder: str  # id of the shot encoder
    start_digest: int  # checksum of the initial weights; 0 if they are random
    epoch_steps: int  # steps in an epoch
    shots_in_step: float  # mean number of shots in a step, over all processes

    def __init__(
        self,
        settings: FinetuneSettings,
        index: Index,
        split: Split,
        start: PretrainedSource,
        encoding: Encoding,
        process: Process,
    ) -> None:
        self.index, self.encoder, self.start_digest = index, encoding.encoder.id, digest_of(start)
        self._settings, self._start, self._encoding, self._process = settings, start, encoding, process
        self._dtype = weight_dtype(settings.compute.precision)
        self._shape = shape_for(settings, start, encoding.features.width)
        self._videos = LabeledVideos(index, encoding.features, process.device, encoding.color)
        self._keyframe_facts = known_keyframe_facts(index)
        self._train, batch = split.train, settings.hyperparameters(start.transfer == "encoder+crn").batch
        # A batch counts shots; the MS-LSTM's examples are sequences of them.
        shots = self._shape.sequence if isinstance(self._shape, MSLSTMSettings) else 1
        # The first epoch decides for all: views of a video may have a few more labels than the video itself.
        examples = len(self._epoch(0, 0).targets)
        self.epoch_steps = -(-examples // max(1, batch // shots))
        if examples // self.epoch_steps < process.world_size:
            raise BasslError(
                f"a batch of {batch} is too small for {process.world_size} processes; use a larger `batch`"
            )
        self.shots_in_step = int(index.usable[index.rows(split.train)].sum()) / self.epoch_steps

    def new_network(self) -> nn.Module:
        """Return a network to train, on its device; new weights are drawn from torch's generator."""
        network = build_network(self._settings.crn, self._shape)
        transfer_crn(self._start, network)
        return network.to(self._process.device, self._dtype)

    def batches(self, *, epochs: int, seed: int, step: int) -> Iterator[LabeledBatch]:
        """Yield this process's batches, from a step of the whole training on."""
        steps, loss = self.epoch_steps, self._settings.loss
        for epoch in range(step // steps, epochs):
            examples, first = self._epoch(seed, epoch), max(0, step - epoch * steps)
            yield from batches(examples, steps, seed=seed, number=epoch, first=first, loss=loss, process=self._process)

    def logits(self, network: nn.Module, videos: Sequence[int]) -> list[NDArray[np.float64]]:
        """Return logits of whole videos, (N,) each. Leaves the network in evaluation mode."""
        return video_logits(self.model(network, Calibration(), {}), self._videos, videos)

    def model(self, network: nn.Module, calibration: Calibration, training: Mapping[str, Any]) -> BoundaryModel:
        """Return the trained model, to be saved."""
        encoder = self._encoding.encoder
        return BoundaryModel(
            crn=self._settings.crn,
            network=network,
            shape=self._shape,
            calibration=calibration,
            encoder=encoder.id,
            encoder_name=encoder.name,
            encoder_weights=encoder.weights,
            keyframes=self.index.keyframes or None,
            input_size=encoder.input_size,
            keyframe_facts=self._keyframe_facts,
            training=training,
        )

    def _epoch(self, seed: int, epoch: int) -> Epoch:
        make = EPOCHS[NETWORKS[self._settings.crn].reads]
        return make(self._videos, self._train, self._shape, self._dtype, seed, epoch)
