"""``bassl models``: which models there are, what each was trained on, and its scores."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bassl_cli import console
from bassl_cli.options import with_settings
from pipelines.outputs.tables import percent_with_deviation
from pipelines.stages.list_models import ListedModel, list_models

# Metrics in the table; the JSON has all.
_SHOWN = {"ap": "AP", "f1": "F1", "miou": "mIoU", "knn@1": "kNN@1", "ap_pp": "AP of PP"}


@with_settings()
def models(
    runs: Annotated[Path, typer.Argument(help="Folder of runs.")] = Path("runs"), as_json: console.Json = False
) -> None:
    """List the built-in model and those under runs/: what each was trained on, and its scores.

    Example: bassl models
    """
    listed = list_models(runs)
    if as_json:
        console.print_json(listed)
    else:
        rows = [_row(model) for model in listed if model.stage != "damaged"]
        console.show_table(("model", "what it is", "scores in %"), rows, text=(0, 1, 2))
    damaged = [model.error for model in listed if model.stage == "damaged"]
    console.print_error(*damaged)
    if damaged:
        raise typer.Exit(1)


def _row(model: ListedModel) -> tuple[str, str, str]:
    name = "(the default)" if model.stage == "built-in" else str(model.path)
    reads = f" on {model.encoder}" if model.encoder else ""
    what = [f"{model.stage}: {model.method}{reads}" if model.method else model.stage, model.data, model.trained]
    scores = [
        f"{shown} {percent_with_deviation(model.scores[metric], model.deviations.get(metric))}"
        for metric, shown in _SHOWN.items()
        if metric in model.scores
    ]
    return name, "\n".join(filter(None, what)), f"{', '.join(scores)}\n{model.scored_on}" if scores else ""
