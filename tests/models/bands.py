"""Tables of weights between shots, and the bands that the models compute from them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def band_of(table: Floats, reach: int) -> Floats:
    N = len(table)
    return np.array([[table[i, i + k] if i + k < N else 0.0 for k in range(reach + 1)] for i in range(N)])


def near_table(N: int, reach: int, seed: int = 0) -> Floats:
    """Symmetric weights that are 0 beyond the reach."""
    table = np.random.default_rng(seed).random((N, N))
    table = (table + table.T) / 2 + np.eye(N)
    return np.asarray(table * (np.abs(np.arange(N)[:, None] - np.arange(N)) <= reach))


def table_of(band: Floats) -> Floats:
    """The symmetric table (N, N) of a band (N, reach + 1); 0 beyond it."""
    N = len(band)
    table = np.zeros((N, N))
    for k in range(min(N, band.shape[1])):
        position = np.arange(N - k)
        table[position, position + k] = table[position + k, position] = band[position, k]
    return table


def costs_by_recursion(weights: Floats, reached: float = 0.0) -> list[float]:
    """The cost of each cut by the definition: the best cut of a part, then the parts before and after it."""
    if len(weights) < 2:
        return []
    cuts = [
        sum(weights[:position, position:].sum() / side.sum() for side in (weights[:position], weights[position:]))
        for position in range(1, len(weights))
    ]
    position = int(np.argmin(cuts)) + 1
    reached = max(reached, cuts[position - 1])
    return [
        *costs_by_recursion(weights[:position, :position], reached),
        reached,
        *costs_by_recursion(weights[position:, position:], reached),
    ]
