"""The contextual relation network f_CRN of the paper, a small BERT encoder over the shots of a window; and the MLP.

Sources: the paper, section 3.1 and appendix A (L = 2, H = 768, A = 8, dropout, GELU); Devlin et al. 2019 (BERT) for
the encoder, the post-norm Transformer of Vaswani et al. 2017; the paper's release for what the paper leaves open: the
[CLS] token, the mask embedding, the widths. Parameters are named as in a released checkpoint, without ``crn.``.

A window of S = 2K+1 shot encodings (S, D_e) goes through these steps:

1. The encodings of masked shots are replaced by the learned mask embedding (masked shot modeling only).
2. A [CLS] token is put before the shots: the mean of the window's encodings after step 1, so that it does not contain
   masked shots.
3. Linear map to the width D_c, plus a learned position embedding (row 0 is [CLS]), LayerNorm, dropout.
4. Transformer layers: x = LayerNorm(x + dropout(attention(x))), x = LayerNorm(x + dropout(mlp(x))).

Weights are initialized by PyTorch's defaults (release; the paper says "randomly initialized"), not as in BERT, whose
position embeddings would be a hundredth of the size of most encodings.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pipelines.models.networks.kinds import CRNSettings, MLPSettings

NORM_EPS = 1e-12  # of every LayerNorm, as in BERT
INITIAL_DEVIATION = 0.02  # standard deviation of BERT's initial weights, for a head of fine-tuning


class ShotEmbedding(nn.Module):
    """Encodings of a window's shots to the input tokens of the Transformer: steps 1 to 3 of the module's docstring."""

    def __init__(self, settings: CRNSettings) -> None:
        super().__init__()
        self.shot_embedding = nn.Linear(settings.input_width, settings.width)
        self.position_embedding = nn.Embedding(settings.window + 1, settings.width)
        # Row 1 stands for a masked shot. Row 0 is zero and never read; the released checkpoints have it.
        self.mask_embedding = nn.Embedding(2, settings.input_width, padding_idx=0)
        self.LayerNorm = nn.LayerNorm(settings.width, eps=NORM_EPS)
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, shots: Tensor, mask: Tensor | None = None) -> Tensor:
        """Map (B, S, D_e), and a mask (B, S), true for a hidden shot, to (B, S+1, D_c)."""
        if mask is not None:
            shots = torch.where(mask[..., None], self.mask_embedding.weight[1].to(shots.dtype), shots)
        tokens = torch.cat([shots.mean(dim=1, keepdim=True), shots], dim=1)
        embedded = self.shot_embedding(tokens) + self.position_embedding.weight
        result: Tensor = self.dropout(self.LayerNorm(embedded))
        return result


class SelfAttention(nn.Module):
    """Multi-head attention without its output map."""

    def __init__(self, settings: CRNSettings) -> None:
        super().__init__()
        self.heads = settings.heads
        self.attention_dropout = settings.dropout
        self.query = nn.Linear(settings.width, settings.width)
        self.key = nn.Linear(settings.width, settings.width)
        self.value = nn.Linear(settings.width, settings.width)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, T, D_c) to (B, T, D_c), the heads side by side."""
        query, key, value = (
            part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in (self.query(x), self.key(x), self.value(x))
        )
        dropout = self.attention_dropout if self.training else 0.0
        return F.scaled_dot_product_attention(query, key, value, dropout_p=dropout).transpose(1, 2).flatten(2)


class AddAndNorm(nn.Module):
    """The end of either half of a layer: linear map, dropout, residual connection, LayerNorm."""

    def __init__(self, inputs: int, settings: CRNSettings) -> None:
        super().__init__()
        self.dense = nn.Linear(inputs, settings.width)
        self.LayerNorm = nn.LayerNorm(settings.width, eps=NORM_EPS)
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """Map (B, T, inputs) and (B, T, D_c) to (B, T, D_c)."""
        result: Tensor = self.LayerNorm(residual + self.dropout(self.dense(x)))
        return result


