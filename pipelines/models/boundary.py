"""A model that says how likely it is that a scene ends with each shot of a film, whatever network is inside.

There are four contextual relation networks (CRNs). They differ in what they read of a film and nowhere else:

transformer   the paper's: windows of 2K+1 shots, the centre contextualised, then Linear(D_c, 2)
mlp           the same windows, side by side (ShotCoL)
ms-lstm       sequences of shots, each with the K shots up to it and the K after it (LGSS, MovieNet)
relational    similarities and durations instead of features: the model in the box

Windows are clipped at a film's edges, as in the fine-tuning of the paper's release: its first and last shot repeat.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pipelines.errors import BasslError, StoreError
from pipelines.models.bassl import BOUNDARY_HEAD, BasslWeights
from pipelines.models.checkpoints import load_model, save_model
from pipelines.models.crn import INITIAL_DEVIATION, ContextualRelationNetwork, CRNSettings
from pipelines.models.encoders import KEYFRAMES, encoder_of_weights
from pipelines.models.mlp import MLPSettings, WindowMLP
from pipelines.models.ms_lstm import MSLSTM, MSLSTMSettings
from pipelines.models.relational import (
    Calibration,
    RelationalNetwork,
    RelationalScorer,
    RelationalSettings,
    calibrated,
)
from pipelines.stores.index import window_rows

KIND = "boundary"
CRN = Literal["transformer", "mlp", "ms-lstm", "relational"]
Shape = CRNSettings | MLPSettings | MSLSTMSettings | RelationalSettings
Numbers = NDArray[np.floating[Any]] | NDArray[np.integer[Any]]

WINDOWS_AT_A_TIME = 256
"""Windows that are scored together: bounds memory, changes nothing else."""

T = TypeVar("T")


class TransformerBoundary(nn.Module):
    """The paper's CRN and its scene boundary head h_SBD on the centre shot (section 3.4)."""

    def __init__(self, settings: CRNSettings) -> None:
        super().__init__()
        self.settings = settings
        self.crn = ContextualRelationNetwork(settings)
        self.head_sbd = nn.Linear(settings.width, 2)
        nn.init.normal_(self.head_sbd.weight, std=INITIAL_DEVIATION)
        nn.init.zeros_(self.head_sbd.bias)
        # No loss of fine-tuning reaches it; it stays as pre-training left it.
        self.crn.shot_embedding.mask_embedding.requires_grad_(False)

    def forward(self, windows: Tensor) -> Tensor:
        """(B, S, D_e) to (B, 2); class 1 is a scene end."""
        shots, _ = self.crn(windows)
        logits: Tensor = self.head_sbd(shots[:, self.settings.center])
        return logits


