"""The data of fine-tuning: the examples of an epoch for each kind of network, and the weights of shots in the loss.

Networks differ in what they read; one function each makes an epoch of it:

windows     a labeled shot with the window around it
sequences   T consecutive shots, each with the window around its cut
tokens      a labeled shot of a video that is varied from epoch to epoch
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipelines.errors import BasslError
from pipelines.models.networks import MSLSTMSettings, RelationalSettings, Shape
from pipelines.models.networks.relational import shot_tokens
from pipelines.models.networks.torch_networks import sequence_windows
from pipelines.stages.finetune import FinetuneSettings
from pipelines.stores.features import ShotRows
from pipelines.stores.index import Index, window_rows
from pipelines.training.data import DeviceRows
from pipelines.training.distributed import Process, send
from pipelines.training.loop import EXAMPLE_ORDER, VARIATIONS
from pipelines.training.relational_fit import VIEWS, LabeledVideo, vary

Loss = Literal["balanced", "plain"]
View = tuple[Tensor, NDArray[np.int64], NDArray[np.bool_]]
"""Tokens (N, F) of the relational network for a video, its targets (N,), and which of these are labels (N,)."""


@dataclass(frozen=True)
class Split:
    """Labeled videos of an index by their use, and what the epoch is chosen on: ``val``, or the ``last epoch``."""

    train: list[int]
    val: list[int]
    test: list[int]
    selected_on: str


def split_videos(settings: FinetuneSettings, index: Index, report: Callable[[str], None]) -> Split:
    """Divide the labeled videos by use. Raises BasslError if there is nothing to learn from."""
    index.check_splits(settings.data.splits, ("train", "val", "test"))

    def both_classes(videos: list[int]) -> bool:
        shots, ends = labeled_shots(index, videos)
        return 0 < ends < shots

    if any(index.splits):
        names = settings.data.splits, ("val",), ("test",)
        train, val, test = (index.videos_of(splits, labeled=True) for splits in names)
    else:
        train, val, test = index.videos_of(labeled=True), [], []
        report("no video of the index has a split: all labeled videos are used for training")
    if not both_classes(train):
        present = ", ".join(sorted({split for split in index.splits if split})) or "no splits"
        missing = f"has no videos with scene ends and other shots in {', '.join(settings.data.splits)}"
        raise BasslError(f"{index.path}: {missing} (it has {present}); label them, or choose other `splits`")
    for name, videos in (("val", val), ("test", test)):
        if set(videos) & set(train):
            report(f"the split {name} is used for training, so it neither selects the epoch nor tests the model")
            videos.clear()
        elif not both_classes(videos):
            videos.clear()
    selected_on = "val" if settings.select == "val" and val else "last epoch"
    if settings.select == "val" and not val:
        report("no videos to validate on in val: the last epoch is taken, and scores are not calibrated")
    return Split(train, val, test, selected_on)


def labeled_shots(index: Index, videos: Sequence[int]) -> tuple[int, int]:
    """Return the number of labeled shots of some videos, and how many of them are scene ends."""
    rows = index.rows(videos)
    rows = rows[index.usable[rows]]
    return len(rows), int(index.targets(rows).sum())


class LabeledVideos:
    """The videos of an index with features (T, D_e) and hue histograms (T, H; 0 where unknown) in its rows."""

    def __init__(self, index: Index, features: ShotRows, device: torch.device, color: ShotRows | None = None) -> None:
        self.index, self.features, self.color, self.device = index, features, color, device
        self.on_device = DeviceRows(features, device)
        self.durations = np.concatenate([*map(index.shot_seconds, range(len(index.video_ids)))])  # (T,) in seconds
        self.targets = index.targets(np.arange(len(index.label)))  # (T,) 0 or 1
        self.usable = index.usable  # (T,) whether the target is a label that training and scoring may use
        self.views: dict[tuple[int, int], View] = {}  # the results of :func:`view_of` so far


@dataclass(frozen=True, eq=False)
class Epoch:
    """M examples, of one shot each, or of T."""

    targets: NDArray[np.int64]  # (M,) or (M, T)
    usable: NDArray[np.bool_]  # of the same shape; others do not count in the loss
    inputs: Callable[[NDArray[np.int64]], Tensor]  # of examples (b,), what the network reads


def window_epoch(
    labeled: LabeledVideos, videos: Sequence[int], shape: Shape, dtype: torch.dtype, seed: int, epoch: int
) -> Epoch:
    """Return every labeled shot with the window around it, clipped at the video's edges."""
    assert not isinstance(shape, RelationalSettings)
    rows = labeled.index.rows(videos)
    rows = rows[labeled.usable[rows]]
    first_row, reach = labeled.index.first_row, shape.neighbors

    def inputs(examples: NDArray[np.int64]) -> Tensor:
        return labeled.on_device.read(window_rows(first_row, rows[examples], reach, "clip"), dtype)

    return Epoch(labeled.targets[rows], np.ones(len(rows), np.bool_), inputs)


