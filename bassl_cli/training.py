"""Running a stage in each process of a job: in this process, or with torchrun in several that run the same command."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar

import typer

from bassl_cli import console
from pipelines.options import with_options
from pipelines.progress import TrainingProgress
from pipelines.settings import RunSettings
from pipelines.training.jobs import STOPPED, Machines, is_worker, stopped_code

R = TypeVar("R")


@contextmanager
def job(machines: Machines, command: str, advice: str) -> Iterator[bool]:
    """Run the block in each process of a job, started by this one if there are several; gives whether this process
    shows the result. Raises BasslError for GPUs that this machine does not have, or a process that died; typer.Exit in
    the process that started the others, with their exit code, after ``advice`` if they were stopped."""
    shows = os.environ.get("RANK", "0") == "0"
    if not (is_worker() or machines.gpus or machines.world_size > 1):
        yield shows
        return
    from pipelines.training import launching  # optional dependency: torch

    if not is_worker():
        launching.check_gpus(machines, f"bassl {command}")
        if machines.world_size > 1:
            code = launching.launch(machines, sys.argv[1:])
            if code in (STOPPED, 130):
                console.print_error(f"stopped; {advice}")
            raise typer.Exit(code)
    with nullcontext() if console.debugging() else launching.errors_to_launcher():
        yield shows


def train(stage: Callable[[Any, Callable[[TrainingProgress], None]], R], settings: Any, machines: Machines) -> R | None:
    """Run the public function of a training stage, named as its command, on the machines; its result in the process
    that is to show it, None in the others. Raises what `job` and the stage raise; typer.Exit if it was stopped."""
    settings = with_options(settings, device=machines.device or settings.compute.device)
    advice = f"continue with --resume --output {settings.run.output}"
    with job(machines, stage.__name__, advice) as shows, console.training_progress() as progress:
        result: Any = stage(settings, progress)
    if result.stopped:
        if is_worker():
            raise typer.Exit(STOPPED)
        console.print_error(f"stopped after step {result.step} of {result.steps}; continue with --resume")
        raise typer.Exit(stopped_code())
    return result if shows else None


def curves_of(run: RunSettings) -> str:
    """Where the curves of a run are."""
    if run.logger == "wandb":
        return f"curves: group {run.output.resolve().name} of the project bassl on Weights & Biases"
    return f"curves: tensorboard --logdir {shlex.quote(str(run.output / 'tensorboard'))}"
