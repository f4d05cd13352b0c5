"""The kinds of contextual relation networks (CRNs): one entry makes a kind known to all stages.

transformer   the paper's: windows of 2K+1 shots, the centre contextualised, then Linear(D_c, 2)
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

    shape: type[Any]  # the settings class of its sizes; its fields are those of the options of fine-tuning that it has
    # ``module:class`` of an ``nn.Module`` that is made with a shape; imported when one is built, because it imports
    # torch
    network: str
    # what its ``forward`` takes and gives, and so how a video is shown to it: ``windows``, (B, S, D_e) to (B, 2), class
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
    """The shape of a network from the sizes that are given; the others are those of the network's source.

    `input_width` is D_e. `sizes` are by the fields of the shape: None is not given, and those that the kind does not
    have are ignored. A hidden width that is not given is four times the width.
    Raises ValueError for sizes that no network can have, or for a dropout where the kind has none.
    """
    kind = NETWORKS[crn].shape
    names = {each.name for each in fields(kind)}
    if sizes.get("dropout") is not None and "dropout" not in names:
        raise ValueError(f"--dropout: the {crn} has none")
    given = {name: value for name, value in sizes.items() if name in names and value is not None}
    if "hidden" in names and "width" in given:
        given.setdefault("hidden", 4 * given["width"])
    if "input_width" in names:
        given["input_width"] = input_width
    shape: Shape = kind(**given)
    return shape
