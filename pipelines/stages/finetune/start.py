"""The pre-trained model that fine-tuning begins with, and what of it is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pipelines.errors import BasslError
from pipelines.models.bassl import KIND, BasslWeights
from pipelines.models.opening import MODEL, open_model
from pipelines.stages.finetune.settings import FinetuneSettings

Transfer = Literal["none", "encoder", "encoder+crn"]
Report = Callable[[str], None]
"""Called with a line that the user should know."""


@dataclass(frozen=True, eq=False)
class Start:
    """The pre-trained model that fine-tuning begins with."""

    path: Path | None  # of the model; None for none
    weights: BasslWeights | None
    # what of it is kept: nothing, the features of its encoder (M6 of the paper), or its CRN too (M7)
    transfer: Transfer


def find_start(settings: FinetuneSettings, report: Report) -> Start:
    """The model that the settings name, and what of it goes into the new one. Raises BasslError where there is no such
    model, or it has no part that is asked for."""
    wanted = settings.transfer
    if settings.init == "none":
        if wanted is not None:
            raise BasslError(f"--transfer {wanted} needs a pre-trained model; name it with --init")
        return Start(None, None, "none")
    path = last_pretrained(settings.output.parent) if settings.init == "last" else Path(settings.init)
    file = path / MODEL if path.is_dir() else path
    if not file.exists():
        raise BasslError(
            f"{file}: no such model; name a run or a model file with --init, or begin anew with --init none"
        )
    opened = open_model(path)
    path, weights = opened.file, opened.weights
    if settings.init == "last":
        report(f"begins with {path}")
    has_crn = weights.settings.crn is not None
    if wanted == "encoder+crn" and settings.crn != "transformer":
        raise BasslError(
            f"--transfer encoder+crn: pre-training makes a transformer, and --crn {settings.crn} takes nothing of it; "
            "use --transfer encoder"
        )
    if wanted == "encoder+crn" and not has_crn:
        raise BasslError(f"{path}: was pre-trained without a CRN; use --transfer encoder")
    if wanted is None and settings.crn == "transformer" and not has_crn:
        report(f"{path} was pre-trained without a CRN; the CRN begins anew (--transfer encoder)")
    elif wanted is None and settings.crn != "transformer" and has_crn:
        report(f"pre-training makes a transformer: the {settings.crn} begins anew (--transfer encoder)")
    default: Transfer = "encoder+crn" if settings.crn == "transformer" and has_crn else "encoder"
    return Start(path, weights, wanted or default)


def last_pretrained(folder: Path) -> Path:
    """The newest pre-trained run in a folder of runs. Raises BasslError where there is none."""
    found: list[tuple[float, Path]] = []
    for path in folder.glob(f"*/{MODEL}"):
        try:
            opened = open_model(path)
        except BasslError:  # another's file, or one that is damaged: not the run that is looked for
            continue
        training = opened.header.get("training")
        if opened.kind == KIND and isinstance(training, dict) and training.get("stage") == "pretrain":
            found.append((path.stat().st_mtime, path))
    if not found:
        raise BasslError(
            f"{folder}: holds no pre-trained run; make one with `bassl pretrain`, name a model with --init PATH, "
            "or begin anew with --init none"
        )
    return max(found)[1]
