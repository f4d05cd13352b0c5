"""Embeddings of all processes as one batch, with gradients; without a process group, everything stays as it is."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor


def _world() -> tuple[int, int]:
    """Rank and number of processes."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, local: Tensor) -> Tensor:
        _, processes = _world()
        parts = [torch.empty_like(local) for _ in range(processes)]
        dist.all_gather(parts, local)
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        # Every process's loss looks at these embeddings: what each wants of them is added up.
        rank, processes = _world()
        total = gradients[0].contiguous().clone()
        dist.all_reduce(total)
        return total.chunk(processes)[rank]


def _gather(local: Tensor) -> Tensor:
    gathered: Tensor = _Gather.apply(local.contiguous())
    return gathered


def gather(local: Tensor) -> tuple[Tensor, int]:
    """The rows of all processes in the order of their ranks, and where this process's own begin.

    Gradients flow back to every process: where each takes the mean of its own rows' losses and gradients are averaged
    over processes, as DDP does, the result is the gradient of the mean over all rows.

    Args:
        local: (B, ...), of the same shape in all processes.

    Returns:
        (processes * B, ...), and the position of the first local row in it.
    """
    rank, processes = _world()
    return (_gather(local) if processes > 1 else local), rank * len(local)


def _mean(local: Tensor, processes: int) -> Tensor:
    total = local.detach().clone()
    dist.all_reduce(total)
    return total / processes


def mean_over_processes(local: Tensor) -> Tensor:
    """The mean of a tensor over all processes, without gradients."""
    _, processes = _world()
    return _mean(local, processes) if processes > 1 else local.detach()
