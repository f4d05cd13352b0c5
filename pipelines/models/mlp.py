"""Multi-layer perceptron on the concatenated encodings of a window: the simplest CRN of the paper's tables.

Source: the protocol of ShotCoL (Chen et al. 2021, section 4), which the paper uses: fully connected layers of 4096,
1024 and 2, with dropout after each of the first two. Neither paper states the activation (here ReLU), the dropout rate
(here 0.5) or the window (here the paper's 2K+1 shots, the same input as for its other networks).
"""

from __future__ import annotations

from torch import Tensor, nn

from pipelines.models.networks import MLPSettings


class WindowMLP(nn.Module):
    """Encodings of a window to the two logits of its center shot; class 1 is a scene end."""

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
