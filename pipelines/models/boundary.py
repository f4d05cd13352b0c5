"""A model of any network kind that scores how likely a scene ends with each shot of a video."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import BasslError, StoreError
from pipelines.models.calibration import Calibration, apply_calibration
from pipelines.models.checkpoints import numbers_of, part_of, read_arrays, save_model, settings_fit
from pipelines.models.networks.kinds import NETWORKS, Shape
from pipelines.models.networks.relational import (
    LinearModel,
    check_evidence,
    linear_model,
    relational_logits,
    shot_tokens,
)

if TYPE_CHECKING:  # optional dependency: torch
    from torch import Tensor

KIND = "boundary"
Numbers = NDArray[np.floating[Any]] | NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False, kw_only=True)
class BoundaryModel:
    """A network that scores the shots of a video, and what it was trained on."""

    crn: str  # the kind of network, see `pipelines.models.networks.kinds`
    network: Any  # a torch module in evaluation mode, or a linear model
    shape: Shape
    calibration: Calibration = field(default_factory=Calibration)  # how a logit becomes a score
    encoder: str | None = None  # id of the shot encoder whose features are the input; None: any
    encoder_name: str | None = None  # its name on the command line; None if it has none
    # its state dict; empty if the name alone determines the weights
    encoder_weights: Mapping[str, Tensor] = field(default_factory=dict)
    keyframes: int | None = None  # N_k: keyframes per shot that features are averaged over; None if unknown
    input_size: int | None = None  # side of the encoder's input, if the model has the encoder's weights
    # how the keyframes were made, see `pipelines.stores.index.Index`
    keyframe_facts: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)  # how the model was trained, for information only

    def __post_init__(self) -> None:
        if self.crn == "relational" and self.network.settings != self.shape:
            raise ValueError("the network is of another shape than the model")
        if not isinstance(self.network, LinearModel):
            self.network.eval()

    @property
    def width(self) -> int | None:
        """Return the width of the input, D_e; None if any will do."""
        return getattr(self.shape, "input_width", None)

    def check(self, encoder: str, width: int) -> None:
        """Raise BasslError if the model was trained on features of another encoder id or width D_e."""
        if self.encoder is not None and encoder != self.encoder:
            raise BasslError(f"the model was trained on features of {self.encoder}, not of {encoder}")
        if self.width is not None and width != self.width:
            raise BasslError(f"the model was trained on features of width {self.width}, not {width}")

    def logits(self, features: Numbers, durations: Numbers, color: Numbers | None = None) -> NDArray[np.float64]:
        """Return logits (N,) before calibration; arguments and errors as for `score`."""
        if features.ndim != 2 or not len(features) or self.width not in (None, features.shape[1]):
            width = "D_e" if self.width is None else self.width
            raise ValueError(f"features must be (N, {width}) with N >= 1, not {features.shape}")
        if durations.shape != (len(features),):
            raise ValueError(f"durations must be ({len(features)},), not {durations.shape}")
        if self.crn == "relational":
            tokens = shot_tokens(features.astype(np.float32, copy=False), durations, color)
            return relational_logits(self.network, tokens)
        from pipelines.models.networks.torch_networks import LOGITS  # optional dependency: torch

        return LOGITS[NETWORKS[self.crn].reads](self.network, self.shape, features)

    def score(self, features: Numbers, durations: Numbers, color: Numbers | None = None) -> NDArray[np.float64]:
        """Return how likely it is that a scene ends with each shot.

        Args:
            features: (N, D_e) encodings of the shots of one whole video, in order, N >= 1.
            durations: (N,) lengths of the shots in seconds. Only `relational` uses them, and the color.
            color: (N, H) hue histograms of the shots (`pipelines.models.encoders.shot_encoder`); None if unknown.
        Returns: (N,) scores between 0 and 1; 0.5 is the operating point.
        Raises ValueError: shapes do not fit each other or the model.
        """
        return apply_calibration(self.logits(features, durations, color), self.calibration)


# --- files ------------------------------------------------------------------------------------------------------------

_NETWORK = "networks.0"  # prefix of the network's weights; a model has one network
_PLAIN: Mapping[str, tuple[str, tuple[type, ...]]] = {
    "encoder": ("encoder", (str, type(None))),
    "encoder_name": ("encoder_name", (str, type(None))),
    "keyframes": ("keyframes", (int, type(None))),
    "input_size": ("input_size", (int, type(None))),
    "pictures": ("keyframe_facts", (dict,)),
    "training": ("training", (dict,)),
}  # settings that are stored as they are: name in the header (fixed by the built-in model's file), field, types


def save_boundary_model(path: Path, model: BoundaryModel) -> None:
    """Write a model as one safetensors file, atomically. Raises BasslError: the file cannot be written."""
    weights: dict[str, Any]
    if isinstance(model.network, LinearModel):
        weights = model.network.arrays()
    else:
        weights = {name: tensor.float().cpu() for name, tensor in model.network.state_dict().items()}
    tensors = {f"{_NETWORK}.{name}": weight for name, weight in weights.items()}
    tensors |= {f"encoder.{name}": tensor for name, tensor in model.encoder_weights.items()}
    settings = {
        "crn": model.crn,
        "networks": 1,
        "shape": asdict(model.shape),
        "calibration": asdict(model.calibration),
        **{name: getattr(model, attribute) for name, (attribute, _) in _PLAIN.items()},
        "sound": None,  # for earlier versions, which could read sound too
    }
    save_model(path, tensors, KIND, settings)


def load_boundary_model(path: Path) -> BoundaryModel:
    """Read a model that `save_boundary_model` wrote. Raises StoreError as `read_arrays`, or if its weights and settings
    do not fit."""
    arrays, stored = read_arrays(path, KIND)
    if stored.pop("sound", None) is not None:
        raise StoreError(f"{path}: also reads sound, which this version does not; fine-tune it again")
    with settings_fit(path):
        if set(stored) != {"crn", "networks", "shape", "calibration", *_PLAIN} or stored["crn"] not in NETWORKS:
            raise ValueError(f"settings {sorted(stored)}")
        crn, kind = stored["crn"], NETWORKS[stored["crn"]].shape
        shape = kind(**numbers_of(stored["shape"], kind))
        weights, encoder = part_of(arrays, _NETWORK), part_of(arrays, "encoder")
        if stored["networks"] != 1 or len(weights) + len(encoder) < len(arrays):
            raise ValueError("more than one network, or weights of no part")
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise ValueError("weights that are not finite")
        for name, (_, types) in _PLAIN.items():
            if type(stored[name]) not in types:
                raise ValueError(f"{name} is {stored[name]}")
        network: Any = None
        if crn == "relational":
            check_evidence(path, weights)
            network = None if shape.width else linear_model(shape, weights)
        encoder_weights: Mapping[str, Tensor] = {}
        if network is None or encoder:
            from pipelines.models.networks import torch_networks  # optional dependency: torch

            network = network or torch_networks.network_of_arrays(crn, shape, weights)
            encoder_weights = torch_networks.tensors_of(encoder)
        return BoundaryModel(
            crn=crn,
            network=network,
            shape=shape,
            calibration=Calibration(**numbers_of(stored["calibration"], Calibration)),
            encoder_weights=encoder_weights,
            **{attribute: stored[name] for name, (attribute, _) in _PLAIN.items()},
        )
