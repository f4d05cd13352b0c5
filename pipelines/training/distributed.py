"""One process among several: what torchrun's environment says, and the group that they form."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from pipelines.errors import BasslError

T = TypeVar("T")


@dataclass(frozen=True)
class Place:
    """Which process this is, of how many, and the device that is its own."""

    rank: int
    processes: int
    device: torch.device

    @property
    def is_first(self) -> bool:
        """Whether this process writes the files and tells of progress."""
        return self.rank == 0

    def share(self, batch: int) -> slice:
        """The part of a global batch that is this process's: equal blocks in order of rank."""
        local = batch // self.processes
        return slice(self.rank * local, (self.rank + 1) * local)


@contextmanager
def process_group(device: str = "auto") -> Iterator[Place]:
    """Join the group that torchrun's environment describes; alone where there is none.

    Args:
        device: ``auto`` (a GPU where there is one), ``cpu`` or ``cuda``.

    Raises:
        BasslError: one line, where the device is not there, or another process of the group has gone.
    """
    if device not in ("auto", "cpu", "cuda"):
        raise BasslError(f"the device must be auto, cpu or cuda, not {device!r}")
    cuda = device == "cuda" or (device == "auto" and torch.cuda.is_available())
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if cuda and local >= torch.cuda.device_count():
        raise BasslError(f"there are {torch.cuda.device_count()} GPUs here, and process {local} needs one of its own")
    own = torch.device("cuda", local) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(own)
    if "WORLD_SIZE" not in os.environ or "MASTER_ADDR" not in os.environ:
        yield Place(0, 1, own)
        return
    # A process that dies is noticed by torchrun; the time-out is for one that hangs. Tensors on the CPU go by gloo even
    # where the GPUs have NCCL: processes agree on small things without waiting for the device.
    dist.init_process_group("cpu:gloo,cuda:nccl" if cuda else "gloo", timeout=timedelta(minutes=30))
    try:
        yield Place(dist.get_rank(), dist.get_world_size(), own)
    except RuntimeError as error:
        if _is_lost_peer(error):
            raise BasslError("another process of this job ended; go on with --resume") from error
        raise
    finally:
        dist.destroy_process_group()


def _is_lost_peer(error: RuntimeError) -> bool:
    words = ("connection closed by peer", "connection reset by peer", "socket closed", "broken pipe", "timed out")
    return isinstance(error, torch.distributed.DistError) or any(word in str(error).lower() for word in words)


def first_decides(place: Place, decide: Callable[[], T]) -> T | None:
    """Let the first process do something, while the others wait; what it refuses, all refuse.

    Returns:
        What it gives in the first process, None in the others.

    Raises:
        BasslError: in all processes, with its message, where ``decide`` does.
    """
    result: T | None = None
    message: list[str | None] = [None]
    failure: BasslError | None = None
    if place.is_first:
        try:
            result = decide()
        except BasslError as error:
            failure, message = error, [str(error)]
    if place.processes > 1:
        dist.broadcast_object_list(message, device=torch.device("cpu"))
    if failure is not None:
        raise failure
    if message[0] is not None:
        raise BasslError(message[0])
    return result


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """A tensor of the CPU on the device, without waiting for what the device is doing.

    From memory that is not pinned, a copy to a GPU waits until the GPU has done all that it was given before.
    """
    return (tensor.pin_memory() if device.type == "cuda" else tensor).to(device, non_blocking=True)


def any_process(place: Place, flag: bool) -> bool:
    """Whether any process raises its flag: then all know it, at the same step."""
    if place.processes == 1:
        return flag
    raised = torch.tensor(int(flag))
    dist.all_reduce(raised, dist.ReduceOp.MAX)
    return bool(raised)


def average_gradients(place: Place, parameters: Sequence[Tensor]) -> None:
    """Replace gradients by their mean over all processes, as DDP does, where DDP does not stand between."""
    if place.processes == 1:
        return
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat)
    flat /= place.processes
    for gradient, mean in zip(gradients, torch.split(flat, [g.numel() for g in gradients]), strict=True):
        gradient.copy_(mean.view_as(gradient))
