"""Contextual relation networks of torch: f_CRN of the paper and the other kinds, and how each reads a whole video."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from pipelines.errors import printable
from pipelines.models.networks import CRNSettings, MLPSettings, MSLSTMSettings, RelationalSettings, Shape
from pipelines.models.networks.cut_evidence import token_width
from pipelines.stores.index import window_rows

Numbers = NDArray[np.floating[Any]] | NDArray[np.integer[Any]]
Network = TypeVar("Network", bound=nn.Module)

# --- the paper's network ----------------------------------------------------------------------------------------------

NORM_EPS = 1e-12  # of every LayerNorm, as in BERT
INITIAL_DEVIATION = 0.02  # standard deviation of BERT's initial weights, for a head of fine-tuning


class ShotEmbedding(nn.Module):
    """Encodings of a window's shots to tokens: steps 1 to 3 of `ContextualRelationNetwork`."""

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
        attended = functional.scaled_dot_product_attention(query, key, value, dropout_p=dropout)
        return attended.transpose(1, 2).flatten(2)


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
        hidden = functional.gelu(self.intermediate["dense"](x))  # by the error function, not tanh
        result: Tensor = self.output(hidden, x)
        return result


class ContextualRelationNetwork(nn.Module):
    """f_CRN: encodings of the shots of a window to contextualized ones (paper, section 3.1), a small BERT encoder.

    A window of S = 2K+1 shot encodings (S, D_e) goes through these steps:

    1. The encodings of masked shots are replaced by the learned mask embedding (masked shot modeling only).
    2. A [CLS] token is put before the shots: the mean of the window's encodings after step 1.
    3. Linear map to the width D_c, plus a learned position embedding (row 0 is [CLS]), LayerNorm, dropout.
    4. Transformer layers: x = LayerNorm(x + dropout(attention(x))), x = LayerNorm(x + dropout(mlp(x))).

    Sources: the paper, section 3.1 and appendix A (L = 2, H = 768, A = 8, dropout, GELU); Devlin et al. 2019 (BERT);
    the paper's release for the [CLS] token, the mask embedding, the widths, the names of parameters, which begin with
    ``crn.`` there, and their initialization by PyTorch's defaults.
    """

    def __init__(self, settings: CRNSettings = CRNSettings()) -> None:
        super().__init__()
        self.settings = settings
        self.shot_embedding = ShotEmbedding(settings)
        self.encoder = nn.ModuleDict({"layer": nn.Sequential(*(Layer(settings) for _ in range(settings.layers)))})

    def forward(self, shots: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Map encodings (B, S, D_e) to contextualized shots (B, S, D_c), the center shot at position K, and the [CLS]
        token (B, D_c). `mask`: (B, S), bool or 0 and 1; a true value replaces the shot by the mask embedding."""
        x = self.encoder["layer"](self.shot_embedding(shots, None if mask is None else mask.bool()))
        return x[:, 1:], x[:, 0]


class TransformerBoundary(nn.Module):
    """The paper's CRN and its scene boundary head h_SBD on the center shot (section 3.4)."""

    def __init__(self, settings: CRNSettings) -> None:
        super().__init__()
        self.crn = ContextualRelationNetwork(settings)
        self.head_sbd = nn.Linear(settings.width, 2)
        nn.init.normal_(self.head_sbd.weight, std=INITIAL_DEVIATION)
        nn.init.zeros_(self.head_sbd.bias)
        # No loss of fine-tuning depends on it.
        self.crn.shot_embedding.mask_embedding.requires_grad_(False)

    def forward(self, windows: Tensor) -> Tensor:
        """Map (B, S, D_e) to (B, 2); class 1 is a scene end."""
        shots, _ = self.crn(windows)
        logits: Tensor = self.head_sbd(shots[:, self.crn.settings.neighbors])
        return logits


# --- networks that the paper compares with ----------------------------------------------------------------------------


class WindowMLP(nn.Module):
    """Multi-layer perceptron on the concatenated encodings of a window: the simplest CRN of the paper's tables. Source:
    the protocol of ShotCoL (Chen et al. 2021, section 4). docs/baselines.md has the choices made here."""

    def __init__(self, settings: MLPSettings) -> None:
        super().__init__()
        inputs, wide = (2 * settings.neighbors + 1) * settings.input_width, settings.width
        narrow = max(1, wide // 4)
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


HIDDEN = 100  # width of the layer of `MSLSTM` between the LSTM and the logits (the release)
_CHUNK = 64  # cuts whose C x D_e filtered values are in memory at a time


class MSLSTM(nn.Module):
    """Image branch of MS-LSTM: a boundary network at each cut and a bidirectional LSTM over consecutive cuts.

    Source: LGSS (Rao et al. 2020) and MovieNet (Huang et al. 2020), whose MS-LSTM the paper compares with, as in their
    release. For each cut, from the K shots before it and the K after it:

    1. B_d: C filters over K shots reduce each side to C vectors (D_e); B_d is the C cosines between the two sides.
    2. B_r: C other filters over all 2K shots; B_r is their maximum in each of the D_e dimensions.
    3. [B_r, B_d] of T consecutive cuts goes through one bidirectional LSTM, then Linear(2H, 100), ReLU, Linear(100, 2).

    docs/baselines.md has the choices made here.
    """

    def __init__(self, settings: MSLSTMSettings) -> None:
        super().__init__()
        self.settings = settings
        C = settings.width
        # Filters along the shots, shared by all D_e dimensions, initialized as the release's Conv2d.
        self.side = nn.Linear(settings.neighbors, C)
        self.context = nn.Linear(2 * settings.neighbors, C)
        self.lstm = nn.LSTM(settings.input_width + C, C, batch_first=True, bidirectional=True)
        self.hidden = nn.Linear(2 * C, HIDDEN)
        self.head = nn.Linear(HIDDEN, 2)

    def forward(self, windows: Tensor) -> Tensor:
        """Map (B, T, 2K, D_e) to (B, T, 2); class 1 is a scene end."""
        flat = functional.normalize(windows.flatten(0, 1), dim=2)
        boundary = torch.cat([self.greatest_context(flat), self.similarity(flat)], dim=1)
        along, _ = self.lstm(boundary.view(*windows.shape[:2], -1))
        logits: Tensor = self.head(functional.relu(self.hidden(along)))
        return logits

    def similarity(self, windows: Tensor) -> Tensor:
        """Return B_d: (B, 2K, D_e) to (B, C), the cosines of the filtered shots before and after the cut, by the K x K
        products of the shots: the C x D_e filtered values of each cut are not computed."""
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
        """Return B_r: (B, 2K, D_e) to (B, D_e), the maximum of C filters over the whole window in each dimension."""
        # In parts: the backward pass of a maximum needs only its index, so C x D_e values exist for one part at a time.
        parts = [self.context(part.transpose(1, 2)).max(dim=2).values for part in torch.split(windows, _CHUNK)]
        return torch.cat(parts)


# --- the linear model of `pipelines.models.networks.relational`, to be trained ----------------------------------------


class RelationalNetwork(nn.Module):
    """Evidence at cuts to logits of scene ends, with dropout on the evidence."""

    def __init__(self, settings: RelationalSettings) -> None:
        super().__init__()
        self.weighing = nn.Linear(token_width(), 1)
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens (B, F) to logits (B,)."""
        logits: Tensor = self.weighing(self.dropout(tokens))[:, 0]
        return logits

    @torch.inference_mode()
    def token_logits(self, tokens: NDArray[np.float32]) -> NDArray[np.float64]:
        """Map (N, F) tokens of a video to (N,), without dropout; leaves the network in evaluation mode."""
        self.eval()
        return np.asarray(self(torch.from_numpy(tokens).to(self.weighing.weight)).double().cpu().numpy())


# --- building ---------------------------------------------------------------------------------------------------------

_NETWORKS: Mapping[str, Callable[[Any], nn.Module]] = {
    "transformer": TransformerBoundary,
    "mlp": WindowMLP,
    "ms-lstm": MSLSTM,
    "relational": RelationalNetwork,
}


def build_network(crn: str, shape: Shape) -> nn.Module:
    """Return a new network, its weights from torch's generator."""
    return _NETWORKS[crn](shape)


def with_weights(build: Callable[[], Network], weights: Mapping[str, Tensor]) -> Network:
    """Return a network with these weights, by the names of its state dict, in single precision. Raises ValueError if
    they do not fit, before a network of a forged shape takes memory."""
    with torch.device("meta"):
        network = build()
    single = {name: tensor.float() if tensor.is_floating_point() else tensor for name, tensor in weights.items()}
    try:
        network.load_state_dict(single, assign=True)
    except RuntimeError as error:
        raise ValueError(printable(" ".join(str(error).split()), 250)) from error
    return network


def tensors_of(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Tensor]:
    """Return arrays as tensors that share no memory with them."""
    return {name: torch.tensor(array) for name, array in arrays.items()}


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit PyTorch to one thread in the block: with more, sums have another order and other last digits."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


# --- scoring a video --------------------------------------------------------------------------------------------------

WINDOWS_AT_A_TIME = 256  # windows that are scored together: bounds memory, changes nothing else


@torch.inference_mode()
def window_logits(network: nn.Module, shape: Any, features: Numbers) -> NDArray[np.float64]:
    """Return logits of a video by a network of windows, (N, D_e) to (N,): each shot by the window around it, clipped
    at the video's edges, as in the fine-tuning of the paper's release."""
    rows = window_rows(np.array([0, len(features)]), np.arange(len(features)), shape.neighbors, "clip")
    return _logits(network, features, rows, WINDOWS_AT_A_TIME)


@torch.inference_mode()
def sequence_logits(network: nn.Module, shape: Any, features: Numbers) -> NDArray[np.float64]:
    """Return logits of a video by a network of sequences, (N, D_e) to (N,); see `sequence_starts`."""
    N, length = len(features), min(shape.sequence, len(features))
    shots = sequence_starts(N, length)[:, None] + np.arange(length)
    rows = sequence_windows(np.array([0, N]), shots, shape.neighbors)
    logits = np.empty(N)
    # If the last two sequences overlap, the later one stays.
    logits[shots.ravel()] = _logits(network, features, rows, max(1, WINDOWS_AT_A_TIME // length))
    return logits


LOGITS: Mapping[str, Callable[[nn.Module, Any, Numbers], NDArray[np.float64]]] = {
    "transformer": window_logits,
    "mlp": window_logits,
    "ms-lstm": sequence_logits,
}
"""How a video becomes logits, by the kind of network; for relational ones see `relational.relational_logits`."""


def sequence_starts(shots: int, length: int, first: int = 0) -> NDArray[np.int64]:
    """Return the first shots of sequences that cover the N shots of a video; the last is moved back to end with it."""
    return np.minimum(np.arange(first, shots, length), shots - length)


def sequence_windows(first_row: NDArray[np.int64], rows: NDArray[np.int64], neighbors: int) -> NDArray[np.int64]:
    """Return the rows around cuts, (...) to (..., 2K): K up to the shot and K after it, clipped at a video's edges."""
    # A shot is the middle of its window of 2K+1: without the first, it is the last of K.
    return window_rows(first_row, rows.ravel(), neighbors, "clip")[:, 1:].reshape(*rows.shape, -1)


def _logits(network: nn.Module, features: Numbers, rows: NDArray[np.int64], rows_at_a_time: int) -> NDArray[np.float64]:
    """Return the flat logits of examples, by the rows of the video that they read: the difference of the classes."""
    parameter = next(network.parameters())
    # float16 features are converted after they are gathered, which halves the memory for a long video.
    video = torch.from_numpy(np.ascontiguousarray(features)).to(parameter.device)
    parts = torch.split(torch.from_numpy(rows).to(video.device), rows_at_a_time)
    logits = torch.cat([network(video[part].to(parameter.dtype)) for part in parts])
    values: NDArray[np.float64] = (logits[..., 1] - logits[..., 0]).flatten().double().cpu().numpy()
    return values
