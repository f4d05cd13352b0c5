"""Features of shots as batches on a device."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipelines.stores.features import ShotRows
from pipelines.training.distributed import send


class DeviceRows:
    """Features of shots as batches on a device. They stay on a GPU, in their stored type, if they take less than half
    of its free memory; otherwise each batch is gathered on the CPU."""

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

    def gather(self, rows: NDArray[np.int64], dtype: torch.dtype = torch.float32) -> Tensor:
        """Features of rows (...), (..., D_e) on the device."""
        if self._on_gpu is None:
            return torch.from_numpy(self._rows[rows]).to(self._device, dtype, non_blocking=True)
        return self._on_gpu[send(torch.from_numpy(rows), self._device)].to(dtype)
