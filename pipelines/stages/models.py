"""Models: a list of them, by their headers and results alone, and checkpoints of the paper's release as model files."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pipelines.errors import BasslError, StoreError, count, explain_missing_extra
from pipelines.files import check_output, check_regular, os_errors, read_regular
from pipelines.models.opening import BUILT_IN, MODEL, STATE, open_model
from pipelines.training.run_folder import RESULT, VALIDATION, read_log

if TYPE_CHECKING:  # optional dependency: torch
    from pipelines.models.bassl import BasslWeights


@dataclass(frozen=True)
class ListedModel:
    """Model, or a file that should be one."""

    path: Path  # run folder or file, for ``bassl predict --model`` or ``bassl finetune --init``
    stage: Literal["built-in", "pre-trained", "fine-tuned", "learned", "imported", "unfinished", "damaged"]
    method: str = ""  # the contextual relation network of a model that scores videos; how another one was pre-trained
    encoder: str = ""  # whose features it reads; ``any encoder`` for some relational models
    data: str = ""  # what it was trained on, in a line
    scores: Mapping[str, float] = field(default_factory=dict)  # measures from 0 to 1; of several seeds the mean
    deviations: Mapping[str, float] = field(default_factory=dict)  # standard deviations of scores over seeds
    scored_on: str = ""  # what the scores are of, such as ``test``; empty without scores
    error: str = ""  # of a damaged one, in a line


def list_models(runs: Path | str = "runs") -> list[ListedModel]:
    """List the built-in model, then those in a folder of runs and its subfolders, sorted by path. Raises BasslError for
    a folder that does not exist, unless it is the default, or that cannot be read."""
    runs = Path(runs)
    if not runs.is_dir() and (runs != Path("runs") or runs.exists()):
        raise BasslError(f"{runs}: {'is a file' if runs.exists() else 'no such folder'}; pass the folder of the runs")
    with os_errors(runs):
        folders = {path.parent for name in (MODEL, STATE) for path in runs.rglob(name)}
        paths = sorted(folders | {path for path in runs.rglob("*.safetensors") if path.parent not in folders})
    shown = [path for path in paths if not any(part.startswith(".") for part in path.relative_to(runs).parts)]
    return [_listed(path) for path in (BUILT_IN, *shown)]


def _listed(path: Path) -> ListedModel:
    try:
        return _describe(path)
    except BasslError as error:
        return ListedModel(path, "damaged", error=str(error))
    except (LookupError, ArithmeticError, TypeError, ValueError, AttributeError, OSError, RecursionError) as error:
        # A header or a result that this program did not write so.
        return ListedModel(path, "damaged", error=f"{path}: its facts on training cannot be read ({error!r})")


def _describe(path: Path) -> ListedModel:
    if path.is_dir() and not (path / MODEL).exists():
        return ListedModel(path, "unfinished")
    opened = open_model(path)
    header, training = opened.header, opened.header["training"]
    if opened.kind == "bassl":
        encoder, crn = str(header["encoder"] or ""), "transformer" if header["crn"] else "no CRN"
        if training.get("stage") != "pretrain":
            return ListedModel(path, "imported", crn, encoder, str(training.get("file", "")))
        pretext, rows = training["pretext"], read_log(opened.file.parent / VALIDATION)
        method = pretext["method"] + (f" ({', '.join(pretext['tasks'])})" if "bassl" in pretext["method"] else "")
        data = f"{_amount(training['data'])} of {training['data']['path']}, step {training['step']:,}"
        scores = {name: value for name, value in (rows[-1] if rows else {}).items() if name not in ("step", "epoch")}
        return ListedModel(path, "pre-trained", method, encoder, data, scores, scored_on="validation" if rows else "")
    model = ListedModel(path, "fine-tuned", str(header["crn"]), str(header["encoder"] or "any encoder"))
    if opened.built_in:
        sets, measured = training["sets"], training["measured"][0]
        data = " and ".join(f"{each['set']} ({each['videos']} videos)" for each in sets)
        return replace(model, stage="built-in", data=data, scores=_scores(measured), scored_on=measured["how"])
    if training.get("stage") == "learn":
        data, scores = f"{_amount(training['learned_from'])} corrected by hand", _scores(training["measured"])
        how = "each video left out in turn" * bool(scores)
        return replace(model, stage="learned", data=data, scores=scores, scored_on=how)
    if not os.path.lexists(path / RESULT):  # a single model file, or an unfinished run
        measured = next((name for name in ("test", "validation") if training.get(name)), "")
        return replace(model, scores=_scores(training[measured]) if measured else {}, scored_on=measured)
    result = json.loads(read_regular(path / RESULT, kind=StoreError))
    data = f"{_amount(result['index']['train'])} of {result['index']['path']}"
    data += f"; begun with {result['init']}" if result.get("init") else ""
    how = f"{result.get('summary_of')}, {count(len(result['seeds']), 'seed')}" * bool(result["mean"])
    return replace(model, data=data, scores=_scores(result["mean"]), deviations=_scores(result["std"]), scored_on=how)


def _amount(counts: Mapping[str, Any]) -> str:
    return f"{count(counts['videos'], 'video')}, {count(counts['shots'], 'shot')}"


def _scores(values: Mapping[str, Any]) -> dict[str, float]:
    """Return the finite numbers among some values."""
    numbers = {name: float(value) for name, value in values.items() if isinstance(value, int | float)}
    return {name: value for name, value in numbers.items() if math.isfinite(value)}


@explain_missing_extra("import_checkpoint")
def import_checkpoint(file: Path | str, output: Path | str | None = None, *, overwrite: bool = False) -> BasslWeights:
    """Write the model file of a checkpoint of the paper's authors, pre-trained or fine-tuned, or of a ResNet-50 such as
    the Places365 one, by default ``runs/NAME/model.safetensors``; return its weights. Raises BasslError for another
    file, a checkpoint that contains code, which is not run, or an output that exists or cannot be written."""
    file = Path(file)
    output = Path(output or model_path(file))
    check_regular(file, kind=StoreError)
    check_output(output, (file,), overwrite)
    from pipelines.models import bassl  # optional dependency: torch

    weights = replace(bassl.read_checkpoint(file), training={"stage": "imported", "file": file.name})
    bassl.save_bassl_model(output, weights)
    return weights


def model_path(checkpoint: Path) -> Path:
    """Return the default path of a checkpoint's model."""
    return Path("runs") / checkpoint.stem / MODEL
