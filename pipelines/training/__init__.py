"""A job that trains or encodes: its machines and processes, what they tell each other, and its end by a signal."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Annotated, Any, TypeVar

from annotated_doc import Doc

from pipelines.errors import BasslError
from pipelines.options import Settings

STOPPED = 128 + signal.SIGTERM
"""Exit code of a run that was asked to stop, as a shell shows it for a process that SIGTERM ended."""

SOME_FAILED = 3
"""Exit code of the first process of a job in which some inputs failed; 1, as of `bassl`, is also that of a crash."""

LOST_PEER = 4
"""Exit code of a process that ended because another process of its job did, whose error is shown."""

LAUNCHED = "BASSL_LAUNCHED"
"""Environment variable of processes that bassl started with torchrun: the id of the launching process."""


@dataclass(frozen=True)
class Machines(Settings):
    """GPUs, processes and machines of a job that trains or encodes."""

    heading = "Machines"
    gpus: Annotated[
        int | None,
        Doc("GPUs to use, over all machines, one process each; 0 uses the CPU. Default: one, if there is one."),
    ] = None
    processes: Annotated[int, Doc("Processes on the CPU, with --gpus 0.")] = 1
    nodes: Annotated[int, Doc("Machines.")] = 1
    node_rank: Annotated[int | None, Doc("Rank of this machine, from 0.")] = None
    rdzv_endpoint: Annotated[str | None, Doc("Address of the first machine, where all of them meet.")] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if min(self.processes, self.nodes) < 1 or (self.gpus or 0) < 0:
            raise ValueError("`processes` and `nodes` must be at least 1, and `gpus` not negative")
        if self.processes > 1 and self.gpus != 0:
            raise ValueError("`processes` is for the CPU: add `gpus=0`; on GPUs there is one process for each GPU")
        if self.nodes > 1 and (
            not self.rdzv_endpoint or (self.node_rank is not None and not 0 <= self.node_rank < self.nodes)
        ):
            raise ValueError(
                f"on {self.nodes} machines, run the same on each, with `rdzv_endpoint=HOST:PORT` of the first machine "
                f"and `node_rank=0` to {self.nodes - 1}"
            )
        if self.gpus and self.gpus % self.nodes:
            raise ValueError(f"{self.gpus} GPUs cannot be shared equally by {self.nodes} machines")

    @property
    def per_node(self) -> int:
        """Return processes on each machine."""
        return self.gpus // self.nodes if self.gpus else self.processes

    @property
    def world_size(self) -> int:
        return self.per_node * self.nodes

    @property
    def options(self) -> list[str]:
        """Return these settings as options of a command, without defaults."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        changed = ((name, value) for name, value in values.items() if value != getattr(Machines, name))
        return [word for name, value in changed for word in (f"--{name.replace('_', '-')}", str(value))]

    @property
    def device(self) -> str | None:
        return None if self.gpus is None else "cuda" if self.gpus else "cpu"


def is_worker() -> bool:
    """Return whether bassl started this as one of several processes: other launchers set WORLD_SIZE, too."""
    return LAUNCHED in os.environ


T = TypeVar("T")


@dataclass(frozen=True)
class Peer:
    """This process's rank, and the number of processes."""

    rank: int
    world_size: int

    @property
    def is_first(self) -> bool:
        """Return whether this process writes files and reports progress."""
        return self.rank == 0

    def share(self, batch: int) -> slice:
        """Return this process's part of a global batch: equal blocks in order of rank."""
        local = batch // self.world_size
        return slice(self.rank * local, (self.rank + 1) * local)


def broadcast_from_rank0(process: Peer, decide: Callable[[], T]) -> T:
    """Call a function in the first process; all processes return its result, picklable, or raise its BasslError."""
    outcome: Any = None, None  # result and error
    if process.is_first:
        try:
            outcome = decide(), None
        except BasslError as error:
            outcome = None, error
    outcome = gather_objects(process, outcome)[0]
    if outcome[1] is not None:
        raise outcome[1]
    result: T = outcome[0]
    return result


def gather_objects(process: Peer, value: T) -> list[T]:
    """Return the picklable values of all processes in the order of ranks; all processes get the same list."""
    values: list[Any] = [value] * process.world_size
    if process.world_size > 1:
        import torch  # optional dependency, not needed by a single process

        torch.distributed.all_gather_object(values, value)
    return values


_last = [signal.SIGTERM.value]  # the signal that stopped a run in this process


def stopped_code() -> int:
    """Return the exit code of a stopped run: 128 + the signal, as in a shell."""
    return 128 + _last[0]


@contextmanager
def stop_signals(pass_on: Callable[[int], None] = lambda number: None) -> Iterator[list[int]]:
    """Yield a list that is empty until SIGTERM or SIGINT (Ctrl-C) arrives, and always outside the main thread.
    ``pass_on`` is called with the first one; a second signal ends the process as usual."""
    received: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT) if is_main}

    def receive(number: int, frame: object) -> None:
        received.append(number)
        _last[0] = number
        pass_on(number)
        if not is_worker():  # torchrun forwards what a terminal has sent to all processes already
            signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, receive)
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
