"""The spectral step that clustering systems share."""

from __future__ import annotations

import numpy as np

from pipelines.baselines.segmentation import Floats


def normalised_affinity(affinity: Floats) -> Floats:
    """D^-1/2 A D^-1/2 of non-negative, symmetric affinities A with degrees D, (N, N). Its eigenvalues are at most 1."""
    scale = 1 / np.sqrt(np.maximum(affinity.sum(axis=1), np.finfo(np.float64).tiny))
    return np.asarray(affinity * scale[:, None] * scale)


def leading_eigenvectors(matrix: Floats, count: int) -> tuple[Floats, Floats]:
    """The greatest eigenvalues of a symmetric matrix, falling, and their eigenvectors.

    Returns:
        (count,) and (N, count). The sign of a vector is such that its greatest entry by size is positive.
    """
    from scipy.linalg import eigh  # type: ignore[import-untyped]

    N = len(matrix)
    values, vectors = eigh(matrix, subset_by_index=(N - min(count, N), N - 1))
    values, vectors = values[::-1], vectors[:, ::-1]
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])])
    return values, np.asarray(vectors * signs)
