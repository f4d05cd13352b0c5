"""Building the index of all shots of all videos: the sources of shots, keyframes and labels in, one file out."""

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
    features, shots and labels, or ``scenes.json`` files. The kind is detected from the files. Raises BasslError for a
    source that is none, files that are damaged or contradict each other, or an index that already exists.
    """
    settings = with_options(settings, **options)
    from pipelines.stages.build_index import building  # start-up time: numpy and h5py

    return building.build(paths_of(sources), settings)


def describe_index(path: Path | str) -> IndexReport:
    """The statistics of an index, and what it lacks. Raises StoreError if the file is not an index, or is damaged."""
    from pipelines.stages.build_index import building  # start-up time: numpy and h5py

    return building.describe(Path(path))
