"""Contextual relation networks of torch: built, read from weights, and run over whole videos.

Windows are clipped at a video's edges, as in the fine-tuning of the paper's release: its first and last shot repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from pipelines.models.networks.cut_evidence import token_width
from pipelines.models.networks.kinds import NETWORKS, MSLSTMSettings, RelationalSettings, Shape
from pipelines.stores.index import window_rows

Numbers = NDArray[np.floating[Any]] | NDArray[np.integer[Any]]

WINDOWS_AT_A_TIME = 256  # windows that are scored together: bounds memory, changes nothing else


def build_network(crn: str, shape: Shape) -> nn.Module:
    """Return a new network, its weights from torch's generator. Raises TypeError: the shape belongs to another kind."""
    kind = NETWORKS[crn]
    if not isinstance(shape, kind.shape):
        raise TypeError(f"{type(shape).__name__} is not the shape of {crn}")
    module, _, name = kind.network.partition(":")
    network: nn.Module = getattr(import_module(module), name)(shape)
    return network


def network_of_arrays(crn: str, shape: Shape, arrays: Mapping[str, NDArray[Any]]) -> nn.Module:
    """Return a network with weights by the names of its state dict, in evaluation mode. Raises ValueError: the weights
    do not fit the shape."""
    # A header may contain any size, which must not be built before this check.
    if getattr(shape, "layers", 0) > len(arrays):
        raise ValueError(f"there are no weights for {shape}")
    with torch.device("meta"):
        network = build_network(crn, shape)
    shapes = {name: tuple(tensor.shape) for name, tensor in network.state_dict().items()}
    if shapes != {name: array.shape for name, array in arrays.items()}:
        raise ValueError(f"the weights do not fit {shape}")
    network.to_empty(device="cpu").load_state_dict(tensors_of(arrays))
    return network.eval()


def tensors_of(arrays: Mapping[str, NDArray[Any]]) -> dict[str, Tensor]:
    """Return arrays as tensors that share no memory with them."""
    return {name: torch.tensor(array) for name, array in arrays.items()}


@torch.inference_mode()
def window_logits(network: nn.Module, shape: Any, features: Numbers) -> NDArray[np.float64]:
    """Return logits of a video by a network of windows: each shot by the window around it, (N, D_e) to (N,)."""
    video, like = _on_device(features, network)
    rows = window_rows(np.array([0, len(video)]), np.arange(len(video)), shape.neighbors, "clip")
    parts = [
        network(video[part].to(like))
        for part in torch.split(torch.from_numpy(rows).to(video.device), WINDOWS_AT_A_TIME)
    ]
    return _difference(torch.cat(parts))


