"""The image branch of MS-LSTM: a boundary network at each cut and a bidirectional LSTM over consecutive cuts.

Source: LGSS (Rao et al. 2020) and MovieNet (Huang et al. 2020), whose MS-LSTM the paper compares with, as in their
release. For each cut, from the K shots before it and the K after it:

1. B_d: C filters over K shots reduce each side to C vectors (D_e); B_d is the C cosines between the two sides.
2. B_r: C other filters over all 2K shots; B_r is their maximum in each of the D_e dimensions.
3. [B_r, B_d] of T consecutive cuts goes through one bidirectional LSTM, then Linear(2H, 100), ReLU, Linear(100, 2).

The release trains on consecutive sequences of T = 10, with K = 2, C = H = 512. Choices made here:

* The shot encoder is frozen, as for every network of the paper; the release trains its ResNet-50.
* Encodings are scaled to unit length, so that learning rates suit any encoder: the norms of ImageNet features are 10 to
  100, and B_r would dominate the cosines of B_d.
* Windows are padded by repeating the video's first or last shot, as in the paper; the release leaves such cuts out.
* A video is scored in sequences of T from its first shot on; the last one is moved back to end with the video. In
  training, the sequences of a video begin at a new random shot every epoch.
* Loss, optimizer and epochs are the ones of fine-tuning (the release: weights 0.5 and 5, SGD at 0.01, 30 epochs).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pipelines.models.networks.kinds import MSLSTMSettings

HIDDEN = 100  # width of the layer between the LSTM and the logits (the release)
_CHUNK = 64  # cuts whose C x D_e filtered values are in memory at a time


class MSLSTM(nn.Module):
    """Windows of consecutive shots to the two logits of each shot; class 1 is a scene end."""

    def __init__(self, settings: MSLSTMSettings) -> None:
        super().__init__()
        self.settings = settings
        C = settings.width
        # Filters along the shots, shared by all D_e dimensions: nn.Linear is initialized as the release's Conv2d with
        # kernel (shots, 1).
        self.side = nn.Linear(settings.neighbors, C)
        self.context = nn.Linear(settings.window, C)
        self.lstm = nn.LSTM(settings.input_width + C, C, batch_first=True, bidirectional=True)
        self.hidden = nn.Linear(2 * C, HIDDEN)
        self.head = nn.Linear(HIDDEN, 2)

    def forward(self, windows: Tensor) -> Tensor:
        """(B, T, 2K, D_e) to (B, T, 2)."""
        flat = F.normalize(windows.flatten(0, 1), dim=2)
        boundary = torch.cat([self.greatest_context(flat), self.similarity(flat)], dim=1)
        along, _ = self.lstm(boundary.view(*windows.shape[:2], -1))
        logits: Tensor = self.head(F.relu(self.hidden(along)))
        return logits

    def similarity(self, windows: Tensor) -> Tensor:
        """B_d: (B, 2K, D_e) to (B, C), the cosines of the filtered shots before and after the cut. The C x D_e filtered
        values of each cut are not computed: their products follow from the K x K products of the shots."""
        K = self.settings.neighbors
        weight = torch.cat([self.side.weight, self.side.bias[:, None]], dim=1)  # (C, K+1): the bias is a shot of ones
        ones = windows.new_ones(len(windows), 1, windows.shape[2])
        before, after = (torch.cat([part, ones], dim=1) for part in (windows[:, :K], windows[:, K:]))

        def product(a: Tensor, b: Tensor) -> Tensor:
            return torch.einsum("ck,bkj,cj->bc", weight, a @ b.transpose(1, 2), weight)

        # Rounding may make a squared length negative.
        lengths = (product(before, before).clamp_min(1e-16), product(after, after).clamp_min(1e-16))
        return product(before, after) * lengths[0].rsqrt() * lengths[1].rsqrt()

    def greatest_context(self, windows: Tensor) -> Tensor:
        """B_r: (B, 2K, D_e) to (B, D_e), the maximum of C filters over the whole window in each dimension."""
        # In parts: the backward pass of a maximum needs only its index, so C x D_e values exist for one part at a time.
        parts = [self.context(part.transpose(1, 2)).max(dim=2).values for part in torch.split(windows, _CHUNK)]
        return torch.cat(parts)
