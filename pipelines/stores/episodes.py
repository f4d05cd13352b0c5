"""Hashes of the frames of episodes, ``series.h5`` (schema ``bassl.series``, version 1): for each video, by its
fingerprint, ``hashes`` (N,) uint64 and ``times`` (N,) float64 in seconds, see `pipelines.video.series`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from pipelines.files import locked, os_errors
from pipelines.stores import open_store, read_array, write_store
from pipelines.video.series import Episode

_SCHEMA, _VERSION = "bassl.series", 1
_MOST_WAIT = 60  # seconds that other processes may take to write


def read_episodes(path: Path) -> dict[str, Episode]:
    """Read the episodes of a store by fingerprint; none without a file. Raises StoreError as `open_store`."""
    if not path.exists():
        return {}
    with open_store(path, _SCHEMA, _VERSION, remedy="remove it; the videos are read again") as file:
        kinds = {"hashes": np.uint64, "times": np.float64}
        return {
            name: Episode(**{part: read_array(file, f"{name}/{part}", kind, 1) for part, kind in kinds.items()})
            for name in file
        }


def add_episode(path: Path, name: str, episode: Episode) -> None:
    """Add an episode to a store, which other processes may do too. Raises BasslError if that fails."""
    with os_errors(path, "cannot be written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with locked(path.parent, _MOST_WAIT):
            episodes = read_episodes(path) | {name: episode}
            arrays = {
                f"{key}/{part}": values for key, one in episodes.items() for part, values in one._asdict().items()
            }
            write_store(path, _SCHEMA, _VERSION, attributes={}, arrays=arrays)
