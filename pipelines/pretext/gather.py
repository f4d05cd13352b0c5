"""All-gather of embeddings with gradients, for contrastive losses over the global batch; a no-op for one process."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def _world() -> tuple[int, int]:
    """Rank and world size."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, local: Tensor) -> Tensor:
        _, world_size = _world()
        parts = [torch.empty_like(local) for _ in range(world_size)]
        dist.all_gather(parts, local)
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        # The losses of all processes depend on these embeddings.
        rank, world_size = _world()
        total = gradients[0].contiguous().clone()
        dist.all_reduce(total)
        return total.chunk(world_size)[rank]


def gather(local: Tensor) -> tuple[Tensor, int]:
    """The rows of all processes in the order of ranks, and the index of this process's first row: (B, ...), of the same
    shape in all processes, to (world size * B, ...).

    Gradients flow back to every process: if each process takes the mean loss of its own rows and gradients are averaged
    over processes, as in DDP, the result is the gradient of the mean over all rows.
    """
    rank, world_size = _world()
    return (_Gather.apply(local.contiguous()) if world_size > 1 else local), rank * len(local)
