"""Small keyframe stores and damage for tests of what reads stores."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from PIL import Image

from pipelines.datasets.movienet import KeyframeReader
from pipelines.errors import StoreError
from pipelines.scenes import VideoFacts
from pipelines.stages.build_index import build_index
from pipelines.stores import write_store
from pipelines.stores.features import open_features, write_features
from pipelines.stores.keyframes import KeyframeStore, StoredShot, write_keyframes

RATE = 25.0
SHOT_FRAMES = 50
MAPPED = ("features", "color", "jpeg")


def jpeg(*number: int, width: int = 40, height: int = 24) -> bytes:
    """Make a unique JPEG: noise, enlarged so that it survives compression, seeded with the number."""
    noise = np.random.default_rng(number).integers(0, 256, (3, 5, 3), np.uint8)
    buffer = BytesIO()
    Image.fromarray(noise).resize((width, height), Image.Resampling.NEAREST).save(buffer, "JPEG", quality=95)
    return buffer.getvalue()


def put_store(
    path: Path | str, shots: int = 5, images: int = 3, *, seed: int = 0, jpegs: list[list[bytes]] | None = None
) -> Path:
    """Write a keyframe store of shots of two seconds; keyframe k of shot i is ``jpeg(seed, i, k)``."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    length = SHOT_FRAMES / RATE
    stored = [
        StoredShot(
            (SHOT_FRAMES * i, SHOT_FRAMES * i + SHOT_FRAMES),
            (length * i, length * i + length),
            tuple(SHOT_FRAMES * i + k for k in range(images)),
            tuple(jpeg(seed, i, k) for k in range(images)) if jpegs is None else tuple(jpegs[i]),
        )
        for i in range(shots)
    ]
    facts = VideoFacts(f"{path.stem}.mp4", 40, 24, length * shots, SHOT_FRAMES * shots, RATE)
    source = {"name": f"{path.stem}.mp4", "bytes": 1, "sha256": sha256(f"{path.stem} {seed}".encode()).hexdigest()}
    write_keyframes(path, stored, lambda: (facts, source), {"keyframes": images})
    return path


def put_indexed_stores(folder: Path, lengths: dict[str, int], seed: int = 0) -> Path:
    """Stores of so many shots each, in `stores`, and an index of them; ``seed`` is the seed of the first."""
    for number, (name, shots) in enumerate(lengths.items(), seed):
        put_store(folder / "stores" / f"{name}.h5", shots, seed=number)
    build_index([folder / "stores"], output=folder / "index.h5", overwrite=True)
    return folder / "index.h5"


def put_features(
    store: Path,
    encoder: str,
    videos: Mapping[str, Any],
    shots: Mapping[str, int] | None = None,
    color: Mapping[str, Any] | None = None,
) -> Path:
    """Write a feature store of some videos (N, D_e)."""
    for name, features in videos.items():
        write_features(store, encoder, name, features, shots=(shots or {}).get(name), color=(color or {}).get(name))
    return store


def features_in(store: Path) -> dict[str, np.ndarray]:
    """Read the features of each video in a store."""
    videos = [open_features(path) for path in store.glob("*.h5")]
    return {video.video_id: video.features for video in sorted(videos, key=lambda video: video.video_id)}


def read_jpegs(store: KeyframeStore, start_shot: int, end_shot: int) -> list[list[bytes]]:
    """Read the keyframes of the shots ``[start_shot, end_shot)`` of a store, unchecked: a list of N_k for each."""
    content, count = store.path.read_bytes(), store.keyframes.shape[1]
    jpegs = [content[start:end] for start, end in pairwise(store.jpeg_offsets.tolist())]
    return [jpegs[shot * count : shot * count + count] for shot in range(start_shot, end_shot)]


def read_all(reader: KeyframeReader, rows: Iterable[int]) -> list[list[bytes]]:
    """Read all keyframes of rows of one video: a list of N_k JPEGs for each."""
    numbers = np.array(list(rows))
    return reader.read(numbers, np.tile(np.arange(reader.index.keyframes), (len(numbers), 1)))


def refusal(read: Callable[[], object], *words: str | Path, error: type[Exception] = StoreError) -> str:
    """Return the one line with which something is refused, and check that it has these words."""
    with pytest.raises(error) as caught:
        read()
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert str(word) in message, message
    return message


def damaged(content: bytes, flips: int, cuts: int, seed: int = 0) -> Iterator[tuple[str, bytes]]:
    """Copies of a file's content: cut off at many places, and with one to four bytes changed."""
    rng = np.random.default_rng(seed)
    for length in np.linspace(0, len(content) - 1, cuts).astype(int).tolist():
        yield f"cut at {length}", content[:length]
    # Half of them in the first kilobytes, where the structure of an HDF5 file begins.
    for flip in range(flips):
        changed = bytearray(content)
        reach = len(content) if flip % 2 else min(len(content), 4096)
        places = rng.integers(0, reach, int(rng.integers(1, 5))).tolist()
        for place in places:
            changed[place] ^= int(rng.integers(1, 256))
        yield f"changed at {places}", bytes(changed)


def forge(path: Path, out: Path, changes: dict[str, Any]) -> Path:
    """Copy a store with other data sets and attributes (``@name``; None: without it), with checksums that fit."""
    with h5py.File(path) as file:
        content: dict[str, Any] = {f"@{name}": value for name, value in file.attrs.items()}
        mapped = {name for name in MAPPED if name in file}
        names: list[str] = []
        file.visit(names.append)
        content |= {name: file[name][...] for name in names if isinstance(file[name], h5py.Dataset)}
    content = {name: value for name, value in (content | changes).items() if value is not None}
    attributes = {name[1:]: value for name, value in content.items() if name.startswith("@")}
    arrays = {name: np.asarray(value) for name, value in content.items() if not name.startswith("@")}
    schema, version = attributes.pop("schema"), attributes.pop("schema_version")
    write_store(
        out,
        schema,
        version,
        attributes=attributes,
        arrays=arrays,
        mapped=mapped | {name for name, array in arrays.items() if not array.ndim},
    )
    return out