@torch.inference_mode()
def sequence_logits(network: nn.Module, shape: Any, features: Numbers) -> NDArray[np.float64]:
    """Return logits of a video by a network of sequences, (N, D_e) to (N,); see `sequence_starts`."""
    video, like = _on_device(features, network)
    N, length = len(video), min(shape.sequence, len(video))
    shots = sequence_starts(N, length)[:, None] + np.arange(length)
    rows = torch.from_numpy(sequence_windows(np.array([0, N]), shots, shape.neighbors)).to(video.device)
    at_a_time = max(1, WINDOWS_AT_A_TIME // length)
    values = _difference(
        torch.cat([network(video[part].to(like)) for part in torch.split(rows, at_a_time)]).flatten(0, 1)
    )
    logits = np.empty(N)
    logits[shots.ravel()] = values  # if the last two overlap, the later one stays
    return logits


LOGITS: Mapping[str, Callable[[nn.Module, Any, Numbers], NDArray[np.float64]]] = {
    "windows": window_logits,
    "sequences": sequence_logits,
}
"""How a video becomes logits, by `NetworkKind.reads`; for tokens see `pipelines.models.networks.relational`."""


def sequence_starts(shots: int, length: int, first: int = 0) -> NDArray[np.int64]:
    """Return the first shots of sequences of a length (at most N) that cover the N shots of a video from `first` on;
    the last is moved back to end with the video."""
    return np.minimum(np.arange(first, shots, length), shots - length)


def sequence_windows(first_row: NDArray[np.int64], rows: NDArray[np.int64], neighbors: int) -> NDArray[np.int64]:
    """Return the rows around cuts, (...) to (..., 2K): K up to the shot and K after it, clipped at the video's edges,
    for `first_row` as in an index."""
    # A shot is the middle of its window of 2K+1: without the first, it is the last of K.
    return window_rows(first_row, rows.ravel(), neighbors, "clip")[:, 1:].reshape(*rows.shape, -1)


def _difference(logits: Tensor) -> NDArray[np.float64]:
    """Map (N, 2) to (N,): the logistic function of the result is the softmax of class 1."""
    values: NDArray[np.float64] = (logits[:, 1] - logits[:, 0]).double().cpu().numpy()
    return values


def _on_device(features: Numbers, network: nn.Module) -> tuple[Tensor, torch.dtype]:
    """Return a video's features where the network is, and the network's precision."""
    parameter = next(network.parameters())
    # float16 features are converted after they are gathered, which halves the memory for a long video.
    return torch.from_numpy(np.ascontiguousarray(features)).to(parameter.device), parameter.dtype


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit PyTorch to one thread in the block: with more, sums have another order and results differ in their last
    digits; small networks gain little."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


# --- the small network beside the linear model of `relational` --------------------------------------------------------

BATCH = 512  # windows that are scored at a time: bounds memory, changes nothing else


def pad_tokens(tokens: Tensor, neighbors: int) -> Tensor:
    """Return a video's tokens with K rows of 0 on either side, (N + 2K, F), the table of `windows`."""
    return functional.pad(tokens, (0, 0, neighbors, neighbors))


def windows(table: Tensor, first: Tensor, neighbors: int) -> Tensor:
    """Return tokens of windows, (B, S, F), all 0 if there is no cut.

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
        """Map (B, S, F) to (B, 1)."""
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
        """Map (B, S, F) tokens to (B,) logits."""
        x = self.dropout(tokens)
        logits: Tensor = self.weighing(x[:, self.settings.neighbors])
        if self.correction is not None:
            logits = logits + self.correction(x)
        return logits[:, 0]

    @torch.inference_mode()
    def token_logits(self, tokens: NDArray[np.float32]) -> NDArray[np.float64]:
        """Map (N, F) tokens of a video to (N,), without dropout; leaves the network in evaluation mode."""
        self.eval()
        K, weight = self.settings.neighbors, self.weighing.weight
        table = pad_tokens(torch.from_numpy(tokens), K).to(weight)
        shots = torch.arange(len(tokens), device=weight.device)
        logits = torch.cat([self(windows(table, some, K)) for some in torch.split(shots, BATCH)])
        return np.asarray(logits.double().cpu().numpy())


# --- MS-LSTM ----------------------------------------------------------------------------------------------------------

HIDDEN = 100  # width of the layer between the LSTM and the logits (the release)
_CHUNK = 64  # cuts whose C x D_e filtered values are in memory at a time


class MSLSTM(nn.Module):
    """Image branch of MS-LSTM: a boundary network at each cut and a bidirectional LSTM over consecutive cuts.

    Source: LGSS (Rao et al. 2020) and MovieNet (Huang et al. 2020), whose MS-LSTM the paper compares with, as in their
    release. For each cut, from the K shots before it and the K after it:

    1. B_d: C filters over K shots reduce each side to C vectors (D_e); B_d is the C cosines between the two sides.
    2. B_r: C other filters over all 2K shots; B_r is their maximum in each of the D_e dimensions.
    3. [B_r, B_d] of T consecutive cuts goes through one bidirectional LSTM, then Linear(2H, 100), ReLU, Linear(100, 2).

    The release trains on consecutive sequences of T = 10, with K = 2, C = H = 512. Choices made here:

    * The shot encoder is frozen, as for every network of the paper; the release trains its ResNet-50.
    * Encodings are scaled to unit length, so that learning rates suit any encoder: the norms of ImageNet features are
      10 to 100, and B_r would dominate the cosines of B_d.
    * Windows are padded by repeating the video's first or last shot, as in the paper; the release leaves such cuts out.
    * A video is scored in sequences of T from its first shot on; the last one is moved back to end with the video. In
      training, the sequences of a video begin at a new random shot every epoch.
    * Loss, optimizer and epochs are the ones of fine-tuning (the release: weights 0.5 and 5, SGD at 0.01, 30 epochs).

    Windows of consecutive shots become the two logits of each shot; class 1 is a scene end.
    """

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
        """Map (B, T, 2K, D_e) to (B, T, 2)."""
        flat = functional.normalize(windows.flatten(0, 1), dim=2)
        boundary = torch.cat([self.greatest_context(flat), self.similarity(flat)], dim=1)
        along, _ = self.lstm(boundary.view(*windows.shape[:2], -1))
        logits: Tensor = self.head(functional.relu(self.hidden(along)))
        return logits

    def similarity(self, windows: Tensor) -> Tensor:
        """Return B_d: (B, 2K, D_e) to (B, C), the cosines of the filtered shots before and after the cut. The C x D_e
        filtered values of each cut are not computed: their products follow from the K x K products of the shots."""
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
