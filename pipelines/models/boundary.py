"""A model that scores how likely a scene ends with each shot of a video, for every kind of network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import BasslError
from pipelines.models.calibration import Calibration, apply_calibration
from pipelines.models.checkpoints import numbers_of, part_of, read_arrays, save_model, settings_fit
from pipelines.models.networks import NETWORKS, Shape
from pipelines.models.relational import LinearModel, relational_logits, shot_tokens, token_scorer

if TYPE_CHECKING:  # optional dependency: torch
    from torch import Tensor

KIND = "boundary"
Numbers = NDArray[np.floating[Any]] | NDArray[np.integer[Any]]


@dataclass(frozen=True, eq=False, kw_only=True)
class BoundaryModel:
    """A network that scores the shots of a video, and what it needs to know of its encodings."""

    crn: str  # which kind the network is, of `pipelines.models.networks`
    network: Any  # a module of torch, in evaluation mode; or a linear model
    shape: Shape  # of the network
    calibration: Calibration = field(default_factory=Calibration)  # how a logit becomes a score
    encoder: str | None = None  # id of the shot encoder whose features it reads; None for any
    encoder_name: str | None = None  # that encoder's name on the command line; None where it has none
    # its state dict, empty where the name alone says which weights they are
    encoder_weights: Mapping[str, Tensor] = field(default_factory=dict)
    # N_k, keyframes of a shot that the features are a mean of; None where that is not known
    keyframes: int | None = None
    input_size: int | None = None  # side of the encoder's input, where its weights are here
    # name of the features of sound that it reads beside those of the encoder (`pipelines.models.sound`); None for none
    sound: str | None = None
    # how the keyframes were made, see `pipelines.stores.lookup.keyframe_facts`
    pictures: Mapping[str, Any] = field(default_factory=dict)
    # how the model was made, as plain JSON values; for the reader, nothing depends on it
    training: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.crn == "relational" and self.network.settings != self.shape:
            raise ValueError("the network is of another shape than the model")
        if not isinstance(self.network, LinearModel):
            self.network.eval()

    @property
    def width(self) -> int | None:
        """D_e, with that of sound where it reads sound; None where any will do."""
        return getattr(self.shape, "input_width", None)

    def check(self, encoder: str, width: int) -> None:
        """Check that features of this encoder id and width D_e may be scored. Raises BasslError where the model was
        trained on features of another encoder or width."""
        if self.encoder is not None and encoder != self.encoder:
            raise BasslError(f"the model was trained on features of {self.encoder}, and these are of {encoder}")
        if self.width is not None and width != self.width:
            raise BasslError(f"the model was trained on features of width {self.width}, and these have {width}")

    def logits(self, features: Numbers, durations: Numbers, colour: Numbers | None = None) -> NDArray[np.float64]:
        """Logits (N,) before calibration; arguments and errors as for `score`."""
        if features.ndim != 2 or not len(features) or self.width not in (None, features.shape[1]):
            wanted = "D_e" if self.width is None else self.width
            raise ValueError(f"features must be (N, {wanted}) with N >= 1, not {features.shape}")
        if durations.shape != (len(features),):
            raise ValueError(f"durations must be ({len(features)},), not {durations.shape}")
        reads = NETWORKS[self.crn].reads
        if reads == "tokens":
            tokens = shot_tokens(features.astype(np.float32, copy=False), durations, colour)
            return relational_logits(self.network, tokens)
        from pipelines.models.torch_networks import LOGITS  # optional dependency: torch

        return LOGITS[reads](self.network, self.shape, features)

    def score(self, features: Numbers, durations: Numbers, colour: Numbers | None = None) -> NDArray[np.float64]:
        """How likely it is that a scene ends with each shot.

        Args:
            features: (N, D_e) encodings of the shots of one whole video, in order, N >= 1.
            durations: (N,) lengths of the shots in seconds. Only `relational` reads them, and the colour.
            colour: (N, H) hue histograms of the shots (`pipelines.models.colour`); None where they are not known.
        Returns: (N,) scores between 0 and 1; 0.5 is the operating point.
        Raises ValueError: shapes do not fit each other or the model.
        """
        return apply_calibration(self.logits(features, durations, colour), self.calibration)


# --- files ------------------------------------------------------------------------------------------------------------

_NETWORK = "networks.0"  # of the names of its weights; a model has one network
_PLAIN: Mapping[str, tuple[type, ...]] = {
    "encoder": (str, type(None)),
    "encoder_name": (str, type(None)),
    "keyframes": (int, type(None)),
    "input_size": (int, type(None)),
    "sound": (str, type(None)),
    "pictures": (dict,),
    "training": (dict,),
}  # fields that are stored as they are, and their types


def save_boundary_model(path: Path, model: BoundaryModel) -> None:
    """Write a model as one safetensors file; it appears whole or not at all. Raises BasslError: the file cannot be
    written."""
    weights: dict[str, Any]
    if isinstance(model.network, LinearModel):
        weights = model.network.arrays()
    else:
        weights = {name: tensor.float().cpu() for name, tensor in model.network.state_dict().items()}
    tensors = {f"{_NETWORK}.{name}": each for name, each in weights.items()}
    tensors |= {f"encoder.{name}": tensor for name, tensor in model.encoder_weights.items()}
    settings = {
        "crn": model.crn,
        "networks": 1,
        "shape": asdict(model.shape),
        "calibration": asdict(model.calibration),
        **{name: getattr(model, name) for name in _PLAIN},
    }
    save_model(path, tensors, KIND, settings)


def load_boundary_model(path: Path) -> BoundaryModel:
    """Read a model that `save_boundary_model` wrote. Raises StoreError for a file that is missing, damaged, of another
    version or kind."""
    arrays, stored = read_arrays(path, KIND)
    stored = {"sound": None, **stored}  # older models have none
    with settings_fit(path):
        if set(stored) != {"crn", "networks", "shape", "calibration", *_PLAIN} or stored["crn"] not in NETWORKS:
            raise ValueError(f"settings {sorted(stored)}")
        crn, kind = stored["crn"], NETWORKS[stored["crn"]].shape
        shape = kind(**numbers_of(stored["shape"], kind))
        network, encoder = part_of(arrays, _NETWORK), part_of(arrays, "encoder")
        if stored["networks"] != 1 or len(network) + len(encoder) < len(arrays):
            raise ValueError("more than one network, or weights of no part")
        if not all(np.isfinite(array).all() for array in arrays.values()):
            raise ValueError("weights that are not finite")
        for name, kinds in _PLAIN.items():
            if type(stored[name]) not in kinds:
                raise ValueError(f"{name} is {stored[name]}")
        return BoundaryModel(
            crn=crn,
            network=_network(path, crn, shape, network),
            shape=shape,
            calibration=Calibration(**numbers_of(stored["calibration"], Calibration)),
            encoder_weights=_tensors(encoder),
            **{name: stored[name] for name in _PLAIN},
        )


def _network(path: Path, crn: str, shape: Any, arrays: Mapping[str, NDArray[Any]]) -> Any:
    if crn == "relational":
        return token_scorer(path, shape, arrays)
    from pipelines.models.torch_networks import network_of_arrays  # optional dependency: torch

    return network_of_arrays(crn, shape, arrays)


def _tensors(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Tensor]:
    if not arrays:
        return {}
    from pipelines.models.torch_networks import tensors_of  # optional dependency: torch

    return tensors_of(arrays)