def sequence_epoch(
    labeled: LabeledVideos, videos: Sequence[int], shape: Shape, dtype: torch.dtype, seed: int, epoch: int
) -> Epoch:
    """Return every video cut into sequences of T shots, with a new offset every epoch. Shots outside the video repeat
    its first or last shot and do not count in the loss."""
    assert isinstance(shape, MSLSTMSettings)
    length, reach, first_row = shape.sequence, shape.neighbors, labeled.index.first_row
    rows, inside = [], []
    for video in videos:
        span = labeled.index.span(video)
        start, end = span.start, span.stop
        offset = int(np.random.default_rng((seed, VARIATIONS, epoch, video)).integers(length))
        # As many sequences whatever the offset, so that every epoch has as many steps.
        count = -(-(end - start + length - 1) // length)
        shots = start - offset + np.arange(count * length).reshape(count, length)
        rows.append(np.clip(shots, start, end - 1))
        inside.append((shots >= start) & (shots < end))
    sequences, usable = np.concatenate(rows), np.concatenate(inside)

    def inputs(examples: NDArray[np.int64]) -> Tensor:
        return labeled.on_device.read(sequence_windows(first_row, sequences[examples], reach), dtype)

    return Epoch(labeled.targets[sequences], usable & labeled.usable[sequences], inputs)


def view_of(labeled: LabeledVideos, video: int, view: int) -> View:
    """Return a video as it is (view 0) or varied; computed once, as that takes longer than training on it."""
    if (video, view) not in labeled.views:
        span = labeled.index.span(video)
        example = LabeledVideo(
            labeled.features[span].astype(np.float32),
            labeled.durations[span],
            labeled.targets[span].astype(np.uint8),
            labeled.usable[span],
            None if labeled.color is None else labeled.color[span],
        )
        if view:
            example = vary(example, np.random.default_rng((VARIATIONS, view, video)))
        tokens = torch.from_numpy(shot_tokens(example.features, example.durations, example.color))
        assert example.known is not None
        labeled.views[video, view] = tokens, example.scene_end.astype(np.int64), example.known
    return labeled.views[video, view]


def token_epoch(
    labeled: LabeledVideos, videos: Sequence[int], shape: Shape, dtype: torch.dtype, seed: int, epoch: int
) -> Epoch:
    """Return every labeled shot as the token of its cut; an epoch shows one view of each video."""
    tables, targets = [], []
    for video in videos:
        tokens, ends, known = view_of(labeled, video, epoch % VIEWS)
        tables.append(tokens[torch.from_numpy(known)])
        targets.append(ends[known])
    table = torch.cat(tables).to(labeled.device, dtype)

    def inputs(examples: NDArray[np.int64]) -> Tensor:
        return table[send(torch.from_numpy(examples), table.device)]

    return Epoch(np.concatenate(targets), np.ones(len(table), np.bool_), inputs)


EPOCHS: Mapping[str, Callable[[LabeledVideos, Sequence[int], Shape, torch.dtype, int, int], Epoch]] = {
    "transformer": window_epoch,
    "mlp": window_epoch,
    "ms-lstm": sequence_epoch,
    "relational": token_epoch,
}
"""By the kind of network."""


@dataclass(frozen=True, eq=False)
class LabeledBatch:
    """This process's share of a step."""

    inputs: Tensor  # what the network reads
    targets: Tensor  # (b,) or (b, T)
    weights: Tensor  # of the same shape, how much each shot counts; over all processes they add up to at most 1


def batches(
    epoch: Epoch, steps: int, *, seed: int, number: int, first: int, loss: Loss, process: Process
) -> Iterator[LabeledBatch]:
    """Yield this process's batches of an epoch, from step ``first`` on, in the order of the seed and the epoch's
    ``number``. The number of processes does not change the loss of a step."""
    shuffled = np.random.default_rng((seed, EXAMPLE_ORDER, number)).permutation(len(epoch.targets))
    for examples in np.array_split(shuffled, steps)[first:]:
        weights = loss_weights(epoch.targets[examples], epoch.usable[examples], loss)
        part = np.array_split(np.arange(len(examples)), process.world_size)[process.rank]
        inputs = epoch.inputs(examples[part])
        targets, share = torch.from_numpy(epoch.targets[examples[part]]), torch.from_numpy(weights[part])
        yield LabeledBatch(inputs, send(targets, inputs.device), send(share, inputs.device))


def loss_weights(targets: NDArray[np.int64], usable: NDArray[np.bool_], loss: Loss) -> NDArray[np.float64]:
    """Return how much each usable shot of a whole batch counts in the cross-entropy; targets (0 or 1) of any shape.
    ``balanced``, the release: positives and negatives have half of the weight each, shared equally among them."""
    if loss == "plain":
        return usable / max(1, int(usable.sum()))
    positive, negative = usable & (targets == 1), usable & (targets == 0)
    weights: NDArray[np.float64] = positive / max(1, int(positive.sum())) + negative / max(1, int(negative.sum()))
    return 0.5 * weights


def weighted_cross_entropy(logits: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Return the cross-entropy of logits (..., 2), or of single logits (...) of scene ends, summed with weights."""
    if logits.shape == targets.shape:
        logits = torch.stack([torch.zeros_like(logits), logits], dim=-1)
    entropy = torch.nn.functional.cross_entropy(logits.flatten(0, -2), targets.flatten(), reduction="none")
    return (entropy * weights.flatten().to(entropy.dtype)).sum()
