"""Made-up videos whose scenes can be told apart by their features, with labels and splits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.stores.index import NO_LABEL, IndexedVideo, joined, read_index, save_index
from tests.small_stores import put_features

WIDTH = 16
SPLITS = {"a": "train", "b": "train", "c": "train", "d": "val", "e": "test"}


def write_labeled_videos(
    folder: Path, shots: int = 60, seed: int = 0, encoder: str = "made up", splits: dict[str, str] | None = None
) -> Path:
    """An index and a feature store, ``index.h5`` and ``features``; the last shot of a video has no label.

    Scenes have four to seven shots; the shots of a scene share a direction, and the last of them has one more that all
    last shots share, so that even a network that looks at one shot can learn.
    """
    rng = np.random.default_rng(seed)
    mark = rng.normal(size=WIDTH)
    features, videos = {}, []
    for name, split in (splits or SPLITS).items():
        lengths = rng.integers(4, 8, shots)
        end = np.zeros(shots, np.int8)
        end[np.cumsum(lengths)[np.cumsum(lengths) < shots] - 1] = 1
        scene = np.cumsum(np.append(0, end[:-1]))
        made = rng.normal(size=(shots, WIDTH))[scene] + 0.3 * rng.normal(size=(shots, WIDTH)) + 2 * end[:, None] * mark
        features[name] = made.astype(np.float32)
        label = end.copy()
        label[-1] = NO_LABEL
        frames = np.stack([np.arange(shots) * 10, np.arange(shots) * 10 + 10], axis=1)
        videos.append(IndexedVideo(name, name, frames, frames / 10, label, split))
    put_features(folder / "features", encoder, features)
    save_index(joined(folder / "index.h5", videos, {}, features={encoder: folder / "features"}))
    return folder / "index.h5"


def write_relabeled(
    source: Path, output: Path, label: NDArray[np.int8], splits: Sequence[str] | None = None, **more: Any
) -> Path:
    """The same index with other labels (T,), and other splits where they are given."""
    index = read_index(source)
    changes = {"label": label, "splits": tuple(splits or index.splits), "settings": {}, **more}
    save_index(replace(index, path=output, **changes))
    return output
