"""A model of any network kind that scores how likely a scene ends with each shot of a video."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from pipelines.errors import BasslError
from pipelines.models.calibration import Calibration, apply_calibration
from pipelines.models.checkpoints import part_of, read_arrays, save_model, settings_fit
from pipelines.models.encoders import Preparation
from pipelines.models.networks import CRN, SHAPES, Shape
from pipelines.models.networks.relational import LinearModel, linear_model, relational_logits, shot_tokens

if TYPE_CHECKING:  # optional dependency: torch
    from torch import Tensor

KIND = "boundary"
Numbers = NDArray[np.floating[Any]] | NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False, kw_only=True)
class BoundaryModel:
    """A network that scores the shots of a video, and what it was trained on."""

    crn: CRN  # the kind of network, see `pipelines.models.networks`
    network: Any  # a torch module in evaluation mode, or a linear model
    shape: Shape
    calibration: Calibration = field(default_factory=Calibration)  # how a logit becomes a score
    encoder: str | None = None  # id of the shot encoder whose features are the input; None: any
    encoder_name: str | None = None  # its name on the command line; None if it has none
    # its state dict; empty if the name alone determines the weights
    encoder_weights: Mapping[str, Tensor] = field(default_factory=dict)
    keyframes: int | None = None  # N_k: keyframes per shot that features are averaged over; None if unknown
    # side and preparation of the encoder's input, if the model has the encoder's weights
    input_size: int | None = None
    preparation: Preparation | None = None
    # how the keyframes were made, see `pipelines.stores.index.Index`
    keyframe_facts: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)  # how the model was trained, for information only

    def __post_init__(self) -> None:
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
        """Return logits (N,) before calibration; arguments as for `score`."""
        if self.crn == "relational":
            tokens = shot_tokens(features.astype(np.float32, copy=False), durations, color)
            return relational_logits(self.network, tokens)
        from pipelines.models.networks.torch_networks import LOGITS  # optional dependency: torch

        return LOGITS[self.crn](self.network, self.shape, features)

    def score(self, features: Numbers, durations: Numbers, color: Numbers | None = None) -> NDArray[np.float64]:
        """Return how likely it is that a scene ends with each shot, (N,) from 0 to 1 with 0.5 as the operating point,
        from features (N, D_e) of the shots of one whole video, in order. Only `relational` uses the durations (N,) in
        seconds and the hue histograms (N, H), None if unknown."""
        return apply_calibration(self.logits(features, durations, color), self.calibration)


# --- files ------------------------------------------------------------------------------------------------------------

_NETWORK = "networks.0"  # prefix of the network's weights; a model has one network
# Of a relational model: sizes of a network beside the linear model, which earlier versions had, and read.
_EARLIER_SIZES = {"width": 0, "layers": 2, "neighbors": 4}


class _Header(msgspec.Struct, kw_only=True, omit_defaults=True, rename={"keyframe_facts": "pictures"}):
    """The settings in the header of a file, named as in the built-in model's."""

    crn: CRN
    shape: dict[str, Any]
    calibration: Calibration
    encoder: str | None
    encoder_name: str | None
    keyframes: int | None
    input_size: int | None
    preparation: Preparation | None = None
    keyframe_facts: dict[str, Any]
    training: dict[str, Any]
    networks: Literal[1]
    sound: None  # earlier versions could read sound too


_ENCODER_FACTS = ("encoder", "encoder_name", "keyframes", "input_size", "preparation")
_FACTS = ("calibration", *_ENCODER_FACTS, "keyframe_facts", "training")  # fields of a header and of a `BoundaryModel`


def save_boundary_model(path: Path, model: BoundaryModel) -> None:
    """Write a model as one safetensors file, atomically. Raises BasslError: the file cannot be written."""
    weights: dict[str, Any]
    if isinstance(model.network, LinearModel):
        weights = model.network.arrays()
    else:
        weights = {name: tensor.float().cpu() for name, tensor in model.network.state_dict().items()}
    tensors = {f"{_NETWORK}.{name}": weight for name, weight in weights.items()}
    tensors |= {f"encoder.{name}": tensor for name, tensor in model.encoder_weights.items()}
    shape = asdict(model.shape) | (_EARLIER_SIZES if model.crn == "relational" else {})
    facts = {name: getattr(model, name) for name in _FACTS}
    header = _Header(crn=model.crn, shape=shape, networks=1, sound=None, **facts)
    save_model(path, tensors, KIND, msgspec.to_builtins(header))


def load_boundary_model(path: Path) -> BoundaryModel:
    """Read a model that `save_boundary_model` wrote. Raises StoreError as `read_arrays` and `settings_fit`."""
    arrays, stored = read_arrays(path, KIND)
    with settings_fit(path):
        header = msgspec.convert(stored, _Header)
        shape = msgspec.convert(header.shape, SHAPES[header.crn])
        weights, encoder = part_of(arrays, _NETWORK), part_of(arrays, "encoder")
        network: Any = linear_model(path, weights) if header.crn == "relational" else None
        encoder_weights: Mapping[str, Tensor] = {}
        if network is None or encoder:
            from pipelines.models.networks import torch_networks  # optional dependency: torch

            build = partial(torch_networks.build_network, header.crn, shape)
            network = network or torch_networks.with_weights(build, torch_networks.tensors_of(weights))
            encoder_weights = torch_networks.tensors_of(encoder)
    facts = {name: getattr(header, name) for name in _FACTS}
    return BoundaryModel(crn=header.crn, network=network, shape=shape, encoder_weights=encoder_weights, **facts)
