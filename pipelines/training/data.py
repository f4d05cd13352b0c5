"""Data for training: the order of windows in a run, their keyframes, read ahead by threads, the features of shots on a
device, and how many images fit into memory."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pipelines.datasets.movienet import KeyframeReader
from pipelines.errors import BasslError, first_line, is_out_of_memory
from pipelines.processes import free_memory
from pipelines.stores.features import ShotRows
from pipelines.stores.index import Index
from pipelines.training import gather_objects
from pipelines.training.distributed import Process, send
from pipelines.training.loop import KEYFRAMES, WINDOW_ORDER, Autocast

_PASSING = 4  # largest activations of an image at the same time: inputs, outputs and gradients that are not kept
_CPU_SHARE, _GPU_SHARE = 0.7, 0.9  # of the free memory; on a CPU the rest is for other programs
_CHUNK = 8  # windows that a thread reads at a time: few, so that all threads share a batch

Item = TypeVar("Item")
Value = TypeVar("Value")


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
joined, or None."""


WindowImages = Callable[[Iterator[list[NDArray[np.uint8]]], int, int], Iterator[NDArray[np.uint8]]]
"""From the keyframes of some windows of a step, T frames (H, W, 3) each, their step and the place of the first of them
in its batch, to arrays (n, Q, Q, 3) of their images, as many for each window, in order."""


@dataclass(frozen=True, eq=False)
class WindowBatch:
    """The windows of one process in one step, on its device."""

    step: int  # from 0
    shots: Tensor  # (B, T, D_e) encodings of the rows of each window, or (B, n, 3, Q, Q) uint8 images of them
    joins: Tensor | None  # (B,) for synthesized windows


