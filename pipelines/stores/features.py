"""Feature stores: the encoding of every shot by one frozen encoder, in one HDF5 file.

Layout (schema ``bassl.features``, version 1), for V videos with T shots in all:

====================  ===================  ===================================================================
``features``          (T, D_e) float       float16 or float32, contiguous in the file
``videos/id``         (V,) string          sorted
``videos/first_row``  (V + 1,) int64       row of each video's first shot; the last is T
``videos/crc32``      (V,) uint32          checksum of each video's features
``colour``            (T, 180) float32     hue histogram of each shot's middle keyframe, sum 1
                                           (:mod:`pipelines.models.colour`); 0 for videos whose colour is not known;
                                           not in stores without colour
``videos/colour``     (V,) uint32          checksum of each video's colour; where there is ``colour``
``videos/shots``      (V,) uint32          checksum of the shots and keyframes that were encoded; only where
                                           :mod:`pipelines.stages.encode` made the store
``encoder``           attribute            what made them
====================  ===================  ===================================================================
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from pipelines.errors import StoreError
from pipelines.stores.hdf5 import create_store, open_store, read_array, read_strings
from pipelines.stores.index import Index, fixed_length

SCHEMA = "bassl.features"
VERSION = 1
_MISSING = "make it with `bassl encode` (sound: `bassl extract-sound`; .npz features: `bassl build-index`)"
_REMEDY = f"delete it, and {_MISSING}"


@dataclass(frozen=True, eq=False)
class FeatureStore:
    """An open feature store."""

    path: Path
    encoder: str  # what made the features
    videos: Mapping[str, NDArray[np.floating]]  # of each video its features (N, D_e), views of ``features``
    shots: Mapping[str, int]  # of each video the checksum of what was encoded; empty where the store does not say
    features: NDArray[np.floating]  # (T, D_e), mapped from the file: only what is looked at takes memory
    colour: Mapping[str, NDArray[np.float32]]  # of each video whose colour is known its hue histograms (N, 180)


def write_features(
    path: Path,
    encoder: str,
    videos: Mapping[str, NDArray[np.floating]],
    shots: Mapping[str, int] | None = None,
    colour: Mapping[str, NDArray[np.float32]] | None = None,
) -> None:
    """Write the features of videos, (N, D_e) each, all of one dtype and D_e.

    Each value of ``videos`` is read twice, one at a time, so that it need not hold them all. ``shots`` has the
    checksum of each video's encoded shots where it is known, ``colour`` hue histograms (N, H), all of one H, of the
    videos for which they are known. Raises BasslError where the path cannot be written, or the videos' features or
    colour do not fit together or are not all finite; ValueError for colour of another number of shots than the
    features.
    """
    names = sorted(videos)
    lengths, checksums = [], []
    kinds: set[tuple[tuple[int, ...], str]] = set()
    for name in names:
        part = np.ascontiguousarray(videos[name])
        kinds.add((part.shape[1:], str(part.dtype)))
        if len(kinds) > 1:
            break
        if part.ndim != 2 or part.size == 0 or part.dtype.kind != "f":
            raise StoreError(f"{path}: features of {name} are not (N, D_e) numbers: {part.shape} {part.dtype}")
        if not np.isfinite(part).all():
            raise StoreError(f"{path}: features of {name} are not all finite")
        lengths.append(len(part))
        checksums.append(zlib.crc32(part.data))
    if len(kinds) != 1:
        listed = " and ".join(f"{' x '.join(map(str, shape))} {dtype}" for shape, dtype in sorted(kinds)) or "none"
        raise StoreError(f"{path}: features of different kinds cannot be one store: {listed}")
    ((width,), dtype) = kinds.pop()
    colour = colour or {}
    widths = {part.shape[1] for part in colour.values()}
    if len(widths) > 1:
        raise StoreError(f"{path}: colour of different widths cannot be one store: {sorted(widths)}")
    hues = []
    if colour:
        (bins,) = widths
        for name, length in zip(names, lengths, strict=True):
            hue = colour.get(name, np.zeros((length, bins)))  # 0 where it is not known
            if len(hue) != length:
                raise ValueError("colour of another number of shots than the features")
            hues.append(np.ascontiguousarray(hue, dtype=np.float32))
    # Unsealed, because the checksums of the videos cover them: a large store is read once when it is opened, not twice.
    with create_store(path, SCHEMA, VERSION, {"features"}) as file:
        file.attrs["encoder"] = encoder
        file["videos/id"] = fixed_length(names, path)
        first_row = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        file["videos/first_row"] = first_row
        file["videos/crc32"] = np.array(checksums, np.uint32)
        if shots is not None:
            file["videos/shots"] = np.array([shots[name] for name in names], np.uint32)
        if hues:
            file["colour"] = np.concatenate(hues)
            file["videos/colour"] = np.array([zlib.crc32(part.data) for part in hues], np.uint32)
        data = file.create_dataset("features", (int(first_row[-1]), width), dtype)
        for name, start, end in zip(names, first_row[:-1], first_row[1:], strict=True):
            data[start:end] = videos[name]


def open_features(path: Path) -> FeatureStore:
    """Open a store and check all of it. Raises StoreError for a file that is missing, damaged, contradictory or not a
    feature store."""
    with open_store(path, SCHEMA, VERSION, _REMEDY, _MISSING) as file:
        encoder = file.attrs["encoder"]
        names = read_strings(file, "videos/id")
        first_row = read_array(file, "videos/first_row", "i", 1)
        checksums = read_array(file, "videos/crc32", "u", 1)
        shots = read_array(file, "videos/shots", "u", 1) if "videos/shots" in file else None
        features = _map_features(path, file)
        colour = _read_colour(file, names, first_row)
        if not isinstance(encoder, str):
            raise StoreError(f"{path}: is damaged: its encoder has no name; {_REMEDY}")
    rows_fit = len(first_row) == len(names) + 1 and first_row[0] == 0 and first_row[-1] == len(features)
    rows_fit &= shots is None or len(shots) == len(names)
    if not names or len(set(names)) != len(names) or not rows_fit or np.any(np.diff(first_row) <= 0):
        raise StoreError(f"{path}: is damaged: its rows do not fit its videos; {_REMEDY}")
    spans = zip(names, first_row[:-1], first_row[1:], strict=True)
    videos = {name: features[start:end] for name, start, end in spans}
    if [zlib.crc32(part.data) for part in videos.values()] != checksums.tolist():
        raise StoreError(f"{path}: is damaged: its features do not fit their checksums; {_REMEDY}")
    if not all(np.isfinite(part).all() for part in videos.values()):
        raise StoreError(f"{path}: is damaged: it holds values that are not finite; {_REMEDY}")
    encoded = {} if shots is None else dict(zip(names, shots.tolist(), strict=True))
    return FeatureStore(path, encoder, videos, encoded, features, colour)


def _read_colour(file: h5py.File, names: Sequence[str], first_row: NDArray[Any]) -> dict[str, NDArray[np.float32]]:
    """Hue histograms of the videos whose colour a store has."""
    if "colour" not in file:
        return {}
    colour = read_array(file, "colour", "f", 2).astype(np.float32, copy=False)
    checksums = read_array(file, "videos/colour", "u", 1)
    if len(colour) != first_row[-1] or len(first_row) != len(names) + 1:
        raise StoreError(f"{file.filename}: is damaged: its colour does not fit its videos; {_REMEDY}")
    parts = [colour[start:end] for start, end in itertools.pairwise(first_row)]
    if [zlib.crc32(part.data) for part in parts] != checksums.tolist():
        raise StoreError(f"{file.filename}: is damaged: its colour does not fit its checksums; {_REMEDY}")
    return {name: part for name, part in zip(names, parts, strict=True) if part.any()}


def colour_of(index: Index, stores: Sequence[Path]) -> NDArray[np.float32] | None:
    """Hue histograms (T, H) in the rows of an index, 0 where they are not known; None where none is. The stores are
    those of `features_of`, which has checked that they fit the index. Raises StoreError for a damaged store."""
    known: dict[str, NDArray[np.float32]] = {}
    for store in stores:
        with open_store(store, SCHEMA, VERSION, _REMEDY, _MISSING) as file:
            found = _read_colour(file, read_strings(file, "videos/id"), read_array(file, "videos/first_row", "i", 1))
        known |= {name: part for name, part in found.items() if name in index.video_ids}
    widths = {part.shape[1] for part in known.values()}
    if len(widths) != 1:
        if widths:
            raise StoreError(f"{', '.join(map(str, stores))}: colour of different widths; encode all videos again")
        return None
    colour = np.zeros((int(index.first_row[-1]), widths.pop()), np.float32)
    for video, name in enumerate(index.video_ids):
        if name in known and len(known[name]) == len(colour[index.span(video)]):
            colour[index.span(video)] = known[name]
    return colour


def read_shot_checksums(path: Path) -> dict[str, int | None]:
    """Checksum of the encoded shots of each video in a store, None where the store has none; reads no features. Raises
    StoreError for a file that is missing, damaged or not a feature store."""
    with open_store(path, SCHEMA, VERSION, _REMEDY, _MISSING) as file:
        names = read_strings(file, "videos/id")
        if "videos/shots" not in file:
            return dict.fromkeys(names)
        return dict(zip(names, read_array(file, "videos/shots", "u", 1).tolist(), strict=True))


def shot_checksums(index: Index) -> dict[str, int]:
    """Checksum of the shots and keyframes of each video in an index, by which features of others are recognised. For
    JPEG files, which have no checksum in an index, of the shots alone."""
    checksums = {}
    for video, name in enumerate(index.video_ids):
        span = index.span(video)
        # Without keyframes only sound is encoded, which depends on the times of the shots.
        shown = index.seconds if index.keyframe_sources[video] is None else index.jpeg_crc32
        frames = zlib.crc32(np.ascontiguousarray(index.frames[span]).data)
        checksums[name] = zlib.crc32(np.ascontiguousarray(shown[span]).data, frames)
    return checksums


def _map_features(path: Path, file: h5py.File) -> NDArray[np.floating]:
    """The features, memory-mapped where they are contiguous in the file."""
    data = file.get("features")
    start = data.id.get_offset() if isinstance(data, h5py.Dataset) and data.chunks is None else None
    if start is None or data.ndim != 2 or data.dtype.kind != "f" or data.size == 0:
        return read_array(file, "features", "f", 2)
    # Copy on write: PyTorch warns about read-only arrays, and the file must not change.
    return np.memmap(path, data.dtype, "c", start, data.shape)


def features_of(
    index: Index, stores: Sequence[Path], used: Sequence[int] | None = None
) -> tuple[str, NDArray[np.float32]]:
    """The encoder, and the features (T, D_e) of feature stores in the rows of an index; rows of videos other than
    ``used`` (None: all) mean nothing. Features of one store that has exactly the videos of the index are memory-mapped.
    Raises StoreError where a used video is in no store, or with other shots or keyframes, or where the stores' features
    have different widths."""
    opened = [open_features(path) for path in stores]
    encoders = list(dict.fromkeys(store.encoder for store in opened))
    videos: dict[str, NDArray[np.floating]] = {}
    encoded: dict[str, int] = {}
    for store in opened:
        videos |= store.videos
        encoded = {name: crc for name, crc in encoded.items() if name not in store.videos} | dict(store.shots)
    expected = shot_checksums(index)
    named = ", ".join(map(str, stores))
    lengths = np.diff(index.first_row).tolist()
    used = range(len(lengths)) if used is None else used
    for video in used:
        video_id, length, source = index.video_ids[video], lengths[video], index.keyframe_sources[video]
        if video_id not in videos:
            missing = f"has no features of {video_id}, which is in {index.path}"
            raise StoreError(f"{named}: {missing}; name its store too, or add them with `bassl encode`")
        if len(videos[video_id]) != length:
            shots = f"has {len(videos[video_id])} shots of {video_id} where {index.path} has {length}"
            raise StoreError(f"{named}: {shots}; build both together")
        # Without keyframes, an index does not know which were encoded.
        if source is not None and encoded.get(video_id, expected[video_id]) != expected[video_id]:
            other = f"its features of {video_id} are of other shots or keyframes than {index.path} has"
            raise StoreError(f"{named}: {other}; encode them again")
    same = tuple(videos) == index.video_ids and [len(part) for part in videos.values()] == lengths
    if len(opened) == 1 and same and opened[0].features.dtype == np.float32:
        return encoders[0], opened[0].features
    widths = {videos[index.video_ids[video]].shape[1] for video in used}
    if len(widths) != 1:
        raise StoreError(f"{named}: features of different widths cannot be mixed; name stores of one encoder")
    features = np.zeros((sum(lengths), widths.pop()), np.float32)
    for video in used:
        features[index.span(video)] = videos[index.video_ids[video]]
    return " + ".join(encoders), features
