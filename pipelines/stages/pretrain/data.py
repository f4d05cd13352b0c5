"""The data of pre-training: which windows make a step, in which order, and their key-frames or features.

Everything is a function of the seed, the epoch or step, and the centre shot of a window: a step's data do not depend
on what ran before it, on the number of processes, or on which worker reads them.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from pipelines.datasets.keyframe_reader import KeyframeReader
from pipelines.errors import BasslError, StoreError
from pipelines.pretext.sampling import draw_noise, joined_rows, neighbour_row
from pipelines.pretext.settings import PretextSettings
from pipelines.stores.features import features_of
from pipelines.stores.index import Index, window_rows
from pipelines.training.distributed import Place, send
from pipelines.video.resizing import resize_to_square

_ORDER, _ROWS, _KEYFRAMES, _NOISE, _AUGMENT = range(5)  # what a seed is for: no two draws share one
_CHUNK = 8  # windows that a worker reads at a time: small enough that all workers share a batch
_SHOTS = 64  # that a worker reads at a time for validation

Item = TypeVar("Item")


def torch_seed(*numbers: int) -> int:
    """One seed out of several numbers."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)


@dataclass(frozen=True)
class Plan:
    """Which windows make which step.

    Attributes:
        rows: (N,) centre shots to learn from.
        batch: windows in a step, over all processes.
        epochs: passes over the rows; the last rows of each, which fill no batch, are left out.
        seed: of the order, a new one each epoch.
    """

    rows: NDArray[np.int64]
    batch: int
    epochs: int
    seed: int

    @property
    def epoch_steps(self) -> int:
        """Steps in an epoch."""
        return len(self.rows) // self.batch

    @property
    def steps(self) -> int:
        """Steps in all."""
        return self.epoch_steps * self.epochs

    def centres(self, start: int) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
        """From a step on: step and epoch, both from 0, and the (batch,) centres of the step."""
        for epoch in range(start // self.epoch_steps, self.epochs):
            order = np.random.default_rng((self.seed, _ORDER, epoch)).permutation(self.rows)
            for step in range(max(start, epoch * self.epoch_steps), (epoch + 1) * self.epoch_steps):
                at = step - epoch * self.epoch_steps
                yield step, epoch, order[at * self.batch : (at + 1) * self.batch]


@dataclass(frozen=True, eq=False)
class WindowChooser:
    """Which rows a window consists of, for any method.

    Attributes:
        first_row: (V + 1,) of the videos.
        pretext: the method.
        neighbours: K.
        seed: of synthesized windows and of SimCLR (temporal).
    """

    first_row: NDArray[np.int64]
    pretext: PretextSettings
    neighbours: int
    seed: int

    @property
    def single(self) -> bool:
        """Whether the method looks at shots and not at windows: SimCLR (instance) and (temporal)."""
        return self.pretext.method in ("simclr-instance", "simclr-temporal")

    @property
    def dense(self) -> tuple[int, ...]:
        """Which of a window's rows are the dense sequence."""
        return (0,) if self.single else tuple(range(2 * self.neighbours + 1))

    @property
    def slow(self) -> tuple[int, ...]:
        """Which of a window's rows are, under the second augmentation, the slow sequence."""
        if self.single:
            return (1,) if self.pretext.method == "simclr-temporal" else (0,)
        return self.pretext.slow_positions(2 * self.neighbours + 1)

    def rows(self, epoch: int, centres: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64] | None]:
        """(B, T) rows of the windows around the centres, and (B,) where they are joined, for synthesized ones.

        T is 2K+1; for SimCLR (instance) 1, the shot itself; for SimCLR (temporal) 2, a shot and another one near it.
        """
        windows = window_rows(self.first_row, centres, self.neighbours, "shift")
        if self.pretext.method == "simclr-instance":
            return centres[:, None], None
        draws = [np.random.default_rng((self.seed, _ROWS, epoch, int(centre))) for centre in centres]
        if self.pretext.method == "simclr-temporal":
            others = [
                neighbour_row(window, int(centre), rng)
                for window, centre, rng in zip(windows, centres, draws, strict=True)
            ]
            return np.stack([centres, np.array(others, np.int64)], axis=1), None
        if self.pretext.needs_boundary and self.pretext.pseudo_boundary == "synthesized":
            # The other video is drawn by its shots, so that each shot is as likely as any other to be a right side.
            first, last = (self.first_row[np.searchsorted(self.first_row, centres, "right") + k] for k in (-1, 0))
            others = [
                int(rng.integers(self.first_row[-1] - (b - a))) for rng, a, b in zip(draws, first, last, strict=True)
            ]
            strange = np.array(
                [o if o < a else o + b - a for o, a, b in zip(others, first, last, strict=True)], np.int64
            )
            right = window_rows(self.first_row, strange, self.neighbours, "shift")
            joined = [joined_rows(left, other, rng) for left, other, rng in zip(windows, right, draws, strict=True)]
            return np.stack([rows for rows, _ in joined]), np.array([int(b) for _, b in joined], np.int64)
        return windows, None


