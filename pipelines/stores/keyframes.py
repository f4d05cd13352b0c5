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

and, if the shot detector says how shots end, ``transitions/kind`` (N,) bytes, empty if unknown,
``transitions/frames`` (N, 2) int64 and ``transitions/seconds`` (N, 2) float64, half-open ranges.

Because ``jpeg`` is contiguous, the keyframes of a window are one byte range of the file, and a loader reads them with
one ``pread``, without HDF5 (:class:`pipelines.datasets.keyframe_reader.KeyframeReader`).
"""

from __future__ import annotations

import json
import tempfile
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from pipelines.errors import StoreError
from pipelines.files import make_folder, os_errors
from pipelines.scenes import TRANSITIONS, Transition, VideoFacts, entry
from pipelines.stores.hdf5 import (
    DamageError,
    data_set,
    open_store,
    read_array,
    read_json_attribute,
    read_strings,
    write_store,
)

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
    transitions: tuple[Transition | None, ...]  # N, how each shot ends; None if unknown


@dataclass(frozen=True)
class StoredShot:
    """Shot to be stored: half-open ranges, the frame numbers of its keyframes, these as JPEG, and how it ends."""

    frames: tuple[int, int]
    seconds: tuple[float, float]
    keyframes: tuple[int, ...]
    jpegs: tuple[bytes, ...]
    transition: Transition | None = None


def write_keyframes(
    path: Path,
    shots: Iterable[StoredShot],
    describe: Callable[[], tuple[VideoFacts, Mapping[str, Any]]],
    settings: Mapping[str, Any],
) -> int:
    """Write a store from an iterable of shots in order of time; return how many there were. Memory does not grow with
    the size of the JPEGs. ``describe`` is called after the last shot and returns the facts about the video and the
    description of its file. Raises BasslError if the path cannot be written, and what ``shots`` and ``describe`` raise.
    """
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
        if any(shot.transition for shot in stored):
            ends = [shot.transition or Transition("", 0, 0, 0.0, 0.0) for shot in stored]
            arrays |= {
                "transitions/kind": np.array([end.kind for end in ends], "S"),
                "transitions/frames": np.array([(end.start_frame, end.end_frame) for end in ends], np.int64),
                "transitions/seconds": np.array([(end.start, end.end) for end in ends], np.float64),
            }
        texts = {"video": entry(facts), "source": dict(source), "settings": dict(settings)}
        attributes = {name: json.dumps(value) for name, value in texts.items()}
        write_store(path, SCHEMA, VERSION, attributes=attributes, arrays=arrays, appended=("jpeg", jpegs))
    return len(stored)


def read_keyframes(path: Path) -> KeyframeStore:
    """Read a store and check that its content is consistent. Raises StoreError for a file that is missing, damaged,
    inconsistent or not a keyframe store."""
    with open_store(path, SCHEMA, VERSION, remedy=_REMEDY, missing=_MISSING) as file:
        frames = read_array(file, "shots/frames", np.int64, 2)
        jpeg = data_set(file, "jpeg")
        start = jpeg.id.get_offset()
        if start is None or jpeg.dtype != np.uint8 or jpeg.chunks is not None:
            raise DamageError("its keyframes are not contiguous")
        store = KeyframeStore(
            path=path,
            frames=frames,
            seconds=read_array(file, "shots/seconds", np.float64, 2),
            keyframes=read_array(file, "shots/keyframes", np.int64, 2),
            jpeg_offsets=read_array(file, "jpeg_offsets", np.int64, 1) + start,
            jpeg_crc32=read_array(file, "jpeg_crc32", np.uint32, 1),
            video=VideoFacts(**read_json_attribute(file, "video")),
            source=read_json_attribute(file, "source"),
            settings=read_json_attribute(file, "settings"),
            transitions=_read_transitions(file, len(frames)),
        )
        if (fault := _fault(store, start, jpeg.shape[0])) is not None:
            raise DamageError(fault)
    return store


def read_keyframe_jpegs(store: KeyframeStore, position: int) -> list[bytes]:
    """Read the keyframe at ``position`` (0 to N_k - 1) of each shot, as it is stored. Raises StoreError if the file
    has changed since it was opened, or a keyframe is damaged."""
    count = store.keyframes.shape[1]
    jpegs = []
    with os_errors(store.path, kind=StoreError), store.path.open("rb") as file:
        for image in range(position, store.keyframes.size, count):
            file.seek(int(store.jpeg_offsets[image]))
            jpegs.append(file.read(int(store.jpeg_offsets[image + 1] - store.jpeg_offsets[image])))
            if zlib.crc32(jpegs[-1]) != store.jpeg_crc32[image]:
                raise StoreError(f"{store.path}: is damaged: a keyframe of shot {image // count}; {_REMEDY}")
    return jpegs


def _read_transitions(file: h5py.File, shots: int) -> tuple[Transition | None, ...]:
    if "transitions" not in file:
        return (None,) * shots
    kinds = read_strings(file, "transitions/kind")
    frames = read_array(file, "transitions/frames", np.int64, 2).tolist()
    seconds = read_array(file, "transitions/seconds", np.float64, 2).tolist()
    if not {*kinds} <= {"", *TRANSITIONS}:
        raise DamageError("its shots end in transitions of unknown kinds")
    ends = tuple(Transition(k, *f, *s) if k else None for k, f, s in zip(kinds, frames, seconds, strict=True))
    if len(ends) != shots:
        raise DamageError(f"it has {len(ends)} transitions for {shots} shots")
    return ends


def _fault(store: KeyframeStore, start: int, size: int) -> str | None:
    shots = len(store.frames)
    if shots == 0 or store.frames.shape != (shots, 2) or store.seconds.shape != (shots, 2):
        return "its shots are not N ranges"
    if len(store.keyframes) != shots or store.keyframes.shape[1] < 1:
        return f"it has keyframes for {len(store.keyframes)} of {shots} shots"
    if len(store.jpeg_offsets) != store.keyframes.size + 1 or len(store.jpeg_crc32) != store.keyframes.size:
        return f"it has {len(store.jpeg_offsets) - 1} images for {store.keyframes.size} keyframes"
    offsets = store.jpeg_offsets
    if offsets[0] != start or offsets[-1] != start + size or np.any(np.diff(offsets) <= 0):
        return "the positions of its images are not in order"
    starts, ends = store.frames.T
    if np.any(ends <= starts) or np.any(starts[1:] < ends[:-1]) or starts[0] < 0:
        return "its shots are empty, out of order or overlap"
    if not np.all(np.isfinite(store.seconds)) or np.any(store.seconds[:, 1] <= store.seconds[:, 0]):
        return "its shots have no length in seconds"
    if np.any(np.diff(store.seconds, axis=0) <= 0) or np.any(store.seconds[1:, 0] < store.seconds[:-1, 1] - 1e-6):
        return "its shots overlap in time"
    if np.any(store.keyframes < starts[:, None]) or np.any(store.keyframes >= ends[:, None]):
        return "a keyframe lies outside its shot"
    video, source = store.video, store.source
    numbers = (video.width, video.height, video.frames, video.duration, video.frame_rate)
    if not all(isinstance(number, int | float) and 0 < number < float("inf") for number in numbers):
        return "the facts about its video are not numbers"
    if not isinstance(source.get("bytes"), int) or not isinstance(source.get("name"), str):
        return "its source file is not described"
    if store.frames[-1, 1] > video.frames:
        return f"its shots end at frame {store.frames[-1, 1]} of a video of {video.frames}"
    if store.settings.get("keyframes") != store.keyframes.shape[1]:
        return f"it has {store.keyframes.shape[1]} keyframes per shot, unlike its settings"
    return None
