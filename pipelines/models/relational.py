"""The built-in model and its kind: scene ends from similarities of shots instead of their features.

The model's input is not the features but the evidence of `pipelines.models.cut_evidence` at each cut: similarities of
the content and colour of shots, and their lengths, at many scales up to the whole video. The built-in model is a linear
form on this evidence: on the labels available, nothing larger was better. With more labels, a small network added to it
(`pipelines.models.relational_network`) can be trained, which starts at zero and reads the K cuts on either side too.
Nothing depends on the encoder's dimension or axes, so one trained model serves any shot encoder.

The cut of a shot is the one after it; the video's last shot has none. The linear model needs NumPy only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import StoreError
from pipelines.models.calibration import Calibration, apply_calibration
from pipelines.models.cut_evidence import cut_evidence, token_width
from pipelines.models.shapes import RelationalSettings

if TYPE_CHECKING:  # optional dependency: torch
    from pipelines.models.relational_network import RelationalNetwork

SUPPRESSION_REACH = 2  # cuts on either side of a cut that it competes with
SUPPRESSION_WEIGHT = 0.5
"""Largest reduction of a logit by a neighbouring cut. It prevents scenes of one shot, which are rare: one in sixteen of
the labelled scenes."""

Numbers = NDArray[np.floating[Any]] | NDArray[np.integer[Any]]


def shot_tokens(
    features: NDArray[np.floating[Any]], durations: Numbers, colour: Numbers | None = None
) -> NDArray[np.float32]:
    """The input of the model for a video: the evidence at the cut after each shot, and 1; all 0 for the last shot.

    Args:
        features: (N, D), any D.
        durations: (N,) in seconds. A zero (a last frame without a length) is taken for the shortest in the video.
        colour: (N, H) hue histograms (`pipelines.models.colour`); None, or rows of zeros only, where not known.
    Returns: (N, F).
    Raises ValueError: shapes do not fit, there is no shot, or a value is not finite or a duration is negative.
    """
    _check(features, durations, colour)
    _, evidence = cut_evidence(features, durations, colour)
    tokens = np.zeros((len(features), token_width()), np.float32)
    tokens[:-1, :-1] = evidence
    tokens[:-1, -1] = 1
    return tokens


@dataclass(frozen=True, eq=False)
class LinearModel:
    """A weighted sum of the evidence at a cut, and a constant."""

    weight: NDArray[np.float32]  # (F,)
    bias: float
    # with a width of 0; its other sizes mean nothing here
    settings: RelationalSettings = field(default_factory=RelationalSettings)

    def token_logits(self, tokens: NDArray[np.float32]) -> NDArray[np.float64]:
        """(N, F) tokens of a video to (N,)."""
        logits: NDArray[np.float64] = tokens.astype(np.float64) @ self.weight.astype(np.float64) + self.bias
        return logits

    def arrays(self) -> dict[str, NDArray[np.float32]]:
        """Its weights by the names of `RelationalNetwork.state_dict`."""
        return {"weighing.weight": self.weight[None], "weighing.bias": np.array([self.bias], np.float32)}


def relational_logits(network: LinearModel | RelationalNetwork, tokens: NDArray[np.float32]) -> NDArray[np.float64]:
    """Logits of a network for a video, after soft non-maximum suppression: tokens (N, F) to (N,)."""
    logits = network.token_logits(tokens)
    if len(logits) > 1:
        logits[:-1] = suppress_neighbours(logits[:-1])
        # The video's last shot has no cut, and so no evidence: it gets the lowest logit.
        logits[-1] = logits[:-1].min()
    return logits


def suppress_neighbours(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Soft non-maximum suppression: logits lowered where a neighbouring cut has a greater one, (N,) to (N,).

    Two neighbouring cuts are rarely both scene ends, but evidence for one is also evidence for the other: before and
    after a long shot unlike all others, both look like one. A cut loses `SUPPRESSION_WEIGHT` times the logistic
    function of the greatest logit up to `SUPPRESSION_REACH` cuts away, if that is greater than its own.
    """
    greatest = np.full(len(logits), -np.inf)
    for k in range(1, min(SUPPRESSION_REACH, len(logits) - 1) + 1):
        greatest[k:] = np.maximum(greatest[k:], logits[:-k])
        greatest[:-k] = np.maximum(greatest[:-k], logits[k:])
    lost: NDArray[np.float64] = SUPPRESSION_WEIGHT * apply_calibration(greatest, Calibration()) * (greatest > logits)
    return logits - lost


def token_scorer(
    path: Path, settings: RelationalSettings, arrays: Mapping[str, NDArray[Any]]
) -> LinearModel | RelationalNetwork:
    """A linear model, or where the settings have a width a network, out of weights by the names of its state dict.
    Raises StoreError for weights of other evidence than is found here, ValueError for others that do not fit the
    settings. `path`: the file that they are from."""
    weighed = arrays["weighing.weight"].shape[-1]
    if weighed != token_width():
        raise StoreError(
            f"{path}: weighs {weighed - 1} kinds of evidence, and this bassl finds {token_width() - 1}; "
            "use the bassl that made it, or train it again"
        )
    if settings.width:
        from pipelines.models.torch_networks import network_of_arrays  # optional dependency: torch

        return cast("RelationalNetwork", network_of_arrays("relational", settings, arrays))
    shapes = {name: array.shape for name, array in arrays.items()}
    if shapes != {"weighing.weight": (1, token_width()), "weighing.bias": (1,)}:
        raise ValueError(f"weights {shapes}")
    return LinearModel(arrays["weighing.weight"][0], float(arrays["weighing.bias"][0]), settings)


def _check(features: NDArray[np.floating[Any]], durations: Numbers, colour: Numbers | None) -> None:
    if features.ndim != 2 or not features.size or durations.shape != (len(features),):
        raise ValueError(
            f"features must be (N, D) and durations (N,) with N, D >= 1, not {features.shape} and {durations.shape}"
        )
    if not np.isfinite(features).all():
        raise ValueError("features must be finite")
    if not np.isfinite(durations).all() or (durations < 0).any():
        raise ValueError("durations must be finite and not negative")
    if colour is not None and (colour.ndim != 2 or len(colour) != len(features)):
        raise ValueError(f"colour must be ({len(features)}, H), not {colour.shape}")
    if colour is not None and (not np.isfinite(colour).all() or (colour < 0).any()):
        raise ValueError("colour must be finite and not negative")
