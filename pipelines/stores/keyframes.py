"""Keyframe stores: one HDF5 file per video with its shots and their keyframes as JPEG.

Layout (schema ``bassl.keyframes``, version 2), for N shots of N_k keyframes:

==================  ==================  ==================================================================
``jpeg``            (bytes,) uint8      all keyframes, concatenated, contiguous in the file
``jpeg_offsets``    (N * N_k + 1,)      where each begins in ``jpeg``; the last is its length
``jpeg_crc32``      (N * N_k,) uint32   checksum of each
``shots/frames``    (N, 2) int64        half-open frame range of each shot
``shots/seconds``   (N, 2) float64      half-open range in seconds
``shots/keyframes`` (N, N_k) int64      frame numbers of the keyframes
attributes          JSON                ``video`` (facts), ``source`` (the video), ``settings``
==================  ==================  ==================================================================

The keyframes of a window are one byte range of the file, which `pipelines.datasets.movienet.KeyframeReader` reads.
"""

from __future__ import annotations

import json
import tempfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipelines.files import make_folder, os_errors
from pipelines.scenes import VideoFacts, entry
from pipelines.stores import DamageError, data_set, open_store, read_array, read_json_attribute, write_store

SCHEMA = "bassl.keyframes"
VERSION = 2
_REMEDY = "run `bassl extract-keyframes` with `overwrite=True` on its video"
_MISSING = "run `bassl extract-keyframes` on its video"


@dataclass(frozen=True)
class KeyframeStore:
    """Content of a store, without the JPEGs."""

    path: Path
    frames: NDArray[np.int64]  # (N, 2) half-open ranges of the shots, as ``seconds``
    seconds: NDArray[np.float64]
    keyframes: NDArray[np.int64]  # (N, N_k) frame numbers
    # (N * N_k + 1,) positions in the *file* at which the JPEGs begin and the last one ends
    jpeg_offsets: NDArray[np.int64]
    jpeg_crc32: NDArray[np.uint32]  # (N * N_k,) CRC-32 of each JPEG
    video: VideoFacts  # size, length and frame rate of the video
    source: Mapping[str, Any]  # ``name``, ``bytes`` and ``fingerprint`` of the video
    settings: Mapping[str, Any]  # with which the store was made


@dataclass(frozen=True)
class StoredShot:
    """Shot to be stored: half-open ranges, the frame numbers of its keyframes, and these as JPEG."""

    frames: tuple[int, int]
    seconds: tuple[float, float]
    keyframes: tuple[int, ...]
    jpegs: tuple[bytes, ...]


def write_keyframes(
    path: Path,
    shots: Iterable[StoredShot],
    describe: Callable[[], tuple[VideoFacts, Mapping[str, Any]]],
    settings: Mapping[str, Any],
) -> None:
    """Write a store from shots in order of time, whose JPEGs are never all in memory. ``describe`` returns, after the
    last one, the facts about the video and the description of its file. Raises BasslError if that fails."""
    stored: list[StoredShot] = []  # without their JPEGs
    lengths: list[int] = []
    checksums: list[int] = []
    make_folder(path.parent)
    with os_errors(path, "cannot be written"), tempfile.TemporaryFile(dir=path.parent) as jpegs:
        for shot in shots:
            stored.append(replace(shot, jpegs=()))
            for jpeg in shot.jpegs:
                lengths.append(len(jpeg))
                checksums.append(zlib.crc32(jpeg))
                jpegs.write(jpeg)
        facts, source = describe()
        arrays: dict[str, NDArray[Any]] = {
            "shots/frames": np.array([shot.frames for shot in stored], np.int64),
            "shots/seconds": np.array([shot.seconds for shot in stored], np.float64),
            "shots/keyframes": np.array([shot.keyframes for shot in stored], np.int64),
            "jpeg_offsets": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
            "jpeg_crc32": np.array(checksums, np.uint32),
        }
        texts = {"video": entry(facts), "source": dict(source), "settings": dict(settings)}
        attributes = {name: json.dumps(value) for name, value in texts.items()}
        write_store(path, SCHEMA, VERSION, attributes=attributes, arrays=arrays, appended=("jpeg", jpegs))


def read_keyframes(path: Path) -> KeyframeStore:
    """Read a store. Raises StoreError for a file that is missing, damaged or not a keyframe store."""
    with open_store(path, SCHEMA, VERSION, remedy=_REMEDY, missing=_MISSING) as file:
        start = data_set(file, "jpeg").id.get_offset()
        store = KeyframeStore(
            path=path,
            frames=read_array(file, "shots/frames", np.int64, 2),
            seconds=read_array(file, "shots/seconds", np.float64, 2),
            keyframes=read_array(file, "shots/keyframes", np.int64, 2),
            jpeg_offsets=read_array(file, "jpeg_offsets", np.int64, 1) + start,
            jpeg_crc32=read_array(file, "jpeg_crc32", np.uint32, 1),
            video=VideoFacts(**read_json_attribute(file, "video")),
            source=read_json_attribute(file, "source"),
            settings=read_json_attribute(file, "settings"),
        )
        shots = {len(store.frames), len(store.seconds), len(store.keyframes)}
        images = {store.keyframes.size, len(store.jpeg_offsets) - 1, len(store.jpeg_crc32)}
        if len(shots) > 1 or len(images) > 1 or images == {0}:
            raise DamageError("its tables have different lengths")
    return store
