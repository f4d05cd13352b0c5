"""Logistic regression, the scores of scene ends from logits, and what the answers of a review say of other scores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
STEPS = 100  # limit on Newton steps; about six are needed, and more from a model that is certain of wrong labels


def sigmoid(x: Floats) -> Floats:
    """Return the logistic function of each value."""
    return np.asarray((1 + np.tanh(x / 2)) / 2)  # tanh does not overflow


def logit(probability: Floats) -> Floats:
    """Return the log odds of each probability, which is clipped to the range of 1e-9 to 1 - 1e-9."""
    clipped = np.clip(probability, 1e-9, 1 - 1e-9)
    return np.asarray(np.log(clipped) - np.log1p(-clipped))


def fit_logistic(
    design: Floats,
    targets: Floats,
    *,
    penalties: Floats,
    center: Floats,
    weights: Floats | None = None,
    start: Floats | None = None,
) -> Floats:
    """Fit a logistic regression of labels or probabilities (N,) on inputs (N, F), with ``weights`` (N,), by Newton's
    method; return its coefficients (F,). ``penalties`` (F,) are of half their squared distance from ``center``."""
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
    """Fit Platt's slope, and an offset such that a score of 0.5 is the threshold of best F1, from logits (N,) of a
    model that was not trained on the videos and labels (N,). Raises ValueError as `platt_slope`."""
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


# --- review -----------------------------------------------------------------------------------------------------------
#
# A person answers for each cut of a window of shots whether a scene ends there; cut i is the one after shot i.
# Probabilities are `sigmoid(slope * logit(score) + offset)`, both fitted to the answers with a prior. They give the
# expected F1 for a choice of scene ends, the threshold with the best expected F1, and the window whose answers raise it
# most. docs/review.md has the derivation; `pipelines/outputs/page/review.js` has the same functions.

WINDOW = 8  # shots of a look
SMALLEST_SLOPE = 0.1  # so that a higher score is always a higher probability
TIE = 1e-9  # relative difference of windows that count as equal, so that rounding does not choose between them
# Normal prior of slope and offset. The means are a fit to the cross-validation scores of the built-in model on its 25
# training videos; the deviations were set beforehand.
PRIOR_MEANS = np.array([1.0, -1.3])
PRIOR_DEVIATIONS = np.array([0.2, 0.5])


@dataclass(frozen=True)
class Review:
    """The state of a review, from scores and answers."""

    probabilities: Floats  # (N - 1,) of a scene end at each cut; 0 or 1 where it was answered
    threshold: float  # cuts with at least this score are scene ends, for the best expected F1; answers stay
    expected_f1: float  # of these scene ends
    window: tuple[int, int] | None  # half-open range of shots to look at next; None if every cut was answered


def review(
    scores: ArrayLike,
    answers: Mapping[int, bool],
    shots_per_look: int = WINDOW,
    credits: Mapping[int, bool | None] | None = None,
) -> Review:
    """Find where to look next, and the expected F1 so far.

    ``scores``: (N,) of shots, between 0 and 1. ``answers``: whether a scene ends at a cut, by cut. ``shots_per_look``:
    at least 2. ``credits``: cuts that a person is not asked about (`credit_cuts`).
    """
    log_odds = logit(np.asarray(scores, np.float64)[:-1])
    slope, offset = fit_platt(log_odds, answers)
    probabilities = sigmoid(slope * log_odds + offset)
    ends = {cut: True for cut, is_end in (credits or {}).items() if is_end}
    for cut, is_end in {**ends, **answers}.items():  # these are certain
        probabilities[cut] = float(is_end)
    expected, least = best_expected_f1(probabilities)
    threshold = float(sigmoid((logit(np.array(least)) - offset) / slope))
    window = next_window(probabilities, {*(credits or ()), *answers}, least, shots_per_look)
    return Review(probabilities, min(max(threshold, 0.001), 0.999), expected, window)


def fit_platt(log_odds: Floats, answers: Mapping[int, bool]) -> tuple[float, float]:
    """Return the most likely slope and offset, given the answers and the prior."""
    cuts = sorted(answers)
    x, y = log_odds[cuts], np.array([answers[cut] for cut in cuts], np.float64)
    design = np.stack([x, np.ones_like(x)], axis=1)
    slope, offset = fit_logistic(design, y, penalties=PRIOR_DEVIATIONS**-2.0, center=PRIOR_MEANS).tolist()
    return max(slope, SMALLEST_SLOPE), offset


def expected_f1(probabilities: Floats, ends: NDArray[np.bool_]) -> float:
    """Return the F1 to expect of a choice of cuts, (N - 1,): ``2 E[hits] / (chosen + E[scene ends])``; of no cut, the
    probability that there is no scene end."""
    if not ends.any():
        return float(np.prod(1 - probabilities))
    return float(2 * probabilities[ends].sum() / (ends.sum() + probabilities.sum()))


def best_expected_f1(probabilities: Floats) -> tuple[float, float]:
    """Return the best expected F1 over all choices, and the least probability that a cut needs to be chosen.

    Adding a cut with probability p raises the expected F1 of a choice if p is more than half that F1, so the best
    choice is every cut with a probability of at least half its expected F1.
    """
    none = float(np.prod(1 - probabilities))
    hits = np.cumsum(np.sort(probabilities)[::-1])
    if not len(hits):
        return 1.0, 0.5
    best = float((2 * hits / (np.arange(1, len(hits) + 1) + hits[-1])).max())
    return (none, 0.5) if none > best else (best, best / 2)


def next_window(
    probabilities: Floats, answers: Iterable[int], least: float, shots_per_look: int = WINDOW
) -> tuple[int, int] | None:
    """Return the window of shots whose answers are expected to raise F1 most. If cuts are chosen from a probability of
    `least` on, an answer is worth min(least * (1 - p), (1 - least) * p), up to a common factor. If windows tie, the
    middle one in the first unbroken run is taken, so that unanswered cuts have shots on either side."""
    gains = np.minimum(least * (1 - probabilities), (1 - least) * probabilities)
    gains[list(answers)] = 0.0
    cuts = min(shots_per_look - 1, len(gains))
    if not gains.any():
        return None
    totals = np.lib.stride_tricks.sliding_window_view(gains, cuts).sum(axis=1)
    equal = totals >= totals.max() * (1 - TIE)
    first = int(equal.argmax())
    after = first + int(np.append(equal[first:], False).argmin())
    start = (first + after - 1) // 2
    return start, start + cuts + 1
