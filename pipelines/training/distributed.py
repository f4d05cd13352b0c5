"""Distributed training: starting the processes of a job with torchrun, their process group, and what they share.

torchrun starts the processes, lets them meet, ends all if one dies, and carries an error by its error file. Beside it
stand, each for one reason:

- exit codes: torchrun knows only 0 and failures, and a stop or some failed inputs are neither;
- choosing the failure to show: torchrun takes the first by the second, often a process that only lost its peer;
- `check_gpus`: torchrun would start processes that have no GPU;
- the watch on the launcher (`LAUNCHED`): nothing ends the processes of a torchrun that was killed.

A process of a job ends without finalizing Python, because DDP keeps gloo's threads alive, and one that frees the last
tensor then aborts the process (`bassl_cli/__main__.py`).
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import platform
import re
import signal
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread
from typing import TYPE_CHECKING

import torch
import torch.distributed as dist
from torch import Tensor

from pipelines.errors import BasslError, BasslWarning, count, first_line
from pipelines.files import write_atomically
from pipelines.training import LAUNCHED, LOST_PEER, SOME_FAILED, STOPPED, Machines, Peer, is_worker

if TYPE_CHECKING:
    from torch.distributed.elastic.multiprocessing.errors import ProcessFailure

_LOST_PEER = re.compile("connection|socket closed|broken pipe|timed out")  # in the messages of gloo and NCCL


class LostPeerError(BasslError):
    """Another process of the job ended or cannot be reached."""


# --- starting processes -----------------------------------------------------------------------------------------------


def check_gpus(machines: Machines, command: str = "") -> None:
    """Check that this machine has the GPUs of the job. Raises BasslError, which says how to run a ``command`` line on
    several machines if there are too many for one."""
    gpus, here = machines.gpus or 0, torch.cuda.device_count()
    if machines.per_node <= here or not gpus:
        return
    advice = f"use `gpus={here}`" + " for the CPU" * (not here)
    most = here or 8  # on a machine with GPUs
    nodes = next(nodes for nodes in range(1, gpus + 1) if gpus % nodes == 0 and gpus // nodes <= most)
    if command and machines.nodes == 1 and nodes > 1:
        advice += f", or run this on {nodes} machines, with the rank of each: {command} --nodes {nodes} --node-rank 0 "
        advice += "--rdzv-endpoint FIRST_MACHINE:29500"
    raise BasslError(f"this machine has {count(here, 'GPU')}, but the job needs {machines.per_node}; {advice}")


def launch(machines: Machines, arguments: Sequence[str]) -> int:
    """Run ``bassl ARGUMENTS`` in each process of the job and wait; this process is to end then, as torchrun changes its
    signal handlers and environment. Return the exit code: 0, 1 if some inputs failed, or 128 + the signal for a job
    that was asked to stop. Raises BasslError for an error of a process, or a process that died."""
    # start-up time: only the process that starts the others needs torchrun
    from torch.distributed import run as torchrun
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.elastic.rendezvous import RendezvousError

    options = ["--standalone"]
    if machines.nodes > 1:
        options = ["--nnodes", str(machines.nodes), "--rdzv-endpoint", str(machines.rdzv_endpoint)]
        rendezvous = ["--rdzv-backend", "c10d", "--rdzv-id", "bassl"]
        options += rendezvous if machines.node_rank is None else ["--node-rank", str(machines.node_rank)]
    # torchrun logs at length what launch() reports in one line.
    for logger in map(logging.getLogger, ("torch.distributed.elastic", "torch.distributed.run")):
        logger.handlers, logger.propagate = [logging.NullHandler()], False  # loggers below have levels of their own
    os.environ[LAUNCHED] = str(os.getpid())
    # Processes with more threads than cores are many times slower.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // machines.per_node)))
    # A temporary folder, because torchrun's own folder for errors would stay.
    with TemporaryDirectory(prefix="bassl-") as errors:
        options += ["--nproc-per-node", str(machines.per_node), "--log-dir", errors]
        try:
            torchrun.run(torchrun.parse_args([*options, "-m", "bassl_cli", *arguments]))  # type: ignore[no-untyped-call]
        except (RendezvousError, dist.DistError, ValueError) as error:
            address = machines.rdzv_endpoint or "localhost"
            raise BasslError(f"the processes did not meet at {address} ({first_line(error)})") from error
        except SignalException as stop:
            return 128 + int(stop.sigval)
        except ChildFailedError as error:
            return _failed_code(error.failures)
    return 0


def _failed_code(failures: Mapping[int, ProcessFailure]) -> int:
    """Return the exit code of a job that was stopped, or done but for some inputs. Raises BasslError for others."""
    # Other processes usually fail within the same second: they lose their peer, or torchrun ends them by SIGTERM.
    consequences = (LOST_PEER, -signal.SIGTERM)
    rank, failure = min(failures.items(), key=lambda item: (item[1].exitcode in consequences, item[1].timestamp))
    code, message = failure.exitcode, failure.error_file_data["message"]  # "<NONE>" without an error file
    if code in (STOPPED, SOME_FAILED):
        return STOPPED if code == STOPPED else 1
    if code in (2, LOST_PEER):
        raise BasslError(f"process {rank} stopped; see above" if message == "<NONE>" else message)
    end = f"was killed by signal {-code} ({failure.signal_name()})" if code < 0 else f"failed with exit code {code}"
    raise BasslError(f"process {rank} {end}; the job was stopped; continue with `resume=True`")


@contextmanager
def errors_to_launcher() -> Iterator[None]:
    """In a process of :func:`launch`, pass a BasslError to the launcher, so that it is shown once, and raise SystemExit
    with 2 or LOST_PEER. Only the first process shows warnings."""
    if is_worker() and os.environ["RANK"] != "0":
        warnings.simplefilter("ignore", BasslWarning)
    try:
        yield
    except BasslError as error:
        if not is_worker():
            raise
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # from torchrun, if another process failed too
        content = {"message": str(error), "timestamp": int(time.time())}  # as torchrun reads it
        write_atomically(Path(os.environ["TORCHELASTIC_ERROR_FILE"]), json.dumps(content).encode())
        raise SystemExit(LOST_PEER if isinstance(error, LostPeerError) else 2) from error


# --- a process and its group ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Process(Peer):
    """This process's rank and device, and the number of processes."""

    device: torch.device


