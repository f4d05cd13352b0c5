"""Building the index of all shots of all videos from sources of shots, keyframes and labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pipelines.files import paths_of
from pipelines.options import with_options
from pipelines.stages.build_index.settings import IndexReport, IndexSettings, SplitStatistics

__all__ = ["IndexReport", "IndexSettings", "SplitStatistics", "build_index", "describe_index"]


def build_index(
    sources: Path | str | Sequence[Path | str], settings: IndexSettings = IndexSettings(), **options: Any
) -> IndexReport:
    """Build the index of all shots of all videos.

    A source is a folder of keyframe stores or one store, MovieNet's folder, BBC's, OVSD's, a folder of ``.npz`` with
    features, shots and labels, or a ``scenes.json``; its kind is detected from the files. Raises BasslError, one line,
    for a source of another kind, damaged or contradictory files, or an existing index."""
    settings = with_options(settings, **options)
    from pipelines.stages.build_index import building  # start-up time: numpy and h5py

    return building.build(paths_of(sources), settings)


def describe_index(path: Path | str) -> IndexReport:
    """Statistics of an index, and notes on what is missing. Raises StoreError if it is damaged or not an index."""
    from pipelines.stages.build_index import building  # start-up time: numpy and h5py

    return building.describe(Path(path))
