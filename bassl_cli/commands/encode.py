"""``bassl encode``: features of all shots of an index by a shot encoder."""

from __future__ import annotations

import typer

from bassl_cli import console
from bassl_cli.commands.train import job
from bassl_cli.options import with_settings
from pipelines.errors import BasslError, SomeFailedError
from pipelines.options import with_options
from pipelines.stages.settings import EncodeSettings
from pipelines.training.jobs import SOME_FAILED, Machines, is_worker


@with_settings(spellings={"index": "INDEX"}, arguments={"index"}, panels={"machines": "Machines"})
def encode(settings: EncodeSettings, machines: Machines) -> None:
    """Compute the features of all shots of an index once, one file per video and encoder.

    Existing files are kept, so a stopped run continues where it was, and videos that are new in the index are added.
    Videos with damaged keyframes are listed at the end; all others are encoded.

    Example: bassl encode --encoder runs/pretrain --gpus 4
    """
    if settings.parallel.dask and machines != Machines():
        raise BasslError("--dask encodes on the workers of the cluster; leave --gpus and --processes out")
    from pipelines.stages.encode import encode_shots  # start-up time: NumPy, OpenCV

    settings = with_options(settings, device=machines.device or settings.compute.device)
    with job(machines, "encode", "run it again to continue") as shows, console.stage_progress() as progress:
        try:
            store = encode_shots(settings, progress)
        except SomeFailedError as error:
            if shows:
                console.print_error(*error.failed, error.what)
                raise typer.Exit(SOME_FAILED if is_worker() else 1) from None
            return
    if shows:
        typer.echo(store)
        console.suggest_next("encode")
