"""Hashes of the frames of episodes, ``series.h5``: by the fingerprint of each video, see `pipelines.video.series`.

Layout (schema ``bassl.series``, version 1), for each video of N frames: ``FINGERPRINT/hashes`` (N,) uint64 and
``FINGERPRINT/times`` (N,) float64, in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.files import locked, os_errors
from pipelines.stores import open_store, read_array, write_store
from pipelines.video.series import Episode

_SCHEMA, _VERSION = "bassl.series", 1
_MOST_WAIT = 60  # seconds that other processes may take to write


def read_episodes(path: Path) -> dict[str, Episode]:
    """Read the episodes of a store by fingerprint; none if there is no such file. Raises StoreError for a file that is
    damaged or of another kind."""
    if not path.exists():
        return {}
    with open_store(path, _SCHEMA, _VERSION, remedy="remove it; the videos are read again") as file:
        return {
            name: Episode(
                read_array(file, f"{name}/hashes", np.uint64, 1), read_array(file, f"{name}/times", np.float64, 1)
            )
            for name in file
        }


def add_episodes(path: Path, new: Mapping[str, Episode]) -> None:
    """Add episodes to a store, or make one; several processes may do so at a time. Raises BasslError if it cannot be
    read or written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with os_errors(path, "cannot be written"), locked(path.parent, _MOST_WAIT):
        episodes = read_episodes(path) | dict(new)
        arrays: dict[str, NDArray[Any]] = {}
        for name, episode in episodes.items():
            arrays |= {f"{name}/{part}": values for part, values in episode._asdict().items()}
        write_store(path, _SCHEMA, _VERSION, attributes={}, arrays=arrays)
