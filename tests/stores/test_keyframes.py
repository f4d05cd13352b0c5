"""Keyframe stores: content is read back unchanged; damaged or contradictory stores are refused."""

import json
import random
import tracemalloc
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from pipelines.errors import StoreError, VideoError
from pipelines.scenes import VideoFacts
from pipelines.stores.keyframes import (
    KeyframeStore,
    StoredShot,
    read_keyframes,
    write_keyframes,
)
from tests.small_stores import forge, read_jpegs

FACTS = VideoFacts("video.mp4", 320, 180, 10.0, 240, 24.0)
SOURCE = {"name": "video.mp4", "bytes": 1234}
SETTINGS = {"detector": "adaptive", "keyframes": 3, "lines": 240, "quality": 90}
SHOTS = [
    StoredShot((0, 60), (0.0, 2.5), (15, 30, 45), (b"one" * 100, b"two" * 90, b"three" * 80)),
    StoredShot((60, 61), (2.5, 2.54), (60, 60, 60), (b"four" * 100,) * 3),
    StoredShot((61, 240), (2.54, 10.0), (105, 150, 195), (b"five" * 100, b"six" * 90, b"7")),
]


def write(
    path: Path,
    shots: Sequence[StoredShot] = SHOTS,
    facts: VideoFacts = FACTS,
    source: dict[str, Any] = SOURCE,
    settings: dict[str, Any] = SETTINGS,
) -> Path:
    write_keyframes(path, shots, lambda: (facts, source), settings)
    return path


def complaint(path: Path) -> str:
    with pytest.raises(StoreError) as caught:
        read_keyframes(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert len(message.splitlines()) == 1
    assert "bassl extract-keyframes` with `overwrite=True`" in message
    return message


def same(a: KeyframeStore, b: KeyframeStore) -> bool:
    arrays = ("frames", "seconds", "keyframes", "jpeg_offsets", "jpeg_crc32")
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in arrays) and (
        (a.video, a.source, a.settings) == (b.video, b.source, b.settings)
    )


def test_a_written_store_is_read_back(tmp_path: Path) -> None:
    store = read_keyframes(write(tmp_path / "a video.h5"))
    assert store.frames.tolist() == [[0, 60], [60, 61], [61, 240]]
    assert store.seconds.tolist() == [[0.0, 2.5], [2.5, 2.54], [2.54, 10.0]]
    assert store.keyframes.tolist() == [[15, 30, 45], [60, 60, 60], [105, 150, 195]]
    assert (store.video, store.source, store.settings) == (FACTS, SOURCE, SETTINGS)
    assert read_jpegs(store, 0, 3) == [list(shot.jpegs) for shot in SHOTS]
    assert read_jpegs(store, 1, 2) == [list(SHOTS[1].jpegs)]


def test_keyframes_are_contiguous_in_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5")
    store = read_keyframes(path)
    together = b"".join(jpeg for shot in SHOTS for jpeg in shot.jpegs)
    assert path.read_bytes()[store.jpeg_offsets[0] : store.jpeg_offsets[-1]] == together
    with h5py.File(path) as file:
        assert file["jpeg"][...].tobytes() == together


def test_memory_does_not_grow_with_the_number_of_keyframes(tmp_path: Path) -> None:
    def shots() -> Iterator[StoredShot]:
        for i in range(60):
            yield StoredShot((i, i + 1), (i / 24, (i + 1) / 24), (i, i, i), tuple(bytes([i]) * 500_000 for _ in "abc"))

    write_keyframes(tmp_path / "warm.h5", SHOTS, lambda: (FACTS, SOURCE), SETTINGS)
    tracemalloc.start()
    write_keyframes(tmp_path / "a.h5", shots(), lambda: (FACTS, SOURCE), SETTINGS)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (tmp_path / "a.h5").stat().st_size > 90_000_000
    assert peak < 16_000_000
    store = read_keyframes(tmp_path / "a.h5")
    assert read_jpegs(store, 59, 60) == [[bytes([59]) * 500_000] * 3]


