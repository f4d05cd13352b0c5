"""A multi-layer perceptron over the shots of a window: the simplest contextual relation network of the paper's tables.

Source: the protocol of ShotCoL (Chen et al. 2021, section 4), whose MLP the paper takes over: the encodings of a window
side by side, then fully connected layers of 4096, 1024 and 2, with dropout after each of the first two. Decided here,
because neither paper says it: ReLU between the layers, dropout of one half, and the paper's window of 2K+1 shots around
the centre, so that all its networks read the same input.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn


@dataclass(frozen=True)
class MLPSettings:
    """Shape of the network.

    Raises:
        ValueError: when made with values that are no shape of a network.
    """

    neighbors: int = 8
    """K: shots on either side of the centre (the paper, section 4.1)."""
    input_width: int = 2048
    """D_e: width of the shot encodings."""
    width: int = 4096
    """Width of the first layer; that of the second is a quarter (ShotCoL: 4096 and 1024)."""
    dropout: float = 0.5
    """In training, after each of the first two layers."""

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


class WindowMLP(nn.Module):
    """Encodings of a window to the two logits of its centre shot; class 1 is a scene end."""

    def __init__(self, settings: MLPSettings) -> None:
        super().__init__()
        self.settings = settings
        inputs, wide, narrow = settings.window * settings.input_width, settings.width, settings.width // 4
        self.layers = nn.Sequential(
            nn.Linear(inputs, wide),
            nn.ReLU(),
            nn.Dropout(settings.dropout),
            nn.Linear(wide, narrow),
            nn.ReLU(),
            nn.Dropout(settings.dropout),
            nn.Linear(narrow, 2),
        )

    def forward(self, windows: Tensor) -> Tensor:
        """(B, S, D_e) to (B, 2)."""
        logits: Tensor = self.layers(windows.flatten(1))
        return logits
