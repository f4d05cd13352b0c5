"""One-line errors for the limits of a machine in training: memory, worker processes, the compiler."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from pipelines.errors import BasslError, first_line

FEWER_WINDOWS = "use --micro-batch to encode fewer windows at a time"


@contextmanager
def limits_in_one_line(relief: str) -> Iterator[None]:
    """Raises BasslError, one line, for the limits of a machine: too little memory (``relief``: what to do), a dead
    worker process, no compiler."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise BasslError(f"the GPU is out of memory ({first_line(error)}); {relief}") from error
    except MemoryError as error:  # of NumPy
        raise BasslError(f"there is not enough memory ({first_line(error)}); {relief}") from error
    except RuntimeError as error:
        if "can't allocate memory" in str(error):
            raise BasslError(f"there is not enough memory ({first_line(error)}); {relief}") from error
        if "DataLoader worker" in str(error):
            raise BasslError(
                f"a process that reads keyframes ended ({first_line(error)}); if memory is short, use fewer --workers "
                "or more shared memory (docker run --shm-size); continue with --resume"
            ) from error
        if type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
            raise BasslError(f"--compile does not work here ({first_line(error)}); leave it out") from error
        raise
