"""Keyframe stores: content is read back unchanged; damaged or contradictory stores are refused."""

import json
import tracemalloc
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from pipelines.errors import StoreError, VideoError
from pipelines.scenes import VideoFacts
from pipelines.stores.keyframes import KeyframeStore, StoredShot, read_keyframes, write_keyframes
from tests.small_stores import damaged, forge, read_jpegs, refusal

FACTS = VideoFacts("video.mp4", 320, 180, 10.0, 240, 24.0)
SOURCE = {"name": "video.mp4", "bytes": 1234}
SETTINGS = {"detector": "adaptive", "keyframes": 3, "lines": 240, "quality": 90}
SHOTS = [
    StoredShot((0, 60), (0.0, 2.5), (15, 30, 45), (b"one" * 100, b"two" * 90, b"three" * 80)),
    StoredShot((60, 61), (2.5, 2.54), (60, 60, 60), (b"four" * 100,) * 3),
    StoredShot((61, 240), (2.54, 10.0), (105, 150, 195), (b"five" * 100, b"six" * 90, b"7")),
]


def write(path: Path, shots: Iterable[StoredShot] = SHOTS) -> Path:
    write_keyframes(path, shots, lambda: (FACTS, SOURCE), SETTINGS)
    return path


def content_of(store: KeyframeStore) -> list[object]:
    arrays = (store.frames, store.seconds, store.keyframes, store.jpeg_offsets, store.jpeg_crc32)
    return [*(array.tolist() for array in arrays), store.video, store.source, store.settings]


def test_a_written_store_is_read_back_with_keyframes_contiguous_in_the_file(tmp_path: Path) -> None:
    path = write(tmp_path / "a video.h5")
    store = read_keyframes(path)
    frames, seconds, keyframes, offsets, _, *facts = content_of(store)
    assert frames == [[0, 60], [60, 61], [61, 240]]
    assert seconds == [[0.0, 2.5], [2.5, 2.54], [2.54, 10.0]]
    assert keyframes == [[15, 30, 45], [60, 60, 60], [105, 150, 195]]
    assert facts == [FACTS, SOURCE, SETTINGS]
    assert read_jpegs(store, 0, 3) == [list(shot.jpegs) for shot in SHOTS]
    with h5py.File(path) as file:
        assert file["jpeg"][...].tobytes() == path.read_bytes()[offsets[0] : offsets[-1]]


def test_memory_does_not_grow_with_the_number_of_keyframes(tmp_path: Path) -> None:
    shots = (
        StoredShot((i, i + 1), (i / 24, (i + 1) / 24), (i, i, i), tuple(bytes([i]) * 500_000 for _ in "abc"))
        for i in range(20)
    )
    write(tmp_path / "warm.h5")
    tracemalloc.start()
    write(tmp_path / "a.h5", shots)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8_000_000
    assert read_jpegs(read_keyframes(tmp_path / "a.h5"), 19, 20) == [[bytes([19]) * 500_000] * 3]


@pytest.mark.parametrize("fault", [VideoError("video.mp4: is empty"), KeyboardInterrupt()])
def test_an_error_in_the_shots_leaves_no_store(tmp_path: Path, fault: BaseException) -> None:
    def shots() -> Iterator[StoredShot]:
        yield SHOTS[0]
        raise fault

    with pytest.raises(type(fault)) as caught:
        write(tmp_path / "a.h5", shots())
    assert caught.value is fault
    assert list(tmp_path.iterdir()) == []


FORGERIES: dict[str, dict[str, Any]] = {
    **{f"no {name}": {name: None} for name in ("jpeg_offsets", "jpeg_crc32", "@video", "shots/frames")},
    "frames of another shape": {"shots/frames": np.arange(6)},
    "frames of fewer shots": {"shots/frames": np.array([[0, 60], [60, 240]])},
    "seconds of more shots": {"shots/seconds": np.arange(8.0).reshape(4, 2)},
    "keyframes of fewer shots": {"shots/keyframes": np.array([[15, 30, 45], [60, 60, 60]])},
    "checksums too few": {"jpeg_crc32": np.zeros(8, np.uint32)},
    "no bytes of images": {"jpeg": np.zeros(0, np.uint8)},
    "facts of another kind": {"@video": json.dumps({"name": "video"})},
    "settings that are text": {"@settings": '"text"'},
}


@pytest.mark.parametrize("name", FORGERIES)
def test_contradictory_content_is_not_read(tmp_path: Path, name: str) -> None:
    good, path = write(tmp_path / "good.h5"), tmp_path / "forged.h5"
    assert read_jpegs(read_keyframes(forge(good, path, {})), 0, 3) == [list(shot.jpegs) for shot in SHOTS]
    forge(good, path, FORGERIES[name])
    refusal(lambda: read_keyframes(path), f"{path}: ", "bassl extract-keyframes` with `overwrite=True`")


def test_damage_is_detected_on_opening_or_by_the_checksum_of_a_keyframe(tmp_path: Path) -> None:
    path = write(tmp_path / "a.h5")
    good, content, images = read_keyframes(path), path.read_bytes(), [image for shot in SHOTS for image in shot.jpegs]
    start, end = good.jpeg_offsets[[0, -1]].tolist()
    damage = Counter[str]()
    for case, changed in damaged(content, 600, 60):
        path.write_bytes(changed)
        try:
            store = read_keyframes(path)
        except StoreError:
            assert case.startswith("cut") or changed[:start] + changed[end:] != content[:start] + content[end:]
            damage["store"] += 1
            continue
        assert content_of(store) == content_of(good), case
        for image, jpeg, crc in zip(images, chain(*read_jpegs(store, 0, 3)), store.jpeg_crc32.flat, strict=True):
            assert (zlib.crc32(jpeg) == crc) == (jpeg == image)
            damage["keyframe"] += jpeg != image
    assert min(damage["store"], damage["keyframe"]) > 50
