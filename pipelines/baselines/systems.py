"""All classical systems by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pipelines.baselines.dp import DPSettings, dynamic_programming
from pipelines.baselines.fixed_length import FixedLengthSettings, fixed_length
from pipelines.baselines.graph_cut import GraphCutSettings, graph_cut
from pipelines.baselines.grouping import GroupingSettings, grouping
from pipelines.baselines.scsa import SCSASettings, scsa
from pipelines.baselines.segmentation import Segmentation
from pipelines.baselines.siamese import SiameseSettings, siamese
from pipelines.baselines.story_graph import StoryGraphSettings, story_graph


@dataclass(frozen=True)
class System:
    """One system.

    Attributes:
        segment: takes the features of a film (N, D), its times (N, 2) in seconds and settings.
        settings: their class; all fields have defaults.
        row: its row in Table 1 of the BaSSL paper (`pipelines.evaluation.paper_tables`); None where it has none.
        learns: whether the settings need a network that was trained on labelled films.
    """

    segment: Callable[..., Segmentation]
    settings: type
    row: str | None
    learns: bool = False


SYSTEMS: dict[str, System] = {
    "graph-cut": System(graph_cut, GraphCutSettings, "GraphCut"),
    "scsa": System(scsa, SCSASettings, "SCSA"),
    "dp": System(dynamic_programming, DPSettings, "DP"),
    "story-graph": System(story_graph, StoryGraphSettings, "Story Graph"),
    "grouping": System(grouping, GroupingSettings, "Grouping"),
    "siamese": System(siamese, SiameseSettings, "Siamese", learns=True),
    "fixed-length": System(fixed_length, FixedLengthSettings, None),
}
