"""Sound beside content: the input of a model that was fine-tuned with sound."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import StoreError
from pipelines.stores.features import open_features, shot_checksums
from pipelines.stores.index import Index
from pipelines.video.sound import FLOOR, SOUND, WIDTH


def with_sound(features: NDArray[np.floating[Any]], sounds: NDArray[np.floating[Any]]) -> NDArray[np.float32]:
    """Content of shots (N, D_e) beside their sound (N, WIDTH) from `pipelines.video.sound.shot_sounds`, (N, D_e +
    WIDTH). Sound is scaled by the logarithm of the dynamic range, so that silence is 0 and full scale about 1."""
    silence = np.float32(np.log(FLOOR))
    scaled = np.abs(sounds - np.repeat(np.array([silence, 0.0], np.float32), WIDTH // 2)) / -silence
    return np.hstack([features, scaled]).astype(np.float32)


def silent(shots: int) -> NDArray[np.float32]:
    """The sound of shots of a video without any, (N, WIDTH)."""
    return np.tile(np.repeat(np.array([np.log(FLOOR), 0.0], np.float32), WIDTH // 2), (shots, 1))


def stored_sound(index: Index, store: Path, videos: Sequence[int]) -> tuple[NDArray[np.float32], list[str]]:
    """The sound of a store in the rows of an index, (T, WIDTH), and the ids of the videos that it does not have, which
    are silent here; rows of other videos than these mean nothing. Raises StoreError for a store that is missing or
    damaged, holds something else than sound, or sound of other shots."""
    opened = open_features(store)
    if opened.encoder != SOUND:
        raise StoreError(f"{store}: holds features of {opened.encoder}, not of sound; run `bassl extract-sound`")
    expected, sounds, missing = shot_checksums(index), silent(int(index.first_row[-1])), []
    for video in videos:
        name = index.video_ids[video]
        if name not in opened.videos:
            missing.append(name)
        elif opened.shots.get(name) != expected[name] or len(opened.videos[name]) != len(sounds[index.span(video)]):
            raise StoreError(f"{store}: its sound of {name} is of other shots than {index.path} has; extract it again")
        else:
            sounds[index.span(video)] = opened.videos[name]
    return sounds, missing


def missing_note(store: Path, missing: Sequence[str], videos: int) -> str:
    """A line on the videos that a store of sound does not have."""
    return (
        f"{len(missing)} of {videos} videos have no sound in {store} and count as silent: {', '.join(missing[:3])}"
        + (", ..." if len(missing) > 3 else "")
    )
