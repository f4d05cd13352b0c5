"""Logistic regression, and how a logit of a scene end becomes a score between 0 and 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
STEPS = 100  # limit on Newton steps; about six are needed, and more from a model that is certain of wrong labels


def sigmoid(x: Floats) -> Floats:
    """Return the logistic function of each value."""
    return np.asarray((1 + np.tanh(x / 2)) / 2)  # tanh does not overflow


def fit_logistic(
    design: Floats,
    targets: Floats,
    *,
    penalties: Floats,
    center: Floats,
    weights: Floats | None = None,
    start: Floats | None = None,
) -> Floats:
    """Fit a logistic regression by Newton's method; returns its coefficients (F,).

    Args:
        design: (N, F) inputs; a column of ones for a constant.
        targets: (N,) probabilities of class 1, or labels.
        penalties: (F,) of half the squared distance of each coefficient from ``center`` (F,).
        weights: (N,) of the losses. Default: 1.
        start: coefficients to start from. Default: ``center``.
    """
    weights = np.ones(len(targets)) if weights is None else weights

    def loss(coefficients: Floats) -> float:
        logits = design @ coefficients
        errors = np.logaddexp(0, logits) - targets * logits
        return float(weights @ errors + penalties @ (coefficients - center) ** 2 / 2)

    coefficients = center if start is None else start
    for _ in range(STEPS):
        p = sigmoid(design @ coefficients)
        gradient = design.T @ (weights * (p - targets)) + penalties * (coefficients - center)
        curvature = design.T @ (design * (weights * p * (1 - p))[:, None]) + np.diag(penalties)
        step = np.linalg.solve(curvature, gradient)
        before = loss(coefficients)
        while loss(coefficients - step) > before and np.abs(step).max() > 1e-8:
            step /= 2
        coefficients = coefficients - step
        if np.abs(step).max() < 1e-8:
            break
    return coefficients


@dataclass(frozen=True)
class Calibration:
    """How a logit becomes a score: `sigmoid(slope * (logit - offset))`."""

    slope: float = 1.0  # the slope of Platt scaling, fitted on cross-validation logits; above 0
    offset: float = 0.0  # the logit from which on a shot is a scene end: a score of 0.5 is the operating point


def apply_calibration(logits: Floats, calibration: Calibration) -> Floats:
    """Return the scores of logits, (N,) to (N,)."""
    return sigmoid(calibration.slope * (logits - calibration.offset))


def fit_calibration(logits: Floats, labels: NDArray[np.uint8]) -> Calibration:
    """Fit Platt's slope, and an offset such that a score of 0.5 is the threshold of best F1 over the pooled shots, from
    logits (N,) of a model that was not trained on the videos and labels (N,). Raises ValueError as `platt_slope`."""
    return Calibration(slope=platt_slope(logits, labels), offset=best_f1_threshold(logits, labels))


def platt_slope(logits: Floats, labels: NDArray[np.uint8]) -> float:
    """Return the slope of the logistic regression of labels (N,), 0 or 1, on logits (N,) (Platt 1999).
    Raises ValueError for one class only, or logits that do not increase with the labels."""
    positives = int(labels.sum())
    if positives in (0, len(labels)):
        raise ValueError("calibration needs both classes")
    # Platt's targets keep the slope finite if the classes are separable.
    target = np.where(labels == 1, (positives + 1) / (positives + 2), 1 / (len(labels) - positives + 2))
    center, spread = float(logits.mean()), max(float(logits.std()), 1e-12)
    design = np.stack([(logits - center) / spread, np.ones_like(logits)], axis=1)
    fit = fit_logistic(design, target, penalties=np.full(2, 1e-9), center=np.zeros(2))
    slope = float(fit[0]) / spread
    if not slope > 0:
        raise ValueError("the logits do not increase with the labels")
    return slope


def best_f1_threshold(logits: Floats, labels: NDArray[np.uint8]) -> float:
    """Return the threshold of best F1 over the pooled shots: midway between the logits just above and just below it."""
    order = np.argsort(-logits, kind="stable")
    ranked = logits[order]
    hits = np.cumsum(labels[order], dtype=np.int64)
    f1 = 2 * hits / (np.arange(1, len(ranked) + 1) + int(labels.sum()))
    f1[:-1][ranked[:-1] == ranked[1:]] = -1  # no threshold lies between equal logits
    last = int(f1.argmax())
    return float(ranked[last] if last + 1 == len(ranked) else (ranked[last] + ranked[last + 1]) / 2)
