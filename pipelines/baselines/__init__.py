"""Scene segmentation systems that the BaSSL paper compares with, each reimplemented from its own paper.

Each is one function, in a module of its name, from features and times of one video to a `Segmentation`. `SYSTEMS` lists
them; their modules are imported when they are needed, because some need SciPy and some torch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import numpy as np

from pipelines.baselines.segmentation import Features, Labeled, Segmentation, Times


@dataclass(frozen=True)
class Baseline:
    """A baseline: a function, its settings and training, by their names in its module."""

    name: str
    settings_class: str  # all fields but the network have defaults
    trainer: str = ""  # trains the network that the settings need; empty for a system without a network
    training: Mapping[str, Any] = field(default_factory=dict)  # hyperparameters that differ from the defaults
    module: str = ""  # that contains the function; default: the module of its name
    several: bool = False  # whether the function also takes several feature sets of a video
    # values of settings that depend on the features or are not in the system's paper; one is chosen on labeled
    # videos, never on the test videos
    candidates: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def segment(self, sets: Sequence[Features], times: Times, settings: Any) -> Segmentation:
        """Return the scenes of a video with feature sets (N, D_m), of which most systems take the first, and times
        (N, 2) in seconds."""
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
        return getattr(import_module(f"pipelines.baselines.{self.module or self.name}"), attribute)


SYSTEMS: dict[str, Baseline] = {
    "graph-cut": Baseline("graph_cut", "GraphCutSettings", candidates={"threshold": (0.1, 0.15, 0.2, 0.25, 0.3)}),
    "scsa": Baseline("scsa", "SCSASettings", candidates={"eigenvalue": (0.05, 0.1, 0.2), "window": (4, 6)}),
    "dp": Baseline("dp", "DPSettings", candidates={"fading": (0.8, 0.9), "reward": (0.4, 0.6, 0.8, 1.0)}),
    "story-graph": Baseline(
        "story_graph", "StoryGraphSettings", candidates={"thread": (0.7, 0.8, 0.9), "gain": (0.2, 0.4, 0.8)}
    ),
    "grouping": Baseline("grouping", "GroupingSettings", several=True, candidates={"cost": ("additive", "normalized")}),
    "siamese": Baseline("siamese", "SiameseSettings", "train_siamese", candidates={"temporal": (0.3, 1.0, 3.0, 10.0)}),
    "lgss": Baseline("lgss", "LGSSSettings", "train_lgss", several=True, candidates={"supershots": (2.0, 3.0, 4.0)}),
    # Sizes of the authors' release, for its 190 training videos; rounds of the paper.
    "lgss-movienet": Baseline(
        "lgss",
        "LGSSSettings",
        "train_lgss",
        {"width": 512, "epochs": 30},
        several=True,
        candidates={"supershots": (2.0, 3.0, 4.0), "rounds": (5,)},
    ),
    "fixed-length": Baseline("fixed_length", "FixedLengthSettings", module="segmentation"),
}
