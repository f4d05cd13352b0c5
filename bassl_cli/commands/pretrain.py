"""``bassl pretrain``: windows of shots in, a pre-trained model out; on one process or, by torchrun, on many."""

from __future__ import annotations

import os
from typing import Any

import typer

from bassl_cli import console
from bassl_cli import options as launching
from pipelines.options import options_of
from pipelines.stages.pretrain import PretrainResult, PretrainSettings
from pipelines.stages.pretrain import pretrain as train

_OPTIONS = options_of(PretrainSettings, skip=("mean", "std"))
_PANELS = {"": "Options", "pretext": "Pretext tasks", "augmentation": "Augmentation of key-frames"}


@launching.with_options(_OPTIONS, _PANELS)
def pretrain(**given: Any) -> None:
    """Pre-train a model on videos without labels.

    Learns from the key-frames of the videos in an index, or, with --features, from the encodings of a frozen encoder;
    that runs on a CPU. Defaults are the paper's.

    Example: bassl pretrain --gpus 16 --nodes 2 --node-rank 0 --rdzv-endpoint HOST:29500 --epochs 40
    """
    settings = launching.settings_here(PretrainSettings, _OPTIONS, "pretrain", given)
    with launching.telling_the_launcher(), console.training_progress(given["quiet"]) as progress:
        result = train(settings, progress)
    if os.environ.get("RANK", "0") == "0":
        _show(result, given["quiet"])
    if result.stopped:
        raise typer.Exit(launching.STOPPED)


def _show(result: PretrainResult, quiet: bool) -> None:
    if result.stopped:
        if not launching.is_child():
            console.complain(f"stopped after step {result.step} of {result.steps}; go on with --resume")
    elif not quiet:
        console.say(f"{console.count(result.step, 'step')}; wrote {result.model}")
