"""``bassl finetune``: labelled films in, a model that finds scene ends out; on one process or, by torchrun, on many."""

from __future__ import annotations

import os
from typing import Any

import typer

from bassl_cli import console
from bassl_cli import options as launching
from pipelines.options import options_of
from pipelines.stages.finetune import FinetuneResult, FinetuneSettings
from pipelines.stages.finetune import finetune as train

_OPTIONS = options_of(FinetuneSettings)
_MEASURES = {
    "ap": "AP",
    "auc": "AUC",
    "f1": "F1",
    "miou": "mIoU",
    "f1_calibrated": "F1 calibrated",
    "miou_calibrated": "mIoU calibrated",
}


@launching.with_options(_OPTIONS)
def finetune(**given: Any) -> None:
    """Train a model to find scene ends, from labelled films.

    Begins with a pre-trained model, freezes its shot encoder, and trains a network over the shots' features, from
    several seeds. Shows the mean and deviation of the metrics on the test split; all of them are in result.json.
    Defaults are the paper's.

    Example: bassl finetune --init runs/pretrain --crn transformer --transfer encoder+crn
    """
    settings = launching.settings_here(FinetuneSettings, _OPTIONS, "finetune", given)
    with launching.telling_the_launcher(), console.training_progress(given["quiet"]) as progress:
        result = train(settings, progress)
    if os.environ.get("RANK", "0") == "0":
        _show(settings, result, given["quiet"])
    if result.stopped:
        raise typer.Exit(launching.STOPPED)


def _show(settings: FinetuneSettings, result: FinetuneResult, quiet: bool) -> None:
    if result.stopped:
        if not launching.is_child():
            console.complain(f"stopped after step {result.step} of {result.steps}; go on with --resume")
        return
    if result.mean:
        cells = [_cell(result, name) for name in _MEASURES]
        console.show_table(tuple(_MEASURES.values()), [cells], text=(), title=_title(settings, result))
    if not quiet:
        console.say(f"wrote {result.model} and {result.report}")


def _title(settings: FinetuneSettings, result: FinetuneResult) -> str:
    on = settings.test_split if result.tested_on == "test" else settings.validate_split
    chosen = {"val": f"epoch chosen on {settings.validate_split}", "test": "epoch chosen on the test split itself"}
    how = chosen.get(result.selected_on, result.selected_on)
    return f"{settings.crn} on {on}, {console.count(settings.seeds, 'seed')}, {how}, in percent"


def _cell(result: FinetuneResult, name: str) -> str:
    if name not in result.mean:
        return "-"
    deviation = f" ± {100 * result.std[name]:.1f}" if name in result.std else ""
    return f"{100 * result.mean[name]:.1f}{deviation}"
