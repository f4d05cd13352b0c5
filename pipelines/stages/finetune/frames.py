"""Fine-tuning end to end: the shot encoder learns too, from key-frames.

In training a shot is one of its key-frames, drawn at random, as in pre-training; films are scored with the mean of the
encodings of all of them (appendix A). Nothing is augmented.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pipelines.datasets.keyframe_reader import KeyframeReader
from pipelines.errors import BasslError, StoreError
from pipelines.models.boundary import BoundaryModel
from pipelines.models.calibration import Calibration
from pipelines.models.image_networks import TrainableEncoder, trainable_encoder
from pipelines.models.torch_encoders import rebuild_encoder
from pipelines.models.torch_networks import build_network
from pipelines.pretext.settings import PretextSettings
from pipelines.stages.finetune.data import Batch, durations_of, labels_of, loss_weights
from pipelines.stages.finetune.start import Start, pictures_of, shape_for
from pipelines.stages.finetune.task import as_bytes, digest_of, transfer_crn
from pipelines.stages.pretrain.data import KeyframeSource, Plan, WindowChooser
from pipelines.stores.index import Index, window_rows
from pipelines.training.distributed import Place
from pipelines.video.resizing import resize_to_square

if TYPE_CHECKING:
    from pipelines.stages.finetune import FinetuneSettings

_SHOTS_AT_A_TIME = 16


@dataclass(frozen=True, eq=False)
class ClippedWindows(WindowChooser):
    """Windows as fine-tuning has them: at a film's edges its first and last shot repeat."""

    def rows(self, epoch: int, centres: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
        """(B, 2K+1) rows of the windows around the centres; none are joined."""
        return window_rows(self.first_row, centres, self.neighbours, "clip"), None


class EndToEnd(nn.Module):
    """Key-frames of windows (B, S, 3, H, W), prepared, to the logits of their centres (B, 2)."""

    def __init__(self, encoder: nn.Module, boundary: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder
        self.boundary = boundary

    def forward(self, pictures: Tensor) -> Tensor:
        """(B, S, 3, H, W) to (B, 2)."""
        encodings = self.encoder(pictures.flatten(0, 1).contiguous(memory_format=torch.channels_last))
        logits: Tensor = self.boundary(encodings.view(*pictures.shape[:2], -1))
        return logits


class FrameTask:
    """Films by their key-frames; what :func:`frame_task` makes."""

    def __init__(self, settings: FinetuneSettings, index: Index, start: Start, place: Place) -> None:
        self.settings, self.index, self.start, self.place = settings, index, start, place
        self.targets, self.usable = labels_of(index)
        self.durations = durations_of(index)
        self.dtype = torch.float64 if settings.precision == "float64" else torch.float32
        self.encoder, self.pretrained = _encoder_to_train(settings, start)
        first = self._new_encoder()
        self.mean, self.std = (
            torch.tensor(colour, device=place.device).view(3, 1, 1) for colour in (first.mean, first.std)
        )
        try:
            self.shape = shape_for(settings, start, first.width)
        except ValueError as error:
            raise BasslError(str(error)) from error
        self.start_digest = digest_of(start)
        if self.pretrained is not None:
            for name in sorted(self.pretrained):
                self.start_digest = zlib.crc32(as_bytes(self.pretrained[name]), self.start_digest)
        chooser = ClippedWindows(index.first_row, PretextSettings(), self.shape.neighbors, settings.seed)
        self.source = KeyframeSource(index, chooser, place, settings.workers, settings.size)
        self.reader = KeyframeReader(index)

    def build(self) -> nn.Module:
        encoder = self._new_encoder()
        boundary = build_network(self.settings.crn, self.shape)
        transfer_crn(self.start, boundary)
        network = EndToEnd(encoder.network, boundary)
        if self.place.device.type == "cuda" and self.place.processes > 1:
            network = nn.SyncBatchNorm.convert_sync_batchnorm(network)  # type: ignore[no-untyped-call]
        return network.to(self.place.device, self.dtype)

    def epoch_steps(self, videos: Sequence[int], batch: int) -> int:
        plan = self._plan(videos, batch, 1, 0)
        if batch % self.place.processes or not plan.epoch_steps:
            raise BasslError(
                f"a batch of {batch} cannot be made of {len(plan.rows)} labelled shots and shared equally by "
                f"{self.place.processes} processes; use another --batch"
            )
        return plan.epoch_steps

    def shots_in_step(self, videos: Sequence[int], batch: int) -> float:
        return batch

    def batches(self, videos: Sequence[int], batch: int, epochs: int, seed: int, step: int) -> Iterator[Batch]:
        plan = self._plan(videos, batch, epochs, seed)
        own = self.place.share(batch)
        for (_, _, centres), read in zip(plan.centres(step), self.source.batches(plan, step), strict=True):
            weights = loss_weights(self.targets[centres], self.usable[centres], self.settings.loss)[own]
            yield Batch(
                self._prepared(read.shots),
                torch.from_numpy(self.targets[centres][own]).to(self.place.device),
                torch.from_numpy(weights).to(self.place.device),
            )

    def logits(self, network: nn.Module, videos: Sequence[int]) -> list[NDArray[np.float64]]:
        assert isinstance(network, EndToEnd)
        network.eval()
        boundary = BoundaryModel(crn=self.settings.crn, networks=(network.boundary,), shape=self.shape)
        values = []
        for video in videos:
            start, end = int(self.index.first_row[video]), int(self.index.first_row[video + 1])
            rows = np.arange(start, end)
            parts = [
                self._encoded(network.encoder, some) for some in np.array_split(rows, -(-len(rows) // _SHOTS_AT_A_TIME))
            ]
            values.append(boundary.logits(torch.cat(parts).cpu().numpy(), self.durations[start:end]))
        return values

    def model(self, network: nn.Module, calibration: Calibration, training: Mapping[str, Any]) -> BoundaryModel:
        assert isinstance(network, EndToEnd)
        keyframes, size = self.index.keyframes, self.settings.size
        weights = {
            name: (tensor.float() if tensor.is_floating_point() else tensor).detach().cpu()
            for name, tensor in network.encoder.state_dict().items()
        }
        return BoundaryModel(
            crn=self.settings.crn,
            networks=(network.boundary,),
            shape=self.shape,
            calibration=calibration,
            encoder=rebuild_encoder(self.encoder, weights, "cpu", keyframes, size).id,
            encoder_name=self.encoder,
            encoder_weights=weights,
            keyframes=keyframes,
            input_size=size,
            pictures=pictures_of(self.index),
            training=training,
        )

    def _new_encoder(self) -> TrainableEncoder:
        """Weights of pre-training where there are any, else those of ImageNet."""
        encoder = trainable_encoder(self.encoder, pretrained=self.pretrained is None)
        if self.pretrained is not None:
            try:
                encoder.network.load_state_dict(self.pretrained)
            except RuntimeError as error:
                raise StoreError(f"{self.start.path}: its shot encoder is no {self.encoder}") from error
        return encoder

    def _plan(self, videos: Sequence[int], batch: int, epochs: int, seed: int) -> Plan:
        rows = np.concatenate([np.arange(*self.index.first_row[video : video + 2]) for video in videos])
        return Plan(rows[self.usable[rows]], batch, epochs, seed)

    def _prepared(self, pictures: Tensor) -> Tensor:
        """Pictures (..., 3, H, W) uint8 as the encoder expects them."""
        return ((pictures.float() / 255 - self.mean) / self.std).to(self.dtype)

    def _encoded(self, encoder: nn.Module, rows: NDArray[np.int64]) -> Tensor:
        """The encodings of shots (N, D_e), each the mean over its key-frames."""
        images = np.tile(np.arange(self.index.keyframes), (len(rows), 1))
        pictures = []
        for row, jpegs in zip(rows.tolist(), self.reader.read(rows, images), strict=True):
            pictures += [resize_to_square(self.reader.decoded(row, jpeg), self.settings.size) for jpeg in jpegs]
        x = torch.from_numpy(np.stack(pictures)).to(self.place.device).permute(0, 3, 1, 2)
        with torch.inference_mode():
            encodings: Tensor = encoder(self._prepared(x))
        return encodings.view(len(rows), self.index.keyframes, -1).mean(dim=1)


def frame_task(settings: FinetuneSettings, index: Index, start: Start, place: Place) -> FrameTask:
    """Fine-tuning on key-frames.

    Raises:
        BasslError: one line, where the index has no key-frames, the encoder cannot be trained, or the sizes are no
            network.
    """
    if not index.keyframes:
        raise BasslError(f"{index.path}: has no key-frames; run `bassl extract-keyframes`, or leave --end-to-end out")
    return FrameTask(settings, index, start, place)


def _encoder_to_train(settings: FinetuneSettings, start: Start) -> tuple[str, Mapping[str, Tensor] | None]:
    """Name and weights of the encoder; None are those of ImageNet."""
    if start.weights is None:
        return settings.encoder or "resnet50", None
    name = start.weights.settings.encoder
    if name is None or not start.weights.encoder:
        raise BasslError(f"{start.path}: has no shot encoder to go on with; leave --end-to-end out")
    return name, start.weights.encoder
