"""Training runs: the command line that starts one in other processes, its log, and weights of two runs compared."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch

from pipelines.options import options_of
from pipelines.progress import TrainingProgress
from pipelines.stages.finetune import FinetuneSettings
from pipelines.stages.pretrain import PretrainSettings

Settings = PretrainSettings | FinetuneSettings


def command_of(settings: Settings) -> list[str]:
    """The arguments of Python that train a run with these settings."""
    given = []
    for option in options_of(type(settings)):
        value = getattr(getattr(settings, option.group) if option.group else settings, option.name)
        if value != option.default:
            shown = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            given += [option.flag] if option.kind is bool else [option.flag, shown]
    return ["-m", "bassl_cli", "pretrain" if isinstance(settings, PretrainSettings) else "finetune", *given]


def train_in_two_processes(settings: Settings) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ended = subprocess.run([*torchrun, *command_of(settings)], env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


@contextmanager
def left_by(reached: Callable[[TrainingProgress], bool]) -> Iterator[Callable[[TrainingProgress], None]]:
    """A run that is given this progress function ends where the state is reached, without a last checkpoint."""

    class LeftError(Exception):
        pass

    def leave(state: TrainingProgress) -> None:
        if reached(state):
            raise LeftError

    with pytest.raises(LeftError):
        yield leave


def rows_of_log(settings: Settings, name: str = "log.csv") -> list[dict[str, str]]:
    with (settings.run.output / name).open(newline="") as file:
        return list(csv.DictReader(file))


def assert_equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
