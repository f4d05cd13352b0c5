"""Models: a list of them, by their headers and results alone, and checkpoints of the paper's release as model files."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pipelines.errors import BasslError, StoreError, count, explain_missing_extra
from pipelines.files import check_output, check_regular, os_errors, read_regular
from pipelines.models.opening import BUILT_IN, MODEL, STATE, model_file, open_model
from pipelines.training.run_folder import LOG, RESULT, VALIDATION, read_log

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
    trained: str = ""  # for how long, in a line
    # measures between 0 and 1, each the mean if there are several seeds
    scores: Mapping[str, float] = field(default_factory=dict)
    deviations: Mapping[str, float] = field(default_factory=dict)  # standard deviations of scores over seeds
    scored_on: str = ""  # what the scores are of, such as ``test``; empty without scores
    error: str = ""  # of a damaged one, in a line


_TEXTS = {field.name for field in fields(ListedModel) if field.type == "str"}


def list_models(runs: Path | str = "runs") -> list[ListedModel]:
    """List the built-in model, then models in a folder of runs, which need not exist, and its subfolders, sorted by
    path. Raises BasslError if it is not a folder or cannot be read."""
    runs = Path(runs)
    if runs.exists() and not runs.is_dir():
        raise BasslError(f"{runs}: is a file; name the folder of the runs")
    with os_errors(runs):
        paths = sorted(_candidates(runs))
    return [_list_model(BUILT_IN, _built_in), *(_list_model(path, _run) for path in paths)]


def _candidates(runs: Path) -> Iterable[Path]:
    """Return folders with a model or the state of a run, and model files that are in no such folder."""
    folders = {path.parent for name in (MODEL, STATE) for path in runs.rglob(name)}
    files = {path for path in runs.rglob("*.safetensors") if path.parent not in folders}
    return {path for path in folders | files if not any(part.startswith(".") for part in path.relative_to(runs).parts)}


def _list_model(path: Path, read: Callable[[Path], ListedModel]) -> ListedModel:
    try:
        model = read(path)
        if not all(isinstance(value, str) for name, value in vars(model).items() if name in _TEXTS):
            raise TypeError("not a text")
        return model
    except BasslError as error:
        return ListedModel(path, "damaged", error=str(error))
    except (LookupError, ArithmeticError, TypeError, ValueError, AttributeError, OSError, RecursionError) as error:
        # A header or a result that this program did not write so.
        return ListedModel(path, "damaged", error=f"{path}: its facts on training cannot be read ({error!r})")


def _built_in(path: Path) -> ListedModel:
    training = open_model(path).header["training"]
    cross = training["measured"][0]
    return ListedModel(
        path,
        "built-in",
        method="relational",
        encoder="any encoder",
        data=" and ".join(f"{each['set']} ({each['videos']} videos)" for each in training["sets"]),
        trained=training["trained"],
        scores={name: cross[name] for name in ("ap", "auc", "f1", "miou")},
        scored_on=cross["how"],
    )


def _run(path: Path) -> ListedModel:
    if path.is_dir() and not (path / MODEL).exists():
        return ListedModel(path, "unfinished", trained="no epoch yet" if not (path / LOG).exists() else "begun")
    opened = open_model(path)
    if opened.kind == "boundary":
        return _fine_tuned(path, opened.header)
    if opened.kind == "bassl":
        return _pretrained(path, opened.file, opened.header)
    raise StoreError(f"{opened.file}: contains a model of unknown kind '{opened.kind}'; update bassl")


def _fine_tuned(path: Path, settings: Mapping[str, Any]) -> ListedModel:
    training = settings["training"]
    if training.get("stage") == "learn":
        return _learned(path, settings["crn"], training)
    measured = next((name for name in ("test", "validation") if training.get(name)), "")
    model = ListedModel(
        path,
        "fine-tuned",
        method=settings["crn"],
        encoder=settings["encoder"] or "any encoder",
        trained=f"epoch {training['epoch']}" if isinstance(training.get("epoch"), int) else "",
        scores=_numbers(training[measured]) if measured else {},
        scored_on=measured,
    )
    if not os.path.lexists(path / RESULT):  # a single model file, or an unfinished run
        return model
    content = json.loads(read_regular(path / RESULT, kind=StoreError))
    parts, means = content["index"], _numbers(content["mean"])
    epochs = sorted({len(seed["epochs"]) for seed in content["seeds"]})
    trained = f"{epochs[0]}-{epochs[-1]} epochs" if len(epochs) > 1 else count(epochs[0], "epoch")
    scored_on = content.get("summary_of") or ""
    if content.get("selected_on") == "test":
        scored_on += ", which chose the epoch"
    return replace(
        model,
        data=_videos_and_shots(parts["train"], parts["path"])
        + (f"; begun with {content['init']}" if content.get("init") else ""),
        trained=f"{trained}, {count(len(content['seeds']), 'seed')}",
        scores=means,
        deviations=_numbers(content["std"]),
        scored_on=scored_on if means else "",
    )


def _learned(path: Path, crn: str, training: Mapping[str, Any]) -> ListedModel:
    """Describe a model that `bassl learn` wrote."""
    source, measured = training["learned_from"], training["measured"]
    return ListedModel(
        path,
        "learned",
        method=crn,
        encoder="any encoder",
        data=f"{_videos_and_shots(source)} corrected by hand",
        trained="built-in weights" if training["strength"] is None else "pulled to the built-in weights",
        scores=_numbers({name: measured[name] for name in ("ap", "f1") if measured}),
        scored_on="each video left out in turn" if measured else "",
    )


def _pretrained(path: Path, file: Path, settings: Mapping[str, Any]) -> ListedModel:
    """Describe a pre-trained model, or an imported checkpoint of the paper's authors."""
    training, encoder = settings["training"], settings["encoder"] or ""
    if training.get("stage") != "pretrain":
        crn = "transformer" if settings["crn"] else "no CRN"
        return ListedModel(path, "imported", method=crn, encoder=encoder, trained=str(training.get("file", "")))
    pretext = training["pretext"]
    method = pretext["method"]
    if method.startswith("bassl"):
        method += f" ({', '.join(pretext['tasks'])})"
    rows = read_log(file.parent / VALIDATION)
    last = {name: value for name, value in (rows[-1] if rows else {}).items() if name not in ("step", "epoch")}
    taken = "" if not rows else f", epoch {int(rows[-1]['epoch'])} of {training['epochs']}"
    data = _videos_and_shots(training["data"], training["data"]["path"])
    if training.get("splits"):
        data += f", splits {', '.join(training['splits'])}"
    return ListedModel(
        path,
        "pre-trained",
        method=method,
        encoder=encoder,
        data=data,
        trained=f"step {training['step']:,}{taken}",
        scores=last,
        scored_on="validation" if last else "",
    )


