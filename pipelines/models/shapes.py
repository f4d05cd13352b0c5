"""Shapes of the contextual relation networks: the sizes that a network is built with, plain data without torch."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CRNSettings:
    """The paper's Transformer, `pipelines.models.crn`.

    Raises ValueError: when made with values that are no shape of a network.
    """

    neighbors: int = 8  # K: shots on either side of the centre; a window has S = 2K+1 (paper, section 4.1)
    input_width: int = 2048  # D_e: width of the shot encodings; a ResNet-50 gives 2048 (section 4.1)
    width: int = 768  # D_c: width of the Transformer and of what it gives (appendix A)
    layers: int = 2  # Transformer layers (appendix A)
    heads: int = 8  # attention heads (appendix A); must divide the width
    # width between the two linear maps of a layer's MLP (the release; four times the width, as in BERT)
    hidden: int = 3072
    dropout: float = 0.1  # in training, on hidden states and on attention weights (appendix A)

    def __post_init__(self) -> None:
        sizes = (self.neighbors, self.input_width, self.width, self.layers, self.heads, self.hidden)
        if not all(isinstance(size, int) and not isinstance(size, bool) and size >= 1 for size in sizes):
            raise ValueError(f"not the shape of a network: {self}")
        if self.width % self.heads:
            raise ValueError(f"a width of {self.width} cannot be shared among {self.heads} attention heads")
        if isinstance(self.dropout, bool) or not isinstance(self.dropout, int | float) or not 0 <= self.dropout < 1:
            raise ValueError(f"a dropout of {self.dropout} is not between 0 and 1")

    @property
    def window(self) -> int:
        """S, the shots in a window."""
        return 2 * self.neighbors + 1

    @property
    def center(self) -> int:
        """K, the place of the centre shot among the contextualised shots (K+1 where [CLS] is counted)."""
        return self.neighbors


@dataclass(frozen=True)
class MLPSettings:
    """The MLP, `pipelines.models.mlp`. Raises ValueError: when made with values that are no shape of a network."""

    neighbors: int = 8  # K: shots on either side of the centre (the paper, section 4.1)
    input_width: int = 2048  # D_e: width of the shot encodings
    width: int = 4096  # width of the first layer; that of the second is a quarter (ShotCoL: 4096 and 1024)
    dropout: float = 0.5  # in training, after each of the first two layers

    def __post_init__(self) -> None:
        sizes = (self.neighbors, self.input_width, self.width)
        if not all(isinstance(size, int) and not isinstance(size, bool) and size >= 1 for size in sizes):
            raise ValueError(f"not the shape of a network: {self}")
        if self.width < 4:
            raise ValueError(f"a width of {self.width} has no quarter")
        if isinstance(self.dropout, bool) or not isinstance(self.dropout, int | float) or not 0 <= self.dropout < 1:
            raise ValueError(f"a dropout of {self.dropout} is not between 0 and 1")

    @property
    def window(self) -> int:
        """S, the shots in a window."""
        return 2 * self.neighbors + 1


@dataclass(frozen=True)
class MSLSTMSettings:
    """The MS-LSTM, `pipelines.models.ms_lstm`.

    Raises ValueError: when made with values that are no shape of a network.
    """

    neighbors: int = 2  # K: shots on either side of a cut (the release: four shots in all)
    input_width: int = 2048  # D_e: width of the shot encodings
    width: int = 512  # c and H: filters, and width of the LSTM in each direction (the release)
    sequence: int = 10  # T: consecutive shots that the LSTM reads (the release)

    def __post_init__(self) -> None:
        sizes = (self.neighbors, self.input_width, self.width, self.sequence)
        if not all(isinstance(size, int) and not isinstance(size, bool) and size >= 1 for size in sizes):
            raise ValueError(f"not the shape of a network: {self}")

    @property
    def window(self) -> int:
        """2K, the shots around a cut: K up to it, the centre shot being the last of them, and K after it."""
        return 2 * self.neighbors


@dataclass(frozen=True)
class RelationalSettings:
    """The network on similarities of shots, `pipelines.models.relational`.

    Raises ValueError: when made with values that are no shape of a network.
    """

    width: int = 0  # width of the network beside the linear form; 0: none
    layers: int = 2  # its layers over a whole window, after one that reads each cut alone
    neighbors: int = 4  # K: cuts on either side of the one in question that it reads; a window has S = 2K+1
    # dropout in fine-tuning, on the evidence and between the layers: many kinds of evidence say the same
    dropout: float = 0.5

    def __post_init__(self) -> None:
        sizes = (self.width + 1, self.layers, self.neighbors)
        if not all(isinstance(size, int) and size >= 1 for size in sizes) or not 0 <= self.dropout < 1:
            raise ValueError(f"not the shape of a network: {self}")

    @property
    def window(self) -> int:
        """S, the cuts in a window."""
        return 2 * self.neighbors + 1
