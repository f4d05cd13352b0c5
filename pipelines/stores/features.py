"""Feature stores: a folder with one HDF5 file per video, the encodings of its shots by one frozen encoder.

Layout of a file (schema ``bassl.features``, version 2), for a video of N shots:

===============  =================  ===========================================================================
``features``     (N, D_e) float     float16 or float32, contiguous in the file
``color``        (N, 180) float32   hue histogram of each shot's middle keyframe, contiguous; absent if unknown
``encoder``      attribute          id of the encoder
``video_id``     attribute          id of the video, which may differ from the name of the file
``crc32``        attribute          checksum of ``features``
``color_crc32``  attribute          checksum of ``color``
``shots``        attribute          checksum of the shots and keyframes that were encoded; absent if unknown
===============  =================  ===========================================================================
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import StoreError
from pipelines.stores import DamageError, map_array, open_store, read_text_attribute, write_store
from pipelines.stores.index import JOINED, Index
from pipelines.video.inputs import safe_id

SCHEMA = "bassl.features"
VERSION = 2
_MISSING = "make it with `bassl encode` (sound: `bassl extract-sound`; .npz features: `bassl build-index`)"
_REMEDY = f"delete it, and {_MISSING}"


@dataclass(frozen=True, eq=False)
class VideoFeatures:
    """Features of one video; arrays are mapped from the file, so that only what is read takes memory."""

    video_id: str
    encoder: str
    shots: int | None  # checksum of the shots that were encoded; None if unknown
    features: NDArray[np.floating[Any]]  # (N, D_e)
    color: NDArray[np.float32] | None  # (N, H) hue histograms; None if unknown


def feature_file(store: Path, video_id: str) -> Path:
    """Return the file of a video in a feature store: named by its id, with a digest for an id such as ``bbc/01``."""
    name = safe_id(video_id)
    if name != video_id:
        name += f"-{hashlib.sha256(video_id.encode()).hexdigest()[:12]}"
    return store / f"{name}.h5"


def write_features(
    store: Path,
    encoder: str,
    video_id: str,
    features: NDArray[np.floating[Any]],
    *,
    shots: int | None = None,
    color: NDArray[np.float32] | None = None,
) -> Path:
    """Write the features (N, D_e) and hue histograms (N, H) of a video; return the file. Raises BasslError for a path
    that cannot be written and for features that are not all finite."""
    path = feature_file(store, video_id)
    features = np.ascontiguousarray(features)
    if not np.isfinite(features).all():
        raise StoreError(f"{path}: features of {video_id} are not all finite")
    arrays = {"features": features}
    attributes = {"encoder": encoder, "video_id": video_id, "crc32": np.uint32(zlib.crc32(features.data))}
    if shots is not None:
        attributes["shots"] = np.uint32(shots)
    if color is not None:
        arrays["color"] = np.ascontiguousarray(color, np.float32)
        attributes["color_crc32"] = np.uint32(zlib.crc32(arrays["color"].data))
    write_store(path, SCHEMA, VERSION, attributes=attributes, arrays=arrays, mapped=arrays)
    return path


def open_features(path: Path, verify: bool = True) -> VideoFeatures:
    """Open the file of a video; ``verify`` its checksums. Raises StoreError as `open_store`."""
    with open_store(path, SCHEMA, VERSION, remedy=_REMEDY, missing=_MISSING) as file:
        shots, crc32, color_crc32 = (file.attrs.get(name) for name in ("shots", "crc32", "color_crc32"))
        features = map_array(path, file, "features")
        color = map_array(path, file, "color") if "color" in file else None
        if verify:
            if zlib.crc32(features.data) != crc32:
                raise DamageError("its features do not fit their checksum")
            if color is not None and zlib.crc32(color.data) != color_crc32:
                raise DamageError("its color does not fit its checksum")
        return VideoFeatures(
            video_id=read_text_attribute(file, "video_id"),
            encoder=read_text_attribute(file, "encoder"),
            shots=None if shots is None else int(shots),
            features=features,
            color=color,
        )


def is_current(path: Path, encoder: str, shots: int) -> bool:
    """Return whether the file of a video exists with features for these shots, or for unknown ones. Raises
    StoreError for a file that is damaged or of another encoder."""
    if not path.exists():
        return False
    video = open_features(path, verify=False)
    if video.encoder != encoder:
        fault = f"has features of {video.encoder}, not of {encoder}"
        raise StoreError(f"{path}: {fault}; name another folder, or delete this file")
    return video.shots in (None, shots)


def shots_checksum(index: Index, video: int) -> int:
    """Return a checksum of a video's shots and keyframes (of JPEG files: of its shots) in an index."""
    span = index.span(video)
    # Without keyframes only sound is encoded, which depends on the times of the shots.
    content = index.seconds if index.keyframe_sources[video] is None else index.jpeg_crc32
    return zlib.crc32(content[span].tobytes(), zlib.crc32(index.frames[span].tobytes()))


