"""Projection and classification heads of the pretext tasks, with the layout and parameter names of the release: under
``head_nce``, ``head_pp``, ``head_cgm`` and ``head_msm`` in a released checkpoint's ``loss.``.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from pipelines.pretext.losses import full_precision


class ContrastiveHead(nn.Module):
    """Linear, ReLU, Linear, L2 norm: h_SSM of the release, also its head for SimCLR. (..., D_e) to (..., 128)."""

    def __init__(self, input_dim: int = 2048, output_dim: int = 128) -> None:
        super().__init__()
        self.model = nn.Sequential(nn.Linear(input_dim, input_dim), nn.ReLU(), nn.Linear(input_dim, output_dim))

    def forward(self, encodings: Tensor) -> Tensor:
        """Unit vectors in float32, whatever the precision of the head."""
        return F.normalize(full_precision(self.model(encodings)), dim=-1)


class LinearContrastiveHead(nn.Module):
    """h_SSM of the paper's text, a single linear layer (section 3.4). (..., D_e) to (..., 128), not of unit length."""

    def __init__(self, input_dim: int = 2048, output_dim: int = 128) -> None:
        super().__init__()
        self.model = nn.Sequential(nn.Linear(input_dim, output_dim))

    def forward(self, encodings: Tensor) -> Tensor:
        return full_precision(self.model(encodings))


class MaskedShotHead(nn.Module):
    """Linear, GELU, LayerNorm, Linear: h_MSM of the release, BERT's. (..., D_c) to (..., D_e)."""

    def __init__(self, context_dim: int = 768, output_dim: int = 2048) -> None:
        super().__init__()
        transform = nn.ModuleDict(
            {"dense": nn.Linear(context_dim, context_dim), "LayerNorm": nn.LayerNorm(context_dim, eps=1e-12)}
        )
        decoder = nn.Linear(context_dim, output_dim)
        nn.init.zeros_(decoder.bias)
        self.predictions = nn.ModuleDict({"transform": transform, "decoder": decoder})

    def forward(self, context: Tensor) -> Tensor:
        transform = self.predictions["transform"]
        assert isinstance(transform, nn.ModuleDict)
        hidden = transform["LayerNorm"](F.gelu(transform["dense"](context)))
        output: Tensor = self.predictions["decoder"](hidden)
        return output
