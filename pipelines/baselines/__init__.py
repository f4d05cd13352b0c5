"""Scene segmentation systems that the BaSSL paper compares with, each reimplemented from its own paper.

Each is one function of the features (N, D) of a video's shots, their times (N, 2) in seconds, and its settings, to a
`Segmentation`; modules are imported when they are needed, because some need SciPy and some torch. Every system gets the
same features of a shot, from any encoder (the papers: color histograms, motion, SIFT matches or sound), and the
similarity is the cosine after the video's mean is subtracted, with negative values set to 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.models.networks.cut_evidence import unit_rows

Floats = NDArray[np.float64]
Features = NDArray[np.floating[Any]]
Times = NDArray[np.floating[Any] | np.integer[Any]]


@dataclass(frozen=True, eq=False)
class Segmentation:
    """Scenes of a video of N shots."""

    ends: NDArray[np.int64]  # (M,) increasing: the last shots of all scenes but the video's last one
    score: Floats  # (N,) finite: higher if a scene end is more likely within the video, lowest at its last shot

    @property
    def labels(self) -> NDArray[np.uint8]:
        """Return (N,) 0 or 1, 1 at the shots in `ends`."""
        marks = np.zeros(len(self.score), dtype=np.uint8)
        marks[self.ends] = 1
        return marks


class Labeled(NamedTuple):
    """A training video of N shots."""

    features: Sequence[Features]  # one or several feature sets, (N, D_m) each, in the same order in every video
    scene_end: NDArray[np.integer[Any]]  # (N,) 1 at the last shot of a scene


def segmentation(ends: NDArray[np.integer[Any]], score: Floats) -> Segmentation:
    """Make a segmentation with a finite score that is lowest at the last shot: infinite ones become the greatest finite
    score plus 1, or the lowest minus 1."""
    values = np.array(score, dtype=np.float64)
    finite = values[:-1][np.isfinite(values[:-1])]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    values = np.nan_to_num(values, nan=low, posinf=high + 1, neginf=low - 1)
    values[-1] = values[:-1].min(initial=low)
    return Segmentation(np.sort(np.asarray(ends, dtype=np.int64)), values)


def center(features: Floats) -> Floats:
    """Return features minus the video's mean, scaled to unit length, (N, D). A shot that equals the mean stays 0."""
    x = features / max(float(np.abs(features).max()), np.finfo(np.float64).tiny)
    x = x - x.mean(axis=0)
    # If all shots are equal, only rounding error remains.
    return unit_rows(x, 1e-9 * float(np.sqrt(x.shape[1])))


def squared_distances(x: Floats, y: Floats) -> Floats:
    """Return squared Euclidean distances (N, M) of points (N, D) and (M, D)."""
    return np.asarray(np.maximum((x**2).sum(axis=1)[:, None] + (y**2).sum(axis=1) - 2 * x @ y.T, 0.0))


def similarities(features: Floats) -> Floats:
    """Return similarities of the shots of a video, (N, N), symmetric, between 0 and 1; 1 on the diagonal. O(N^2 D)."""
    unit = center(features)
    alike = np.clip(unit @ unit.T, 0.0, 1.0)
    np.fill_diagonal(alike, 1.0)
    return np.asarray(np.maximum(alike, alike.T))


def block_sums(matrix: Floats) -> Floats:
    """Return summed-area table of a matrix, (N+1, N+1): the sum over any block takes four look-ups (`block`)."""
    sums = np.zeros((matrix.shape[0] + 1, matrix.shape[1] + 1))
    np.cumsum(matrix, axis=0, out=sums[1:, 1:])
    np.cumsum(sums[1:, 1:], axis=1, out=sums[1:, 1:])
    return sums


def block(sums: Floats, rows: tuple[Any, Any], columns: tuple[Any, Any]) -> Any:
    """Return sum over `matrix[rows[0]:rows[1], columns[0]:columns[1]]` from `block_sums`; bounds may be arrays."""
    (a, b), (c, d) = rows, columns
    return sums[b, d] - sums[a, d] - sums[b, c] + sums[a, c]


# --- the systems ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Baseline:
    """A baseline: a function, its settings and training, by their names in its module."""

    module: str  # that contains the function
    name: str
    settings_class: str  # all fields but the network have defaults
    trainer: str = ""  # trains the network that the settings need; empty for a system without a network
    training: Mapping[str, Any] = field(default_factory=dict)  # hyperparameters that differ from the defaults
    several: bool = False  # whether the function also takes several feature sets of a video
    # values of settings that depend on the features; one is chosen on labeled videos, never on the test videos
    candidates: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def segment(self, sets: Sequence[Features], times: Times, settings: Any) -> Segmentation:
        """Return the scenes of a video with feature sets (N, D_m), or the first of these, and times (N, 2)."""
        features = [np.asarray(values, dtype=np.float64) for values in sets]
        seconds = np.asarray(times, dtype=np.float64)
        scenes: Segmentation = self._imported(self.name)(features if self.several else features[0], seconds, settings)
        return scenes

    def settings(self, **values: Any) -> Any:
        """Return its settings, with defaults for all but some values."""
        return self._imported(self.settings_class)(**values)

    def default_settings(self, videos: Sequence[Labeled], seed: int = 0, device: Any = "cpu") -> Any:
        """Return the default settings, with a network trained on labeled videos, on a torch device, if the system needs
        one. Raises ValueError if nothing can be learned from them."""
        if not self.trainer:
            return self.settings()
        return self.settings(network=self._imported(self.trainer)(videos, seed=seed, device=device, **self.training))

    def _imported(self, attribute: str) -> Any:
        return getattr(import_module(f"pipelines.baselines.{self.module}"), attribute)


SYSTEMS: dict[str, Baseline] = {
    "graph-cut": Baseline(
        "graphs", "graph_cut", "GraphCutSettings", candidates={"threshold": (0.1, 0.15, 0.2, 0.25, 0.3)}
    ),
    "scsa": Baseline("graphs", "scsa", "SCSASettings", candidates={"eigenvalue": (0.05, 0.1, 0.2), "window": (4, 6)}),
    "dp": Baseline("divisions", "dp", "DPSettings", candidates={"fading": (0.8, 0.9), "reward": (0.4, 0.6, 0.8, 1.0)}),
    "story-graph": Baseline(
        "divisions",
        "story_graph",
        "StoryGraphSettings",
        candidates={"thread": (0.7, 0.8, 0.9), "gain": (0.2, 0.4, 0.8)},
    ),
    "grouping": Baseline(
        "divisions", "grouping", "GroupingSettings", several=True, candidates={"cost": ("additive", "normalized")}
    ),
    "siamese": Baseline(
        "learned", "siamese", "SiameseSettings", "train_siamese", candidates={"temporal": (0.3, 1.0, 3.0, 10.0)}
    ),
    "lgss": Baseline(
        "learned", "lgss", "LGSSSettings", "train_lgss", several=True, candidates={"supershots": (2.0, 3.0, 4.0)}
    ),
    # Sizes of the authors' release, for its 190 training videos; rounds of the paper.
    "lgss-movienet": Baseline(
        "learned",
        "lgss",
        "LGSSSettings",
        "train_lgss",
        {"width": 512, "epochs": 30},
        several=True,
        candidates={"supershots": (2.0, 3.0, 4.0), "rounds": (5,)},
    ),
    "fixed-length": Baseline("divisions", "fixed_length", "FixedLengthSettings"),
}
