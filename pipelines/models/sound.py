"""Sound beside content: the input of a model that was fine-tuned with a store of sound."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import StoreError
from pipelines.stores.features import ShotRows, feature_file, is_current, open_features, shots_checksum
from pipelines.stores.index import Index
from pipelines.video.sound import FLOOR, SOUND, WIDTH, has_sound, shot_sounds

Floats = NDArray[np.floating[Any]]


def with_sound(features: Floats, sounds: Floats) -> NDArray[np.float32]:
    """Return content of shots (..., D_e) beside their sound (..., WIDTH) from `pipelines.video.sound.shot_sounds`,
    (..., D_e + WIDTH): in units of the logarithm of the dynamic range, so that silence is 0 and full scale about 1."""
    silence = np.float32(np.log(FLOOR))
    scaled = np.abs(sounds - np.repeat(np.array([silence, 0.0], np.float32), WIDTH // 2)) / -silence
    return np.concatenate([features, scaled], axis=-1).astype(np.float32, copy=False)


def silent(shots: int) -> NDArray[np.float32]:
    """Return the sound of shots of a video without any, (N, WIDTH)."""
    return np.tile(np.repeat(np.array([np.log(FLOOR), 0.0], np.float32), WIDTH // 2), (shots, 1))


def add_sound(features: Floats, video: Path, times: NDArray[np.float64]) -> tuple[NDArray[np.float32], list[str]]:
    """Return content of a video's shots (N, D_e) beside their sound, and warnings if that is damaged or missing;
    ``times`` (N, 2) are starts and ends in seconds."""
    warnings: list[str] = []
    if has_sound(video):
        sounds = shot_sounds(video, times, warn=warnings.append)
    else:
        sounds = silent(len(times))
        warnings.append(f"{video}: has no sound, which its model reads; its shots count as silent")
    return with_sound(features, sounds), warnings


class RowsWithSound(ShotRows):
    """Content of shots beside their sound, joined when they are read."""

    def __init__(self, content: ShotRows, sounds: ShotRows) -> None:
        super().__init__(content.first_row, content.videos)
        self.content, self.sounds = content, sounds
        self.dtype, self.width = np.dtype(np.float32), content.width + sounds.width

    def __getitem__(self, rows: slice | NDArray[np.int64]) -> NDArray[np.float32]:
        return with_sound(self.content[rows], self.sounds[rows])


def stored_sound(index: Index, store: Path, videos: Sequence[int]) -> tuple[ShotRows, list[str]]:
    """Return the sound of some videos of an index, (T, WIDTH), and the ids of the videos that the store does not have,
    which count as silent. Raises StoreError for a store that is missing or damaged, is not of sound, or is of other
    shots."""
    if not store.is_dir():
        raise StoreError(f"{store}: no such folder of sound; run `bassl extract-sound`, or name one with `sound`")
    missing: list[str] = []
    sounds: dict[int, Floats] = {}
    for video in videos:
        name, span = index.video_ids[video], index.span(video)
        path = feature_file(store, name)
        if not path.exists():
            missing.append(name)
            sounds[video] = np.broadcast_to(silent(1), (span.stop - span.start, WIDTH))
            continue
        same = is_current(path, SOUND, shots_checksum(index, video))
        sounds[video] = open_features(path).features
        if not same or len(sounds[video]) != span.stop - span.start:
            raise StoreError(f"{path}: its sound is of other shots than {index.path} has; extract it again")
    return ShotRows(index.first_row, sounds), missing


def missing_note(store: Path, missing: Sequence[str], videos: int) -> str:
    """Return a line on the videos that a store of sound does not have."""
    return (
        f"{len(missing)} of {videos} videos have no sound in {store} and count as silent: {', '.join(missing[:3])}"
        + (", ..." if len(missing) > 3 else "")
    )
