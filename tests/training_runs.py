"""Small training runs: their settings, the command line that starts one, its log, and weights of two compared."""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
import torch

from pipelines.options import options_of, with_options
from pipelines.pretext import AugmentationSettings
from pipelines.progress import TrainingProgress
from pipelines.stages.finetune import FinetuneSettings, finetune
from pipelines.stages.pretrain import PretrainSettings, pretrain
from tests.running import ENVIRONMENT

Settings = PretrainSettings | FinetuneSettings
S = TypeVar("S", PretrainSettings, FinetuneSettings)

SMALL: dict[str, Any] = {"neighbors": 2, "batch": 8, "workers": 0, "device": "cpu", "log_steps": 1}
KEYFRAMES: dict[str, Any] = {"augmentation": AugmentationSettings(size=32, kernel_size=3)}
"""Options of pre-training on small keyframes."""


def pretraining(index: Path, output: Path, **options: Any) -> PretrainSettings:
    """Settings of an epoch of pre-training without validation."""
    own = {"epochs": 1, "width": 16, "heads": 2, "validate_epochs": 0}
    return with_options(PretrainSettings, **{"index": index, "output": output, **SMALL, **own, **options})


def finetuning(index: Path, output: Path, **options: Any) -> FinetuneSettings:
    """Settings of three epochs of fine-tuning from scratch, of one seed."""
    start = {"init": "none", "crn": "mlp", "width": 32, "dropout": 0.0}
    own = {**start, "epochs": 3, "batch": 30, "rate": 3e-3, "seeds": 1}
    return with_options(FinetuneSettings, **{"index": index, "output": output, **SMALL, **own, **options})


def trained(settings: S, name: str, **options: Any) -> S:
    """Train with other options in a folder of this name, beside the settings' own; returns the settings of this run."""
    changed = with_options(settings, output=settings.run.output.with_name(name), **options)
    if isinstance(changed, PretrainSettings):
        pretrain(changed)
    else:
        finetune(changed)
    return changed


def command_of(settings: Settings) -> list[str]:
    """The arguments of Python that train a run with these settings."""
    given = []
    for option in options_of(type(settings)):
        value = getattr(getattr(settings, option.group) if option.group else settings, option.name)
        if value != option.default:
            shown = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            given += [f"--{option.name.replace('_', '-')}", *([shown] * (option.kind is not bool))]
    return ["-m", "bassl_cli", "pretrain" if isinstance(settings, PretrainSettings) else "finetune", *given]


def train_in_two_processes(settings: Settings) -> None:
    command = [sys.executable, *command_of(settings), "--gpus", "0", "--processes", "2"]
    ended = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)
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
