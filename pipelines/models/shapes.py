"""Shapes of the contextual relation networks: the sizes that a network is built with, plain data without torch.

Each raises ValueError for invalid values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class CRNSettings:
    """The paper's Transformer, `pipelines.models.crn`."""

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
        """S, the shots in a window."""
        return 2 * self.neighbors + 1

    @property
    def center(self) -> int:
        """K, the position of the center shot among the contextualized shots (K+1 if [CLS] is counted)."""
        return self.neighbors


@dataclass(frozen=True)
class MLPSettings:
    """The MLP, `pipelines.models.mlp`."""

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
        """S, the shots in a window."""
        return 2 * self.neighbors + 1


@dataclass(frozen=True)
class MSLSTMSettings:
    """The MS-LSTM, `pipelines.models.ms_lstm`."""

    neighbors: int = 2  # K: shots on either side of a cut (the release: four shots in all)
    input_width: int = 2048  # D_e: width of the shot encodings
    width: int = 512  # C and H: filters, and width of the LSTM in each direction (the release)
    sequence: int = 10  # T: consecutive shots in the LSTM's input (the release)

    def __post_init__(self) -> None:
        _check_sizes(self)

    @property
    def window(self) -> int:
        """2K, the shots around a cut: K up to it, the last of which is the center shot, and K after it."""
        return 2 * self.neighbors


@dataclass(frozen=True)
class RelationalSettings:
    """The network on similarities of shots, `pipelines.models.relational`."""

    width: int = 0  # width of the network beside the linear model; 0: none
    layers: int = 2  # layers over a whole window, after one for each cut alone
    neighbors: int = 4  # K: cuts on either side of the center; a window has S = 2K+1
    dropout: float = 0.5  # in fine-tuning, on the evidence, which is redundant, and between the layers

    def __post_init__(self) -> None:
        _check_sizes(self, width=0)

    @property
    def window(self) -> int:
        """S, the cuts in a window."""
        return 2 * self.neighbors + 1


def _check_sizes(settings: Any, **least: int) -> None:
    """Check that the sizes are whole numbers of at least 1, or another least value, and that 0 <= dropout < 1."""
    sizes = {name: size for name, size in vars(settings).items() if name != "dropout"}
    if not all(type(size) is int and size >= least.get(name, 1) for name, size in sizes.items()):
        raise ValueError(f"not the shape of a network: {settings}")
    dropout = getattr(settings, "dropout", 0.0)
    if isinstance(dropout, bool) or not isinstance(dropout, int | float) or not 0 <= dropout < 1:
        raise ValueError(f"a dropout of {dropout} is not between 0 and 1")
