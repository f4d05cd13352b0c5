"""The kinds of contextual relation networks (CRNs): a kind is one entry here, which all stages use.

transformer   the paper's: windows of 2K+1 shots, the center contextualized, then Linear(D_c, 2)
mlp           the same windows, side by side (ShotCoL)
ms-lstm       sequences of shots, each with the K shots up to it and the K after it (LGSS, MovieNet)
relational    similarities and durations instead of features: the kind of the built-in model
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from pipelines.models.shapes import CRNSettings, MLPSettings, MSLSTMSettings, RelationalSettings

CRN = Literal["transformer", "mlp", "ms-lstm", "relational"]
Shape = CRNSettings | MLPSettings | MSLSTMSettings | RelationalSettings


@dataclass(frozen=True)
class NetworkKind:
    """A kind of network."""

    shape: type[Any]  # the settings class of its sizes; its fields are options of fine-tuning
    # ``module:class`` of the ``nn.Module``, made with a shape; imported when a network is built, because it needs torch
    network: str
    # input and output of ``forward``, which determine how a video is divided: ``windows``, (B, S, D_e) to (B, 2), class
    # 1 a scene end; ``sequences``, (B, T, 2K, D_e) to (B, T, 2); ``tokens`` of the evidence at cuts, (B, S, F) to (B,)
    reads: Literal["windows", "sequences", "tokens"]


NETWORKS: Mapping[str, NetworkKind] = {
    "transformer": NetworkKind(CRNSettings, "pipelines.models.crn:TransformerBoundary", "windows"),
    "mlp": NetworkKind(MLPSettings, "pipelines.models.mlp:WindowMLP", "windows"),
    "ms-lstm": NetworkKind(MSLSTMSettings, "pipelines.models.ms_lstm:MSLSTM", "sequences"),
    "relational": NetworkKind(RelationalSettings, "pipelines.models.relational_network:RelationalNetwork", "tokens"),
}
"""By the name of the option ``--crn``."""


def make_shape(crn: str, input_width: int, **sizes: int | float | None) -> Shape:
    """The shape of a network.

    `input_width` is D_e. `sizes` are by the fields of the shape; None stands for the default, and sizes that the kind
    does not have are ignored. The default of the hidden width is four times the width.
    Raises ValueError for invalid sizes, or for a dropout if the kind has none.
    """
    kind = NETWORKS[crn].shape
    names = {field.name for field in fields(kind)}
    if sizes.get("dropout") is not None and "dropout" not in names:
        raise ValueError(f"--dropout: the {crn} has none")
    values = {name: value for name, value in sizes.items() if name in names and value is not None}
    if "hidden" in names and "width" in values:
        values.setdefault("hidden", 4 * values["width"])
    if "input_width" in names:
        values["input_width"] = input_width
    shape: Shape = kind(**values)
    return shape