@dataclass(frozen=True, eq=False)
class BoundaryModel:
    """Networks that score the shots of a film, and what they need to know of its encodings.

    Attributes:
        crn: which kind the networks are.
        networks: one, or for `relational` several that vote; in evaluation mode.
        shape: of each network.
        calibration: how a logit becomes a score.
        encoder: id of the shot encoder whose features it reads; None for any.
        encoder_name: that encoder's name on the command line; None where it has none.
        encoder_weights: its state dict, empty where the name alone says which weights they are.
        keyframes: N_k, key-frames of a shot that the features are a mean of; None where that is not known.
        input_size: side of the encoder's input, where its weights are here.
        pictures: how the key-frames were made, see `pipelines.stores.lookup.keyframe_facts`.
        training: how the model was made, as plain JSON values; for the reader, nothing depends on it.
    """

    crn: CRN
    networks: tuple[nn.Module, ...]
    shape: Shape
    calibration: Calibration = field(default_factory=Calibration)
    encoder: str | None = None
    encoder_name: str | None = None
    encoder_weights: Mapping[str, Tensor] = field(default_factory=dict)
    keyframes: int | None = None
    input_size: int | None = None
    pictures: Mapping[str, Any] = field(default_factory=dict)
    training: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.networks or (len(self.networks) > 1 and self.crn != "relational"):
            raise ValueError(f"{len(self.networks)} networks cannot be one model of kind {self.crn}")
        for network in self.networks:
            network.eval()

    @property
    def width(self) -> int | None:
        """D_e, None where any will do."""
        return None if isinstance(self.shape, RelationalSettings) else self.shape.input_width

    @property
    def neighbours(self) -> int:
        """K, shots on either side of a centre that the network sees."""
        return self.shape.neighbors

    def check(self, encoder: str, width: int) -> None:
        """See that features may be scored.

        Args:
            encoder: id of what made them.
            width: D_e.

        Raises:
            BasslError: one line, where the model was trained on features of another encoder or width.
        """
        if self.encoder is not None and encoder != self.encoder:
            raise BasslError(f"the model was trained on features of {self.encoder}, and these are of {encoder}")
        if self.width is not None and width != self.width:
            raise BasslError(f"the model was trained on features of width {self.width}, and these have {width}")

    def logits(self, features: Numbers, durations: Numbers) -> NDArray[np.float64]:
        """What `score` rests on, before calibration: (N, D_e) and (N,) to (N,)."""
        if features.ndim != 2 or not len(features) or self.width not in (None, features.shape[1]):
            wanted = "D_e" if self.width is None else self.width
            raise ValueError(f"features must be (N, {wanted}) with N >= 1, not {features.shape}")
        if durations.shape != (len(features),):
            raise ValueError(f"durations must be ({len(features)},), not {durations.shape}")
        with torch.inference_mode():
            return _LOGITS[self.crn](self, features, durations)

    def score(self, features: Numbers, durations: Numbers) -> NDArray[np.float64]:
        """How likely it is that a scene ends with each shot.

        Args:
            features: (N, D_e) encodings of the shots of one whole film, in order, N >= 1.
            durations: (N,) lengths of the shots, in seconds or in frames. Only `relational` looks at them.

        Returns:
            (N,) scores between 0 and 1; 0.5 is the operating point.

        Raises:
            ValueError: shapes do not fit each other or the model.
        """
        return calibrated(self.logits(features, durations), self.calibration)


def build_network(crn: CRN, shape: Shape) -> nn.Module:
    """A new network, its weights from torch's generator.

    Raises:
        TypeError: the shape is one of another kind.
    """
    kind, make = _NETWORKS[crn]
    if not isinstance(shape, kind):
        raise TypeError(f"{type(shape).__name__} is not the shape of {crn}")
    network: nn.Module = make(shape)
    return network


def shape_of(crn: CRN) -> type[Any]:
    """The settings class of a kind of network."""
    return _NETWORKS[crn][0]


# --- scoring a film ---------------------------------------------------------------------------------------------------


def _window_logits(model: BoundaryModel, features: Numbers, durations: Numbers) -> NDArray[np.float64]:
    """Transformer and MLP: each shot by the window around it."""
    (network,) = model.networks
    film, like = _on_device(features, network)
    rows = window_rows(np.array([0, len(film)]), np.arange(len(film)), model.neighbours, "clip")
    parts = [
        network(film[part].to(like)) for part in torch.split(torch.from_numpy(rows).to(film.device), WINDOWS_AT_A_TIME)
    ]
    return _difference(torch.cat(parts))


