"""The kinds of contextual relation networks and the sizes that they are built with: plain data without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

MOST_LAYERS = 100  # of a Transformer, whose number a file may claim


@dataclass(frozen=True)
class _Sizes:
    """Sizes of a network, at least 1, and a dropout of at least 0 and below 1, if any. Raises ValueError for others."""

    def __post_init__(self) -> None:
        if min((size for name, size in vars(self).items() if name != "dropout"), default=1) < 1:
            raise ValueError(f"not the shape of a network: {self}")
        if not 0 <= (dropout := getattr(self, "dropout", 0.0)) < 1:
            raise ValueError(f"a dropout of {dropout} is not between 0 and 1")


@dataclass(frozen=True)
class RelationalSettings(_Sizes):
    """The linear model on similarities of shots, `pipelines.models.networks.relational`."""

    dropout: float = 0.5  # in fine-tuning, on the evidence, which is redundant


@dataclass(frozen=True)
class CRNSettings(_Sizes):
    """The paper's Transformer."""

    neighbors: int = 8  # K: shots on either side of the center; a window has S = 2K+1 (paper, section 4.1)
    input_width: int = 2048  # D_e: width of the shot encodings; 2048 for a ResNet-50 (section 4.1)
    width: int = 768  # D_c: width of the Transformer and its output (appendix A)
    layers: int = 2  # Transformer layers (appendix A)
    heads: int = 8  # attention heads (appendix A); must divide the width
    hidden: int = 3072  # width of the hidden layer of each MLP (the release; four times the width, as in BERT)
    dropout: float = 0.1  # in training, on hidden states and on attention weights (appendix A)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.layers > MOST_LAYERS:
            raise ValueError(f"{self.layers} layers; {MOST_LAYERS} are the most")
        if self.width % self.heads:
            raise ValueError(f"a width of {self.width} cannot be shared among {self.heads} attention heads")

    @property
    def window(self) -> int:
        """Return S, the shots in a window."""
        return 2 * self.neighbors + 1


@dataclass(frozen=True)
class MLPSettings(_Sizes):
    """The MLP of ShotCoL."""

    neighbors: int = 8  # K: shots on either side of the center (the paper, section 4.1)
    input_width: int = 2048  # D_e: width of the shot encodings
    width: int = 4096  # width of the first layer; the second has a quarter (ShotCoL: 4096 and 1024)
    dropout: float = 0.5  # in training, after each of the first two layers


@dataclass(frozen=True)
class MSLSTMSettings(_Sizes):
    """The MS-LSTM of LGSS."""

    neighbors: int = 2  # K: shots up to a cut, and as many after it (the release: four shots in all)
    input_width: int = 2048  # D_e: width of the shot encodings
    width: int = 512  # C and H: filters, and width of the LSTM in each direction (the release)
    sequence: int = 10  # T: consecutive shots in the LSTM's input (the release)


CRN = Literal["transformer", "mlp", "ms-lstm", "relational"]
Shape = CRNSettings | MLPSettings | MSLSTMSettings | RelationalSettings
SHAPES: Mapping[str, type[Any]] = {
    "transformer": CRNSettings,
    "mlp": MLPSettings,
    "ms-lstm": MSLSTMSettings,
    "relational": RelationalSettings,
}
"""By the name of the option ``--crn``; the fields are options of fine-tuning."""


def make_shape(crn: str, input_width: int, **sizes: int | float | None) -> Shape:
    """Return the shape of a network for encodings of a width D_e. `sizes` are by the fields of the shape; None is the
    default (of the hidden width: four times the width), and sizes that the kind does not have are ignored. Raises
    ValueError for invalid sizes, or for a dropout if the kind has none."""
    names = {field.name for field in fields(SHAPES[crn])}
    if sizes.get("dropout") is not None and "dropout" not in names:
        raise ValueError(f"`dropout`: the {crn} has none")
    values = {name: value for name, value in {**sizes, "input_width": input_width}.items() if value is not None}
    if "width" in values:
        values.setdefault("hidden", 4 * values["width"])
    shape: Shape = SHAPES[crn](**{name: value for name, value in values.items() if name in names})
    return shape
