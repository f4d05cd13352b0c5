"""The data of pre-training: which windows make a step, in which order, and their key-frames or features.

Everything is a function of the seed, the epoch or step, and the centre shot of a window: a step's data do not depend
on what ran before it, on the number of processes, or on which worker reads them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from pipelines.datasets.windows import KeyframeReader, decode_whole
from pipelines.errors import BasslError, StoreError
from pipelines.models.encoders import resize_to_square
from pipelines.pretext.sampling import draw_noise, joined_rows, neighbour_row
from pipelines.pretext.settings import PretextSettings
from pipelines.stores.features import read_features
from pipelines.stores.index import Index, window_rows
from pipelines.training.distributed import Place

_ORDER, _ROWS, _KEYFRAMES, _NOISE, _AUGMENT = range(5)  # what a seed is for: no two draws share one
_CHUNK = 8  # windows that a worker reads at a time: small enough that all workers share a batch


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
    return draw_noise(plan.batch, shots, generator)[place.share(plan.batch)].to(place.device)


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
            shots = self.on_device[torch.from_numpy(rows).to(device)]
            yield Batch(
                step, epoch, shots, torch.empty(0), None if joins is None else torch.from_numpy(joins).to(device)
            )


def features_of(index: Index, stores: Sequence[Path]) -> tuple[str, NDArray[np.float32]]:
    """What encoder made them, and the features (T, D_e) of feature stores in the rows of an index.

    Raises:
        StoreError: one line, where a video of the index is in no store, or with another number of shots, or where the
            stores' features have different widths.
    """
    encoders: list[str] = []
    videos: dict[str, NDArray[np.floating]] = {}
    for store in stores:
        encoder, held = read_features(store)
        encoders += [] if encoder in encoders else [encoder]
        videos |= held
    named = ", ".join(map(str, stores))
    for video_id, length in zip(index.video_ids, np.diff(index.first_row).tolist(), strict=True):
        if video_id not in videos:
            raise StoreError(f"{named}: has no features of {video_id}, which is in {index.path}; name its store too")
        if len(videos[video_id]) != length:
            raise StoreError(
                f"{named}: has {len(videos[video_id])} shots of {video_id} where {index.path} has {length}; "
                "build both together"
            )
    parts = [videos[name] for name in index.video_ids]
    if len({part.shape[1] for part in parts}) > 1:
        raise StoreError(f"{named}: features of different widths cannot be mixed; name stores of one encoder")
    return " + ".join(encoders), np.concatenate(parts).astype(np.float32)


@dataclass(frozen=True, eq=False)
class _Chunk:
    pictures: Tensor  # (b, T, 3, Q, Q) uint8
    frame: Tensor  # (b, 2)
    joins: Tensor | None


class _Chunks(Dataset["_Chunk | BasslError"]):
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
            for place, (jpeg,) in zip(places, self.reader.read(rows[places], images[places]), strict=True):
                try:
                    picture = decode_whole(jpeg)
                except ValueError as error:
                    raise StoreError(f"{self.reader.shot(int(rows[place]))} has a key-frame that is {error}") from error
                pictures[place] = resize_to_square(picture, self.size)
                if place == 0:
                    frame = (picture.shape[0], picture.shape[1])
        return pictures, frame


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
        self.chunks = _Chunks(index.path, chooser, size)
        self.place, self.workers = place, workers

    def batches(self, plan: Plan, start: int) -> Iterator[Batch]:
        own = self.place.share(plan.batch)
        local = own.stop - own.start

        def items() -> Iterator[tuple[int, NDArray[np.int64]]]:
            for _, epoch, centres in plan.centres(start):
                for at in range(own.start, own.stop, _CHUNK):
                    yield epoch, centres[at : min(at + _CHUNK, own.stop)]

        class Items:
            def __iter__(self) -> Iterator[tuple[int, NDArray[np.int64]]]:
                return items()

        device = self.place.device
        cuda = device.type == "cuda"
        loader = DataLoader(
            self.chunks,
            batch_size=None,
            sampler=Items(),  # of things to read, and not of positions
            num_workers=self.workers,
            # About two steps ahead.
            prefetch_factor=max(2, -(-2 * local // (_CHUNK * self.workers))) if self.workers else None,
            # Forked workers would inherit the threads of CUDA's driver.
            multiprocessing_context=("forkserver" if cuda else None) if self.workers else None,
            worker_init_fn=_one_thread,
        )
        chunks = iter(loader)
        for step, epoch, _ in plan.centres(start):
            parts: list[_Chunk] = []
            for _ in range(-(-local // _CHUNK)):
                chunk = next(chunks)
                if isinstance(chunk, BasslError):
                    raise chunk
                pictures = chunk.pictures.pin_memory() if cuda else chunk.pictures
                parts.append(_Chunk(pictures.to(device, non_blocking=True), chunk.frame, chunk.joins))
            joins = [part.joins for part in parts if part.joins is not None]
            yield Batch(
                step,
                epoch,
                torch.cat([part.pictures for part in parts]),
                torch.cat([part.frame for part in parts]),
                torch.cat(joins).to(device) if joins else None,
            )

    def middle_keyframes(self, rows: NDArray[np.int64]) -> NDArray[np.uint8]:
        """The middle key-frame of each row, (N, 3, Q, Q), for validation."""
        index, reader = self.chunks.reader.index, self.chunks.reader
        pictures = []
        for row in rows:
            jpeg = reader.read(np.array([row]), np.array([[index.keyframes // 2]]))[0][0]
            try:
                pictures.append(resize_to_square(decode_whole(jpeg), self.chunks.size))
            except ValueError as error:
                raise StoreError(f"{reader.shot(int(row))} has a key-frame that is {error}") from error
        return np.stack(pictures).transpose(0, 3, 1, 2)


def _one_thread(worker: int) -> None:
    import cv2

    cv2.setNumThreads(1)
    torch.set_num_threads(1)
