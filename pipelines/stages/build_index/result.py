"""What building an index returns. Imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # start-up time: numpy and h5py
    from pipelines.datasets.matching import MatchReport
    from pipelines.stores.index import Index


@dataclass(frozen=True)
class SplitStatistics:
    """What one split of an index holds, a row of the paper's table of data sets."""

    split: str
    """Its name; ``none`` for videos without one, ``all`` for the sum."""
    videos: int
    labelled: int
    """Videos with labels."""
    scenes: int
    """Of the labelled videos."""
    shots: int
    hours: float | None
    """None where the times of a video are not known."""


@dataclass(frozen=True)
class IndexReport:
    """An index and what is to be known of it.

    Attributes:
        index: the index, opened.
        splits: what each split holds.
        matches: how labels of other shots were matched to the shots of the index, by video.
        notes: one line each on what is missing or was left out.
    """

    index: Index
    splits: tuple[SplitStatistics, ...]
    matches: Mapping[str, MatchReport]
    notes: tuple[str, ...]
