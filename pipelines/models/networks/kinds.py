"""The kinds of contextual relation networks and their shapes: plain data without torch.

A shape is the sizes that a network is built with; it raises ValueError for invalid values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal


@dataclass(frozen=True)
class CRNSettings:
    """The paper's Transformer, `pipelines.models.networks.crn`."""

    neighbors: int = 8  # K: shots on either side of the center; a window has S = 2K+1 (paper, section 4.1)
    input_width: int = 2048  # D_e: width of the shot encodings; 2048 for a ResNet-50 (section 4.1)
    width: int = 768  # D_c: width of the Transformer and its output (appendix A)
    layers: int = 2  # Transformer layers (appendix A)
    heads: int = 8  # attention heads (appendix A); must divide the width
    hidden: int = 3072  # width of the hidden layer of each MLP (the release; four times the width, as in BERT)
    dropout: float = 0.1  # in training, on hidden states and on attention weights (appendix A)

    def __post_init__(self) -> None:
        _check_sizes(self)
        if self.width % self.heads:
            raise ValueError(f"a width of {self.width} cannot be shared among {self.heads} attention heads")

    @property
    def window(self) -> int:
        """Return S, the shots in a window."""
        return 2 * self.neighbors + 1

    @property
    def center(self) -> int:
        """Return K, the position of the center shot among the contextualized shots (K+1 if [CLS] is counted)."""
        return self.neighbors


@dataclass(frozen=True)
class MLPSettings:
    """The MLP, `pipelines.models.networks.crn`."""

    neighbors: int = 8  # K: shots on either side of the center (the paper, section 4.1)
    input_width: int = 2048  # D_e: width of the shot encodings
    width: int = 4096  # width of the first layer; the second has a quarter (ShotCoL: 4096 and 1024)
    dropout: float = 0.5  # in training, after each of the first two layers

    def __post_init__(self) -> None:
        _check_sizes(self)
        if self.width < 4:
            raise ValueError(f"a width of {self.width} has no quarter")

    @property
    def window(self) -> int:
        """Return S, the shots in a window."""
        return 2 * self.neighbors + 1


@dataclass(frozen=True)
class MSLSTMSettings:
    """The MS-LSTM, `pipelines.models.networks.torch_networks`."""

    neighbors: int = 2  # K: shots on either side of a cut (the release: four shots in all)
    input_width: int = 2048  # D_e: width of the shot encodings
    width: int = 512  # C and H: filters, and width of the LSTM in each direction (the release)
    sequence: int = 10  # T: consecutive shots in the LSTM's input (the release)

    def __post_init__(self) -> None:
        _check_sizes(self)

    @property
    def window(self) -> int:
        """Return 2K, the shots around a cut: K up to it, ending with the center shot, and K after it."""
        return 2 * self.neighbors


@dataclass(frozen=True)
class RelationalSettings:
    """The network on similarities of shots, `pipelines.models.networks.relational`."""

    width: int = 0  # width of the network beside the linear model; 0: none
    layers: int = 2  # layers over a whole window, after one for each cut alone
    neighbors: int = 4  # K: cuts on either side of the center; a window has S = 2K+1
    dropout: float = 0.5  # in fine-tuning, on the evidence, which is redundant, and between the layers

    def __post_init__(self) -> None:
        _check_sizes(self, width=0)

    @property
    def window(self) -> int:
        """Return S, the cuts in a window."""
        return 2 * self.neighbors + 1


def _check_sizes(settings: Any, **least: int) -> None:
    """Check that the sizes are whole numbers of at least 1, or another least value, and that 0 <= dropout < 1."""
    sizes = {name: size for name, size in vars(settings).items() if name != "dropout"}
    if not all(type(size) is int and size >= least.get(name, 1) for name, size in sizes.items()):
        raise ValueError(f"not the shape of a network: {settings}")
    dropout = getattr(settings, "dropout", 0.0)
    if isinstance(dropout, bool) or not isinstance(dropout, int | float) or not 0 <= dropout < 1:
        raise ValueError(f"a dropout of {dropout} is not between 0 and 1")


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
    "transformer": NetworkKind(CRNSettings, "pipelines.models.networks.crn:TransformerBoundary", "windows"),
    "mlp": NetworkKind(MLPSettings, "pipelines.models.networks.crn:WindowMLP", "windows"),
    "ms-lstm": NetworkKind(MSLSTMSettings, "pipelines.models.networks.torch_networks:MSLSTM", "sequences"),
    "relational": NetworkKind(
        RelationalSettings, "pipelines.models.networks.torch_networks:RelationalNetwork", "tokens"
    ),
}
"""By the name of the option ``--crn``."""


def make_shape(crn: str, input_width: int, **sizes: int | float | None) -> Shape:
    """Return the shape of a network for encodings of a width D_e. `sizes` are by the fields of the shape; None stands
    for the default (of the hidden width: four times the width), and sizes that the kind does not have are ignored.
    Raises ValueError for invalid sizes, or for a dropout if the kind has none."""
    kind = NETWORKS[crn].shape
    names = {field.name for field in fields(kind)}
    if sizes.get("dropout") is not None and "dropout" not in names:
        raise ValueError(f"`dropout`: the {crn} has none")
    values = {name: value for name, value in sizes.items() if name in names and value is not None}
    if "hidden" in names and "width" in values:
        values.setdefault("hidden", 4 * values["width"])
    if "input_width" in names:
        values["input_width"] = input_width
    shape: Shape = kind(**values)
    return shape
