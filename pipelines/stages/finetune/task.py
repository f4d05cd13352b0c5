"""What fine-tuning asks of its data and its network, and the answer for features of a frozen encoder."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pipelines.errors import BasslError
from pipelines.models.boundary import BoundaryModel
from pipelines.models.calibration import Calibration
from pipelines.models.crn import TransformerBoundary
from pipelines.models.networks import NETWORKS, Shape
from pipelines.models.shapes import MSLSTMSettings
from pipelines.models.torch_networks import build_network
from pipelines.stages.finetune.data import EPOCHS, Batch, Epoch, batches, film_logits, labelled_films, steps_of
from pipelines.stages.finetune.start import Encoding, Start, shape_for
from pipelines.stores.index import Index
from pipelines.training.distributed import Place

if TYPE_CHECKING:
    from pipelines.stages.finetune import FinetuneSettings


class Task(Protocol):
    """Labelled films and a kind of network.

    Attributes:
        index: of the films.
        targets, usable: (T,) labels, and which of them are any.
        encoder: id of the shot encoder; its name where it learns too.
        start_digest: of the weights that the network begins with, 0 for none.
    """

    index: Index
    targets: NDArray[np.int64]
    usable: NDArray[np.bool_]
    encoder: str
    start_digest: int

    def build(self) -> nn.Module:
        """A network to train, on its device; new weights are from torch's generator."""

    def epoch_steps(self, videos: Sequence[int], batch: int) -> int:
        """Steps in an epoch over some videos."""

    def shots_in_step(self, videos: Sequence[int], batch: int) -> float:
        """Shots in a step, over all processes, in the mean."""

    def batches(self, videos: Sequence[int], batch: int, epochs: int, seed: int, step: int) -> Iterator[Batch]:
        """This process's batches from a step of the whole training on."""

    def logits(self, network: nn.Module, videos: Sequence[int]) -> list[NDArray[np.float64]]:
        """Of whole films, (N,) each; leaves the network in evaluation mode."""

    def model(self, network: nn.Module, calibration: Calibration, training: Mapping[str, Any]) -> BoundaryModel:
        """The model to keep."""


class FeatureTask:
    """Films by their features; what :func:`feature_task` makes."""

    def __init__(
        self, settings: FinetuneSettings, index: Index, start: Start, encoding: Encoding, shape: Shape, place: Place
    ) -> None:
        self.index, self.start, self.encoding, self.shape, self.place = index, start, encoding, shape, place
        self.crn, self.loss = settings.crn, settings.loss
        self.dtype = torch.float64 if settings.precision == "float64" else torch.float32
        self.films = labelled_films(index, encoding.features, place.device)
        self.targets, self.usable, self.encoder = self.films.targets, self.films.usable, encoding.encoder
        self.start_digest = digest_of(start)
        self._steps: dict[tuple[tuple[int, ...], int], int] = {}

    def build(self) -> nn.Module:
        network = build_network(self.crn, self.shape)
        transfer_crn(self.start, network)
        return network.to(self.place.device, self.dtype)

    def epoch_steps(self, videos: Sequence[int], batch: int) -> int:
        key = (tuple(videos), batch)
        if key not in self._steps:
            # Any epoch has as many examples as the first.
            self._steps[key] = steps_of(len(self._epoch(videos, 0, 0).targets), self._examples(batch))
        return self._steps[key]

    def shots_in_step(self, videos: Sequence[int], batch: int) -> float:
        shots = sum(int(self.usable[self.films.span(video)].sum()) for video in videos)
        return shots / self.epoch_steps(videos, batch)

    def batches(self, videos: Sequence[int], batch: int, epochs: int, seed: int, step: int) -> Iterator[Batch]:
        steps = self.epoch_steps(videos, batch)
        for epoch in range(step // steps, epochs):
            first = max(0, step - epoch * steps)
            order = (seed, epoch)
            yield from batches(
                self._epoch(videos, seed, epoch), self._examples(batch), order, first, self.loss, self.place
            )

    def logits(self, network: nn.Module, videos: Sequence[int]) -> list[NDArray[np.float64]]:
        return film_logits(self.model(network, Calibration(), {}), self.films, videos)

    def model(self, network: nn.Module, calibration: Calibration, training: Mapping[str, Any]) -> BoundaryModel:
        encoding = self.encoding
        return BoundaryModel(
            crn=self.crn,
            networks=(network,),
            shape=self.shape,
            calibration=calibration,
            encoder=encoding.encoder,
            encoder_name=encoding.name,
            encoder_weights=encoding.weights,
            keyframes=encoding.keyframes,
            input_size=encoding.input_size,
            pictures=encoding.pictures,
            training=training,
        )

    def _epoch(self, videos: Sequence[int], seed: int, epoch: int) -> Epoch:
        return EPOCHS[NETWORKS[self.crn].reads](self.films, videos, self.shape, self.dtype, seed, epoch)

    def _examples(self, batch: int) -> int:
        """A batch counts shots; the MS-LSTM's examples are sequences of them."""
        return max(1, batch // self.shape.sequence) if isinstance(self.shape, MSLSTMSettings) else batch


def feature_task(
    settings: FinetuneSettings, index: Index, start: Start, encoding: Encoding, place: Place
) -> FeatureTask:
    """Fine-tuning on features.

    Raises:
        BasslError: one line, for sizes that are no network, or a batch that cannot be shared by the processes.
    """
    try:
        shape = shape_for(settings, start, encoding.features.shape[1])
    except ValueError as error:
        raise BasslError(str(error)) from error
    return FeatureTask(settings, index, start, encoding, shape, place)


def transfer_crn(start: Start, network: nn.Module) -> None:
    """Put the pre-trained CRN into a network, if that is what is transferred."""
    if start.transfer != "encoder+crn" or start.weights is None:
        return
    assert isinstance(network, TransformerBoundary)
    network.crn.load_state_dict(start.weights.crn)


def digest_of(start: Start) -> int:
    """A checksum of the weights that are transferred, so that a run goes on with the same."""
    if start.transfer != "encoder+crn" or start.weights is None:
        return 0
    digest = 0
    for name in sorted(start.weights.crn):
        digest = zlib.crc32(as_bytes(start.weights.crn[name]), zlib.crc32(name.encode(), digest))
    return digest


def as_bytes(tensor: Tensor) -> bytes:
    """The bytes of a tensor."""
    return tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()
