"""Scenes of fixed length: the trivial baseline."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pipelines.baselines.segmentation import Features, Segmentation, Times, check_features, segmentation


@dataclass(frozen=True)
class FixedLengthSettings:
    """Settings of `fixed_length`."""

    seconds: float = 60.0  # length of a scene

    def __post_init__(self) -> None:
        if not self.seconds > 0:
            raise ValueError(f"seconds must be positive: {self}")


def fixed_length(
    features: Features, times: Times, settings: FixedLengthSettings = FixedLengthSettings()
) -> Segmentation:
    """End a scene with each shot during which the time since the start of the video passes a multiple of the length.

    The features are not used. Score: 1 at these shots, 0 elsewhere.
    """
    _, t = check_features(features, times)
    passed = np.floor((t[:, 1] - t[0, 0]) / settings.seconds)
    marks = np.diff(passed, prepend=0.0) > 0
    marks[-1] = False
    return segmentation(np.flatnonzero(marks), marks.astype(np.float64))