@contextmanager
def process_group(device: str = "auto") -> Iterator[Process]:
    """Join the processes of :func:`launch`; without it this process is alone, and torch's random state is restored when
    the block ends. ``device``: ``auto``, ``cpu`` or ``cuda``. Raises BasslError if it is not available, LostPeerError
    if another process ended or does not answer."""
    if device not in ("auto", "cpu", "cuda"):
        raise BasslError(f"the device must be auto, cpu or cuda, not {device!r}")
    cuda = device == "cuda" or (device == "auto" and torch.cuda.is_available())
    local = int(os.environ["LOCAL_RANK"]) if is_worker() else 0
    if cuda and local >= torch.cuda.device_count():
        raise BasslError(f"process {local} needs its own GPU, but there are {torch.cuda.device_count()} GPUs here")
    place = torch.device("cuda", local) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(place)
    if not is_worker():
        with torch.random.fork_rng([place] if cuda else []):
            yield Process(0, 1, place)
        return
    # torchrun notices a process that dies; the time-out is for one that hangs. CPU tensors use gloo even beside NCCL,
    # so that processes agree on small things without waiting for the device.
    try:
        if not dist.is_initialized():  # finetune calls encode
            Thread(target=_end_with, args=(int(os.environ[LAUNCHED]),), daemon=True).start()
            backend = "cpu:gloo,cuda:nccl" if cuda else "gloo"
            dist.init_process_group(backend, timeout=timedelta(minutes=30), device_id=place if cuda else None)
            atexit.register(dist.destroy_process_group)
        yield Process(dist.get_rank(), dist.get_world_size(), place)
    except BaseException as error:
        # Destroying a group of NCCL waits for processes that may be lost, or wait in another operation.
        atexit.unregister(dist.destroy_process_group)
        lost = isinstance(error, dist.DistError) or _LOST_PEER.search(str(error).lower())
        if isinstance(error, RuntimeError) and lost:
            raise LostPeerError(
                f"another process of this job ended or cannot be reached ({first_line(error)}); continue with "
                "`resume=True`"
            ) from error
        raise


def _end_with(launcher: int) -> None:
    # If the launcher dies, nothing else would end this process.
    while os.getppid() == launcher:
        time.sleep(0.5)
    os._exit(1)


def device_name(device: torch.device) -> str:
    """Return the model of a GPU, or the kind of processor, with the threads that torch uses."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()}, {count(torch.get_num_threads(), 'thread')}"


@contextmanager
def deterministic_algorithms(enabled: bool) -> Iterator[None]:
    """Let torch use deterministic algorithms, as far as there are any, if ``enabled``, until the block ends."""
    mode, benchmark = torch.get_deterministic_debug_mode(), torch.backends.cudnn.benchmark
    if enabled:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when CUDA starts
        torch.set_deterministic_debug_mode("warn")
    torch.backends.cudnn.benchmark = not enabled
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(mode)
        torch.backends.cudnn.benchmark = benchmark


# --- what processes share ---------------------------------------------------------------------------------------------


def send(tensor: Tensor, device: torch.device) -> Tensor:
    """Copy a CPU tensor to the device, pinned first: otherwise the copy would wait for all work that is queued."""
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
    for gradient in (parameter.grad for parameter in parameters if process.world_size > 1):
        if gradient is not None:
            dist.all_reduce(gradient)
            gradient /= process.world_size
