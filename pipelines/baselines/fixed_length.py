"""Scenes of one length: what a system must at least be better than."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipelines.baselines.segmentation import Features, Segmentation, Times, checked, segmentation


@dataclass(frozen=True)
class FixedLengthSettings:
    """Of `fixed_length`."""

    seconds: float = 60.0
    """Length of a scene."""

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise ValueError(f"scenes must have a length: {self}")


def fixed_length(features: Features, times: Times, settings: FixedLengthSettings | None = None) -> Segmentation:
    """End a scene with each shot in or at whose end a multiple of the length has passed since the film began.

    Score: 1 at these shots, 0 elsewhere.

    Args:
        features: (N, D), not used.
        times: (N, 2) seconds.
        settings: see there.

    Raises:
        ValueError: what `checked` raises.

    Complexity: O(N).
    """
    settings = settings or FixedLengthSettings()
    _, t = checked(features, times)
    passed = np.floor((t[:, 1] - t[0, 0]) / settings.seconds)
    marks = np.diff(passed, prepend=0.0) > 0
    marks[-1] = False
    return segmentation(np.flatnonzero(marks), marks.astype(np.float64))
