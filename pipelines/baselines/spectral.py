"""Spectral embedding for clustering: normalised affinity and its leading eigenvectors."""

from __future__ import annotations

import numpy as np

from pipelines.baselines.segmentation import Floats


def normalised_affinity(affinity: Floats) -> Floats:
    """D^-1/2 A D^-1/2 of non-negative, symmetric affinities A with degrees D, (N, N); its eigenvalues are at most 1."""
    scale = 1 / np.sqrt(np.maximum(affinity.sum(axis=1), np.finfo(np.float64).tiny))
    return np.asarray(affinity * scale[:, None] * scale)


def leading_eigenvectors(matrix: Floats, count: int) -> tuple[Floats, Floats]:
    """The greatest eigenvalues of a symmetric matrix, in descending order, and their eigenvectors.

    Returns: (count,) and (N, count). Each vector's entry of greatest magnitude is positive.
    """
    # start-up time: SciPy; the command line reads the names of all systems
    from scipy.linalg import eigh  # type: ignore[import-untyped]

    N = len(matrix)
    values, vectors = eigh(matrix, subset_by_index=(N - min(count, N), N - 1))
    values, vectors = values[::-1], vectors[:, ::-1]
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])])
    return values, np.asarray(vectors * signs)
