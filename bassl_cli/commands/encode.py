"""``bassl encode``: features of all shots of an index by a shot encoder."""

from __future__ import annotations

import os
import sys
from contextlib import nullcontext
from dataclasses import replace

import typer

from bassl_cli import console
from bassl_cli.options import with_settings
from pipelines.stages.encode import EncodeSettings, encode_shots
from pipelines.training.machines import STOPPED, Machines, is_worker


@with_settings(arguments={"index"}, panels={"machines": "Machines"}, metavars={"rdzv_endpoint": "HOST:PORT"})
def encode(
    settings: EncodeSettings, machines: Machines, quiet: console.Quiet = False, debug: console.Debug = False
) -> None:
    """Compute the features of all shots of an index once, into one store per encoder.

    Finished videos are kept, so a stopped run continues where it was, and videos that are new in the index are added.

    Example: bassl encode --encoder runs/pretrain --gpus 4
    """
    from pipelines.training import launching  # start-up time: torch

    settings = replace(settings, device=machines.device or settings.device)
    if not is_worker():
        launching.check_gpus(machines, "bassl encode")
        if machines.world_size > 1:
            code = launching.launch(machines, "bassl_cli", sys.argv[1:])
            if code == STOPPED:
                console.complain("stopped; run the same command again to go on")
            raise typer.Exit(code)
    errors = nullcontext() if console.debugging() else launching.errors_to_launcher()
    with errors, console.stage_progress(quiet) as show:
        store = encode_shots(settings, lambda state: show("encoding", state.shots, state.total))
    if os.environ.get("RANK", "0") == "0":
        typer.echo(store)