def _sequence_logits(model: BoundaryModel, features: Numbers, durations: Numbers) -> NDArray[np.float64]:
    """MS-LSTM: sequences of T shots from the first on; the last is moved back to end with the film."""
    (network,) = model.networks
    assert isinstance(model.shape, MSLSTMSettings)
    film, like = _on_device(features, network)
    N, length = len(film), min(model.shape.sequence, len(film))
    shots = sequence_starts(N, length)[:, None] + np.arange(length)
    rows = torch.from_numpy(sequence_windows(np.array([0, N]), shots, model.neighbours)).to(film.device)
    at_a_time = max(1, WINDOWS_AT_A_TIME // length)
    values = _difference(
        torch.cat([network(film[part].to(like)) for part in torch.split(rows, at_a_time)]).flatten(0, 1)
    )
    logits = np.empty(N)
    logits[shots.ravel()] = values  # where the last two overlap, the later one stays
    return logits


def sequence_starts(shots: int, length: int, first: int = 0) -> NDArray[np.int64]:
    """Where sequences begin that hold all shots of a film from one on; the last is moved back to end with the film.

    Args:
        shots: N.
        length: of a sequence, at most N.
        first: the shot, less than N.
    """
    return np.minimum(np.arange(first, shots, length), shots - length)


def sequence_windows(first_row: NDArray[np.int64], rows: NDArray[np.int64], neighbours: int) -> NDArray[np.int64]:
    """The rows around cuts: K up to the shot and K after it, clipped at the film's edges.

    Args:
        first_row: (V + 1,) as in an index.
        rows: any shape (...).
        neighbours: K.

    Returns:
        (..., 2K).
    """
    # The window around a shot has it in the middle: without the first of the 2K+1, the shot is the last of K.
    return window_rows(first_row, rows.ravel(), neighbours, "clip")[:, 1:].reshape(*rows.shape, -1)


def relational_scorer(model: BoundaryModel) -> RelationalScorer:
    """The scorer that a model of relational networks is, on the CPU."""
    # Its tokens are made on the CPU in single precision, and its networks are small.
    members = [
        network if _is_plain(network) else copy.deepcopy(network).to("cpu", torch.float32) for network in model.networks
    ]
    return RelationalScorer(members, model.calibration)  # type: ignore[arg-type]


def _relational_logits(model: BoundaryModel, features: Numbers, durations: Numbers) -> NDArray[np.float64]:
    return relational_scorer(model).logits(features.astype(np.float32, copy=False), durations)


def _difference(logits: Tensor) -> NDArray[np.float64]:
    """(N, 2) to (N,), of which the logistic function is what softmax gives class 1."""
    values: NDArray[np.float64] = (logits[:, 1] - logits[:, 0]).double().cpu().numpy()
    return values


def _on_device(features: Numbers, network: nn.Module) -> tuple[Tensor, torch.dtype]:
    """A film's features where the network is, and the network's precision."""
    parameter = next(network.parameters())
    # float16 features stay so until they are gathered: half the memory of a long film.
    return torch.from_numpy(np.ascontiguousarray(features)).to(parameter.device), parameter.dtype


def _is_plain(network: nn.Module) -> bool:
    parameter = next(network.parameters())
    return parameter.device.type == "cpu" and parameter.dtype == torch.float32


_NETWORKS: Mapping[str, tuple[type[Any], Callable[[Any], nn.Module]]] = {
    "transformer": (CRNSettings, TransformerBoundary),
    "mlp": (MLPSettings, WindowMLP),
    "ms-lstm": (MSLSTMSettings, MSLSTM),
    "relational": (RelationalSettings, RelationalNetwork),
}
_LOGITS: Mapping[str, Callable[[BoundaryModel, Numbers, Numbers], NDArray[np.float64]]] = {
    "transformer": _window_logits,
    "mlp": _window_logits,
    "ms-lstm": _sequence_logits,
    "relational": _relational_logits,
}


# --- files ------------------------------------------------------------------------------------------------------------

_PLAIN = ("encoder", "encoder_name", "keyframes", "input_size", "pictures", "training")


def save_boundary_model(path: Path, model: BoundaryModel) -> None:
    """Write a model as one safetensors file; it appears whole or not at all.

    Raises:
        StoreError: the file cannot be written.
    """
    tensors = {
        f"networks.{i}.{name}": tensor.float()
        for i, network in enumerate(model.networks)
        for name, tensor in network.state_dict().items()
    }
    tensors |= {f"encoder.{name}": tensor for name, tensor in model.encoder_weights.items()}
    settings = {
        "crn": model.crn,
        "networks": len(model.networks),
        "shape": asdict(model.shape),
        "calibration": asdict(model.calibration),
        **{name: getattr(model, name) for name in _PLAIN},
    }
    save_model(path, tensors, KIND, settings)


def load_boundary_model(path: Path) -> BoundaryModel:
    """Read a model that `save_boundary_model` wrote.

    Raises:
        StoreError: one line, for a file that is missing, damaged, of another version or kind.
    """
    tensors, stored = load_model(path, KIND)
    try:
        if set(stored) != {"crn", "networks", "shape", "calibration", *_PLAIN} or stored["crn"] not in _NETWORKS:
            raise ValueError(f"settings {sorted(stored)}")
        shape = _from_plain(_NETWORKS[stored["crn"]][0], stored["shape"])
        parts: dict[str, dict[str, Tensor]] = {}
        for key, tensor in tensors.items():
            part, _, name = key.partition(".")
            if part == "networks":
                number, _, name = name.partition(".")
                part = f"{part}.{number}"
            elif part != "encoder":
                raise ValueError(f"tensor {key}")
            parts.setdefault(part, {})[name] = tensor
        encoder = parts.pop("encoder", {})
        if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values()):
            raise ValueError("weights that are not finite")
        if type(stored["networks"]) is not int or set(parts) != {f"networks.{i}" for i in range(len(parts))}:
            raise ValueError(f"networks {sorted(parts)}")
        if stored["networks"] != len(parts):
            raise ValueError(f"{len(parts)} networks, not {stored['networks']}")
        _check_plain(stored)
        return BoundaryModel(
            crn=stored["crn"],
            networks=tuple(_with_weights(stored["crn"], shape, parts[f"networks.{i}"]) for i in range(len(parts))),
            shape=shape,
            calibration=_from_plain(Calibration, stored["calibration"]),
            encoder_weights=encoder,
            **{name: stored[name] for name in _PLAIN},
        )
    except (KeyError, TypeError, ValueError, RuntimeError, ArithmeticError) as error:
        raise StoreError(
            f"{path}: its weights and settings do not fit each other; get or make the model again"
        ) from error