@dataclass(frozen=True, eq=False)
class Batch:
    """The windows of one process in one step, on its device.

    Attributes:
        step, epoch: from 0.
        shots: (B, T, D_e) encodings or (B, T, 3, Q, Q) uint8 key-frames of the rows that :class:`WindowChooser` names.
        frame: (B, 2) height and width of the frames that key-frames were squeezed from; on the CPU. Empty for features.
        joins: (B,) for synthesized windows.
    """

    step: int
    epoch: int
    shots: Tensor
    frame: Tensor
    joins: Tensor | None


class Source(Protocol):
    """Where batches come from."""

    def batches(self, plan: Plan, start: int) -> Iterator[Batch]:
        """The batches of this process from a step on."""


def noise_of(plan: Plan, step: int, shots: int, place: Place) -> Tensor:
    """The chance of the pretext tasks in a step: this process's part of what is drawn for the global batch."""
    generator = torch.Generator().manual_seed(torch_seed(plan.seed, _NOISE, step))
    return send(draw_noise(plan.batch, shots, generator)[place.share(plan.batch)], place.device)


def augmentation_generator(plan: Plan, step: int) -> torch.Generator:
    """What the augmentations of a step's global batch are drawn from: first the dense sequences', then the slow."""
    return torch.Generator().manual_seed(torch_seed(plan.seed, _AUGMENT, step))


class FeatureSource:
    """Windows of the encodings of a feature store, all of them in the device's memory.

    Args:
        index: of the videos.
        stores: features of at least these videos, of one width.
        chooser: which rows make a window.
        place: this process.

    Raises:
        StoreError: one line, for a store that does not fit the index.
    """

    def __init__(self, index: Index, stores: Sequence[Path], chooser: WindowChooser, place: Place) -> None:
        self.encoder, self.features = features_of(index, stores)
        self.chooser, self.place = chooser, place
        self.on_device = torch.from_numpy(self.features).to(place.device)

    def batches(self, plan: Plan, start: int) -> Iterator[Batch]:
        device = self.place.device
        for step, epoch, centres in plan.centres(start):
            rows, joins = self.chooser.rows(epoch, centres[self.place.share(plan.batch)])
            shots = self.on_device[send(torch.from_numpy(rows), device)]
            yield Batch(
                step, epoch, shots, torch.empty(0), None if joins is None else send(torch.from_numpy(joins), device)
            )


@dataclass(frozen=True, eq=False)
class _Chunk:
    pictures: Tensor  # (b, T, 3, Q, Q) uint8
    frame: Tensor  # (b, 2)
    joins: Tensor | None

    def pin_memory(self) -> _Chunk:
        """For the loader, which has a thread for this."""
        joins = None if self.joins is None else self.joins.pin_memory()
        return _Chunk(self.pictures.pin_memory(), self.frame, joins)


class _Windows(Dataset["_Chunk | BasslError"]):
    """Some windows of a step, by (epoch, centres)."""

    def __init__(self, index: Path, chooser: WindowChooser, size: int) -> None:
        self.reader = KeyframeReader(index)
        self.chooser, self.size = chooser, size

    def __getitem__(self, item: tuple[int, NDArray[np.int64]]) -> _Chunk | BasslError:
        epoch, centres = item
        try:
            rows, joins = self.chooser.rows(epoch, centres)
            read = [self._window(epoch, int(c), window) for c, window in zip(centres, rows, strict=True)]
        except BasslError as error:
            return error  # a loader would make a traceback of it
        # Channels last in memory, as a convolution likes it, and channels first in shape.
        pictures = torch.from_numpy(np.stack([window for window, _ in read])).permute(0, 1, 4, 2, 3)
        frame = torch.tensor([shape for _, shape in read])
        return _Chunk(pictures, frame, None if joins is None else torch.from_numpy(joins))

    def _window(self, epoch: int, centre: int, rows: NDArray[np.int64]) -> tuple[NDArray[np.uint8], tuple[int, int]]:
        """One random key-frame of each row (T, Q, Q, 3), and the size of the first row's frames."""
        index = self.reader.index
        rng = np.random.default_rng((self.chooser.seed, _KEYFRAMES, epoch, centre))
        images = rng.integers(0, index.keyframes, (len(rows), 1))
        pictures = np.empty((len(rows), self.size, self.size, 3), np.uint8)
        frame = (0, 0)
        video = index.video_of(rows)
        for one in np.unique(video):
            # The reader takes rows of one video in their order.
            places = np.flatnonzero(video == one)
            places = places[np.argsort(rows[places], kind="stable")]
            jpegs = self.reader.read(rows[places], images[places])
            for place, (jpeg,) in zip(places, jpegs, strict=True):
                picture = self.reader.decoded(int(rows[place]), jpeg)
                pictures[place] = resize_to_square(picture, self.size)
                if place == 0:
                    frame = (picture.shape[0], picture.shape[1])
        return pictures, frame


