"""Shots, scene ends, features and images of the videos of an index, for figures."""

from __future__ import annotations

from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from pipelines.datasets.keyframe_reader import KeyframeReader
from pipelines.errors import BasslError, StoreError, count
from pipelines.models.encoders import encoder_for
from pipelines.stores.features import find_features, having, is_store
from pipelines.stores.index import JOINED, Index, read_index

_IMAGE_WIDTH = 200  # pixels: enough for one of sixteen shots in print


def select_by_id(path: Path, name: str | None) -> Index:
    """One video of an index by its id; without an id, the only video. Raises BasslError if there is no such video, or
    no id and several videos."""
    index = read_index(path)
    if name is None and len(index.video_ids) > 1:
        names = ", ".join(index.video_ids[:5]) + (", ..." if len(index.video_ids) > 5 else "")
        raise BasslError(f"{path}: has {count(len(index.video_ids), 'video')} ({names}); choose one with `video`")
    return select_video(index, 0 if name is None else named_video(index, name))


def named_video(index: Index, name: str) -> int:
    """The number of a video in an index. Raises BasslError if it is not in the index."""
    if name not in index.video_ids:
        near = get_close_matches(name, index.video_ids, 3)
        advice = f"did you mean {' or '.join(near)}?" if near else f"its first is {index.video_ids[0]}"
        raise BasslError(f"{index.path}: has no video {name!r}; {advice}")
    return index.video_ids.index(name)


def select_video(index: Index, video: int) -> Index:
    """The part of an index with one video, so that rows are its shots."""
    videos, rows = slice(video, video + 1), index.span(video)
    of_videos = ("video_ids", "splits", "sources", "keyframe_sources", "frame_rates")
    of_shots = ("frames", "seconds", "label", "jpeg", "jpeg_crc32")
    parts: dict[str, Any] = {name: getattr(index, name)[videos] for name in of_videos}
    parts |= {name: getattr(index, name)[rows] for name in of_shots}
    return replace(index, first_row=np.array([0, rows.stop - rows.start]), **parts)


def scene_ends(index: Index, rows: NDArray[np.int64]) -> list[int] | None:
    """Positions in ``rows`` of the shots that end a scene; None if none of the shots has a label."""
    is_labeled = np.isin(rows, index.rows_of(labelled=True))
    if not is_labeled.any():
        return None
    ends: list[int] = np.flatnonzero(is_labeled & (index.targets(rows) == 1)).tolist()
    return ends


def store_of(index: Index, features: Path, named: str | Path | None = None) -> Path:
    """The store with the features of the only video of an index: ``features`` itself, or the store of the encoder
    (`encoder_for`), in the index or in the folder ``features``. Raises BasslError if there is none or more than one."""
    if is_store(features):
        return features
    encoder = encoder_for(index, named)
    (name,) = index.video_ids
    stores = having([store for part in encoder.split(JOINED) for store in find_features(index, part, features)], name)
    if not stores:
        raise StoreError(
            f"{index.path}: has no features of {encoder} of {name}, and neither has {features}; run `bassl encode`, or "
            "give a store with `features`"
        )
    if len(stores) > 1:
        paths = ", ".join(map(str, stores))
        raise StoreError(f"{index.path}: has features of {encoder} of {name} in {paths}; choose one with `features`")
    return stores[0]


def images_of(index: Index, rows: NDArray[np.int64]) -> list[NDArray[np.uint8]]:
    """The middle keyframe of shots of the only video of an index, small; [] if it has none."""
    if index.keyframe_sources[0] is None or not index.keyframes:
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
