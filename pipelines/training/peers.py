"""Communication between the processes of a job. A single process does not need torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from pipelines.errors import BasslError

T = TypeVar("T")


@dataclass(frozen=True)
class Peer:
    """This process's rank, and the number of processes."""

    rank: int
    world_size: int

    @property
    def is_first(self) -> bool:
        """Whether this process writes files and reports progress."""
        return self.rank == 0

    def share(self, batch: int) -> slice:
        """This process's part of a global batch: equal blocks in order of rank."""
        local = batch // self.world_size
        return slice(self.rank * local, (self.rank + 1) * local)


def broadcast_from_rank0(process: Peer, decide: Callable[[], T]) -> T:
    """Call a function in the first process while the others wait; all processes return its result, which must be
    picklable, or raise its BasslError."""
    outcome: list[Any] = [None, None]  # result and message
    failure: BasslError | None = None
    if process.is_first:
        try:
            outcome[0] = decide()
        except BasslError as error:
            failure, outcome[1] = error, str(error)
    if process.world_size > 1:
        import torch  # optional dependency, not needed by a single process

        torch.distributed.broadcast_object_list(outcome, device=torch.device("cpu"))
    if failure is not None:
        raise failure
    if outcome[1] is not None:
        raise BasslError(outcome[1])
    result: T = outcome[0]
    return result


def gather(process: Peer, value: T) -> list[T]:
    """The picklable values of all processes in the order of ranks; all processes get the same list."""
    values: list[Any] = [value] * process.world_size
    if process.world_size > 1:
        import torch  # optional dependency, not needed by a single process

        torch.distributed.all_gather_object(values, value)
    return values
