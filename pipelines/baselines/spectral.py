"""Spectral embedding for clustering: normalised affinity and its leading eigenvectors."""

from __future__ import annotations

import numpy as np

from pipelines.baselines.segmentation import Floats


def spectral_embedding(affinity: Floats, count: int) -> tuple[Floats, Floats]:
    """The greatest eigenvalues of D^-1/2 A D^-1/2, in descending order, and their eigenvectors, for non-negative,
    symmetric affinities A (N, N) with degrees D. The eigenvalues are at most 1.

    Returns: (count,) and (N, count), N for a greater count. Each vector's entry of greatest magnitude is positive.
    """
    # start-up time: SciPy; the command line reads the names of all systems
    from scipy.linalg import eigh  # type: ignore[import-untyped]

    scale = 1 / np.sqrt(np.maximum(affinity.sum(axis=1), np.finfo(np.float64).tiny))
    N = len(affinity)
    values, vectors = eigh(affinity * scale[:, None] * scale, subset_by_index=(N - min(count, N), N - 1))
    values, vectors = values[::-1], vectors[:, ::-1]
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])])
    return values, np.asarray(vectors * signs)