@pytest.mark.parametrize("fault", [VideoError("video.mp4: is empty"), KeyboardInterrupt()])
def test_an_error_in_the_shots_leaves_no_store(tmp_path: Path, fault: BaseException) -> None:
    def shots() -> Iterator[StoredShot]:
        yield SHOTS[0]
        raise fault

    with pytest.raises(type(fault)) as caught:
        write_keyframes(tmp_path / "a.h5", shots(), lambda: (FACTS, SOURCE), SETTINGS)
    assert caught.value is fault
    assert list(tmp_path.iterdir()) == []


FORGERIES: dict[str, dict[str, Any]] = {
    **{f"no {name}": {name: None} for name in ("jpeg", "jpeg_offsets", "jpeg_crc32", "@video", "@source", "@settings")},
    **{f"no {name}": {name: None} for name in ("shots/frames", "shots/seconds", "shots/keyframes")},
    "frames that are fractions": {"shots/frames": np.zeros((3, 2))},
    "frames of another shape": {"shots/frames": np.arange(6)},
    "frames of fewer shots": {"shots/frames": np.array([[0, 60], [60, 240]])},
    "seconds of more shots": {"shots/seconds": np.arange(8.0).reshape(4, 2)},
    "keyframes of fewer shots": {"shots/keyframes": np.array([[15, 30, 45], [60, 60, 60]])},
    "checksums that are signed": {"jpeg_crc32": np.zeros(9, np.int64)},
    "checksums too few": {"jpeg_crc32": np.zeros(8, np.uint32)},
    "no bytes of images": {"jpeg": np.zeros(0, np.uint8)},
    "facts that are a list": {"@video": "[]"},
    "facts that are not JSON": {"@video": "{"},
    "facts that are a number": {"@video": 5},
    "facts of another kind": {"@video": json.dumps({"name": "video"})},
    "settings that are text": {"@settings": '"text"'},
}


@pytest.mark.parametrize("name", FORGERIES)
def test_manipulated_stores_are_refused(tmp_path: Path, name: str) -> None:
    complaint(forge(write(tmp_path / "good.h5"), tmp_path / "forged.h5", FORGERIES[name]))


def test_a_store_rebuilt_without_changes_is_read(tmp_path: Path) -> None:
    path = forge(write(tmp_path / "good.h5"), tmp_path / "forged.h5", {})
    assert read_jpegs(read_keyframes(path), 0, 3) == [list(shot.jpegs) for shot in SHOTS]


# --- damage -----------------------------------------------------------------------------------------------------------


def test_damaged_bytes_are_detected_on_opening_or_by_keyframe_checksums(tmp_path: Path) -> None:
    good = read_keyframes(write(tmp_path / "a.h5"))
    content = (tmp_path / "a.h5").read_bytes()
    start, end = int(good.jpeg_offsets[0]), int(good.jpeg_offsets[-1])
    path = tmp_path / "damaged.h5"
    noise = random.Random(0)
    where = {"store": 0, "picture": 0}
    for _ in range(1000):
        damaged = bytearray(content)
        for _ in range(noise.choice((1, 1, 1, 5))):
            place = noise.randrange(len(content))
            length = noise.choice((1, 1, 2, 50))
            damaged[place : place + length] = noise.randbytes(len(damaged[place : place + length]))
        if damaged == content:
            continue
        path.write_bytes(damaged)
        if damaged[:start] + damaged[end:] == content[:start] + content[end:]:
            store = read_keyframes(path)
            assert same(store, good)
            wrong = {
                shot
                for shot in range(3)
                if damaged[slice(*_bytes_of(good, shot))] != content[slice(*_bytes_of(good, shot))]
            }
            for shot, jpegs in enumerate(read_jpegs(store, 0, 3)):
                fits = [zlib.crc32(jpeg) for jpeg in jpegs] == store.jpeg_crc32[3 * shot : 3 * shot + 3].tolist()
                assert fits == (shot not in wrong)
            where["picture"] += 1
            continue
        try:
            store = read_keyframes(path)
        except StoreError:
            where["store"] += 1
        else:  # bytes that are not used
            assert same(store, good)
    assert min(where.values()) > 100


def _bytes_of(store: KeyframeStore, shot: int) -> tuple[int, int]:
    return int(store.jpeg_offsets[3 * shot]), int(store.jpeg_offsets[3 * shot + 3])
