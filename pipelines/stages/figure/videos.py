"""Shots, scene ends, features and images of the videos of an index, for figures."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

from pipelines.datasets.keyframe_reader import KeyframeReader
from pipelines.errors import BasslError, StoreError, count
from pipelines.models.encoder_loading import encoder_for
from pipelines.stores.features import features_of, find_features, having, is_store
from pipelines.stores.index import JOINED, Index

_IMAGE_WIDTH = 200  # pixels: enough for one of sixteen shots in print


def video_number(index: Index, name: str | None) -> int:
    """Return the number of a video in an index by its id; without an id, of the only video. Raises BasslError if there
    is no such video, or no id and several videos."""
    if name is None:
        if len(index.video_ids) > 1:
            names = ", ".join(index.video_ids[:5]) + (", ..." if len(index.video_ids) > 5 else "")
            videos = count(len(index.video_ids), "video")
            raise BasslError(f"{index.path}: has {videos} ({names}); choose one with `video`")
        return 0
    if name not in index.video_ids:
        near = get_close_matches(name, index.video_ids, 3)
        advice = f"did you mean {' or '.join(near)}?" if near else f"its first is {index.video_ids[0]}"
        raise BasslError(f"{index.path}: has no video {name!r}; {advice}")
    return index.video_ids.index(name)


def scene_ends(index: Index, rows: NDArray[np.int64]) -> list[int] | None:
    """Return the positions in ``rows`` of the shots that end a scene, or None without labels."""
    is_labeled = np.isin(rows, index.rows_of(labeled=True))
    if not is_labeled.any():
        return None
    ends: list[int] = np.flatnonzero(is_labeled & (index.targets(rows) == 1)).tolist()
    return ends


def store_of(index: Index, video: int, features: Path, model: str | Path | None = None) -> Path:
    """Return the store with the features of a video: ``features`` itself, or the store of the encoder (`encoder_for`),
    in the index or in the folder ``features``. Raises BasslError if there is none or more than one."""
    if is_store(features):
        return features
    encoder = encoder_for(index, model)
    name = index.video_ids[video]
    parts = encoder.split(JOINED)
    stores = having([store for part in parts for store in find_features(index, part, features, [video])], name)
    if not stores:
        raise StoreError(
            f"{index.path}: has no features of {encoder} of {name}, and neither has {features}; run `bassl encode`, or "
            "give a store with `features`"
        )
    if len(stores) > 1:
        paths = ", ".join(map(str, stores))
        raise StoreError(f"{index.path}: has features of {encoder} of {name} in {paths}; choose one with `features`")
    return stores[0]


def features_in(store: Path, index: Index, video: int) -> NDArray[np.float32]:
    """Return the features (N, D) of the shots of a video in a store."""
    return features_of(index, [store], [video]).features[index.span(video)].astype(np.float32)


def images_of(index: Index, rows: NDArray[np.int64]) -> list[NDArray[np.uint8]]:
    """Return the middle keyframes of shots of one video, small; an empty list if it has none."""
    if index.keyframe_sources[int(index.video_of(rows[:1])[0])] is None or not index.keyframes:
        return []
    reader = KeyframeReader(index)
    images = []
    middle = np.full((len(rows), 1), index.keyframes // 2)
    for row, (jpeg,) in zip(rows.tolist(), reader.read(rows, middle), strict=True):
        image = reader.decoded(row, jpeg)
        height = max(1, round(image.shape[0] * _IMAGE_WIDTH / image.shape[1]))
        small = cv2.resize(image, (_IMAGE_WIDTH, min(height, 2 * _IMAGE_WIDTH)), interpolation=cv2.INTER_AREA)
        images.append(np.asarray(small, np.uint8))
    return images
