"""The data and network of fine-tuning: from features of a frozen encoder, or end to end from keyframes.

End to end, a shot is one of its keyframes in training, drawn at random as in pre-training. Videos are scored with the
mean encoding of all keyframes of a shot (appendix A). There is no augmentation.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pipelines.datasets.keyframe_reader import KeyframeReader
from pipelines.errors import BasslError, StoreError
from pipelines.models.boundary import BoundaryModel
from pipelines.models.calibration import Calibration
from pipelines.models.encoders.torch_encoders import TrainableEncoder, torch_encoder, trainable_encoder
from pipelines.models.networks.kinds import NETWORKS, MSLSTMSettings
from pipelines.models.networks.torch_networks import build_network
from pipelines.stages.finetune.data import (
    EPOCHS,
    Epoch,
    LabeledBatch,
    LabeledVideos,
    Split,
    batches,
    durations_of,
    loss_weights,
    video_logits,
)
from pipelines.stages.finetune.settings import FinetuneSettings
from pipelines.stages.finetune.start import (
    Encoding,
    PretrainedSource,
    as_bytes,
    digest_of,
    known_keyframe_facts,
    shape_for,
    transfer_crn,
)
from pipelines.stores.index import Index, window_rows
from pipelines.training.distributed import Process, send, synchronized_norms
from pipelines.training.keyframe_windows import KeyframeWindows, WindowOrder
from pipelines.training.loop import mixed_precision, plain_weights, weight_dtype
from pipelines.training.memory import check_kept, free_bytes, measure_images
from pipelines.video.images import resize_to_square

_SHOTS_AT_A_TIME = 16


def clipped_windows(
    first_row: NDArray[np.int64], neighbors: int, epoch: int, centers: NDArray[np.int64]
) -> tuple[NDArray[np.int64], None]:
    """Return (B, 2K+1) rows of windows; at a video's edges its first and last shot repeat."""
    return window_rows(first_row, centers, neighbors, "clip"), None


def _squares(
    size: int, windows: Iterator[list[NDArray[np.uint8]]], step: int, first: int
) -> Iterator[NDArray[np.uint8]]:
    """Squeeze the frames of each window to squares, as `WindowImages`."""
    return (np.stack([resize_to_square(frame, size) for frame in frames]) for frames in windows)


