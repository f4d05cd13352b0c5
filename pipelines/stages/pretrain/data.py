"""Data for pre-training: the shots of a window for each method, from keyframes or from features, and random draws."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipelines.pretext import AugmentationSettings, PretextSettings
from pipelines.pretext.pseudo_boundary import draw_noise, joined_rows, neighbor_row
from pipelines.stores.features import features_of
from pipelines.stores.index import Index, window_rows
from pipelines.training.augmentation import augment, crop_frames, plan_augmentations, random_numbers
from pipelines.training.data import DeviceRows, WindowBatch, WindowOrder
from pipelines.training.distributed import Process, send
from pipelines.training.loop import AUGMENTATION, PRETEXT_NOISE, WINDOW_ROWS, torch_seed


@dataclass(frozen=True, eq=False)
class PretextWindows:
    """The rows of a window, for any method."""

    first_row: NDArray[np.int64]  # (V + 1,) of the videos
    pretext: PretextSettings
    neighbors: int  # K
    seed: int  # of synthesized windows and of SimCLR (temporal)
    learned: NDArray[np.int64] | None = None  # (N,) rows, sorted, of the videos to learn from; None: all

    @property
    def single(self) -> bool:
        """Return whether the method compares single shots."""
        return self.pretext.method in ("simclr-instance", "simclr-temporal")

    @property
    def dense(self) -> tuple[int, ...]:
        """Return which of a window's rows are the dense sequence: the first ones."""
        return (0,) if self.single else tuple(range(2 * self.neighbors + 1))

    @property
    def slow(self) -> tuple[int, ...]:
        """Return which of a window's rows are, under the second augmentation, the slow sequence."""
        if self.single:
            return (1,) if self.pretext.method == "simclr-temporal" else (0,)
        return self.pretext.slow_positions(2 * self.neighbors + 1)

    def rows(self, epoch: int, centers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
        """Return (B, T) rows of the windows around the centers, and (B,) positions of the joins of synthesized windows.
        T is 2K+1; for SimCLR (instance) 1, the shot itself; for SimCLR (temporal) 2, a shot and another one near it."""
        windows = window_rows(self.first_row, centers, self.neighbors, "shift")
        if self.pretext.method == "simclr-instance":
            return centers[:, None], None
        draws = [np.random.default_rng((self.seed, WINDOW_ROWS, epoch, int(center))) for center in centers]
        if self.pretext.method == "simclr-temporal":
            triples = zip(windows, centers.tolist(), draws, strict=True)
            others = [neighbor_row(window, center, rng) for window, center, rng in triples]
            return np.stack([centers, np.array(others, np.int64)], axis=1), None
        if self.pretext.needs_boundary and self.pretext.pseudo_boundary == "synthesized":
            # The other video is drawn by its shots, so that each shot is as likely as any other to be a right side.
            rows = np.arange(self.first_row[-1]) if self.learned is None else self.learned
            ends = (self.first_row[np.searchsorted(self.first_row, centers, "right") + k] for k in (-1, 0))
            first, last = (np.searchsorted(rows, end) for end in ends)
            others = [int(rng.integers(len(rows) - (b - a))) for rng, a, b in zip(draws, first, last, strict=True)]
            strange = rows[[o if o < a else o + b - a for o, a, b in zip(others, first, last, strict=True)]]
            right = window_rows(self.first_row, strange, self.neighbors, "shift")
            joined = [joined_rows(left, other, rng) for left, other, rng in zip(windows, right, draws, strict=True)]
            return np.stack([rows for rows, _ in joined]), np.array([b for _, b in joined], np.int64)
        return windows, None


@dataclass(frozen=True)
class CroppedViews:
    """The images of windows in pre-training, as `WindowImages`: crops of the dense sequence, then of the slow one."""

    views: tuple[tuple[int, ...], tuple[int, ...]]  # the rows of a window in each
    seed: int
    batch: int  # windows in a step
    augmentation: AugmentationSettings

    def numbers(self, step: int) -> list[Tensor]:
        """Return the random numbers that augment each sequence of all windows of a step."""
        generator = torch.Generator().manual_seed(torch_seed(self.seed, AUGMENTATION, step))
        return [random_numbers(self.batch, len(shots), generator) for shots in self.views]

    def __call__(
        self, windows: Iterator[list[NDArray[np.uint8]]], step: int, first: int
    ) -> Iterator[NDArray[np.uint8]]:
        numbers = self.numbers(step)
        for place, frames in enumerate(windows, first):
            for shots, drawn in zip(self.views, numbers, strict=True):
                yield crop_frames([frames[k] for k in shots], drawn[place : place + 1], self.augmentation)


def noise_of(order: WindowOrder, step: int, shots: int, process: Process) -> Tensor:
    """Return the random draws of the pretext tasks in a step for this process's part of the global batch."""
    generator = torch.Generator().manual_seed(torch_seed(order.seed, PRETEXT_NOISE, step))
    return send(draw_noise(order.batch, shots, generator)[process.share(order.batch)], process.device)


class FeatureWindows:
    """Windows of the encodings of feature stores. Raises StoreError for a store that does not fit the index."""

    def __init__(
        self,
        index: Index,
        stores: Sequence[Path],
        windows: PretextWindows,
        process: Process,
        videos: Sequence[int] | None = None,
    ) -> None:
        stored = features_of(index, stores, videos)
        self.encoder, self.width = stored.encoder, stored.features.width
        self.index, self.windows, self.process = index, windows, process
        self.on_device = DeviceRows(stored.features, process.device)

    def batches(self, order: WindowOrder, start: int) -> Iterator[WindowBatch]:
        """Yield the batches of this process from a step on."""
        device = self.process.device
        for step, epoch, centers in order.centers(start):
            rows, joins = self.windows.rows(epoch, centers[self.process.share(order.batch)])
            shots = self.on_device.read(rows)
            yield WindowBatch(step, shots, None if joins is None else send(torch.from_numpy(joins), device))


Views = Callable[[slice], tuple[Tensor, Tensor]]  # dense (b, S, ...) and slow (b, n, ...) sequences


def make_views(
    windows: PretextWindows, batch: WindowBatch, process: Process, cropped: CroppedViews | None, dtype: torch.dtype
) -> Views:
    """Return the dense and slow sequences of a batch, in ``dtype``; ``cropped`` keyframes are augmented."""
    length = len(windows.dense)
    if cropped is None:
        shots = batch.shots.to(dtype)
        # A list as an index would become a tensor, and copying that to a GPU waits for the GPU.
        return lambda part: (shots[part, :length], torch.stack([shots[part, k] for k in windows.slow], dim=1))
    share, augmentation = process.share(cropped.batch), cropped.augmentation
    dense, slow = (plan_augmentations(numbers[share], augmentation) for numbers in cropped.numbers(batch.step))

    def views(part: slice) -> tuple[Tensor, Tensor]:
        crops = batch.shots[part]
        return (
            augment(crops[:, :length], dense.part(part), augmentation).to(dtype),
            augment(crops[:, length:], slow.part(part), augmentation).to(dtype),
        )

    return views
