"""How good what pre-training has learned is, on labelled videos, while it trains; nothing learns their labels."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from pipelines.evaluation.metrics import average_precision
from pipelines.evaluation.representation import SCENE_LENGTHS, knn_precision, scene_ids, scene_nmi
from pipelines.models.image_networks import TrainableEncoder
from pipelines.stages.pretrain.data import FeatureSource, KeyframeSource
from pipelines.stages.pretrain.step import Learner
from pipelines.stores.index import NO_LABEL, Index, window_rows
from pipelines.training.distributed import send

_WINDOWS = 256  # contextualised at a time


@dataclass(frozen=True, eq=False)
class LabelledVideos:
    """The videos to validate on.

    Attributes:
        index: of all videos.
        rows: (N,) all shots of the chosen ones.
        first: (V + 1,) where each chosen video begins in ``rows``.
    """

    index: Index
    rows: NDArray[np.int64]
    first: NDArray[np.int64]


def labelled_videos(index: Index, split: str) -> LabelledVideos:
    """The labelled videos of a split; all labelled ones where the split has none."""
    spans = list(zip(index.first_row[:-1].tolist(), index.first_row[1:].tolist(), strict=True))
    labelled = [bool((index.label[start:end] != NO_LABEL).any()) for start, end in spans]
    chosen = [has and own == split for has, own in zip(labelled, index.splits, strict=True)]
    if not any(chosen):
        chosen = labelled
    kept = [np.arange(start, end) for (start, end), wanted in zip(spans, chosen, strict=True) if wanted]
    first = np.cumsum([0, *map(len, kept)]).astype(np.int64)
    return LabelledVideos(index, np.concatenate([np.zeros(0, np.int64), *kept]), first)


def validate(
    learner: Learner,
    source: FeatureSource | KeyframeSource,
    encoder: TrainableEncoder | None,
    videos: LabelledVideos,
    neighbours: int,
    size: int,
) -> dict[str, float]:
    """kNN precision and NMI of the shots of labelled videos, and AP of the PP head.

    Of the encodings e where an encoder learns; with features, which do not change, of the contextualised centre shots,
    or of the contrastive head's outputs where there is no CRN. AP is that of h_PP at the centre shot, where it and the
    CRN are trained: scene ends found without ever having seen a label.

    All processes call this, and each encodes its share of the key-frames; the first takes the measures.

    Args:
        learner: the model; it comes back in training mode.
        source: where the shots are read.
        encoder: for the mean and deviation of its input; None for features.
        videos: at least one.
        neighbours: K.
        size: side of the encoder's input.

    Returns:
        ``knn@k``, ``nmi@length`` and ``ap_pp``, those that are defined; nothing in the other processes.
    """
    model, place = learner.model, learner.place
    dtype = next(model.objective.parameters(), torch.empty(0)).dtype
    model.eval()
    scores: list[Tensor] = []
    with torch.inference_mode(), learner.precision():
        if isinstance(source, FeatureSource):
            encodings = source.on_device[send(torch.from_numpy(videos.rows), place.device)].to(dtype)
        else:
            assert encoder is not None
            encodings = _encoded(learner, source, encoder, videos.rows, size)
        if place.is_first:
            contexts: list[Tensor] = []
            for some in np.array_split(np.arange(len(videos.rows)), -(-len(videos.rows) // _WINDOWS)):
                if model.crn is None:
                    break
                window = window_rows(videos.first, some, neighbours, "clip")
                # Not what --compile made of it: that is for the shapes of training.
                shots, _ = model.crn.forward(encodings[send(torch.from_numpy(window), place.device)])
                contexts.append(shots[:, neighbours])
                if model.objective.head_pp is not None:
                    logits = model.objective.head_pp(contexts[-1]).float()
                    scores.append(logits.softmax(dim=1)[:, 1].cpu())
            if encoder is None:
                encodings = torch.cat(contexts) if contexts else model.objective.head_nce(encodings)
    model.train()
    return _measures(videos, encodings, scores) if place.is_first else {}


def _encoded(
    learner: Learner, source: KeyframeSource, encoder: TrainableEncoder, rows: NDArray[np.int64], size: int
) -> Tensor:
    """Encodings (N, D_e) of the middle key-frames of rows, the work shared by all processes."""
    network, place = learner.model.encoder, learner.place
    assert network is not None
    dtype = next(network.parameters()).dtype
    encodings = torch.zeros(len(rows), encoder.width, device=place.device, dtype=dtype)
    mean, std = (send(torch.tensor(v).view(1, 3, 1, 1), place.device) for v in (encoder.mean, encoder.std))
    own = np.array_split(np.arange(len(rows)), place.processes)[place.rank]
    at = int(own[0]) if len(own) else 0
    for part in source.middle_keyframes(rows[own], size):
        pictures = ((part.float() / 255 - mean) / std).to(dtype).contiguous(memory_format=torch.channels_last)
        encodings[at : at + len(part)] = network.forward(pictures).to(dtype)
        at += len(part)
    if place.processes > 1:
        dist.all_reduce(encodings)  # all but a process's own rows are zero
    return encodings


def _measures(videos: LabelledVideos, encodings: Tensor, scores: list[Tensor]) -> dict[str, float]:
    index, rows = videos.index, videos.rows
    representation = encodings.float().cpu().numpy()
    ends, video = index.targets(rows), index.video_of(rows)
    scenes = scene_ids(ends, video)
    measures = {f"knn@{k}": v for k, v in knn_precision(representation, scenes, video).pooled.items()}
    for length in SCENE_LENGTHS:
        # One start of K-Means each: it is watched, not reported.
        measures[f"nmi@{length}"] = scene_nmi(representation, scenes, video, length, restarts=1).nmi
    if scores:
        known = np.isin(rows, index.rows_of(labelled=True))
        if ends[known].any():
            measures["ap_pp"] = average_precision(ends[known], torch.cat(scores).numpy()[known])
    return {name: value for name, value in measures.items() if not math.isnan(value)}