def _videos_and_shots(counts: Mapping[str, Any], source: str = "") -> str:
    text = f"{count(counts['videos'], 'video')}, {count(counts['shots'], 'shot')}"
    return f"{text} of {source}" if source else text


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in values.items()
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    }


@explain_missing_extra("import_checkpoint")
def import_checkpoint(file: Path | str, output: Path | str | None = None, *, overwrite: bool = False) -> BasslWeights:
    """Write the model file of a checkpoint of the paper's authors, pre-trained or fine-tuned, or of a ResNet-50 such as
    the Places365 one; returns its weights. No code in it is run: a checkpoint that contains code is refused.
    The default of ``output`` is ``runs/NAME/model.safetensors``. Raises BasslError for a file that is not such a
    checkpoint, or an output that exists or cannot be written."""
    file = Path(file)
    output = Path(output or model_path(file))
    check_regular(file, kind=StoreError)
    check_output(output, (file,), overwrite)
    from pipelines.models import bassl, released  # optional dependency: torch
    from pipelines.models.encoders.torch_encoders import read_torchvision_resnet  # optional dependency: torch

    resnet = read_torchvision_resnet(file)
    if resnet is None:
        weights = released.read_released(file)
    else:
        weights = bassl.BasslWeights(bassl.BasslSettings("resnet50", None), resnet, {}, {})
    weights = replace(weights, training={"stage": "imported", "file": file.name})
    bassl.save_bassl_model(output, weights)
    return weights


@explain_missing_extra("export_checkpoint")
def export_checkpoint(file: Path | str, output: Path | str | None = None, *, overwrite: bool = False) -> BasslWeights:
    """Write a pre-trained model, its file or run folder, in the layout of the paper's release; its weights. The
    default of ``output`` is the name of the model with the extension ``.ckpt``. Raises BasslError for a model that does
    not fit the layout, or an output that exists or cannot be written."""
    output, file = Path(output or checkpoint_path(Path(file))), model_file(Path(file))
    check_output(output, (file,), overwrite)
    from pipelines.models import bassl, released  # optional dependency: torch

    weights = bassl.load_bassl_model(file)
    released.write_released(output, weights)
    return weights


def model_path(checkpoint: Path) -> Path:
    """Return the default path of a checkpoint's model."""
    return Path("runs") / checkpoint.stem / MODEL


def checkpoint_path(model: Path) -> Path:
    """Return the default path of the checkpoint for a model file or run folder."""
    return model.with_suffix(".ckpt") if model.name else model / "model.ckpt"  # the folders . and / have no name
