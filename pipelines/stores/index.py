"""The sequence index: one row for each shot of all videos, in one HDF5 file.

Layout (schema ``bassl.index``, version 3), for V videos, T shots, N_k keyframes per shot (0 without keyframes):

======================  =====================  ==========================================================
``videos/first_row``    (V + 1,) int64         row of each video's first shot; the last is T
``videos/texts``        (bytes,) uint8         JSON object of lists of V texts: ``id``, sorted; ``split``;
                                               ``source``, where shots and labels came from; and
                                               ``keyframes``, a keyframe store or folder of JPEG files,
                                               relative to the index, or empty
``shots/frames``        (T, 2) int32           half-open
``shots/seconds``       (T, 2) float64         half-open; NaN if the frame rate is unknown
``shots/label``         (T,) int8              1 scene end, 0 not, -1 doubtful end, -128 no label
``shots/jpeg``          (T, N_k + 1) int64     positions of its JPEGs in the store; 0 for JPEG folders
``shots/jpeg_crc32``    (T, N_k) uint32        their checksums; 0 for JPEG folders
``features``            JSON attribute         folders of feature stores by encoder, relative to the index
``keyframe_facts``      JSON attribute         settings that its keyframe stores have in common
``doubtful``            attribute              ``end`` or ``ignore``: what label -1 means in training
======================  =====================  ==========================================================
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pipelines.errors import StoreError, count
from pipelines.files import relative
from pipelines.stores import (
    DamageError,
    open_store,
    read_array,
    read_json_attribute,
    read_text_attribute,
    write_store,
)

SCHEMA = "bassl.index"
VERSION = 3
NO_LABEL = -128
JOINED = " + "  # between the encoder ids of features that come from several stores
ASSUMED_FRAME_RATE = 25.0  # if a file has none: European television's, as in most videos of BBC and OVSD
_KEYFRAME_FACTS = ("detector", "detector_threshold", "min_shot", "keyframes", "lines", "quality")
# By data set: the field of an Index, its type and its number of dimensions.
_ARRAYS: dict[str, tuple[str, Any, int]] = {
    "videos/first_row": ("first_row", np.int64, 1),
    "shots/frames": ("frames", np.int32, 2),
    "shots/seconds": ("seconds", np.float64, 2),
    "shots/label": ("label", np.int8, 1),
    "shots/jpeg": ("jpeg", np.int64, 2),
    "shots/jpeg_crc32": ("jpeg_crc32", np.uint32, 2),
}
_REMEDY = "run `bassl build-index` with `overwrite=True`"
_MISSING = "run `bassl build-index`, or name one with `index`"


@dataclass(frozen=True, eq=False)
class IndexedVideo:
    """Video of an index to write; arrays as in :class:`Index`, for its own shots only."""

    video_id: str
    source: str
    frames: NDArray[np.int64]
    seconds: NDArray[np.float64]
    label: NDArray[np.int8]
    split: str = ""
    keyframe_source: Path | None = None  # a store (``.h5``), or MovieNet's folder of JPEG files
    keyframes: int = 0
    jpeg: NDArray[np.int64] | None = None
    jpeg_crc32: NDArray[np.uint32] | None = None
    keyframe_settings: Mapping[str, Any] = field(default_factory=dict)  # of its store


@dataclass(frozen=True, repr=False, eq=False)
class Index:
    """Open index. Row r is a shot; the shots of video v are the rows ``span(v)``."""

    path: Path
    video_ids: tuple[str, ...]  # (V,), as ``splits``, ``sources`` and ``keyframe_sources``
    splits: tuple[str, ...]
    sources: tuple[str, ...]
    # of each video its keyframe store or folder of JPEG files, or None; absolute, as ``features``
    keyframe_sources: tuple[Path | None, ...]
    first_row: NDArray[np.int64]  # (V + 1,) where each video begins; the last is T
    frames: NDArray[np.int32]  # (T, 2)
    seconds: NDArray[np.float64]  # (T, 2)
    label: NDArray[np.int8]  # (T,)
    jpeg: NDArray[np.int64]  # (T, N_k + 1) positions in the store; ``jpeg_crc32`` is (T, N_k)
    jpeg_crc32: NDArray[np.uint32]
    features: Mapping[str, Path]  # feature store by encoder
    doubtful: Literal["end", "ignore"]  # what label -1 means in training
    settings: Mapping[str, Any]  # with which it was built
    # how its keyframes were made, if all are in stores that agree: ``detector``, ``lines`` and the like
    keyframe_facts: Mapping[str, Any]

    def __repr__(self) -> str:
        videos, shots = count(len(self.video_ids), "video"), count(len(self.frames), "shot")
        return f"Index({str(self.path)!r}, {videos}, {shots})"

    @property
    def keyframes(self) -> int:
        """Return N_k, 0 without keyframes."""
        return int(self.jpeg_crc32.shape[1])

    def span(self, video: int) -> slice:
        """Return the rows of a video."""
        return slice(int(self.first_row[video]), int(self.first_row[video + 1]))

    def rows(self, videos: Sequence[int]) -> NDArray[np.int64]:
        """Return the rows of some videos, one video after the other."""
        spans = map(self.span, videos)
        return np.concatenate([np.zeros(0, np.int64), *(np.arange(span.start, span.stop) for span in spans)])

    def times(self, video: int, frame_rate: float | None = None) -> NDArray[np.float64] | None:
        """Return the ranges in seconds of a video's shots (N, 2), by ``frame_rate`` if some are unknown, or None."""
        seconds = self.seconds[self.span(video)]
        if np.isfinite(seconds).all():
            return seconds
        return None if frame_rate is None else self.frames[self.span(video)] / frame_rate

    def shot_seconds(self, video: int, frame_rate: float | None = None) -> NDArray[np.float64]:
        """Return shot lengths in seconds (N,); without times, by ``frame_rate`` or `ASSUMED_FRAME_RATE`."""
        times = self.times(video, frame_rate or ASSUMED_FRAME_RATE)
        assert times is not None
        return times[:, 1] - times[:, 0]

    @property
    def is_movienet(self) -> bool:
        """Return whether these are MovieNet's videos: all are named by their number in IMDb."""
        return all(re.fullmatch(r"tt[0-9]{7,8}", video_id) for video_id in self.video_ids)

    @property
    def encoder(self) -> str:
        """Return the ids of the encoders of its features, joined; empty without features."""
        return JOINED.join(self.features)

    @property
    def shots_crc32(self) -> int:
        """Return a checksum of the shots of all videos, and their keyframes in stores."""
        return zlib.crc32(self.jpeg_crc32.tobytes(), zlib.crc32(self.frames.tobytes()))

    @cached_property
    def usable(self) -> NDArray[np.bool_]:
        """Return whether a row (T,) has a label to train and score with: not a doubtful end, if these are ignored."""
        labeled: NDArray[np.bool_] = self.label != NO_LABEL
        return labeled & (self.label != -1) if self.doubtful == "ignore" else labeled

    def video_of(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the video of each row, any shape."""
        return np.asarray(np.searchsorted(self.first_row, rows, side="right") - 1)

    def rows_of(self, splits: Sequence[str] | None = None, labeled: bool = False) -> NDArray[np.int64]:
        """Return the rows of videos of these splits (None: all); with ``labeled`` only those that are ``usable``."""
        selected = np.repeat([splits is None or split in splits for split in self.splits], np.diff(self.first_row))
        return np.flatnonzero(selected & self.usable if labeled else selected).astype(np.int64)

    def videos_of(self, splits: Sequence[str] | None = None, labeled: bool = False) -> list[int]:
        """Return the videos of :meth:`rows_of`."""
        return [int(video) for video in np.unique(self.video_of(self.rows_of(splits, labeled)))]

    def check_splits(self, splits: Iterable[str], defaults: Iterable[str] = ()) -> None:
        """Raise StoreError for a split without videos, unless it is one of the ``defaults`` of a setting."""
        for name in splits:
            if name not in self.splits and name not in defaults:
                others = ", ".join(sorted({*self.splits} - {""})) or "none"
                raise StoreError(f"{self.path}: has no split {name!r} (it has: {others})")

    def check_keyframes(self, videos: Iterable[int]) -> None:
        """Raise StoreError if one of these videos has no keyframes."""
        lacking = [self.video_ids[video] for video in videos if self.keyframe_sources[video] is None]
        if lacking:
            more = f" and {len(lacking) - 1} more" if len(lacking) > 1 else ""
            raise StoreError(
                f"{self.path}: has no keyframes of {lacking[0]}{more}; run `bassl extract-keyframes`, or leave such "
                "videos out by `bassl build-index` with `only_complete=True`, or read a feature store (`features`)"
            )

    def targets(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the labels of rows as 0 and 1 (the release reads -1 as a scene end)."""
        return np.asarray(np.abs(self.label[rows].astype(np.int64)) == 1, np.int64)


def window_rows(
    first_row: NDArray[np.int64], rows: NDArray[np.int64], neighbors: int, edge: Literal["shift", "clip"]
) -> NDArray[np.int64]:
    """Return the rows (B, 2K + 1) of the windows around the center shots ``rows`` (B,), for K ``neighbors``. At a
    video's edge, as in the paper's release, ``shift`` moves the window inside (pre-training), and ``clip`` repeats the
    first or last shot (fine-tuning, and short videos). Raises IndexError for rows that are not in the index."""
    if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < first_row[-1]:
        raise IndexError(f"rows must lie in 0 to {first_row[-1] - 1}")
    video = np.searchsorted(first_row, rows, side="right") - 1
    first, last = first_row[video], first_row[video + 1] - 1
    center = rows
    if edge == "shift":
        fits = last - first >= 2 * neighbors
        center = np.where(fits, np.clip(rows, first + neighbors, np.maximum(last - neighbors, first)), rows)
    window = center[:, None] + np.arange(-neighbors, neighbors + 1)
    return np.asarray(np.clip(window, first[:, None], last[:, None]), np.int64)


def save_index(index: Index) -> None:
    """Write an index of :func:`joined`. Raises BasslError if its path cannot be written."""
    path, home = index.path, index.path.parent
    texts = {
        "id": index.video_ids,
        "split": index.splits,
        "source": index.sources,
        "keyframes": ["" if store is None else _relative(store, home) for store in index.keyframe_sources],
    }
    arrays = {name: getattr(index, field).astype(dtype) for name, (field, dtype, _) in _ARRAYS.items()}
    # An array, as HDF5 has no checksums for long attributes and for texts of different lengths.
    arrays["videos/texts"] = np.frombuffer(json.dumps(texts).encode(), np.uint8)
    attributes = {
        "settings": json.dumps(dict(index.settings)),
        "keyframe_facts": json.dumps(dict(index.keyframe_facts)),
        "doubtful": index.doubtful,
        "features": json.dumps({name: _relative(store, home) for name, store in index.features.items()}),
    }
    write_store(path, SCHEMA, VERSION, attributes=attributes, arrays=arrays)


def joined(
    path: Path,
    videos: Sequence[IndexedVideo],
    settings: Mapping[str, Any],
    *,
    doubtful: Literal["end", "ignore"] = "end",
    features: Mapping[str, Path] = {},
) -> Index:
    """Join videos to an index, sorted by id, with feature stores by encoder; it is not yet written. Raises StoreError
    if two videos have one id or different numbers of keyframes."""
    if not videos:
        raise StoreError(f"{path}: an index needs at least one video")
    videos = sorted(videos, key=lambda video: video.video_id)
    for first, second in pairwise(videos):
        if first.video_id == second.video_id:
            raise StoreError(f"{path}: two videos have the id {first.video_id!r}: {first.source} and {second.source}")
    counts = {video.keyframes: video for video in videos if video.keyframe_source is not None}
    if len(counts) > 1:
        kinds = ", ".join(f"{images} ({counts[images].source})" for images in sorted(counts))
        raise StoreError(f"{path}: videos with different numbers of keyframes per shot cannot be mixed: {kinds}")
    images = next(iter(counts), 0)
    lengths = [len(video.frames) for video in videos]
    rows = sum(lengths)
    jpeg, crc = np.zeros((rows, images + 1), np.int64), np.zeros((rows, images), np.uint32)
    first_row = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    for video, start, end in zip(videos, first_row[:-1], first_row[1:], strict=True):
        if video.jpeg is not None and video.jpeg_crc32 is not None:
            jpeg[start:end], crc[start:end] = video.jpeg, video.jpeg_crc32
    of_stores = [video.keyframe_settings for video in videos if video.keyframe_source is not None] or [{}]
    facts = {name: of_stores[0][name] for name in _KEYFRAME_FACTS if name in of_stores[0]}
    return Index(
        path=path,
        video_ids=tuple(video.video_id for video in videos),
        splits=tuple(video.split for video in videos),
        sources=tuple(video.source for video in videos),
        keyframe_sources=tuple(video.keyframe_source for video in videos),
        first_row=first_row,
        frames=np.concatenate([video.frames for video in videos]),
        seconds=np.concatenate([video.seconds for video in videos]).astype(np.float64),
        label=np.concatenate([video.label for video in videos]),
        jpeg=jpeg,
        jpeg_crc32=crc,
        features=features,
        doubtful=doubtful,
        settings=settings,
        # those in which all stores agree; none with a folder of JPEG files
        keyframe_facts={name: fact for name, fact in facts.items() if all(one.get(name) == fact for one in of_stores)},
    )


def read_index(path: Path) -> Index:
    """Open an index. Raises StoreError for a file that is missing, damaged or no index."""
    with open_store(path, SCHEMA, VERSION, remedy=_REMEDY, missing=_MISSING) as file:
        home = path.resolve().parent  # stores are relative to the index itself, not to a link to it
        texts = json.loads(read_array(file, "videos/texts", np.uint8, 1).tobytes())
        ids, splits, sources, keyframes = (map(str, texts[name]) for name in ("id", "split", "source", "keyframes"))
        index = Index(
            path=path,
            video_ids=tuple(ids),
            splits=tuple(splits),
            sources=tuple(sources),
            keyframe_sources=tuple(_absolute(name, home) if name else None for name in keyframes),
            **{field: read_array(file, name, dtype, ndim) for name, (field, dtype, ndim) in _ARRAYS.items()},
            features={name: _absolute(store, home) for name, store in read_json_attribute(file, "features").items()},
            doubtful=read_text_attribute(file, "doubtful"),  # type: ignore[arg-type]
            settings=read_json_attribute(file, "settings"),
            keyframe_facts=read_json_attribute(file, "keyframe_facts"),
        )
        videos, shots = len(index.video_ids), len(index.label)
        per_video = {len(index.splits), len(index.sources), len(index.keyframe_sources)}
        per_shot = {len(index.frames), len(index.seconds), len(index.jpeg), len(index.jpeg_crc32)}
        if per_video != {videos} or per_shot != {shots} or len(index.first_row) != videos + 1:
            raise DamageError("its tables have different lengths")
        if not videos or index.first_row[0] != 0 or index.first_row[-1] != shots or min(np.diff(index.first_row)) < 1:
            raise DamageError("the rows of its videos do not follow each other")
    return index


def _relative(path: Path, home: Path) -> str:
    """Return a path relative to the index's folder, so that a project can move as a whole."""
    return relative(path.resolve(), home.resolve()).as_posix()


def _absolute(name: str, home: Path) -> Path:
    return Path(os.path.normpath(home / name))