class EndToEnd(nn.Module):
    """Normalized keyframes of windows (B, S, 3, H, W) to logits of the center shots (B, 2)."""

    def __init__(self, encoder: nn.Module, boundary: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.boundary = boundary

    def forward(self, frames: Tensor) -> Tensor:
        encodings = self.encoder(frames.flatten(0, 1).contiguous(memory_format=torch.channels_last))
        logits: Tensor = self.boundary(encodings.view(*frames.shape[:2], -1))
        return logits


class KeyframeNetwork:
    """Keyframes of labeled videos, with the methods of `FeatureNetwork`. Raises BasslError if the index has no
    keyframes, the encoder cannot be trained, for impossible sizes, or if no batch can be made."""

    def __init__(
        self, settings: FinetuneSettings, index: Index, split: Split, start: PretrainedSource, process: Process
    ) -> None:
        if not index.keyframes:
            raise BasslError(
                f"{index.path}: has no keyframes; run `bassl extract-keyframes`, or leave `end_to_end` out"
            )
        index.check_keyframes(split.videos)
        self.settings, self.index, self.start, self.process = settings, index, start, process
        self.targets = index.targets(np.arange(len(index.label)))
        self.durations = durations_of(index)
        self.dtype = weight_dtype(settings.compute.precision)
        self.encoder, self.pretrained = _encoder_to_train(settings, start)
        first = self._new_encoder()
        self.mean, self.std = (torch.tensor(v, device=process.device).view(3, 1, 1) for v in (first.mean, first.std))
        self.shape = shape_for(settings, start, first.width)
        self.start_digest = digest_of(start)
        if self.pretrained is not None:
            for name in sorted(self.pretrained):
                self.start_digest = zlib.crc32(as_bytes(self.pretrained[name]), self.start_digest)
        self.reader = KeyframeReader(index)
        rows, batch = index.rows(split.train), settings.hyperparameters(start.transfer == "encoder+crn").batch
        self.rows, self.batch = rows[index.usable[rows]], batch
        self.epoch_steps, self.shots_in_step = len(self.rows) // batch, float(batch)
        if batch % process.world_size or not self.epoch_steps:
            raise BasslError(
                f"a batch of {batch} cannot be made of {len(self.rows)} labeled shots and shared equally by "
                f"{process.world_size} processes; use another `batch`"
            )
        autocast, _ = mixed_precision(settings.compute.precision, process.device)
        image = measure_images(first.network.to(process.device, self.dtype), settings.size, autocast)
        if (free := free_bytes(process)) is not None:
            images = 2 * self.shape.neighbors + 1
            check_kept(batch // process.world_size, images, image, free, "use a smaller `batch`, `encoder` or `size`")

    def new_network(self) -> nn.Module:
        encoder = self._new_encoder()
        boundary = build_network(self.settings.crn, self.shape)
        transfer_crn(self.start, boundary)
        network: nn.Module = EndToEnd(encoder.network, boundary)
        if self.process.device.type == "cuda" and self.process.world_size > 1:
            network = synchronized_norms(network)
        return network.to(self.process.device, self.dtype)

    def batches(self, *, epochs: int, seed: int, step: int) -> Iterator[LabeledBatch]:
        order = WindowOrder(self.rows, self.batch, epochs, seed)
        rows = partial(clipped_windows, self.index.first_row, self.shape.neighbors)
        images = partial(_squares, self.settings.size)
        source = KeyframeWindows(self.index, rows, self.process, self.settings.compute.workers or 0, images)
        part = self.process.share(self.batch)
        for (_, _, centers), read in zip(order.centers(step), source.batches(order, step), strict=True):
            weights = loss_weights(self.targets[centers], self.index.usable[centers], self.settings.loss)[part]
            yield LabeledBatch(
                self._prepare(read.shots),
                send(torch.from_numpy(self.targets[centers][part]), self.process.device),
                send(torch.from_numpy(weights), self.process.device),
            )

    def logits(self, network: nn.Module, videos: Sequence[int]) -> list[NDArray[np.float64]]:
        assert isinstance(network, EndToEnd)
        network.eval()
        boundary = BoundaryModel(crn=self.settings.crn, network=network.boundary, shape=self.shape)
        values = []
        for video in videos:
            rows = self.index.rows([video])
            some_at_a_time = np.array_split(rows, -(-len(rows) // _SHOTS_AT_A_TIME))
            parts = [self._encode(network.encoder, some) for some in some_at_a_time]
            values.append(boundary.logits(torch.cat(parts).cpu().numpy(), self.durations[rows]))
        return values

    def model(self, network: nn.Module, calibration: Calibration, training: Mapping[str, Any]) -> BoundaryModel:
        assert isinstance(network, EndToEnd)
        keyframes, size = self.index.keyframes, self.settings.size
        weights = plain_weights(network.encoder)
        encoder = torch_encoder(self.encoder, weights, "cpu", keyframes=keyframes, size=size, preparation="squeeze")
        return BoundaryModel(
            crn=self.settings.crn,
            network=network.boundary,
            shape=self.shape,
            calibration=calibration,
            encoder=encoder.id,
            encoder_name=self.encoder,
            encoder_weights=weights,
            keyframes=keyframes,
            input_size=size,
            keyframe_facts=known_keyframe_facts(self.index),
            training=training,
        )

    def _new_encoder(self) -> TrainableEncoder:
        encoder = trainable_encoder(self.encoder, self.pretrained is None, self.settings.size)
        if self.pretrained is not None:
            try:
                encoder.network.load_state_dict(self.pretrained)
            except RuntimeError as error:
                raise StoreError(f"{self.start.path}: its shot encoder is not a {self.encoder}") from error
        return encoder

    def _prepare(self, frames: Tensor) -> Tensor:
        """Frames (..., 3, H, W) uint8 as the encoder's input."""
        return ((frames.float() / 255 - self.mean) / self.std).to(self.dtype)

    def _encode(self, encoder: nn.Module, rows: NDArray[np.int64]) -> Tensor:
        """Return encodings of shots (N, D_e), each the mean over its keyframes."""
        images = np.tile(np.arange(self.index.keyframes), (len(rows), 1))
        frames = []
        for row, jpegs in zip(rows.tolist(), self.reader.read(rows, images), strict=True):
            frames += [resize_to_square(self.reader.decoded(row, jpeg), self.settings.size) for jpeg in jpegs]
        x = torch.from_numpy(np.stack(frames)).to(self.process.device).permute(0, 3, 1, 2)
        with torch.inference_mode():
            encodings: Tensor = encoder(self._prepare(x))
        return encodings.view(len(rows), self.index.keyframes, -1).mean(dim=1)


def _encoder_to_train(settings: FinetuneSettings, start: PretrainedSource) -> tuple[str, Mapping[str, Tensor] | None]:
    """Return name and weights of the encoder; None: ImageNet weights."""
    if start.weights is None:
        return settings.encoder or "resnet50", None
    name = start.weights.settings.encoder
    if name is None or not start.weights.encoder:
        raise BasslError(f"{start.path}: has no shot encoder to train; leave `end_to_end` out")
    return name, start.weights.encoder


class FeatureNetwork:
    """Features of labeled videos, the videos to train on, and a kind of network. Raises BasslError for impossible
    sizes, or a batch too small for the number of processes."""

    index: Index
    encoder: str  # id of the shot encoder; in `KeyframeNetwork` its name
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
            sound=self._encoding.sound,
            keyframe_facts=self._keyframe_facts,
            training=training,
        )

    def _epoch(self, seed: int, epoch: int) -> Epoch:
        make = EPOCHS[NETWORKS[self._settings.crn].reads]
        return make(self._videos, self._train, self._shape, self._dtype, seed, epoch)


Network = FeatureNetwork | KeyframeNetwork
"""Both classes have the same methods."""
