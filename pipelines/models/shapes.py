"""Shapes of the contextual relation networks: the sizes that a network is built with, plain data without torch.

Each raises ValueError when made with values that no network can have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class CRNSettings:
    """The paper's Transformer, `pipelines.models.crn`."""

    neighbors: int = 8  # K: shots on either side of the centre; a window has S = 2K+1 (paper, section 4.1)
    input_width: int = 2048  # D_e: width of the shot encodings; a ResNet-50 gives 2048 (section 4.1)
    width: int = 768  # D_c: width of the Transformer and of what it gives (appendix A)
    layers: int = 2  # Transformer layers (appendix A)
    heads: int = 8  # attention heads (appendix A); must divide the width
    hidden: int = 3072  # width of the middle of a layer's MLP (the release; four times the width, as in BERT)
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
        """K, the position of the centre shot among the contextualised shots (K+1 where [CLS] is counted)."""
        return self.neighbors


@dataclass(frozen=True)
class MLPSettings:
    """The MLP, `pipelines.models.mlp`."""

    neighbors: int = 8  # K: shots on either side of the centre (the paper, section 4.1)
    input_width: int = 2048  # D_e: width of the shot encodings
    width: int = 4096  # width of the first layer; that of the second is a quarter (ShotCoL: 4096 and 1024)
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
    sequence: int = 10  # T: consecutive shots that the LSTM reads (the release)

    def __post_init__(self) -> None:
        _check_sizes(self)

    @property
    def window(self) -> int:
        """2K, the shots around a cut: K up to it, the centre shot being the last of them, and K after it."""
        return 2 * self.neighbors


@dataclass(frozen=True)
class RelationalSettings:
    """The network on similarities of shots, `pipelines.models.relational`."""

    width: int = 0  # width of the network beside the linear model; 0: none
    layers: int = 2  # its layers over a whole window, after one that reads each cut alone
    neighbors: int = 4  # K: cuts on either side of the one in question that it reads; a window has S = 2K+1
    dropout: float = 0.5  # in fine-tuning, on the evidence and between the layers: many kinds of evidence say the same

    def __post_init__(self) -> None:
        _check_sizes(self, width=0)

    @property
    def window(self) -> int:
        """S, the cuts in a window."""
        return 2 * self.neighbors + 1


def _check_sizes(settings: Any, **least: int) -> None:
    """Check that the sizes are whole numbers from 1, or from the least value given, and the dropout from 0 to 1."""
    sizes = {name: size for name, size in vars(settings).items() if name != "dropout"}
    if not all(type(size) is int and size >= least.get(name, 1) for name, size in sizes.items()):
        raise ValueError(f"not the shape of a network: {settings}")
    dropout = getattr(settings, "dropout", 0.0)
    if isinstance(dropout, bool) or not isinstance(dropout, int | float) or not 0 <= dropout < 1:
        raise ValueError(f"a dropout of {dropout} is not between 0 and 1")
