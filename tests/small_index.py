"""Small indexes of videos that need no files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.stores.index import Index, IndexedVideo, joined, read_index, save_index


def video(name: str = "a", shots: int = 4, **changes: Any) -> IndexedVideo:
    """A video without pictures, of shots of ten frames and one second."""
    starts = np.arange(shots)[:, None]
    made = IndexedVideo(
        video_id=name,
        source=f"{name}.txt",
        frames=10 * starts + np.array([0, 10]),
        seconds=(starts + np.array([0, 1])).astype(np.float64),
        label=np.zeros(shots, np.int8),
    )
    return replace(made, **changes)


def pictured(name: str, folder: Path, shots: int = 4, images: int = 2, **changes: Any) -> IndexedVideo:
    """A video whose keyframes are said to be in a store."""
    positions = 100 + 7 * (np.arange(shots)[:, None] * images + np.arange(images + 1))
    crc = np.arange(shots * images, dtype=np.uint32).reshape(shots, images)
    store = folder / f"{name}.h5"
    return video(name, shots, keyframe_source=store, keyframes=images, jpeg=positions, jpeg_crc32=crc, **changes)


def written(path: Path, *videos: IndexedVideo, **arguments: Any) -> Index:
    """The index of these videos, or of one, written to a file and read from it."""
    save_index(joined(path, videos or (video(),), {}, **arguments))
    return read_index(path)
