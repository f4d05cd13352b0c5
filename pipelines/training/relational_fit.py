"""The linear model on the evidence at cuts, fitted to labeled videos, with or without a model to stay close to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pipelines.models.cut_evidence import token_width
from pipelines.models.networks import RelationalSettings
from pipelines.models.relational import LinearModel

STEPS = 100
"""Limit on Newton steps; about six are needed, and more from a model that is certain of wrong labels."""


@dataclass(frozen=True, eq=False)
class LabelledTokens:
    """The evidence of one video, and its labels."""

    tokens: NDArray[np.float32]  # (N, F), see `relational.shot_tokens`
    scene_end: NDArray[np.uint8]  # (N,) 1 at the last shot of a scene; the last shot is not used


def fit_linear_model(videos: Sequence[LabelledTokens], penalty: float, start: LinearModel | None = None) -> LinearModel:
    """Logistic regression on videos, with balanced classes and a penalty on the squared weights, for evidence of
    standard deviation 1 and a loss that is a mean over shots; the optimum is exact (Newton's method).

    ``start``: a model whose weights are penalized for their distance from it, instead of from zero. The constant is
    free. Raises ValueError: no video, or labels of one class only.
    """
    # The last shot of a video has no cut after it, and so no evidence.
    x = np.concatenate([np.zeros((0, token_width() - 1)), *(video.tokens[:-1, :-1] for video in videos)])
    y = np.concatenate([np.zeros(0), *(video.scene_end[:-1] for video in videos)])
    positives = int(y.sum())
    if positives in (0, len(y)):
        raise ValueError("training needs videos with scene ends and with other shots")
    shot_weights = np.where(y == 1, 0.5 / positives, 0.5 / (len(y) - positives))
    mean, deviation = x.mean(axis=0), np.maximum(x.std(axis=0, ddof=1), 1e-6)
    x = np.hstack([(x - mean) / deviation, np.ones((len(x), 1))])
    center = np.zeros(x.shape[1])
    if start is not None:
        slopes = start.weight[:-1].astype(np.float64)
        center = np.append(slopes * deviation, start.bias + slopes @ mean)
    pull = np.append(np.full(x.shape[1] - 1, penalty), 0.0)

    def loss(weights: NDArray[np.float64]) -> float:
        logits = x @ weights
        return float(
            shot_weights @ np.logaddexp(0, np.where(y == 1, -logits, logits)) + pull @ (weights - center) ** 2 / 2
        )

    weights = center.copy()
    for _ in range(STEPS):
        p = (1 + np.tanh(x @ weights / 2)) / 2
        gradient = x.T @ (shot_weights * (p - y)) + pull * (weights - center)
        curvature = x.T @ (x * (shot_weights * p * (1 - p))[:, None]) + np.diag(pull)
        step = np.linalg.solve(curvature, gradient)
        if np.abs(step).max() < 1e-8:
            break
        before = loss(weights)
        while loss(weights - step) > before and np.abs(step).max() > 1e-8:
            step /= 2
        weights -= step
    slopes = weights[:-1] / deviation
    # The padding mask has no weight.
    shape = RelationalSettings() if start is None else start.settings
    return LinearModel(np.append(slopes, 0).astype(np.float32), float(np.float32(weights[-1] - slopes @ mean)), shape)
