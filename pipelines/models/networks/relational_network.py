"""The relational CRN with a small network beside its linear model; see `pipelines.models.networks.relational`."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from pipelines.models.networks.cut_evidence import token_width
from pipelines.models.networks.kinds import RelationalSettings

BATCH = 512  # windows that are scored at a time: bounds memory, changes nothing else


def pad_tokens(tokens: Tensor, neighbors: int) -> Tensor:
    """A video's tokens with K rows of 0 on either side, (N + 2K, F), the table of `windows`."""
    return functional.pad(tokens, (0, 0, neighbors, neighbors))


def windows(table: Tensor, first: Tensor, neighbors: int) -> Tensor:
    """Tokens of windows, (B, S, F), all 0 if there is no cut.

    `table`: (T, F), the padded tokens of one video or several.
    `first`: (B,) int64, first row of each window: in a table of one video, the number of the shot.
    """
    return table[first[:, None] + torch.arange(2 * neighbors + 1, device=first.device)]


class Correction(nn.Module):
    """A small network over a window, symmetric in time; its output starts at zero."""

    def __init__(self, settings: RelationalSettings) -> None:
        super().__init__()
        width = settings.width
        self.reading = nn.Linear(token_width(), width)
        self.joining = nn.Linear(settings.window * width, width)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(settings.layers - 1))
        self.head = nn.Linear(width, 1, bias=False)
        nn.init.zeros_(self.head.weight)
        self.activation, self.dropout = nn.GELU(), nn.Dropout(settings.dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, S, F) to (B, 1)."""
        cuts = self.dropout(self.activation(self.reading(tokens)))
        x = sum(self.activation(self.joining(order.flatten(1))) for order in (cuts, cuts.flip(1)))
        for layer in self.layers:
            x = x + self.activation(layer(self.dropout(x)))
        result: Tensor = self.head(self.dropout(x))
        return result


class RelationalNetwork(nn.Module):
    """Tokens of a window to the logit that a scene ends at its center."""

    def __init__(self, settings: RelationalSettings) -> None:
        super().__init__()
        self.settings = settings
        self.weighing = nn.Linear(token_width(), 1)
        self.correction = Correction(settings) if settings.width else None
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, S, F) tokens to (B,) logits."""
        x = self.dropout(tokens)
        logits: Tensor = self.weighing(x[:, self.settings.neighbors])
        if self.correction is not None:
            logits = logits + self.correction(x)
        return logits[:, 0]

    @torch.inference_mode()
    def token_logits(self, tokens: NDArray[np.float32]) -> NDArray[np.float64]:
        """(N, F) tokens of a video to (N,), without dropout; leaves the network in evaluation mode."""
        self.eval()
        K, weight = self.settings.neighbors, self.weighing.weight
        table = pad_tokens(torch.from_numpy(tokens), K).to(weight)
        shots = torch.arange(len(tokens), device=weight.device)
        logits = torch.cat([self(windows(table, some, K)) for some in torch.split(shots, BATCH)])
        return np.asarray(logits.double().cpu().numpy())
