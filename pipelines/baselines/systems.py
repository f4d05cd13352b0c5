"""Registry of the baselines, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pipelines.baselines.dp import DPSettings, dynamic_programming
from pipelines.baselines.fixed_length import FixedLengthSettings, fixed_length
from pipelines.baselines.graph_cut import GraphCutSettings, graph_cut
from pipelines.baselines.grouping import GroupingSettings, grouping
from pipelines.baselines.lgss import LGSSSettings, lgss
from pipelines.baselines.scsa import SCSASettings, scsa
from pipelines.baselines.segmentation import Labelled, Segmentation
from pipelines.baselines.siamese import SiameseSettings, siamese
from pipelines.baselines.story_graph import StoryGraphSettings, story_graph


@dataclass(frozen=True)
class Baseline:
    """A baseline: its function, settings and training."""

    # function of the features of a video (N, D), its times (N, 2) in seconds and settings
    segment: Callable[..., Segmentation]
    settings: type[Any]  # class of its settings; all fields but the network have defaults
    # trains the network that the settings need, from labelled videos and a seed; None for a system without a network
    learn: Callable[[Sequence[Labelled], int], Any] | None = None
    several: bool = False  # whether `segment` also takes several feature sets of the video
    # values of settings that depend on the features or are not in the system's paper; one is chosen on labelled
    # videos, never on the test videos
    candidates: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    def default_settings(self, videos: Sequence[Labelled], seed: int = 0) -> Any:
        """The default settings, with a network trained on labelled videos if the system needs one. Raises ValueError if
        nothing can be learned from them."""
        return self.settings() if self.learn is None else self.settings(network=self.learn(videos, seed))


def _learn_siamese(videos: Sequence[Labelled], seed: int) -> Any:
    from pipelines.baselines.siamese_network import train_siamese  # start-up time: torch

    return train_siamese(videos, seed=seed)


def _learn_lgss(videos: Sequence[Labelled], seed: int, **training: Any) -> Any:
    from pipelines.baselines.lgss_network import LGSSTraining, train_lgss  # start-up time: torch

    return train_lgss(videos, LGSSTraining(**training), seed)


SYSTEMS: dict[str, Baseline] = {
    "graph-cut": Baseline(graph_cut, GraphCutSettings, candidates={"threshold": (0.1, 0.15, 0.2, 0.25, 0.3)}),
    "scsa": Baseline(scsa, SCSASettings, candidates={"eigenvalue": (0.05, 0.1, 0.2), "window": (4, 6)}),
    "dp": Baseline(dynamic_programming, DPSettings, candidates={"fading": (0.8, 0.9), "reward": (0.4, 0.6, 0.8, 1.0)}),
    "story-graph": Baseline(
        story_graph, StoryGraphSettings, candidates={"thread": (0.7, 0.8, 0.9), "gain": (0.2, 0.4, 0.8)}
    ),
    "grouping": Baseline(grouping, GroupingSettings, several=True, candidates={"cost": ("additive", "normalised")}),
    "siamese": Baseline(siamese, SiameseSettings, _learn_siamese, candidates={"temporal": (0.3, 1.0, 3.0, 10.0)}),
    "lgss": Baseline(lgss, LGSSSettings, _learn_lgss, several=True, candidates={"supershots": (2.0, 3.0, 4.0)}),
    # Sizes of the authors' release, for its 190 training videos; rounds of the paper.
    "lgss-movienet": Baseline(
        lgss,
        LGSSSettings,
        partial(_learn_lgss, width=512, epochs=30),
        several=True,
        candidates={"supershots": (2.0, 3.0, 4.0), "rounds": (5,)},
    ),
    "fixed-length": Baseline(fixed_length, FixedLengthSettings),
}
