"""Distributed training: rank, world size and device of a process, and the process group that torchrun describes."""

from __future__ import annotations

import atexit
import os
import platform
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from threading import Thread

import torch
import torch.distributed as dist
from torch import Tensor, nn

from pipelines.errors import BasslError, count, first_line
from pipelines.training.jobs import LAUNCHED, Peer, in_group

_LAUNCHER_POLL_SECONDS = 0.5


class LostPeerError(BasslError):
    """Another process of the job ended or cannot be reached."""


@dataclass(frozen=True)
class Process(Peer):
    """This process's rank and device, and the number of processes."""

    device: torch.device


def device_name(device: torch.device) -> str:
    """Return the model of a GPU, or of the processor, with the threads that torch uses."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    name = platform.processor() or platform.machine()
    with suppress(OSError, StopIteration):  # Linux tells only here
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        name = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return f"{name}, {count(torch.get_num_threads(), 'thread')}"


@contextmanager
def deterministic_algorithms(enabled: bool) -> Iterator[None]:
    """Let torch use deterministic algorithms only, if ``enabled``, until the block ends; it warns of an operation that
    has none. Otherwise cuDNN chooses its fastest algorithms by trying them."""
    before = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.backends.cudnn.benchmark,
    )
    if enabled:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when CUDA starts
        torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = not enabled
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before[0], warn_only=before[1])
        torch.backends.cudnn.benchmark = before[2]


@contextmanager
def process_group(device: str = "auto") -> Iterator[Process]:
    """Join the process group of torchrun's environment; without one, this process is alone, and torch's random state is
    restored when the block ends. ``device``: ``auto`` (a GPU if there is one), ``cpu`` or ``cuda``. Raises BasslError
    if it is not available, LostPeerError if another process ended or does not answer."""
    if device not in ("auto", "cpu", "cuda"):
        raise BasslError(f"the device must be auto, cpu or cuda, not {device!r}")
    cuda = device == "cuda" or (device == "auto" and torch.cuda.is_available())
    local = int(os.environ.get("LOCAL_RANK", "0"))
    if cuda and local >= torch.cuda.device_count():
        raise BasslError(f"process {local} needs its own GPU, but there are {torch.cuda.device_count()} GPUs here")
    place = torch.device("cuda", local) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(place)
    if LAUNCHED in os.environ:
        Thread(target=_end_with, args=(int(os.environ[LAUNCHED]),), daemon=True).start()
    if not in_group():
        with torch.random.fork_rng([place] if cuda else []):
            yield Process(0, 1, place)
        return
    # torchrun notices a process that dies; the time-out is for one that hangs. CPU tensors use gloo even beside NCCL,
    # so that processes agree on small things without waiting for the device.
    try:
        if not dist.is_initialized():  # once for all stages of a program: torchrun's store cannot serve another group
            backend = "cpu:gloo,cuda:nccl" if cuda else "gloo"
            dist.init_process_group(backend, timeout=timedelta(minutes=30), device_id=place if cuda else None)
            atexit.register(dist.destroy_process_group)
        yield Process(dist.get_rank(), dist.get_world_size(), place)
    except BaseException as error:
        # Destroying a group of NCCL waits for processes that may be lost, or wait in another operation.
        atexit.unregister(dist.destroy_process_group)
        if isinstance(error, RuntimeError) and _is_lost_peer(error):
            raise LostPeerError(
                f"another process of this job ended or cannot be reached ({first_line(error)}); continue with "
                "`resume=True`"
            ) from error
        raise


def _end_with(launcher: int) -> None:
    # If the launcher dies, nothing else would end this process.
    while os.getppid() == launcher:
        time.sleep(_LAUNCHER_POLL_SECONDS)
    os._exit(1)


def _is_lost_peer(error: RuntimeError) -> bool:
    words = ("connection closed by peer", "connection reset by peer", "socket closed", "broken pipe", "timed out")
    return isinstance(error, torch.distributed.DistError) or any(word in str(error).lower() for word in words)


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a CPU tensor to the device without waiting. From memory that is not pinned, the copy would wait for the GPU
    to finish all queued work."""
    return (tensor.pin_memory() if device.type == "cuda" else tensor).to(device, non_blocking=True)


def any_process(process: Process, flag: bool) -> bool:
    """Return whether any process raises its flag; all processes get the same answer, at the same step."""
    if process.world_size == 1:
        return flag
    raised = torch.tensor(int(flag))
    dist.all_reduce(raised, dist.ReduceOp.MAX)
    return bool(raised)


def mean_over_processes(local: Tensor) -> Tensor:
    """Return the mean of a tensor over all processes, without gradients."""
    mean = local.detach().clone()
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        dist.all_reduce(mean)
        mean /= dist.get_world_size()
    return mean


def average_gradients(process: Process, parameters: Sequence[Tensor]) -> None:
    """Replace gradients by their mean over all processes, for a network without DDP."""
    if process.world_size == 1:
        return
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    dist.all_reduce(flat)
    flat /= process.world_size
    for gradient, mean in zip(gradients, torch.split(flat, [g.numel() for g in gradients]), strict=True):
        gradient.copy_(mean.view_as(gradient))


def synchronized_norms(network: nn.Module) -> nn.Module:
    """Return the network with batch norms over the batches of all processes (SyncBN); parameters keep their names.
    PyTorch's own conversion would drop the activations inside timm's norms."""
    from timm.layers import convert_sync_batchnorm  # start-up time: timm, which only this needs

    converted: nn.Module = convert_sync_batchnorm(network)
    return converted
