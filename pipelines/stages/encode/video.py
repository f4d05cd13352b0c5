"""Encoding the shots of one video: its keyframes read, decoded and encoded by threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import numpy as np
from numpy.typing import NDArray

from pipelines.datasets.keyframe_reader import KeyframeReader
from pipelines.models.encoders import load_encoder
from pipelines.models.shot_encoder import ShotEncoder, encode_groups
from pipelines.stages.encode.settings import EncodeSettings
from pipelines.stores.index import Index


def open_encoder(settings: EncodeSettings, index: Index, device: str) -> ShotEncoder:
    """The encoder that the settings name, for the shots of an index."""
    return load_encoder(settings.encoder, device, index.keyframes, settings.preparation, settings.encoder_options)


def encode_video(
    index: Index, encoder: ShotEncoder, video: int, threads: int, count: Callable[[int], None]
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Features (N, D_e) and colour (N, 180) of the shots of a video; ``count`` is called for each group of shots with
    the number of those before it. Raises DatasetError or StoreError where a keyframe cannot be read."""
    rows, local = index.rows([video]), threading.local()

    def keyframes(group: NDArray[np.int64]) -> Iterator[list[NDArray[np.uint8]]]:
        if not hasattr(local, "reader"):  # one for each thread
            local.reader = KeyframeReader(index)
        images = np.tile(np.arange(index.keyframes), (len(group), 1))
        for row, jpegs in zip(group.tolist(), local.reader.read(group, images), strict=True):
            yield [local.reader.decoded(row, jpeg) for jpeg in jpegs]

    groups = np.split(rows, range(encoder.shots_at_a_time, len(rows), encoder.shots_at_a_time))
    encodings, colours = [], []
    with closing(encode_groups(encoder, groups, keyframes, threads)) as encoded:
        for group, features, colour in encoded:
            count(int(group[0] - rows[0]))
            encodings.append(features)
            colours.append(colour)
    return np.concatenate(encodings), np.concatenate(colours)
