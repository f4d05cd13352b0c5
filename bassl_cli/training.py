"""Running a training stage: in this process, or with torchrun in several that run the same command line."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, TypeVar

import typer

from bassl_cli import console
from pipelines.progress import TrainingProgress
from pipelines.training.machines import STOPPED, Machines, is_worker

R = TypeVar("R")


def train(
    stage: Callable[[Any, Callable[[TrainingProgress], None]], R], settings: Any, machines: Machines, quiet: bool
) -> R | None:
    """Run the public function of a training stage, named as its command, on the machines; its result in the process
    that is to show it, None in the others. Raises BasslError for what the stage refuses, GPUs that this machine does
    not have, or a process that died; typer.Exit in the process that started the others, with their exit code, and where
    the run was stopped."""
    from pipelines.training import launching  # start-up time: torch

    settings = replace(settings, device=machines.device or settings.device)
    if not is_worker():
        launching.check_gpus(machines, f"bassl {stage.__name__}")
        if machines.world_size > 1:
            code = launching.launch(machines, "bassl_cli", sys.argv[1:])
            if code == STOPPED:
                console.complain(f"stopped; go on with --resume --output {settings.output}")
            raise typer.Exit(code)
    errors = nullcontext() if console.debugging() else launching.errors_to_launcher()
    with errors, console.training_progress(quiet) as progress:
        result: Any = stage(settings, progress)
    if result.stopped:
        if not is_worker():
            console.complain(f"stopped after step {result.step} of {result.steps}; go on with --resume")
        raise typer.Exit(STOPPED)
    return result if os.environ.get("RANK", "0") == "0" else None
