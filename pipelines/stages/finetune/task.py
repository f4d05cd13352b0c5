"""Fine-tuning on features of a frozen encoder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import nn

from pipelines.errors import BasslError
from pipelines.models.boundary import BoundaryModel
from pipelines.models.calibration import Calibration
from pipelines.models.networks import NETWORKS
from pipelines.models.shapes import MSLSTMSettings
from pipelines.models.torch_networks import build_network
from pipelines.stages.finetune.data import EPOCHS, Epoch, LabelledBatch, batches, film_logits, labelled_films
from pipelines.stages.finetune.features import Encoding, known_keyframe_facts
from pipelines.stages.finetune.keyframes import KeyframeTask
from pipelines.stages.finetune.settings import FinetuneSettings
from pipelines.stages.finetune.start import Start, digest_of, shape_for, transfer_crn
from pipelines.stores.index import Index
from pipelines.training.distributed import Process
from pipelines.training.precision import weight_dtype


class FeatureTask:
    """Labelled films by their features, and a kind of network. Raises BasslError for sizes that no network can have."""

    index: Index
    encoder: str  # id of the shot encoder; of `KeyframeTask` its name
    start_digest: int  # of the weights that the network begins with, 0 for none

    def __init__(
        self, settings: FinetuneSettings, index: Index, start: Start, encoding: Encoding, process: Process
    ) -> None:
        self.index, self.encoder, self.start_digest = index, encoding.encoder.id, digest_of(start)
        self._start, self._frozen, self._process = start, encoding.encoder, process
        self._sound = encoding.sound
        self._crn, self._loss, self._dtype = settings.crn, settings.loss, weight_dtype(settings.precision)
        self._shape = shape_for(settings, start, encoding.features.shape[1])
        self._films = labelled_films(index, encoding.features, process.device, encoding.colour)
        self._keyframe_facts = known_keyframe_facts(index)
        self._steps: dict[tuple[tuple[int, ...], int], int] = {}

    def build(self) -> nn.Module:
        """A network to train, on its device; new weights are from torch's generator."""
        network = build_network(self._crn, self._shape)
        transfer_crn(self._start, network)
        return network.to(self._process.device, self._dtype)

    def epoch_steps(self, videos: Sequence[int], batch: int) -> int:
        """Steps in an epoch over some videos."""
        key = (tuple(videos), batch)
        if key not in self._steps:
            # Those of the first epoch, for all: views of a film may have some more labels than the film itself.
            examples = len(self._epoch(videos, 0, 0).targets)
            steps = self._steps[key] = -(-examples // self._examples(batch))
            if examples // steps < self._process.world_size:
                raise BasslError(
                    f"a batch of {batch} is too small for {self._process.world_size} processes; use a larger --batch"
                )
        return self._steps[key]

    def shots_in_step(self, videos: Sequence[int], batch: int) -> float:
        """Mean number of shots in a step, over all processes."""
        return int(self.index.usable[self.index.rows(videos)].sum()) / self.epoch_steps(videos, batch)

    def batches(
        self, videos: Sequence[int], batch: int, *, epochs: int, seed: int, step: int
    ) -> Iterator[LabelledBatch]:
        """This process's batches from a step of the whole training on."""
        steps = self.epoch_steps(videos, batch)
        for epoch in range(step // steps, epochs):
            examples, first = self._epoch(videos, seed, epoch), max(0, step - epoch * steps)
            yield from batches(
                examples, steps, seed=seed, number=epoch, first=first, loss=self._loss, process=self._process
            )

    def logits(self, network: nn.Module, videos: Sequence[int]) -> list[NDArray[np.float64]]:
        """Of whole films, (N,) each; leaves the network in evaluation mode."""
        return film_logits(self.model(network, Calibration(), {}), self._films, videos)

    def model(self, network: nn.Module, calibration: Calibration, training: Mapping[str, Any]) -> BoundaryModel:
        """The trained model, to be saved."""
        return BoundaryModel(
            crn=self._crn,
            network=network,
            shape=self._shape,
            calibration=calibration,
            encoder=self.encoder,
            encoder_name=self._frozen.name,
            encoder_weights=self._frozen.weights,
            keyframes=self.index.keyframes or None,
            input_size=self._frozen.input_size,
            sound=self._sound,
            pictures=self._keyframe_facts,
            training=training,
        )

    def _epoch(self, videos: Sequence[int], seed: int, epoch: int) -> Epoch:
        return EPOCHS[NETWORKS[self._crn].reads](self._films, videos, self._shape, self._dtype, seed, epoch)

    def _examples(self, batch: int) -> int:
        """A batch counts shots; the MS-LSTM's examples are sequences of them."""
        return max(1, batch // self._shape.sequence) if isinstance(self._shape, MSLSTMSettings) else batch


FinetuneTask = FeatureTask | KeyframeTask
"""What fine-tuning needs of its data and its network; the two have the same methods."""
