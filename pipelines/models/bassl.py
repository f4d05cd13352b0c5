"""The weights of the paper's model in one file: shot encoder, contextual relation network and heads.

Pre-training writes such a file. Fine-tuning starts from it and writes one with the head that predicts scene ends. A
checkpoint of the paper's release is converted to it (`pipelines.models.released`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pipelines.models.boundary import BoundaryModel
from pipelines.models.checkpoints import numbers_of, part_of, read_arrays, save_model, settings_fit
from pipelines.models.encoders.options import INPUT_SIZE
from pipelines.models.networks.kinds import CRNSettings
from pipelines.models.networks.torch_networks import (
    ContextualRelationNetwork,
    TransformerBoundary,
    tensors_of,
    with_weights,
)

KIND = "bassl"
PARTS = ("encoder", "crn", "heads")
BOUNDARY_HEAD = "head_sbd"  # the head of fine-tuning, Linear(D_c, 2) on the center shot; class 1 is a scene end


@dataclass(frozen=True)
class BasslSettings:
    """Everything except the weights that is needed to build the model again."""

    encoder: str | None = "resnet50"  # name of the shot encoder on the command line; None if unknown
    # shape of the contextual relation network; None for a method that trains the encoder alone (SimCLR)
    crn: CRNSettings | None = field(default_factory=CRNSettings)


@dataclass(frozen=True, eq=False)
class BasslWeights:
    """The paper's model as plain tensors by name."""

    settings: BasslSettings
    # the shot encoder, with torchvision's names (without ``fc``) for a ResNet-50; empty if it was frozen, so that
    # `settings.encoder` determines its weights
    encoder: dict[str, Tensor] = field(repr=False)
    # the state dict of `ContextualRelationNetwork`; empty if `settings.crn` is None
    crn: dict[str, Tensor] = field(repr=False)
    # with the names of the release: ``head_nce.model.0.weight``, ``head_pp.bias``, ``head_cgm.weight``,
    # ``head_msm.predictions.decoder.weight``, ``head_sbd.weight``, ...
    heads: dict[str, Tensor] = field(repr=False)
    # how the weights were trained, as plain JSON values; for information, except the input size
    training: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def finetuned(self) -> bool:
        """Return whether it has the head that predicts scene ends."""
        return f"{BOUNDARY_HEAD}.weight" in self.heads

    @property
    def input_size(self) -> int:
        """Return the side of the encoder's input: the size of the augmented keyframes in pre-training, or else the
        paper's."""
        augmentation = self.training.get("augmentation")
        size = augmentation.get("size") if isinstance(augmentation, dict) else None
        return size if isinstance(size, int) else INPUT_SIZE

    @property
    def head_names(self) -> list[str]:
        """Return the names of the heads, sorted, such as ``head_cgm``."""
        return sorted({name.split(".")[0] for name in self.heads})

    def build_crn(self) -> ContextualRelationNetwork:
        """Return the contextual relation network with these weights, in training mode. Raises ValueError: the model has
        none, or its weights do not fit its settings."""
        if self.settings.crn is None:
            raise ValueError("this model has no contextual relation network")
        return with_weights(ContextualRelationNetwork, self.settings.crn, self.crn)


def save_bassl_model(path: Path, weights: BasslWeights) -> None:
    """Write a model as one safetensors file, atomically. Raises StoreError: the file cannot be written; ValueError: the
    weights of the CRN do not fit its settings."""
    _check_crn(weights)
    tensors = {f"{part}.{name}": tensor for part in PARTS for name, tensor in getattr(weights, part).items()}
    save_model(path, tensors, KIND, {**asdict(weights.settings), "training": weights.training})


def load_bassl_model(path: Path) -> BasslWeights:
    """Read a model that `save_bassl_model` wrote. Raises StoreError as `read_arrays`, or if its weights and settings do
    not fit."""
    arrays, stored = read_arrays(path, KIND)
    tensors = tensors_of(arrays)
    with settings_fit(path):
        encoder, crn = stored["encoder"], stored["crn"]
        if set(stored) != {"encoder", "crn", "training"} or not isinstance(encoder, str | None):
            raise ValueError(f"settings {stored}")
        settings = BasslSettings(encoder, None if crn is None else CRNSettings(**numbers_of(crn, CRNSettings)))
        parts = {part: part_of(tensors, part) for part in PARTS}
        if sum(map(len, parts.values())) < len(tensors):
            raise ValueError("weights of no part")
        weights = BasslWeights(settings, **parts, training=dict(stored["training"]))
        _check_crn(weights)
        if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values()):
            raise ValueError("weights that are not finite")
    return weights


def crn_shapes(settings: CRNSettings) -> dict[str, tuple[int, ...]]:
    """Return names and shapes of the weights of a contextual relation network."""
    with torch.device("meta"):
        crn = ContextualRelationNetwork(settings)
    return {name: tuple(tensor.shape) for name, tensor in crn.state_dict().items()}


def boundary_of_weights(
    path: Path, weights: BasslWeights, *, encoder: str | None, input_size: int | None, head: str = BOUNDARY_HEAD
) -> BoundaryModel:
    """Return the paper's model, which has a CRN, as a `BoundaryModel` by one of its heads, Linear(D_c, 2) on the center
    shot.

    `path` is the file with the weights, for messages; `encoder` the id of the shot encoder, `input_size` its input, if
    its weights are in the file. Raises StoreError if the weights of the head do not fit the CRN.
    """
    shape = weights.settings.crn
    assert shape is not None
    tensors = {f"crn.{name}": tensor for name, tensor in weights.crn.items()}
    tensors |= {f"{BOUNDARY_HEAD}.{name}": tensor for name, tensor in part_of(weights.heads, head).items()}
    with settings_fit(path):
        network = with_weights(TransformerBoundary, shape, tensors)
    return BoundaryModel(
        crn="transformer",
        network=network,
        shape=shape,
        encoder=encoder,
        encoder_name=weights.settings.encoder,
        encoder_weights=weights.encoder,
        input_size=input_size,
        training=weights.training,
    )


def _check_crn(weights: BasslWeights) -> None:
    settings = weights.settings.crn
    # A header may contain any number of layers, which must not be built before this check.
    if settings is not None and settings.layers > len(weights.crn):
        raise ValueError(f"there are no weights for {settings.layers} layers")
    expected = {} if settings is None else crn_shapes(settings)
    if {name: tuple(tensor.shape) for name, tensor in weights.crn.items()} != expected:
        raise ValueError("the weights of the contextual relation network do not fit its settings")