def boundary_of_scorer(scorer: RelationalScorer) -> BoundaryModel:
    """Networks on similarities of shots as a model of any encoder's features."""
    return BoundaryModel("relational", tuple(scorer.members), scorer.settings, scorer.calibration)


def boundary_of_weights(path: Path, weights: BasslWeights, head: str = BOUNDARY_HEAD) -> BoundaryModel:
    """The paper's model as one that scores films.

    Args:
        path: of the file with the weights, for messages.
        weights: with a CRN.
        head: Linear(D_c, 2) on the centre shot.

    Raises:
        StoreError: one line, where the weights of the head do not fit the CRN.
    """
    shape = weights.settings.crn
    assert shape is not None
    network = TransformerBoundary(shape)
    try:
        network.crn = weights.build_crn()
        network.head_sbd.load_state_dict(
            {
                name.removeprefix(f"{head}."): tensor
                for name, tensor in weights.heads.items()
                if name.startswith(f"{head}.")
            }
        )
    except (RuntimeError, ValueError) as error:
        raise StoreError(
            f"{path}: its weights and settings do not fit each other; get or make the model again"
        ) from error
    encoder, name = None, weights.settings.encoder
    if weights.encoder and name is not None:
        encoder = encoder_of_weights(path, weights, "cpu", KEYFRAMES)
    return BoundaryModel(
        "transformer",
        (network,),
        shape,
        encoder=name if encoder is None else encoder.id,
        encoder_name=name,
        encoder_weights=weights.encoder,
        input_size=None if encoder is None else encoder.size,
        training=weights.training,
    )


def encoder_id_of_weights(path: Path, weights: BasslWeights) -> str | None:
    """The id of the shot encoder that the paper's model has or was trained on; None where that is not known."""
    return encoder_of_weights(path, weights, "cpu", KEYFRAMES).id if weights.encoder else weights.settings.encoder


def _with_weights(crn: CRN, shape: Shape, tensors: Mapping[str, Tensor]) -> nn.Module:
    # A header may name any size; nothing is built but what there are weights for.
    if getattr(shape, "layers", 0) > len(tensors):
        raise ValueError(f"there are no weights for {shape}")
    with torch.device("meta"):
        network = build_network(crn, shape)
    if {name: tensor.shape for name, tensor in network.state_dict().items()} != {
        name: tensor.shape for name, tensor in tensors.items()
    }:
        raise ValueError(f"the weights are not those of {shape}")
    network.to_empty(device="cpu").load_state_dict(tensors)
    return network


def _from_plain(kind: Callable[..., T], stored: Any) -> T:
    """Settings out of a header: all there, no other, each a finite number."""
    if set(stored) != {each.name for each in fields(kind)}:  # type: ignore[arg-type]
        raise ValueError(f"fields {sorted(stored)}")
    for name, value in stored.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(f"{name} is {value}")
    return kind(**stored)


def _check_plain(stored: Mapping[str, Any]) -> None:
    for name, kinds in (
        *((name, (str, type(None))) for name in ("encoder", "encoder_name")),
        *((name, (int, type(None))) for name in ("keyframes", "input_size")),
        *((name, (dict,)) for name in ("pictures", "training")),
    ):
        if type(stored[name]) not in kinds:
            raise ValueError(f"{name} is {stored[name]}")