class ShotRows:
    """Values (T, D) of the shots of an index, in one array (N, D) per video, by its number in the index, in the stored
    type. ``rows[start:end]``, within one video, is a view; ``rows[numbers]``, of row numbers (...), a copy (..., D)."""

    def __init__(self, first_row: NDArray[np.int64], videos: Mapping[int, NDArray[np.floating[Any]]]) -> None:
        self.first_row, self.videos = first_row, videos
        self.dtype = np.result_type(*(values.dtype for values in videos.values()))
        self.width: int = next(iter(videos.values())).shape[1]

    def __len__(self) -> int:
        return int(self.first_row[-1])

    def __getitem__(self, rows: slice | NDArray[np.int64]) -> NDArray[np.floating[Any]]:
        if isinstance(rows, slice):
            video = int(np.searchsorted(self.first_row, rows.start, "right")) - 1
            first = int(self.first_row[video])
            return self.videos[video][rows.start - first : rows.stop - first]
        flat = rows.ravel()
        video_of = np.searchsorted(self.first_row, flat, "right") - 1
        local = flat - self.first_row[video_of]
        values = np.empty((len(flat), self.width), self.dtype)
        # The shots of a window are of one video and follow each other: few pieces, each copied at once.
        edges = np.flatnonzero(np.diff(video_of, prepend=-2, append=-2))
        for start, end in pairwise(edges.tolist()):
            values[start:end] = self.videos[int(video_of[start])][local[start:end]]
        return values.reshape(*rows.shape, self.width)


@dataclass(frozen=True, eq=False)
class IndexedFeatures:
    """Features of the shots of an index, mapped from their files."""

    encoder: str  # id, or several joined by " + "
    features: ShotRows  # (T, D_e)
    color: ShotRows | None  # (T, H) hue histograms, 0 where unknown; None if unknown for all


def features_of(index: Index, stores: Sequence[Path], used: Sequence[int] | None = None) -> IndexedFeatures:
    """Map the features of the ``used`` videos of an index (None: all) from feature stores; the last store that has a
    video counts. Raises StoreError for a video without features, or with features of other shots, a damaged file, and
    features of different encoders in a store, or of different widths."""
    for store in stores:
        if not store.is_dir():
            raise StoreError(f"{store}: no such folder of features; {_MISSING}")
    names = ", ".join(map(str, stores))
    encoders: dict[Path, str] = {}
    features: dict[int, NDArray[np.floating[Any]]] = {}
    color: dict[int, NDArray[np.float32]] = {}
    for number in range(len(index.video_ids)) if used is None else used:
        video_id, span = index.video_ids[number], index.span(number)
        length = span.stop - span.start
        if not (having := stores_with(stores, video_id)):
            missing = f"has no features of {video_id}, which is in {index.path}"
            raise StoreError(f"{names}: {missing}; name its store too, or add them with `bassl encode`")
        path = feature_file(having[-1], video_id)
        video = open_features(path)
        if len(video.features) != length:
            shots = f"has {len(video.features)} shots of {video_id}, but {index.path} has {length}"
            raise StoreError(f"{path}: {shots}; build both together")
        # Without keyframes, an index does not know which were encoded.
        if index.keyframe_sources[number] is not None and video.shots not in (None, shots_checksum(index, number)):
            other = f"its features of {video_id} are of other shots or keyframes than in {index.path}"
            raise StoreError(f"{path}: {other}; encode them again")
        if (first := encoders.setdefault(having[-1], video.encoder)) != video.encoder:
            raise StoreError(f"{path}: has features of {video.encoder}, but other files of its store are of {first}")
        features[number] = video.features
        if video.color is not None:
            color[number] = video.color
    for what, arrays in (("features", features), ("color", color)):
        if len({values.shape[1] for values in arrays.values()}) > 1:
            raise StoreError(f"{names}: {what} of different widths cannot be mixed; name stores of one encoder")
    for store in stores:  # its encoder counts even if none of its videos is used
        if store not in encoders and (sample := next(store.glob("*.h5"), None)) is not None:
            encoders[store] = open_features(sample, verify=False).encoder
    in_order = dict.fromkeys(encoders[store] for store in stores if store in encoders)
    hues = None
    if color:
        bins = next(iter(color.values())).shape[1]
        for number, values in features.items():
            color.setdefault(number, np.broadcast_to(np.float32(0), (len(values), bins)))
        hues = ShotRows(index.first_row, color)
    return IndexedFeatures(JOINED.join(in_order), ShotRows(index.first_row, features), hues)


def is_store(path: Path) -> bool:
    """Return whether a folder is a feature store, not a folder of stores or a run."""
    return next(path.glob("*.h5"), None) is not None


def find_features(index: Index, encoder: str, folder: Path, used: Sequence[int] | None = None) -> tuple[Path, ...]:
    """Return the feature stores of an index, for :func:`features_of`; none if they lack an encoder.

    ``encoder`` is an id, or several joined by `JOINED`. A store that the index names comes before
    ``<folder>/<encoder id>/``, which is taken only if it has all ``used`` videos (None: all) as in the index. Raises
    StoreError for a damaged file, and if two stores have the same video."""
    videos = range(len(index.video_ids)) if used is None else used
    stores = []
    for name in encoder.split(JOINED):
        store = index.features.get(name)
        if store is None or not store.exists():
            store = folder / name
            files = {video: feature_file(store, index.video_ids[video]) for video in videos}
            if not all(is_current(file, name, shots_checksum(index, video)) for video, file in files.items()):
                return ()
        stores.append(store)
    if any(len(stores_with(stores, name)) > 1 for name in index.video_ids):
        names = ", ".join(map(str, stores))
        raise StoreError(f"{index.path}: has features of several encoders; name one with `features`: {names}")
    return tuple(stores)


def stores_with(stores: Sequence[Path], video_id: str) -> list[Path]:
    """Return the feature stores that have a video."""
    return [store for store in stores if feature_file(store, video_id).exists()]
