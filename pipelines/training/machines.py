"""Where a job that trains or encodes runs: GPUs, processes and machines. Imports nothing heavy."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

STOPPED = 128 + signal.SIGTERM
"""Exit code of a run that was asked to stop, as a shell shows it for a process that SIGTERM ended."""

SOME_FAILED = 3
"""Exit code of the first process of a job in which some inputs failed and all others are done. `bassl` itself ends with
1, which is also the code of a process that crashed."""

LOST_PEER = 4
"""Exit code of a process that ended because another process of its job did, whose error is shown."""

LAUNCHED = "BASSL_LAUNCHED"
"""Environment variable of processes that bassl started with torchrun: the id of the launching process."""


@dataclass(frozen=True)
class Machines:
    """GPUs, processes and machines of a job that trains or encodes."""

    gpus: int | None = None
    """GPUs to use, over all machines, one process each; 0 uses the CPU. Default: one, if there is one."""
    processes: int = 1
    """Processes on the CPU, with --gpus 0."""
    nodes: int = 1
    """Machines."""
    node_rank: int | None = None
    """Rank of this machine, from 0."""
    rdzv_endpoint: str | None = None
    """Address of the first machine, where all of them meet."""

    def __post_init__(self) -> None:
        if min(self.processes, self.nodes) < 1 or (self.gpus or 0) < 0:
            raise ValueError("--processes and --nodes must be at least 1, and --gpus not negative")
        if self.processes > 1 and self.gpus != 0:
            raise ValueError("--processes is for the CPU: add --gpus 0; on GPUs there is one process for each GPU")
        if self.nodes > 1 and (
            not self.rdzv_endpoint or (self.node_rank is not None and not 0 <= self.node_rank < self.nodes)
        ):
            raise ValueError(
                f"on {self.nodes} machines, run the same on each, with --rdzv-endpoint HOST:PORT of the first machine "
                f"and --node-rank 0 to {self.nodes - 1}"
            )
        if self.gpus and self.gpus % self.nodes:
            raise ValueError(f"{self.gpus} GPUs cannot be shared equally by {self.nodes} machines")

    @property
    def per_node(self) -> int:
        """Processes on this machine."""
        return self.gpus // self.nodes if self.gpus else self.processes

    @property
    def world_size(self) -> int:
        """Processes on all machines."""
        return self.per_node * self.nodes

    @property
    def device(self) -> str | None:
        """``cpu`` or ``cuda``; None if not specified."""
        return None if self.gpus is None else "cuda" if self.gpus else "cpu"


def in_group() -> bool:
    """Whether torchrun, or a similar launcher, set up a process group for this process."""
    return "WORLD_SIZE" in os.environ and "MASTER_ADDR" in os.environ


def is_worker() -> bool:
    """Whether torchrun started this process."""
    return "LOCAL_RANK" in os.environ
