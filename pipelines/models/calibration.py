"""How a logit of a scene end becomes a score between 0 and 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Calibration:
    """How a logit becomes a score: `sigmoid(slope * (logit - offset))`."""

    slope: float = 1.0  # the slope of Platt scaling, fitted on cross-validation logits; above 0
    # the logit from which on a shot is a scene end, so that a score of 0.5 is the operating point
    offset: float = 0.0


def apply_calibration(logits: NDArray[np.float64], calibration: Calibration) -> NDArray[np.float64]:
    """Scores of logits, (N,) to (N,)."""
    # The logistic function as a tanh, which does not overflow.
    scores: NDArray[np.float64] = (1 + np.tanh(calibration.slope * (logits - calibration.offset) / 2)) / 2
    return scores