class _MiddleKeyframes(Dataset["Tensor | BasslError"]):
    """The middle key-frame of each of some rows, (n, 3, size, size)."""

    def __init__(self, reader: KeyframeReader, size: int) -> None:
        self.reader, self.size = reader, size

    def __getitem__(self, rows: NDArray[np.int64]) -> Tensor | BasslError:
        middle = np.array([[self.reader.index.keyframes // 2]])
        try:
            read = [(int(row), self.reader.read(np.array([row]), middle)[0][0]) for row in rows]
            pictures = [resize_to_square(self.reader.decoded(row, jpeg), self.size) for row, jpeg in read]
        except BasslError as error:
            return error
        return torch.from_numpy(np.stack(pictures)).permute(0, 3, 1, 2)


class KeyframeSource:
    """Windows of key-frames, read and decoded by worker processes.

    Args:
        index: of the videos.
        chooser: which rows make a window.
        place: this process.
        workers: processes that read; 0 reads in this one.
        size: Q, side of the square that key-frames are squeezed to.

    Raises:
        StoreError: one line, where a video has no key-frames.
    """

    def __init__(self, index: Index, chooser: WindowChooser, place: Place, workers: int, size: int) -> None:
        for video_id, pictures in zip(index.video_ids, index.pictures, strict=True):
            if pictures is None or index.keyframes == 0:
                raise StoreError(
                    f"{index.path}: has no key-frames of {video_id}; run `bassl extract-keyframes`, "
                    "or name a feature store with --features"
                )
        self.windows = _Windows(index.path, chooser, size)
        self.place, self.workers = place, workers

    def batches(self, plan: Plan, start: int) -> Iterator[Batch]:
        own = self.place.share(plan.batch)
        local = own.stop - own.start
        device = self.place.device

        def items() -> Iterator[tuple[int, NDArray[np.int64]]]:
            for _, epoch, centres in plan.centres(start):
                for at in range(own.start, own.stop, _CHUNK):
                    yield epoch, centres[at : min(at + _CHUNK, own.stop)]

        per_batch = -(-local // _CHUNK)
        chunks = read_ahead(self.windows, items, self.workers, device, 2 * per_batch)
        for step, epoch, _ in plan.centres(start):
            parts: list[_Chunk] = [next(chunks) for _ in range(per_batch)]
            joins = [part.joins for part in parts if part.joins is not None]
            yield Batch(
                step,
                epoch,
                torch.cat([part.pictures.to(device, non_blocking=True) for part in parts]),
                torch.cat([part.frame for part in parts]),
                torch.cat([part.to(device, non_blocking=True) for part in joins]) if joins else None,
            )

    def middle_keyframes(self, rows: NDArray[np.int64], size: int) -> Iterator[Tensor]:
        """The middle key-frames of rows in their order, some at a time, (n, 3, size, size), on the device.

        Squeezed at once to what a frozen encoder sees, and not as for training, where a crop follows.
        """
        device = self.place.device
        parts = np.array_split(rows, -(-len(rows) // _SHOTS)) if len(rows) else []
        pictures = _MiddleKeyframes(self.windows.reader, size)
        for part in read_ahead(pictures, lambda: iter(parts), min(self.workers, len(parts)), device, len(parts)):
            yield part.to(device, non_blocking=True)


def read_ahead(
    data: Dataset[Any], items: Callable[[], Iterable[Item]], workers: int, device: torch.device, ahead: int
) -> Iterator[Any]:
    """What a dataset gives for items, in their order, read by worker processes before it is asked for.

    Args:
        data: gives something, or the BasslError that it met, for an item.
        items: called for the items once.
        workers: processes; 0 reads in this one.
        device: where the data go next; for a GPU they come in pinned memory.
        ahead: how many items are to be read ahead, by all workers together.

    Raises:
        BasslError: what the dataset gave.
        RuntimeError: a worker died; see :func:`pipelines.stages.pretrain.step.limits_in_one_line`.
    """

    class Items:
        def __iter__(self) -> Iterator[Item]:
            return iter(items())

    cuda = device.type == "cuda"
    loader: DataLoader[Any] = DataLoader(
        data,
        batch_size=None,
        sampler=Items(),  # of things to read, and not of positions
        num_workers=workers,
        prefetch_factor=max(2, -(-ahead // workers)) if workers else None,
        # A forked worker has the locks of threads that it has not: CUDA's driver's, and those of PyTorch on a CPU too.
        multiprocessing_context="forkserver" if workers else None,
        worker_init_fn=_begin_worker,
        pin_memory=cuda,
    )
    for read in loader:
        if isinstance(read, BasslError):
            raise read
        yield read


def _begin_worker(worker: int) -> None:
    import cv2

    cv2.setNumThreads(1)
    torch.set_num_threads(1)
    # Ctrl-C reaches all processes of a terminal: the one that trains takes its step to the end, and needs its data.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
