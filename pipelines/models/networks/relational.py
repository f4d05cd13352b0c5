"""The built-in model and its kind: scene ends from similarities of shots instead of their features.

The model is linear in the evidence of `pipelines.models.networks.cut_evidence` at the cut after each shot. Nothing
depends on the encoder's dimension or axes, so one trained model serves any shot encoder. Scoring needs NumPy only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import StoreError
from pipelines.models.calibration import sigmoid
from pipelines.models.networks.cut_evidence import cut_evidence, token_width

if TYPE_CHECKING:  # optional dependency: torch
    from pipelines.models.networks.torch_networks import RelationalNetwork

SUPPRESSION_REACH = 2  # cuts on either side of a cut that it competes with
# Largest reduction of a logit by a neighboring cut. It prevents scenes of one shot: one in sixteen labeled scenes.
SUPPRESSION_WEIGHT = 0.5

Numbers = NDArray[np.floating[Any]] | NDArray[np.integer[Any]]


def shot_tokens(
    features: NDArray[np.floating[Any]], durations: Numbers, color: Numbers | None = None
) -> NDArray[np.float32]:
    """Return the input of the model for a video, (N, F): the evidence at the cut after each shot, and 1; all 0 for the
    last shot. From finite features (N, D), durations (N,) in seconds, of which a zero counts as the shortest one, and
    hue histograms (N, H), None or zeros if unknown."""
    _, evidence = cut_evidence(features, durations, color)
    tokens = np.zeros((len(features), token_width()), np.float32)
    tokens[:-1, :-1] = evidence
    tokens[:-1, -1] = 1
    return tokens


@dataclass(frozen=True, eq=False)
class LinearModel:
    """A weighted sum of the evidence at a cut, and a constant."""

    weight: NDArray[np.float32]  # (F,)
    bias: float

    def token_logits(self, tokens: NDArray[np.float32]) -> NDArray[np.float64]:
        """Map (N, F) tokens of a video to (N,)."""
        logits: NDArray[np.float64] = tokens.astype(np.float64) @ self.weight.astype(np.float64) + self.bias
        return logits

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """Return its weights by the names of `RelationalNetwork.state_dict`."""
        return {"weighing.weight": self.weight[None], "weighing.bias": np.array([self.bias], np.float32)}


def relational_logits(network: LinearModel | RelationalNetwork, tokens: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return logits of a network for a video, after soft non-maximum suppression: tokens (N, F) to (N,)."""
    logits = network.token_logits(tokens)
    if len(logits) > 1:
        logits[:-1] = suppress_neighbors(logits[:-1])
        # The video's last shot has no cut, and so no evidence: it gets the lowest logit.
        logits[-1] = logits[:-1].min()
    return logits


def suppress_neighbors(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Lower logits next to a cut with a greater one, (N,) to (N,), as two neighboring cuts are rarely both scene ends:
    a cut loses `SUPPRESSION_WEIGHT` times the logistic function of the greatest logit up to `SUPPRESSION_REACH` cuts
    away, if that is greater than its own."""
    greatest = np.full(len(logits), -np.inf)
    for k in range(1, min(SUPPRESSION_REACH, len(logits) - 1) + 1):
        greatest[k:] = np.maximum(greatest[k:], logits[:-k])
        greatest[:-k] = np.maximum(greatest[:-k], logits[k:])
    lost: NDArray[np.float64] = SUPPRESSION_WEIGHT * sigmoid(greatest) * (greatest > logits)
    return logits - lost


def linear_model(path: Path, weights: Mapping[str, NDArray[Any]]) -> LinearModel:
    """Return a linear model from weights by the names of its state dict. Raises StoreError if the model, in the file
    `path`, was trained on other evidence than is computed here."""
    if {name: array.shape for name, array in weights.items()} != {
        "weighing.weight": (1, token_width()),
        "weighing.bias": (1,),
    }:
        raise StoreError(
            f"{path}: its weights do not fit the {token_width() - 1} kinds of evidence that this version computes; use "
            "the version of bassl that wrote it, or train it again"
        )
    return LinearModel(weights["weighing.weight"][0], float(weights["weighing.bias"][0]))
