"""The start of pre-training: windows to learn from, the network, and the contents of the model file."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from pipelines.errors import BasslError
from pipelines.models.bassl import BasslSettings, BasslWeights
from pipelines.models.crn import ContextualRelationNetwork
from pipelines.models.image_networks import TrainableEncoder, trainable_encoder
from pipelines.models.networks import CRNSettings
from pipelines.models.opening import open_model
from pipelines.pretext.objective import PretextObjective
from pipelines.stages.pretrain.data import FeatureWindows, PretextWindows
from pipelines.stages.pretrain.model import PretrainModel
from pipelines.stages.pretrain.settings import PretrainSettings
from pipelines.stores.index import Index
from pipelines.training.distributed import Process
from pipelines.training.keyframe_windows import KeyframeWindows, WindowOrder
from pipelines.training.loops import plain_weights, weight_dtype
from pipelines.training.run_folder import plain_settings


def window_order(settings: PretrainSettings, index: Index, world_size: int) -> WindowOrder:
    """The windows of each step. Raises BasslError for splits without shots, or a batch size that does not fit the data
    or the number of processes."""
    if settings.batch % world_size:
        raise BasslError(f"a batch of {settings.batch} cannot be shared equally by {world_size} processes")
    rows = index.rows_of(settings.data.splits or None)
    if not len(rows):
        there = ", ".join(sorted({split for split in index.splits if split})) or "no splits"
        raise BasslError(f"{index.path}: has no shots of the splits {', '.join(settings.data.splits)}; it has {there}")
    order = WindowOrder(rows, settings.batch, settings.epochs, settings.run.seed)
    if not order.epoch_steps:
        raise BasslError(f"{index.path}: {len(rows)} shots do not fill a batch of {settings.batch}; lower --batch")
    if settings.pretext.pseudo_boundary == "synthesized" and len(index.videos_of(settings.data.splits or None)) < 2:
        raise BasslError(f"{index.path}: synthesized pseudo-boundaries need at least two videos")
    return order


def open_source(
    settings: PretrainSettings, index: Index, videos: Sequence[int], windows: PretextWindows, process: Process
) -> FeatureWindows | KeyframeWindows:
    """The source of the shots of ``videos``: feature stores if the settings name any, else keyframes."""
    if settings.data.features:
        return FeatureWindows(index, settings.data.features, windows, process, videos)
    index.check_keyframes(videos)
    return KeyframeWindows(index, windows.rows, process, settings.compute.workers or 0, settings.decoded_size)


def make_model(
    settings: PretrainSettings, features: FeatureWindows | None, process: Process
) -> tuple[TrainableEncoder | None, PretrainModel]:
    """The encoder (None with features), and the network to train, on its device. Raises BasslError for an encoder or
    initial weights that cannot be used."""
    torch.manual_seed(settings.run.seed)
    encoder = None
    if features is not None:
        input_width = features.width
        if settings.init == "imagenet":
            raise BasslError(
                "--init imagenet initializes an encoder, but --features trains none; leave one of them out"
            )
    else:
        encoder = trainable_encoder(settings.encoder, settings.init == "imagenet", settings.augmentation.size)
        input_width = encoder.width
    crn = None
    if settings.pretext.needs_crn:
        crn = ContextualRelationNetwork(
            CRNSettings(
                neighbors=settings.neighbours,
                input_width=input_width,
                width=settings.width,
                layers=settings.layers,
                heads=settings.heads,
                hidden=4 * settings.width,
                dropout=settings.dropout,
            )
        )
    objective = PretextObjective(settings.pretext, input_width, settings.width)
    model = PretrainModel(encoder.network if encoder else None, crn, objective, settings.freeze_encoder)
    if settings.init not in (None, "imagenet"):
        opened = open_model(settings.init)
        _load_weights(model, opened.file, opened.weights)
    if process.device.type == "cuda" and process.world_size > 1 and encoder is not None:
        model.synchronise_norms()
    model.to(process.device, weight_dtype(settings.compute.precision))
    if encoder is not None:
        model.to(memory_format=torch.channels_last)
    return encoder, model


def _load_weights(model: PretrainModel, path: Path, weights: BasslWeights) -> None:
    """Load the encoder and the CRN of a model file, as far as both have them."""
    loaded = False
    for part, module, tensors in (("encoder", model.encoder, weights.encoder), ("CRN", model.crn, weights.crn)):
        if module is not None and tensors:
            try:
                module.load_state_dict(tensors)
            except RuntimeError as error:
                raise BasslError(f"{path}: its {part} has another shape; choose the same encoder and CRN") from error
            loaded = True
    if not loaded:
        raise BasslError(f"{path}: has neither an encoder nor a CRN that this run trains; name another model")


def model_weights(
    settings: PretrainSettings, model: PretrainModel, encoder: str, step: int, data: dict[str, Any]
) -> BasslWeights:
    """The contents of the model file after ``step``; ``encoder`` is the name of its shot encoder, or with features its
    id."""
    # Frozen ImageNet weights need no copy.
    published = settings.freeze_encoder and settings.init == "imagenet"
    return BasslWeights(
        BasslSettings(encoder, model.crn.settings if model.crn is not None else None),
        {} if published else plain_weights(model.encoder),
        plain_weights(model.crn),
        plain_weights(model.objective),
        {"stage": "pretrain", "step": step, **plain_settings(settings, without=_NOT_IN_IDENTITY), "data": data},
    )


_NOT_IN_IDENTITY = {
    *("index", "features", "output", "device", "workers", "micro_batch", "compile", "resume", "overwrite"),
    *("log_steps", "validate_split", "validate_epochs"),
}


def identity_of(settings: PretrainSettings, index: Index, features: FeatureWindows | None) -> dict[str, Any]:
    """What must be the same to resume a run: not paths, logging or validation."""
    return {
        **plain_settings(settings, without=_NOT_IN_IDENTITY),
        "shots of the index": zlib.crc32(index.first_row.tobytes()),
        "keyframes of the index": index.shots_crc32,
        "encoder of the features": features and features.encoder,
    }
