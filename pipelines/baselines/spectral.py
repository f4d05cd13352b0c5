"""Spectral embedding for clustering: normalized affinity and its leading eigenvectors."""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh  # type: ignore[import-untyped]

from pipelines.baselines.segmentation import Floats


def spectral_embedding(affinity: Floats, count: int) -> tuple[Floats, Floats]:
    """The greatest eigenvalues of D^-1/2 A D^-1/2, (count,), at most 1, in descending order, and their eigenvectors,
    (N, count), for symmetric affinities A (N, N), not negative, with degrees D. There are N if the count is greater.
    Each vector's entry of greatest magnitude is positive."""
    scale = 1 / np.sqrt(np.maximum(affinity.sum(axis=1), np.finfo(np.float64).tiny))
    N = len(affinity)
    values, vectors = eigh(affinity * scale[:, None] * scale, subset_by_index=(N - min(count, N), N - 1))
    values, vectors = values[::-1], vectors[:, ::-1]
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])])
    return values, np.asarray(vectors * signs)
