"""Limiting the threads of PyTorch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit PyTorch to one thread in the block.

    With more threads, sums have another order and results differ in their last digits; small networks gain little.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
