"""Feature stores: the encoding of every shot by one frozen encoder, in one HDF5 file.

Layout (schema ``bassl.features``, version 1), for V videos with T shots in all:

====================  ===================  ===================================================================
``features``          (T, D_e) float       float16 or float32, contiguous in the file
``videos/id``         (V,) string          sorted
``videos/first_row``  (V + 1,) int64       row of each video's first shot; the last is T
``videos/crc32``      (V,) uint32          checksum of each video's features
``encoder``           attribute            what made them
====================  ===================  ===================================================================
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import StoreError
from pipelines.stores.hdf5 import create_store, open_store, read_array, read_strings
from pipelines.stores.index import fixed_length

SCHEMA = "bassl.features"
VERSION = 1
_REMEDY = "make it again"


def write_features(path: Path, encoder: str, videos: Mapping[str, NDArray[np.floating]]) -> None:
    """Write the features of videos, (N, D_e) each, all of one dtype and D_e.

    Raises:
        BasslError: where the path cannot be written, the videos' features do not fit together or are not all finite.
    """
    names = sorted(videos)
    parts = [np.ascontiguousarray(videos[name]) for name in names]
    kinds = {(part.shape[1:], str(part.dtype)) for part in parts}
    if len(kinds) != 1:
        listed = " and ".join(f"{' x '.join(map(str, shape))} {dtype}" for shape, dtype in sorted(kinds)) or "none"
        raise StoreError(f"{path}: features of different kinds cannot be one store: {listed}")
    for name, part in zip(names, parts, strict=True):
        if part.ndim != 2 or part.size == 0 or part.dtype.kind != "f":
            raise StoreError(f"{path}: features of {name} are not (N, D_e) numbers: {part.shape} {part.dtype}")
        if not np.isfinite(part).all():
            raise StoreError(f"{path}: features of {name} are not all finite")
    with create_store(path, SCHEMA, VERSION, {"features"}) as file:
        file.attrs["encoder"] = encoder
        file["videos/id"] = fixed_length(names, path)
        first_row = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).astype(np.int64)
        file["videos/first_row"] = first_row
        file["videos/crc32"] = np.array([zlib.crc32(part.data) for part in parts], np.uint32)
        data = file.create_dataset("features", (int(first_row[-1]), parts[0].shape[1]), parts[0].dtype)
        for part, start, end in zip(parts, first_row[:-1], first_row[1:], strict=True):
            data[start:end] = part


def read_features(path: Path) -> tuple[str, dict[str, NDArray[np.floating]]]:
    """The encoder and the features of each video.

    Raises:
        StoreError: one line, for a file that is missing, damaged, contradictory or not a feature store.
    """
    with open_store(path, SCHEMA, VERSION, _REMEDY) as file:
        encoder = file.attrs["encoder"]
        names = read_strings(file, "videos/id")
        first_row = read_array(file, "videos/first_row", "i", 1)
        checksums = read_array(file, "videos/crc32", "u", 1)
        features = read_array(file, "features", "f", 2)
        if not isinstance(encoder, str):
            raise StoreError(f"{path}: is damaged: its encoder has no name; {_REMEDY}")
    rows_fit = len(first_row) == len(names) + 1 and first_row[0] == 0 and first_row[-1] == len(features)
    if not names or len(set(names)) != len(names) or not rows_fit or np.any(np.diff(first_row) <= 0):
        raise StoreError(f"{path}: is damaged: its rows do not fit its videos; {_REMEDY}")
    spans = zip(names, first_row[:-1], first_row[1:], strict=True)
    videos = {name: features[start:end] for name, start, end in spans}
    if [zlib.crc32(part.data) for part in videos.values()] != checksums.tolist():
        raise StoreError(f"{path}: is damaged: its features do not fit their checksums; {_REMEDY}")
    if not np.isfinite(features).all():
        raise StoreError(f"{path}: is damaged: it holds values that are not finite; {_REMEDY}")
    return encoder, videos
