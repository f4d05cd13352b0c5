"""Validation of pre-training on labeled videos; their labels are not used for training."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import Dataset

from pipelines.datasets.keyframe_reader import KeyframeReader
from pipelines.errors import BasslError
from pipelines.evaluation.metrics import average_precision
from pipelines.evaluation.representation import SCENE_LENGTHS, knn_precision, scene_ids, scene_nmi
from pipelines.models.encoders.torch_encoders import TrainableEncoder
from pipelines.stages.pretrain.data import FeatureWindows
from pipelines.stages.pretrain.model import PretrainModel
from pipelines.stages.pretrain.settings import PretrainSettings
from pipelines.stores.features import stores_with
from pipelines.stores.index import NO_LABEL, Index, window_rows
from pipelines.training.distributed import Process, send
from pipelines.training.keyframe_windows import KeyframeWindows, read_ahead
from pipelines.training.loop import Trainer
from pipelines.video.images import resize_and_crop

_WINDOWS = 256  # contextualized at a time
_SHOTS = 21  # read by a worker at a time, and encoded together: 63 images


@dataclass(frozen=True, eq=False)
class LabeledVideos:
    """The videos to validate on."""

    index: Index
    numbers: list[int]  # in the index
    rows: NDArray[np.int64]  # (N,) all their shots
    first: NDArray[np.int64]  # (V + 1,) where each video begins in ``rows``


def labeled_videos(settings: PretrainSettings, index: Index) -> LabeledVideos:
    """Return the labeled videos of the validation split, or of all splits if it has none, that have keyframes, or
    features in the stores of the settings."""
    stores = settings.data.features
    labeled = [
        video
        for video, (name, keyframes) in enumerate(zip(index.video_ids, index.keyframe_sources, strict=True))
        if (stores_with(stores, name) if stores else keyframes is not None)
        and (index.label[index.span(video)] != NO_LABEL).any()
    ]
    numbers = [video for video in labeled if index.splits[video] == settings.validate_split] or labeled
    first = np.cumsum([0, *(len(index.rows([video])) for video in numbers)]).astype(np.int64)
    return LabeledVideos(index, numbers, index.rows(numbers), first)


def validate(
    trainer: Trainer,
    model: PretrainModel,
    source: FeatureWindows | KeyframeWindows,
    encoder: TrainableEncoder | None,
    videos: LabeledVideos,
    *,
    neighbors: int,
    size: int,
) -> dict[str, float]:
    """kNN precision and NMI of the shots of labeled videos, and AP of the PP head at the center shot: ``knn@k``,
    ``nmi@length`` and ``ap_pp`` (scene ends found without labels), as far as they are defined.

    kNN and NMI measure the encodings e if an encoder is trained; with features, which do not change, the contextualized
    center shots, or the contrastive head's outputs if there is no CRN. All processes call this and share the keyframes
    and windows; the first returns the metrics, the others an empty dictionary.
    """
    process = trainer.process
    dtype = next(model.objective.parameters(), torch.empty(0)).dtype
    model.eval()
    with torch.inference_mode(), trainer.autocast():
        if isinstance(source, KeyframeWindows):
            assert encoder is not None
            encodings = _encode_shots(process, model.encoder, source, encoder, videos.rows, size)

        def shots(rows: NDArray[np.int64]) -> Tensor:
            if isinstance(source, FeatureWindows):
                return source.on_device.gather(videos.rows[rows], dtype)
            return encodings[send(torch.from_numpy(rows), process.device)]

        def contextualize(rows: NDArray[np.int64]) -> Tensor:
            assert model.crn is not None
            window = window_rows(videos.first, rows, neighbors, "clip")
            # Not the compiled network: it was compiled for the shapes of training.
            centers: Tensor = model.crn.forward(shots(window))[0][:, neighbors]
            return centers

        scores, count = None, len(videos.rows)
        if model.crn is not None:
            contexts = share_rows(process, count, contextualize)
            if isinstance(source, FeatureWindows):
                encodings = contexts
            if model.objective.head_pp is not None and process.is_first:
                scores = model.objective.head_pp(contexts).float().softmax(dim=1)[:, 1].cpu()
        elif isinstance(source, FeatureWindows):
            encodings = share_rows(process, count, lambda rows: model.objective.head_nce(shots(rows)))
    model.train()
    return _measures(videos, encodings, scores) if process.is_first else {}


def share_rows(process: Process, count: int, compute: Callable[[NDArray[np.int64]], Tensor]) -> Tensor:
    """Return the values (count, D) of rows 0 to ``count``; each process computes a block of them, some rows at a
    time."""
    own = np.array_split(np.arange(count), process.world_size)[process.rank]
    rows = own if len(own) else np.zeros(1, np.int64)  # the width is known from a value
    parts = torch.cat([compute(some) for some in np.array_split(rows, -(-len(rows) // _WINDOWS))])
    if process.world_size == 1:
        return parts
    values = parts.new_zeros(count, parts.shape[1])
    values[send(torch.from_numpy(own), process.device)] = parts[: len(own)]
    dist.all_reduce(values)  # rows of other processes are zero
    return values


def _encode_shots(
    process: Process,
    network: nn.Module | None,
    source: KeyframeWindows,
    encoder: TrainableEncoder,
    rows: NDArray[np.int64],
    size: int,
) -> Tensor:
    """Return encodings (N, D_e) of rows, as `bassl encode` makes them: means over the centers of all keyframes. All
    processes share the work."""
    assert network is not None
    dtype = next(network.parameters()).dtype
    encodings = torch.zeros(len(rows), encoder.width, device=process.device, dtype=dtype)
    mean, std = (send(torch.tensor(v).view(1, 3, 1, 1), process.device) for v in (encoder.mean, encoder.std))
    if process.world_size > 1:
        for buffer in network.buffers():  # on a CPU each process has its own BN statistics
            dist.broadcast(buffer, 0)
    own = np.array_split(np.arange(len(rows)), process.world_size)[process.rank]
    at = int(own[0]) if len(own) else 0
    for part in _keyframes(source, rows[own], size):
        frames = ((part.flatten(0, 1).float() / 255 - mean) / std).to(dtype)
        encoded = network.forward(frames.contiguous(memory_format=torch.channels_last)).to(dtype)
        encodings[at : at + len(part)] = encoded.view(*part.shape[:2], -1).mean(dim=1)
        at += len(part)
    if process.world_size > 1:
        dist.all_reduce(encodings)  # rows of other processes are zero
    return encodings


class _Keyframes(Dataset["Tensor | BasslError"]):
    """The centers of all keyframes of rows, (n, N_k, 3, size, size) uint8."""

    def __init__(self, reader: KeyframeReader, size: int) -> None:
        self.reader, self.size = reader, size

    def __getitem__(self, rows: NDArray[np.int64]) -> Tensor | BasslError:
        images = np.arange(self.reader.index.keyframes)[None]
        frames = np.empty((len(rows), images.size, self.size, self.size, 3), np.uint8)
        try:
            for own, row in zip(frames, rows, strict=True):
                for image, jpeg in enumerate(self.reader.read(np.array([row]), images)[0]):
                    own[image] = resize_and_crop(self.reader.decoded(int(row), jpeg), self.size)
        except BasslError as error:
            return error
        return torch.from_numpy(frames).permute(0, 1, 4, 2, 3)


def _keyframes(source: KeyframeWindows, rows: NDArray[np.int64], size: int) -> Iterator[Tensor]:
    """Yield batches of all keyframes of rows, in their order, (n, N_k, 3, size, size), on the device."""
    device = source.process.device
    parts = np.array_split(rows, -(-len(rows) // _SHOTS)) if len(rows) else []
    data, workers = _Keyframes(KeyframeReader(source.index), size), min(source.workers, len(parts))
    for part in read_ahead(data, lambda: iter(parts), workers=workers, device=device, ahead=2 * workers):
        yield part.to(device, non_blocking=True)


def _measures(videos: LabeledVideos, encodings: Tensor, scores: Tensor | None) -> dict[str, float]:
    index, rows = videos.index, videos.rows
    representation = encodings.float().cpu().numpy()
    ends, video = index.targets(rows), index.video_of(rows)
    scenes = scene_ids(ends, video)
    measures = {f"knn@{k}": v for k, v in knn_precision(representation, scenes, video).pooled.items()}
    for length in SCENE_LENGTHS:
        # One start of K-Means is enough to watch a run.
        measures[f"nmi@{length}"] = scene_nmi(representation, scenes, video, length, restarts=1).nmi
    if scores is not None:
        known = np.isin(rows, index.rows_of(labeled=True))
        if ends[known].any():
            measures["ap_pp"] = average_precision(ends[known], scores.numpy()[known])
    return {name: value for name, value in measures.items() if not math.isnan(value)}
