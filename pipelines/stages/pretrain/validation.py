"""Validation of pre-training on labelled videos; their labels are not used for training."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import Dataset

from pipelines.datasets.keyframe_reader import KeyframeReader
from pipelines.errors import BasslError
from pipelines.evaluation.metrics import average_precision
from pipelines.evaluation.representation import SCENE_LENGTHS, knn_precision, scene_ids, scene_nmi
from pipelines.models.image_networks import TrainableEncoder
from pipelines.stages.pretrain.data import FeatureWindows
from pipelines.stages.pretrain.model import Trainer
from pipelines.stages.pretrain.settings import PretrainSettings
from pipelines.stores.features import having
from pipelines.stores.index import NO_LABEL, Index, window_rows
from pipelines.training.distributed import send
from pipelines.training.keyframe_windows import KeyframeWindows, read_ahead
from pipelines.video.resizing import resize_to_square

_WINDOWS = 256  # contextualised at a time
_SHOTS = 64  # read by a worker at a time


@dataclass(frozen=True, eq=False)
class LabelledVideos:
    """The videos to validate on."""

    index: Index
    numbers: list[int]  # in the index
    rows: NDArray[np.int64]  # (N,) all their shots
    first: NDArray[np.int64]  # (V + 1,) where each video begins in ``rows``


def labelled_videos(settings: PretrainSettings, index: Index) -> LabelledVideos:
    """The labelled videos of the validation split, or of all splits if it has none, that have keyframes, or features in
    the stores of the settings."""
    stores = settings.data.features
    labelled = [
        video
        for video, (name, keyframes) in enumerate(zip(index.video_ids, index.keyframe_sources, strict=True))
        if (having(stores, name) if stores else keyframes is not None)
        and (index.label[index.span(video)] != NO_LABEL).any()
    ]
    numbers = [video for video in labelled if index.splits[video] == settings.validate_split] or labelled
    first = np.cumsum([0, *(len(index.rows([video])) for video in numbers)]).astype(np.int64)
    return LabelledVideos(index, numbers, index.rows(numbers), first)


def validate(
    trainer: Trainer,
    source: FeatureWindows | KeyframeWindows,
    encoder: TrainableEncoder | None,
    videos: LabelledVideos,
    *,
    neighbours: int,
    size: int,
) -> dict[str, float]:
    """kNN precision and NMI of the shots of labelled videos, and AP of the PP head at the center shot: ``knn@k``,
    ``nmi@length`` and ``ap_pp`` (scene ends found without labels), as far as they are defined.

    kNN and NMI measure the encodings e if an encoder is trained; with features, which do not change, the contextualized
    center shots, or the contrastive head's outputs if there is no CRN. All processes call this and encode their share
    of the keyframes; the first returns the metrics, the others an empty dictionary.
    """
    model, process = trainer.model, trainer.process
    dtype = next(model.objective.parameters(), torch.empty(0)).dtype
    model.eval()
    scores: list[Tensor] = []
    with torch.inference_mode(), trainer.autocast():
        encodings = torch.empty(0)
        if isinstance(source, KeyframeWindows):
            assert encoder is not None
            encodings = _encode_shots(trainer, source, encoder, videos.rows, size)
        if process.is_first:
            contexts: list[Tensor] = []
            for some in np.array_split(np.arange(len(videos.rows)), -(-len(videos.rows) // _WINDOWS)):
                if model.crn is None:
                    break
                window = window_rows(videos.first, some, neighbours, "clip")
                if isinstance(source, FeatureWindows):
                    shots = source.on_device.gather(videos.rows[window], dtype)
                else:
                    shots = encodings[send(torch.from_numpy(window), process.device)]
                # Not the compiled network: it was compiled for the shapes of training.
                contexts.append(model.crn.forward(shots)[0][:, neighbours])
                if model.objective.head_pp is not None:
                    logits = model.objective.head_pp(contexts[-1]).float()
                    scores.append(logits.softmax(dim=1)[:, 1].cpu())
            if isinstance(source, FeatureWindows) and contexts:
                encodings = torch.cat(contexts)
            elif isinstance(source, FeatureWindows):
                encodings = model.objective.head_nce(source.on_device.gather(videos.rows, dtype))
    model.train()
    return _measures(videos, encodings, scores) if process.is_first else {}


def _encode_shots(
    trainer: Trainer, source: KeyframeWindows, encoder: TrainableEncoder, rows: NDArray[np.int64], size: int
) -> Tensor:
    """Encodings (N, D_e) of the middle keyframes of rows; all processes share the work."""
    network, process = trainer.model.encoder, trainer.process
    assert network is not None
    dtype = next(network.parameters()).dtype
    encodings = torch.zeros(len(rows), encoder.width, device=process.device, dtype=dtype)
    mean, std = (send(torch.tensor(v).view(1, 3, 1, 1), process.device) for v in (encoder.mean, encoder.std))
    if process.world_size > 1:
        for buffer in network.buffers():  # on a CPU each process has its own BN statistics
            dist.broadcast(buffer, 0)
    own = np.array_split(np.arange(len(rows)), process.world_size)[process.rank]
    at = int(own[0]) if len(own) else 0
    for part in _middle_keyframes(source, rows[own], size):
        frames = ((part.float() / 255 - mean) / std).to(dtype).contiguous(memory_format=torch.channels_last)
        encodings[at : at + len(part)] = network.forward(frames).to(dtype)
        at += len(part)
    if process.world_size > 1:
        dist.all_reduce(encodings)  # rows of other processes are zero
    return encodings


class _MiddleKeyframes(Dataset["Tensor | BasslError"]):
    """The middle keyframes of rows, (n, 3, size, size) uint8."""

    def __init__(self, reader: KeyframeReader, size: int) -> None:
        self.reader, self.size = reader, size

    def __getitem__(self, rows: NDArray[np.int64]) -> Tensor | BasslError:
        middle = np.array([[self.reader.index.keyframes // 2]])
        try:
            read = [(int(row), self.reader.read(np.array([row]), middle)[0][0]) for row in rows]
            frames = [resize_to_square(self.reader.decoded(row, jpeg), self.size) for row, jpeg in read]
        except BasslError as error:
            return error
        return torch.from_numpy(np.stack(frames)).permute(0, 3, 1, 2)


def _middle_keyframes(source: KeyframeWindows, rows: NDArray[np.int64], size: int) -> Iterator[Tensor]:
    """Batches of the middle keyframes of rows, in their order, (n, 3, size, size), on the device."""
    device = source.process.device
    parts = np.array_split(rows, -(-len(rows) // _SHOTS)) if len(rows) else []
    data, workers = _MiddleKeyframes(KeyframeReader(source.index), size), min(source.workers, len(parts))
    for part in read_ahead(data, lambda: iter(parts), workers=workers, device=device, ahead=2 * workers):
        yield part.to(device, non_blocking=True)


def _measures(videos: LabelledVideos, encodings: Tensor, scores: list[Tensor]) -> dict[str, float]:
    index, rows = videos.index, videos.rows
    representation = encodings.float().cpu().numpy()
    ends, video = index.targets(rows), index.video_of(rows)
    scenes = scene_ids(ends, video)
    measures = {f"knn@{k}": v for k, v in knn_precision(representation, scenes, video).pooled.items()}
    for length in SCENE_LENGTHS:
        # One start of K-Means is enough to watch a run.
        measures[f"nmi@{length}"] = scene_nmi(representation, scenes, video, length, restarts=1).nmi
    if scores:
        known = np.isin(rows, index.rows_of(labelled=True))
        if ends[known].any():
            measures["ap_pp"] = average_precision(ends[known], torch.cat(scores).numpy()[known])
    return {name: value for name, value in measures.items() if not math.isnan(value)}
