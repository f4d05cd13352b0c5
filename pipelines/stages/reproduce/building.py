"""Which stages measure a system on which data."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from pipelines.errors import BasslError
from pipelines.stages.reproduce.data import FRAME_RATE, LONG, OTHER_SETS, PLACES365, Data, Way
from pipelines.stages.reproduce.rows import ACROSS, ROWS, Cell, Row, System
from pipelines.stages.reproduce.steps import Stage

if TYPE_CHECKING:
    from pipelines.stages.reproduce import ReproduceSettings

NEEDS_FILMS = "needs films"
NO_WEIGHTS = "weights not there (data/README.md)"
PAPER_ENCODER = "resnet50"
"""Whose ImageNet weights the paper takes (section 4.1)."""


def final_stage(
    cell: Cell, data: Data, way: Way, settings: ReproduceSettings, row: Row, ask: bool = True
) -> Stage | str:
    """The stage that says a number, with all that it needs; or why there is none.

    Args:
        cell: which number.
        data, way: what it is measured on.
        settings: epochs, seeds.
        row: that it is in.
        ask: whether weights may be downloaded to see which there are.
    """
    system = cell.system
    if data.features and (reason := _needs_films(system, cell.metric)):
        return reason
    scoring: dict[str, Any] = {"index": way.index.output, "features": data.home / "features", "resamples": 0}
    if data.features:
        scoring["frame_rate"] = FRAME_RATE
    if system.baseline is not None:
        return _baseline(system, data, way, settings, ask)
    if system.pretraining is not None and not system.finetune:
        pretrained = _pretraining(system, data, settings)
        return Stage("score", scoring, (str(pretrained.output),), None, (way.index, pretrained))
    tuned = _finetuning(system, data, way, settings, ask)
    if isinstance(tuned, str):
        return tuned
    if cell.metric.startswith("nmi"):
        return Stage("score", {**scoring, "representation": True}, (str(tuned.output),), None, (tuned,))
    if data.kind == "movienet" and row in ROWS[ACROSS]:
        other = OTHER_SETS[row.label]
        if not other.exists():
            return f"{row.label} not there (data/README.md)"
        options = {**scoring, "index": other, "split": "all"}
        return Stage("score", options, (str(tuned.output),), None, (tuned,), str(other.stat().st_mtime_ns))
    return tuned


def _needs_films(system: System, metric: str) -> str:
    """Why a number cannot be measured on features: what it is about happens in the encoder."""
    if system.encoder == "Places365":
        return NEEDS_FILMS
    if system.pretraining is None:
        return ""
    only_encoder = system.pretraining.shots_only or system.transfer == "encoder" or metric.startswith("nmi")
    return NEEDS_FILMS if only_encoder else ""


def _pretraining(system: System, data: Data, settings: ReproduceSettings) -> Stage:
    pretraining = system.pretraining
    assert pretraining is not None
    epochs = max(1, round(pretraining.epochs / 10 * (settings.epochs or data.recipe.epochs)))
    output = data.home / "pretrain" / pretraining.name
    options: dict[str, Any] = {"index": data.unlabelled.output, "output": output}
    if data.features:
        options["features"] = data.features
    of_long = data.recipe.long_pretrain if pretraining.epochs > LONG else {}
    options |= {**data.recipe.pretrain, **of_long, **pretraining.options, "epochs": epochs}
    return Stage("pretrain", options, (), output, (data.unlabelled,))


def _finetuning(system: System, data: Data, way: Way, settings: ReproduceSettings, ask: bool) -> Stage | str:
    recipe = data.recipe
    output = data.home / way.name / system.name
    options: dict[str, Any] = {"index": way.index.output, "output": output, "crn": system.crn, "seeds": settings.seeds}
    needs: tuple[Stage, ...] = (way.index,)
    source = ""
    if data.features:
        options["features"] = data.features
    else:
        options["feature_folder"] = data.home / "features"
    if system.pretraining is not None:
        pretrained = _pretraining(system, data, settings)
        needs = (way.index, pretrained)
        options |= {"init": pretrained.output, "transfer": system.transfer}
    elif system.encoder == "Places365":
        if not PLACES365.exists():
            return NO_WEIGHTS
        options |= {"init": PLACES365, "transfer": "encoder"}
        source = str(PLACES365.stat().st_mtime_ns)
    else:
        options["init"] = "none"
        if not data.features:
            options["encoder"] = image_encoder(ask)[0]
    options |= recipe.finetune.get(system.crn, {})
    if system.transfer != "encoder+crn":
        options |= recipe.network.get(system.crn, {})
    return Stage("finetune", options, (), output, needs, source)


def _baseline(system: System, data: Data, way: Way, settings: ReproduceSettings, ask: bool) -> Stage:
    """Classical systems see the features that were given, or those of the ImageNet encoder."""
    from pipelines.baselines.systems import SYSTEMS  # brings SciPy

    assert system.baseline is not None
    options: dict[str, Any] = {"index": way.index.output}
    needs: tuple[Stage, ...] = (way.index,)
    if data.features:
        options |= {"features": data.features, "frame_rate": FRAME_RATE}
    else:
        name, identity = image_encoder(ask)
        store = data.home / "features" / f"{identity}.h5"
        encoding = {"index": way.index.output, "encoder": name, "folder": data.home / "features"}
        options["features"] = (store,)
        needs = (Stage("encode", encoding, (), store, needs),)
        if system.several and data.extra is not None:
            options["extra"] = (data.extra.output,)
            needs += (data.extra,)
    if SYSTEMS[system.baseline].learns:
        options["seeds"] = settings.seeds
    return Stage("baseline", options, (system.baseline,), None, needs)


@functools.cache
def image_encoder(ask: bool = True) -> tuple[str, str]:
    """Name and id of the encoder with ImageNet weights: the paper's, or, where these cannot be had, that in the box."""
    from pipelines.models.encoders import DEFAULT_ENCODER, load_encoder

    if not ask:
        return PAPER_ENCODER, f"{PAPER_ENCODER}-ID"
    try:
        return PAPER_ENCODER, load_encoder(PAPER_ENCODER, "cpu").id
    except BasslError:
        return DEFAULT_ENCODER, load_encoder(DEFAULT_ENCODER, "cpu").id
