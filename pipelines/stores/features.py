"""Feature stores: the encoding of every shot by one frozen encoder, in one HDF5 file.

Layout (schema ``bassl.features``, version 1), for V videos with T shots in all:

==================  ===================  ===================================================
``features``        (T, D_e) float       float16 or float32; checksummed blocks of rows
``videos/id``       (V,) string          sorted
``videos/first_row``  (V + 1,) int64     row of each video's first shot; the last is T
``encoder``         attribute            what made them
==================  ===================  ===================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import StoreError
from pipelines.stores.hdf5 import create_store, open_store, read_array, read_strings

SCHEMA = "bassl.features"
VERSION = 1
_REMEDY = "make it again"


def write_features(path: Path, encoder: str, videos: Mapping[str, NDArray[np.floating]]) -> None:
    """Write the features of videos, (N, D_e) each, all of one dtype and D_e.

    Raises:
        BasslError: where the path cannot be written or the videos' features do not fit together.
    """
    names = sorted(videos)
    shapes = {(videos[name].shape[1], str(videos[name].dtype)) for name in names}
    if len(shapes) != 1:
        kinds = " and ".join(f"{size} x {kind}" for size, kind in sorted(shapes)) or "none"
        raise StoreError(f"{path}: features of different kinds cannot be one store: {kinds}")
    lengths = [len(videos[name]) for name in names]
    first = videos[names[0]]
    with create_store(path, SCHEMA, VERSION, {"features"}) as file:
        file.attrs["encoder"] = encoder
        encoded = [name.encode() for name in names]
        file["videos/id"] = np.array(encoded, f"S{max(1, *map(len, encoded))}")
        first_row = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        file["videos/first_row"] = first_row
        rows = max(1, min(sum(lengths), 2**20 // (first.shape[1] * first.itemsize)))
        data = file.create_dataset(
            "features",
            (sum(lengths), first.shape[1]),
            first.dtype,
            chunks=(rows, first.shape[1]),
            fletcher32=True,
        )
        for name, start, end in zip(names, first_row[:-1], first_row[1:], strict=True):
            data[start:end] = videos[name]


def read_features(path: Path) -> tuple[str, dict[str, NDArray[np.floating]]]:
    """The encoder and the features of each video.

    Raises:
        StoreError: one line, for a file that is missing, damaged, contradictory or not a feature store.
    """
    with open_store(path, SCHEMA, VERSION, _REMEDY) as file:
        encoder = str(file.attrs["encoder"])
        names = read_strings(file, "videos/id")
        first_row = read_array(file, "videos/first_row", "i", 1)
        features = read_array(file, "features", "f", 2)
    rows_fit = len(first_row) == len(names) + 1 and first_row[0] == 0 and first_row[-1] == len(features)
    if not names or len(set(names)) != len(names) or not rows_fit or np.any(np.diff(first_row) <= 0):
        raise StoreError(f"{path}: is damaged: its rows do not fit its videos; {_REMEDY}")
    if not np.isfinite(features).all():
        raise StoreError(f"{path}: is damaged: it holds values that are not finite; {_REMEDY}")
    parts = zip(names, first_row[:-1], first_row[1:], strict=True)
    return encoder, {name: features[start:end] for name, start, end in parts}
