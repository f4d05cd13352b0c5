"""The store of a series: hashes of the frames of each episode."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from pipelines.errors import StoreError
from pipelines.stores.episodes import add_episode, read_episodes
from pipelines.video.series import Episode


def episode(frames: int) -> Episode:
    return Episode(np.arange(frames, dtype=np.uint64) << 40, np.arange(frames) / 24)


def test_episodes_are_added_by_several_at_a_time_and_read_back(tmp_path: Path) -> None:
    path = tmp_path / "out" / "series.h5"
    assert read_episodes(path) == {}
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda n: add_episode(path, f"id{n}", episode(n)), range(1, 9)))
    stored = read_episodes(path)
    assert sorted(stored) == [f"id{n}" for n in range(1, 9)]
    for n in range(1, 9):
        assert np.array_equal(stored[f"id{n}"].hashes, episode(n).hashes)
        assert np.array_equal(stored[f"id{n}"].times, episode(n).times)


def test_a_damaged_store_is_named_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "series.h5"
    add_episode(path, "a", episode(100))
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(StoreError, match=r"series\.h5: .*remove it; the videos are read again"):
        read_episodes(path)
