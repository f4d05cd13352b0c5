"""``bassl finetune``: fine-tuning on labelled videos, in one process or, with torchrun, in several."""

from __future__ import annotations

import json

from bassl_cli import console
from bassl_cli.options import with_settings
from bassl_cli.training import curves_of, train
from pipelines.outputs.tables import percent_with_deviation
from pipelines.stages.finetune import FinetuneResult, FinetuneSettings, finetune as stage
from pipelines.training.jobs import Machines

_METRICS = {
    "ap": "AP",
    "auc": "AUC",
    "f1": "F1",
    "miou": "mIoU",
    "f1_calibrated": "F1 calibrated",
    "miou_calibrated": "mIoU calibrated",
}


@with_settings(panels={"machines": "Machines"})
def finetune(settings: FinetuneSettings, machines: Machines, as_json: console.Json = False) -> None:
    """Train a model to find scene ends, from labelled videos.

    Starts from a pre-trained model, freezes its shot encoder, and trains a network over the features of shots, with
    several seeds. Shows mean and standard deviation of the metrics on the test split; result.json has all of them.
    Defaults are the paper's.

    Example: bassl finetune --init runs/pretrain --crn transformer --transfer encoder+crn
    """
    result = train(stage, settings, machines)
    if as_json and result is not None:
        console.print_json(json.loads(result.report.read_text("utf-8")))
    if result is None or as_json:
        return
    if result.mean:
        cells = [percent_with_deviation(result.mean.get(name), result.std.get(name)) for name in _METRICS]
        console.show_table(tuple(_METRICS.values()), [cells], text=(), title=_title(settings, result))
    console.print_info(
        f"wrote {console.display_path(result.model)} and {console.display_path(result.report)}; "
        + curves_of(settings.run)
    )
    console.suggest_next("finetune", settings.run.output)


def _title(settings: FinetuneSettings, result: FinetuneResult) -> str:
    on = settings.test_split if result.tested_on == "test" else settings.validate_split
    chosen = {"val": f"epoch chosen on {settings.validate_split}", "test": "epoch chosen on the test split itself"}
    how = chosen.get(result.selected_on, result.selected_on)
    return f"{settings.crn} on {on}, {console.count(result.seeds, 'seed')}, {how}, in percent"
