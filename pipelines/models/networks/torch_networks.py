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

from pipelines.models.networks.kinds import NETWORKS, Shape
from pipelines.stores.index import window_rows

Numbers = NDArray[np.floating[Any]] | NDArray[np.integer[Any]]

WINDOWS_AT_A_TIME = 256  # windows that are scored together: bounds memory, changes nothing else


def build_network(crn: str, shape: Shape) -> nn.Module:
    """A new network, its weights from torch's generator. Raises TypeError: the shape belongs to another kind."""
    kind = NETWORKS[crn]
    if not isinstance(shape, kind.shape):
        raise TypeError(f"{type(shape).__name__} is not the shape of {crn}")
    module, _, name = kind.network.partition(":")
    network: nn.Module = getattr(import_module(module), name)(shape)
    return network


def network_of_arrays(crn: str, shape: Shape, arrays: Mapping[str, NDArray[Any]]) -> nn.Module:
    """A network with weights by the names of its state dict, in evaluation mode. Raises ValueError: the weights do not
    fit the shape."""
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
    """Arrays as tensors that share no memory with them."""
    return {name: torch.tensor(array) for name, array in arrays.items()}


@torch.inference_mode()
def window_logits(network: nn.Module, shape: Any, features: Numbers) -> NDArray[np.float64]:
    """Logits of a video by a network of windows: each shot by the window around it, (N, D_e) to (N,)."""
    video, like = _on_device(features, network)
    rows = window_rows(np.array([0, len(video)]), np.arange(len(video)), shape.neighbors, "clip")
    parts = [
        network(video[part].to(like))
        for part in torch.split(torch.from_numpy(rows).to(video.device), WINDOWS_AT_A_TIME)
    ]
    return _difference(torch.cat(parts))


@torch.inference_mode()
def sequence_logits(network: nn.Module, shape: Any, features: Numbers) -> NDArray[np.float64]:
    """Logits of a video by a network of sequences, (N, D_e) to (N,); see `sequence_starts`."""
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
    """First shots of sequences of a length (at most N) that cover the N shots of a video from `first` on; the last is
    moved back to end with the video."""
    return np.minimum(np.arange(first, shots, length), shots - length)


def sequence_windows(first_row: NDArray[np.int64], rows: NDArray[np.int64], neighbors: int) -> NDArray[np.int64]:
    """The rows around cuts, (...) to (..., 2K): K up to the shot and K after it, clipped at the video's edges, for
    `first_row` as in an index."""
    # A shot is the middle of its window of 2K+1: without the first, it is the last of K.
    return window_rows(first_row, rows.ravel(), neighbors, "clip")[:, 1:].reshape(*rows.shape, -1)


def _difference(logits: Tensor) -> NDArray[np.float64]:
    """(N, 2) to (N,): the logistic function of the result is the softmax of class 1."""
    values: NDArray[np.float64] = (logits[:, 1] - logits[:, 0]).double().cpu().numpy()
    return values


def _on_device(features: Numbers, network: nn.Module) -> tuple[Tensor, torch.dtype]:
    """A video's features where the network is, and the network's precision."""
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
