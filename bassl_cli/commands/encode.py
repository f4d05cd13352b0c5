"""``bassl encode``: features of all shots of an index by a shot encoder."""

from __future__ import annotations

from dataclasses import replace

import typer

from bassl_cli import console
from bassl_cli.options import with_settings
from bassl_cli.training import job
from pipelines.stages.encode import EncodeSettings, encode_shots
from pipelines.training.machines import Machines


@with_settings(arguments={"index"}, panels={"machines": "Machines"}, metavars={"rdzv_endpoint": "HOST:PORT"})
def encode(settings: EncodeSettings, machines: Machines, quiet: console.Quiet = False) -> None:
    """Compute the features of all shots of an index once, into one store per encoder.

    Finished videos are kept, so a stopped run continues where it was, and videos that are new in the index are added.

    Example: bassl encode --encoder runs/pretrain --gpus 4
    """
    settings = replace(settings, device=machines.device or settings.device)
    with job(machines, "encode", "run the same command again to go on") as shows, console.stage_progress(quiet) as show:
        store = encode_shots(settings, lambda state: show("encoding", state.shots, state.total))
    if shows:
        typer.echo(store)
