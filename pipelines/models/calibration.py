"""How a logit of a scene end becomes a score between 0 and 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Calibration:
    """How a logit becomes a score: `sigmoid(slope * (logit - offset))`."""

    slope: float = 1.0  # the slope of Platt scaling, fitted on cross-validation logits; above 0
    offset: float = 0.0  # the logit from which on a shot is a scene end: a score of 0.5 is the operating point


def apply_calibration(logits: NDArray[np.float64], calibration: Calibration) -> NDArray[np.float64]:
    """Scores of logits, (N,) to (N,)."""
    # The logistic function as a tanh, which does not overflow.
    scores: NDArray[np.float64] = (1 + np.tanh(calibration.slope * (logits - calibration.offset) / 2)) / 2
    return scores


def fit_calibration(logits: NDArray[np.float64], labels: NDArray[np.uint8]) -> Calibration:
    """Platt's slope, and an offset such that a score of 0.5 is the threshold of best F1 over the pooled shots, from
    logits (N,) of a model that was not trained on the videos and labels (N,). Raises ValueError as `platt_slope`."""
    return Calibration(slope=platt_slope(logits, labels), offset=best_f1_threshold(logits, labels))


def platt_slope(logits: NDArray[np.float64], labels: NDArray[np.uint8]) -> float:
    """Slope of the logistic regression of labels (N,) of 0 and 1 on logits (N,) (Platt 1999), by Newton's method.
    Raises ValueError for one class only, or logits that do not increase with the labels."""
    positives = int(labels.sum())
    if positives in (0, len(labels)):
        raise ValueError("calibration needs both classes")
    # Platt's targets keep the slope finite if the classes are separable.
    target = np.where(labels == 1, (positives + 1) / (positives + 2), 1 / (len(labels) - positives + 2))
    center, spread = float(logits.mean()), max(float(logits.std()), 1e-12)
    design = np.stack([(logits - center) / spread, np.ones_like(logits)], axis=1)
    weights = np.zeros(2)
    for _ in range(100):
        p = 1 / (1 + np.exp(-np.clip(design @ weights, -30, 30)))
        curvature = design.T @ (design * (p * (1 - p) + 1e-12)[:, None]) + 1e-9 * np.eye(2)
        step = np.linalg.solve(curvature, design.T @ (p - target))
        weights -= step * min(1.0, 4.0 / max(float(np.abs(step).max()), 1e-12))
        if np.abs(step).max() < 1e-10:
            break
    slope = float(weights[0]) / spread
    if not slope > 0:
        raise ValueError("the logits do not increase with the labels")
    return slope


def best_f1_threshold(logits: NDArray[np.float64], labels: NDArray[np.uint8]) -> float:
    """The threshold of best F1 over the pooled shots: midway between the logits just above and just below it."""
    order = np.argsort(-logits, kind="stable")
    ranked = logits[order]
    hits = np.cumsum(labels[order], dtype=np.int64)
    f1 = 2 * hits / (np.arange(1, len(ranked) + 1) + int(labels.sum()))
    f1[:-1][ranked[:-1] == ranked[1:]] = -1  # no threshold lies between equal logits
    last = int(f1.argmax())
    return float(ranked[last] if last + 1 == len(ranked) else (ranked[last] + ranked[last + 1]) / 2)