class KeyframeWindows:
    """Windows of keyframes, read, decoded and made ``images`` of by threads (0: by this one)."""

    def __init__(self, index: Index, rows: WindowRows, process: Process, threads: int, images: WindowImages) -> None:
        self.index, self.process, self.threads = index, process, threads
        self._rows, self._images = rows, images

    def batches(self, order: WindowOrder, start: int) -> Iterator[WindowBatch]:
        """Yield the batches of this process from a step on. Raises what `KeyframeReader.read` raises."""
        part, device = self.process.share(order.batch), self.process.device

        def items() -> Iterator[_Item]:
            for step, epoch, centers in order.centers(start):
                for first in range(part.start, part.stop, _CHUNK):
                    yield order.seed, step, epoch, first, centers[first : min(first + _CHUNK, part.stop)]

        per_batch = -(-(part.stop - part.start) // _CHUNK)
        chunks = read_ahead(self._read, items(), threads=self.threads, ahead=2 * per_batch)
        for step, *_ in order.centers(start):
            frames, joins = zip(*(next(chunks) for _ in range(per_batch)), strict=True)
            shots = torch.cat([chunk.to(device, non_blocking=True) for chunk in frames])
            positions = None if joins[0] is None else send(torch.from_numpy(np.concatenate(joins)), device)
            yield WindowBatch(step, shots, positions)

    def _read(self, item: _Item) -> tuple[Tensor, NDArray[np.int64] | None]:
        """Return images (b, n, 3, Q, Q) uint8 of some windows, in pinned memory for a GPU, and their joins (b,)."""
        seed, step, epoch, first, centers = item
        reader = KeyframeReader(self.index)
        rows, joins = self._rows(epoch, centers)
        draws = (np.random.default_rng((seed, KEYFRAMES, epoch, int(center))) for center in centers)
        windows = (_random_keyframes(reader, window, rng) for window, rng in zip(rows, draws, strict=True))
        images = np.concatenate(list(self._images(windows, step, first)))
        # Channels last in memory, as convolutions prefer it, and channels first in shape.
        frames = torch.from_numpy(images.reshape(len(centers), -1, *images.shape[1:])).permute(0, 1, 4, 2, 3)
        return pinned(frames, self.process.device), joins


_Item = tuple[int, int, int, int, NDArray[np.int64]]
"""Some windows of a step: seed, step, epoch, place of the first in its batch, and centers."""


def _random_keyframes(
    reader: KeyframeReader, rows: NDArray[np.int64], rng: np.random.Generator
) -> list[NDArray[np.uint8]]:
    """Read a random keyframe of each row, T frames (H, W, 3)."""
    index = reader.index
    images = rng.integers(0, index.keyframes, (len(rows), 1))
    frames: list[NDArray[np.uint8]] = [np.empty(0, np.uint8)] * len(rows)
    videos = index.video_of(rows)
    for video in np.unique(videos):
        # The reader takes rows of one video in their order.
        positions = np.flatnonzero(videos == video)
        positions = positions[np.argsort(rows[positions], kind="stable")]
        jpegs = reader.read(rows[positions], images[positions])
        for position, (jpeg,) in zip(positions, jpegs, strict=True):
            frames[position] = reader.decoded(int(rows[position]), jpeg)
    return frames


def read_ahead(read: Callable[[Item], Value], items: Iterable[Item], *, threads: int, ahead: int) -> Iterator[Value]:
    """Yield what ``read`` returns for items, in their order, ``ahead`` of them read early by threads, if any."""
    if not threads:
        yield from map(read, items)
        return
    running: deque[Future[Value]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                running.append(pool.submit(read, item))
                if len(running) > max(ahead, threads):
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def pinned(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a tensor that can be copied to the device without waiting, from any thread."""
    if device.type != "cuda":
        return tensor
    with torch.cuda.device(device):  # else a thread would use the first GPU
        return tensor.pin_memory()


class DeviceRows:
    """Features of shots as batches on a device; on a GPU all at once if they take less than half of its free memory."""

    def __init__(self, rows: ShotRows, device: torch.device) -> None:
        self._rows, self._device = rows, device
        self._on_gpu: Tensor | None = None
        size = len(rows) * rows.width * rows.dtype.itemsize
        if device.type == "cuda" and size < torch.cuda.mem_get_info(device)[0] / 2:
            kind = torch.from_numpy(np.empty(0, rows.dtype)).dtype
            self._on_gpu = torch.empty(len(rows), rows.width, dtype=kind, device=device)
            for video in rows.videos:
                span = slice(int(rows.first_row[video]), int(rows.first_row[video + 1]))
                self._on_gpu[span] = torch.from_numpy(rows[span]).to(device)

    def read(self, rows: NDArray[np.int64], dtype: torch.dtype = torch.float32) -> Tensor:
        """Return the features (..., D_e) of rows (...), on the device."""
        if self._on_gpu is None:
            return send(torch.from_numpy(self._rows[rows]), self._device).to(dtype)
        return self._on_gpu[send(torch.from_numpy(rows), self._device)].to(dtype)


# --- memory -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ImageMemory:
    """Bytes of an image in a training step of an image network."""

    kept: int  # activations for the backward pass; 0 for a frozen network
    largest: int  # the largest activation
    input: int

    @property
    def needed(self) -> int:
        """Return all of them; measured, ResNets, EfficientNets and ViTs need 75 to 105 % of this."""
        return self.kept + _PASSING * self.largest


def measure_images(network: nn.Module, size: int, autocast: Autocast) -> ImageMemory:
    """Measure memory in a forward pass of a copy of the network, in all processes: SyncBN communicates."""
    network, largest = deepcopy(network), 0  # the pass changes BN statistics
    weight = next(network.parameters())
    images = torch.zeros(2, 3, size, size, device=weight.device, dtype=weight.dtype)
    weights = {tensor.data_ptr() for tensor in (*network.parameters(), *network.buffers())}
    kept: dict[int, int] = {}  # bytes by address: layers share activations

    def keep(tensor: Tensor) -> Tensor:
        if tensor.data_ptr() not in weights:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    def compare(module: nn.Module, inputs: object, output: object) -> None:
        nonlocal largest
        if isinstance(output, Tensor):
            largest = max(largest, output.nbytes)

    for module in network.modules():
        module.register_forward_hook(compare)
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor), autocast():
        # The encodings keep the activations, so that no address is used twice.
        encodings = network(images.contiguous(memory_format=torch.channels_last))
    del encodings
    return ImageMemory(sum(kept.values()) // 2, largest // 2, images[0].nbytes)


def free_bytes(process: Process) -> int | None:
    """Return free memory for each process of the job, the least of all, or None if the system does not tell."""
    free = torch.cuda.mem_get_info(process.device)[0] if process.device.type == "cuda" else free_memory()
    if free and process.device.type == "cpu" and process.world_size > 1:
        free //= int(os.environ["LOCAL_WORLD_SIZE"])
    return min((size for size in gather_objects(process, free) if size is not None), default=None)


def micro_batch_size(windows: int, window: int, rest: int, free: int, device: torch.device) -> int:
    """Return how many of the ``windows`` of a batch, of ``window`` bytes each, fit at a time beside the ``rest``, in
    parts of nearly equal size; 0 if not even one fits."""
    share = _GPU_SHARE if device.type == "cuda" else _CPU_SHARE
    fit = int((share * free - rest) // window)
    if fit < 1:
        return 0
    parts = -(-windows // fit)
    return -(-windows // parts)


def gigabytes(size: float) -> str:
    """``1.5 GB``."""
    return f"{size / 1e9:.1f} GB"


@contextmanager
def translate_resource_errors(relief: str) -> Iterator[None]:
    """Raise BasslError for too little memory; ``relief``: what to do."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, torch.OutOfMemoryError) or is_out_of_memory(error):
            raise BasslError(f"there is not enough memory ({first_line(error)}); {relief}") from error
        raise
