"""Limits of a machine: memory that training an image network takes, features on a device, errors in one line."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pipelines.errors import BasslError, first_line, is_out_of_memory
from pipelines.processes import free_memory
from pipelines.stores.features import ShotRows
from pipelines.training.distributed import Process, send
from pipelines.training.jobs import gather_objects
from pipelines.training.loop import Autocast

_PASSING = 4  # largest activations of an image at the same time: inputs, outputs and gradients that are not kept
_CPU_SHARE, _GPU_SHARE = 0.7, 0.9  # of the free memory; on a CPU the rest is for other programs


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
    """Measure memory in a forward pass of a copy of the network, which it must be trained as, on two images of side
    ``size``. All processes call this: SyncBN communicates."""
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
    """Return free memory for each process of the job, the least of all: of its GPU, or its share of this machine's.
    None if the system does not tell."""
    free = torch.cuda.mem_get_info(process.device)[0] if process.device.type == "cuda" else free_memory()
    if free and process.device.type == "cpu" and process.world_size > 1:
        free //= int(os.environ["LOCAL_WORLD_SIZE"])
    return min((size for size in gather_objects(process, free) if size is not None), default=None)


def micro_batch_size(windows: int, window: int, rest: int, free: int, device: torch.device) -> int:
    """Return how many of the ``windows`` of a batch, of ``window`` bytes each, fit at a time beside the ``rest``, in
    parts of nearly equal size; 0 if not even one fits. All sizes are in bytes."""
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


class DeviceRows:
    """Features of shots as batches on a device. They stay on a GPU, in their stored type, if they take less than half
    of its free memory; otherwise each batch is read on the CPU."""

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
