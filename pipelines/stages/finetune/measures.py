"""What fine-tuning measures, and the file that says it all."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipelines.evaluation.metrics import evaluate
from pipelines.files import write_atomically
from pipelines.models.calibration import Calibration, calibrated
from pipelines.stages.finetune.data import Split, scored
from pipelines.stages.finetune.start import Start
from pipelines.stages.finetune.task import Task
from pipelines.stores.index import Index
from pipelines.training.run_folder import MODEL, RESULT, put_same_file

if TYPE_CHECKING:
    from pipelines.stages.finetune import FinetuneSettings

SCHEMA, VERSION = "bassl.finetune", 1


def measured(
    task: Task, videos: Sequence[int], logits: Sequence[NDArray[np.float64]], calibration: Calibration | None = None
) -> dict[str, float]:
    """Metrics of films: a shot is a scene end where softmax gives it at least one half, as in the release.

    Args:
        task: what the films are of.
        videos: with labels of both kinds among them.
        logits: of each film, (N,).
        calibration: where there is one, F1 and mIoU at its operating point are added.
    """
    films = (task.index, task.targets, task.usable)
    plain = evaluate(scored(*films, videos, [calibrated(values, Calibration()) for values in logits]))
    values = {name: value for name, value in asdict(plain).items() if math.isfinite(value)}
    if calibration is not None:
        moved = evaluate(scored(*films, videos, [calibrated(each, calibration) for each in logits]))
        values |= {"f1_calibrated": moved.f1, "miou_calibrated": moved.miou}
    return values


def seed_file(seed: int) -> str:
    """The model of a seed in the folder of a run."""
    return f"seed-{seed}.safetensors"


def summary_of(
    records: Sequence[Mapping[str, Any]], split: Split
) -> tuple[dict[str, float], dict[str, float], str | None]:
    """Mean and standard deviation over seeds of the test metrics, else of the validation metrics, and which.

    A metric that a seed does not have (one without a calibration) is left out.
    """
    which = "test" if split.test else "validation" if split.val else None
    if which is None or not records:
        return {}, {}, None
    names = [name for name in records[0][which] if all(name in record[which] for record in records)]
    table = {name: [record[which][name] for record in records] for name in names}
    mean = {name: float(np.mean(values)) for name, values in table.items()}
    std = {name: float(np.std(values, ddof=1)) for name, values in table.items()} if len(records) > 1 else {}
    return mean, std, which


def write_result(
    settings: FinetuneSettings,
    index: Index,
    split: Split,
    start: Start,
    task: Task,
    records: list[dict[str, Any]],
    mean: dict[str, float],
    std: dict[str, float],
    tested_on: str | None,
    notes: list[str],
) -> None:
    """The chosen seed's model under the name that others look for, and the result as JSON."""
    best = {"val": "validation", "test": "test"}.get(split.selected_on)
    chosen = records[0] if best is None else max(records, key=lambda record: float(record[best]["ap"]))
    put_same_file(settings.output / seed_file(chosen["seed"]), settings.output / MODEL)
    parts = {"train": split.train, "val": split.val, "test": split.test}
    content = {
        "schema": SCHEMA,
        "version": VERSION,
        "settings": {name: plain(value) for name, value in asdict(settings).items()},
        "recipe": asdict(settings.recipe(start.transfer == "encoder+crn")),
        "index": {
            "path": str(settings.index),
            **{name: _counts(index, videos) for name, videos in parts.items()},
        },
        "init": str(start.path) if start.path is not None else None,
        "transfer": start.transfer,
        "encoder": task.encoder,
        "selected_on": split.selected_on,
        "seeds": records,
        "chosen_seed": chosen["seed"],
        "summary_of": tested_on,
        "mean": mean,
        "std": std,
        "notes": notes,
    }
    write_atomically(settings.output / RESULT, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())


def _counts(index: Index, videos: list[int]) -> dict[str, int]:
    usable = index.rows_of(labelled=True)
    usable = usable[np.isin(index.video_of(usable), videos)]
    return {"videos": len(videos), "shots": len(usable), "scene_ends": int(index.targets(usable).sum())}


def plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [plain(each) for each in value]
    return str(value) if isinstance(value, Path) else value
