"""Windows of keyframes for training: the order of windows in a run, and reading them ahead in worker processes.

Everything is a function of the seed, the epoch or step, and the center shot of a window, not of earlier steps, the
number of processes, or the worker that reads it.
"""

from __future__ import annotations

import atexit
import os
import pickle
import signal
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing import active_children, parent_process, resource_tracker
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple, TypeVar

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from pipelines.datasets.movienet import KeyframeReader
from pipelines.errors import BasslError
from pipelines.stores.index import Index
from pipelines.training.distributed import Process
from pipelines.training.loop import KEYFRAMES, WINDOW_ORDER

_CHUNK = 8  # windows that a worker reads at a time: few, so that all workers share a batch

Item = TypeVar("Item")


@dataclass(frozen=True)
class WindowOrder:
    """Which windows belong to which step."""

    rows: NDArray[np.int64]  # (N,) center shots to learn from
    batch: int  # windows in a step, over all processes
    epochs: int  # passes over the rows; an incomplete last batch is left out
    seed: int  # the order is new in each epoch

    @property
    def epoch_steps(self) -> int:
        return len(self.rows) // self.batch

    @property
    def steps(self) -> int:
        return self.epoch_steps * self.epochs

    def centers(self, start: int) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
        """Yield step and epoch, both from 0, and the (batch,) center shots of each step from ``start`` on."""
        for epoch in range(start // self.epoch_steps, self.epochs):
            order = np.random.default_rng((self.seed, WINDOW_ORDER, epoch)).permutation(self.rows)
            for step in range(max(start, epoch * self.epoch_steps), (epoch + 1) * self.epoch_steps):
                first = (step - epoch * self.epoch_steps) * self.batch
                yield step, epoch, order[first : first + self.batch]


WindowRows = Callable[[int, NDArray[np.int64]], tuple[NDArray[np.int64], NDArray[np.int64] | None]]
"""From an epoch and (B,) center shots to the (B, T) rows of their windows, and (B,) positions at which two videos are
joined, or None; must be picklable."""


WindowImages = Callable[[Iterator[list[NDArray[np.uint8]]], int, int], Iterator[NDArray[np.uint8]]]
"""From the keyframes of some windows of a step, T frames (H, W, 3) each, their step and the place of the first of them
in its batch, to arrays (n, Q, Q, 3) of their images, as many for each window, in order; must be picklable."""


@dataclass(frozen=True, eq=False)
class WindowBatch:
    """The windows of one process in one step, on its device."""

    step: int  # step, epoch: from 0
    epoch: int
    shots: Tensor  # (B, T, D_e) encodings of the rows of each window, or (B, n, 3, Q, Q) uint8 images of them
    joins: Tensor | None  # (B,) for synthesized windows


class KeyframeWindows:
    """Windows of keyframes, read, decoded and made ``images`` of by worker processes; 0 workers read in this one. The
    videos need keyframes, see `Index.check_keyframes`."""

    def __init__(self, index: Index, rows: WindowRows, process: Process, workers: int, images: WindowImages) -> None:
        self.index, self.process, self.workers = index, process, workers
        self._windows = _Windows(index.path, rows, images)

    def batches(self, order: WindowOrder, start: int) -> Iterator[WindowBatch]:
        part, device = self.process.share(order.batch), self.process.device

        def items() -> Iterator[_Item]:
            for step, epoch, centers in order.centers(start):
                for first in range(part.start, part.stop, _CHUNK):
                    yield order.seed, step, epoch, first, centers[first : min(first + _CHUNK, part.stop)]

        per_batch = -(-(part.stop - part.start) // _CHUNK)
        chunks = read_ahead(self._windows, items, workers=self.workers, device=device, ahead=2 * per_batch)
        for step, epoch, _ in order.centers(start):
            parts: list[_Chunk] = [next(chunks) for _ in range(per_batch)]
            joins = [part.joins for part in parts if part.joins is not None]
            yield WindowBatch(
                step,
                epoch,
                torch.cat([part.frames.to(device, non_blocking=True) for part in parts]),
                torch.cat([part.to(device, non_blocking=True) for part in joins]) if joins else None,
            )


class _Chunk(NamedTuple):  # which the loader knows how to pin
    frames: Tensor  # (b, n, 3, Q, Q) uint8
    joins: Tensor | None


_Item = tuple[int, int, int, int, NDArray[np.int64]]
"""Some windows of a step: seed, step, epoch, place of the first in its batch, and centers."""


class _Windows(Dataset["_Chunk | BasslError"]):
    def __init__(self, index: Path, rows: WindowRows, images: WindowImages) -> None:
        self.reader = KeyframeReader(index)
        self.rows, self.images = rows, images

    def __getitem__(self, item: _Item) -> _Chunk | BasslError:
        seed, step, epoch, first, centers = item
        try:
            rows, joins = self.rows(epoch, centers)
            draws = (np.random.default_rng((seed, KEYFRAMES, epoch, int(center))) for center in centers)
            windows = (self._window(window, rng) for window, rng in zip(rows, draws, strict=True))
            images = np.concatenate(list(self.images(windows, step, first)))
        except BasslError as error:
            return error  # raised here, it would reach the user as a traceback of the loader
        # Channels last in memory, as convolutions prefer it, and channels first in shape.
        frames = torch.from_numpy(images.reshape(len(centers), -1, *images.shape[1:])).permute(0, 1, 4, 2, 3)
        return _Chunk(frames, None if joins is None else torch.from_numpy(joins))

    def _window(self, rows: NDArray[np.int64], rng: np.random.Generator) -> list[NDArray[np.uint8]]:
        """Read a random keyframe of each row, T frames (H, W, 3)."""
        index = self.reader.index
        images = rng.integers(0, index.keyframes, (len(rows), 1))
        frames: list[NDArray[np.uint8]] = [np.empty(0, np.uint8)] * len(rows)
        videos = index.video_of(rows)
        for video in np.unique(videos):
            # The reader takes rows of one video in their order.
            positions = np.flatnonzero(videos == video)
            positions = positions[np.argsort(rows[positions], kind="stable")]
            jpegs = self.reader.read(rows[positions], images[positions])
            for position, (jpeg,) in zip(positions, jpegs, strict=True):
                frames[position] = self.reader.decoded(int(rows[position]), jpeg)
        return frames


def read_ahead(
    data: Dataset[Any], items: Callable[[], Iterable[Item]], *, workers: int, device: torch.device, ahead: int
) -> Iterator[Any]:
    """Yield the values of a dataset for items, in their order, ``ahead`` of them read early by worker processes (0: in
    this one); in pinned memory for a GPU. Raises a BasslError that the dataset returned in place of a value, and
    RuntimeError if a worker died, see :func:`pipelines.training.memory.translate_resource_errors`."""

    class Items:
        def __iter__(self) -> Iterator[Item]:
            return iter(items())

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "This DataLoader will create")  # more workers than cores: usual on a laptop
        loader: DataLoader[Any] = DataLoader(
            _Shared(data) if workers else data,
            batch_size=None,
            sampler=Items(),  # the items themselves, not positions in the dataset
            num_workers=workers,
            prefetch_factor=max(2, -(-ahead // workers)) if workers else None,
            # A forked worker holds locks of threads that it does not have, of CUDA's driver or of PyTorch on a CPU.
            multiprocessing_context="forkserver" if workers and sys.platform != "win32" else None,
            worker_init_fn=_begin_worker,
            pin_memory=device.type == "cuda",
        )
        # Terminals (Ctrl-C), torchrun and schedulers send a signal to all processes of a job: the one that trains ends
        # its step, for which it needs its data. The fork server and the workers inherit what is blocked here.
        if sys.platform == "win32":
            values = iter(loader)
        else:
            if workers:
                resource_tracker.ensure_running()  # its start would unblock both
            before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
            try:
                values = iter(loader)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
    for read in values:
        if isinstance(read, _Piped):
            read = pickle.loads(read.content)
        if isinstance(read, BasslError):
            raise read
        yield read


class _Piped(NamedTuple):
    content: bytes  # pickled value


class _Shared(Dataset[Any]):
    """Dataset of worker processes, whose values are put into shared memory here: in the thread of the loader that sends
    them an error would lose the value, and the training process would wait for it for ever. A value for which there is
    no room, as with the 64 MB that Docker gives, goes through a pipe instead."""

    def __init__(self, data: Dataset[Any]) -> None:
        self.data = data

    def __getitem__(self, item: Any) -> Any:
        value = self.data[item]
        tensors = [part for part in (value if isinstance(value, tuple) else (value,)) if isinstance(part, Tensor)]
        try:
            for tensor in tensors:
                tensor.share_memory_()  # type: ignore[no-untyped-call]
        except RuntimeError:
            return _Piped(pickle.dumps(value))
        return value


@atexit.register
def _kill_workers() -> None:
    """Kill the workers that an unexpected error left: Python would wait for them, as they block SIGTERM."""
    for child in active_children():
        if child.daemon:
            child.kill()


def _begin_worker(worker: int) -> None:
    cv2.setNumThreads(1)
    torch.set_num_threads(1)
    # PyTorch ends a worker when its parent has died: here that is the fork server, which lives as long as a worker.
    Thread(target=_end_with_training, daemon=True).start()


def _end_with_training() -> None:
    training = parent_process()
    assert training is not None
    training.join()
    os._exit(1)