class Layer(nn.Module):
    """One Transformer layer, normalized after each half (post-norm): attention, then the MLP."""

    def __init__(self, settings: CRNSettings) -> None:
        super().__init__()
        self.attention = nn.ModuleDict(
            {"self": SelfAttention(settings), "output": AddAndNorm(settings.width, settings)}
        )
        self.intermediate = nn.ModuleDict({"dense": nn.Linear(settings.width, settings.hidden)})
        self.output = AddAndNorm(settings.hidden, settings)

    def forward(self, x: Tensor) -> Tensor:
        """Map (B, T, D_c) to (B, T, D_c)."""
        x = self.attention["output"](self.attention["self"](x), x)
        result: Tensor = self.output(F.gelu(self.intermediate["dense"](x)), x)  # GELU by the error function, not tanh
        return result


class ContextualRelationNetwork(nn.Module):
    """f_CRN: encodings of the shots of a window to contextualized ones (paper, section 3.1).

    Example:
        >>> crn = ContextualRelationNetwork(CRNSettings(neighbors=8))
        >>> shots, cls = crn(torch.randn(4, 17, 2048))
        >>> shots.shape, cls.shape, shots[:, crn.settings.center].shape
        (torch.Size([4, 17, 768]), torch.Size([4, 768]), torch.Size([4, 768]))
    """

    def __init__(self, settings: CRNSettings = CRNSettings()) -> None:
        super().__init__()
        self.settings = settings
        self.shot_embedding = ShotEmbedding(settings)
        self.encoder = nn.ModuleDict({"layer": nn.Sequential(*(Layer(settings) for _ in range(settings.layers)))})

    def forward(self, shots: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Map encodings (B, S, D_e) to contextualized shots (B, S, D_c), the center shot at position K, and the [CLS]
        token (B, D_c). `mask`: (B, S), bool or 0 and 1; a true value replaces the shot by the mask embedding. Raises
        ValueError for shapes that do not fit the network."""
        expected = (self.settings.window, self.settings.input_width)
        if shots.ndim != 3 or tuple(shots.shape[1:]) != expected:
            raise ValueError(f"shots must be (B, {expected[0]}, {expected[1]}), not {tuple(shots.shape)}")
        if mask is not None and mask.shape != shots.shape[:2]:
            raise ValueError(f"the mask must be {tuple(shots.shape[:2])}, not {tuple(mask.shape)}")
        x = self.encoder["layer"](self.shot_embedding(shots, None if mask is None else mask.bool()))
        return x[:, 1:], x[:, 0]


class TransformerBoundary(nn.Module):
    """The paper's CRN and its scene boundary head h_SBD on the center shot (section 3.4)."""

    def __init__(self, settings: CRNSettings) -> None:
        super().__init__()
        self.settings = settings
        self.crn = ContextualRelationNetwork(settings)
        self.head_sbd = nn.Linear(settings.width, 2)
        nn.init.normal_(self.head_sbd.weight, std=INITIAL_DEVIATION)
        nn.init.zeros_(self.head_sbd.bias)
        # No loss of fine-tuning depends on it.
        self.crn.shot_embedding.mask_embedding.requires_grad_(False)

    def forward(self, windows: Tensor) -> Tensor:
        """Map (B, S, D_e) to (B, 2); class 1 is a scene end."""
        shots, _ = self.crn(windows)
        logits: Tensor = self.head_sbd(shots[:, self.settings.center])
        return logits


class WindowMLP(nn.Module):
    """Multi-layer perceptron on the concatenated encodings of a window: the simplest CRN of the paper's tables.

    Source: the protocol of ShotCoL (Chen et al. 2021, section 4), which the paper uses: fully connected layers of 4096,
    1024 and 2, with dropout after each of the first two. Neither paper states the activation (here ReLU), the dropout
    rate (here 0.5) or the window (here the paper's 2K+1 shots, the same input as for its other networks).
    """

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
        """Map (B, S, D_e) to (B, 2); class 1 is a scene end."""
        logits: Tensor = self.layers(windows.flatten(1))
        return logits
