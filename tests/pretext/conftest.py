"""Random numbers of pretext tests: the same in every test, whichever ran before."""

import os

import pytest
import torch

os.environ["NUMBA_DISABLE_JIT"] = "1"  # before tslearn is imported: compiling takes longer than these alignments


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)
