"""HDF5 files are written atomically, reproducible byte for byte, and refused when damaged."""

import fcntl
import json
import os
import re
import time
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import h5py
import numpy as np
import pytest

from pipelines.errors import StoreError
from pipelines.stores import (
    map_array,
    open_store,
    read_array,
    read_json_attribute,
    read_text_attribute,
    write_store,
)
from tests.running import posix
from tests.small_stores import refusal

REMEDY = "make it again"
PIXELS = bytes(np.arange(5000, dtype=np.uint8))


def make(path: Path, version: int = 3) -> Path:
    arrays = {
        "numbers": np.arange(12).reshape(3, 4),
        "group/names": np.arange(2, dtype=np.uint8),
        "many": np.arange(200_000),
        "empty": np.zeros((0, 2)),
        "mapped": np.arange(6, dtype=np.float32).reshape(2, 3),
    }
    attributes = {"settings": json.dumps({"a": 1}), "name": "«x»"}
    pixels = ("pixels", BytesIO(PIXELS))
    write_store(path, "bassl.test", version, attributes=attributes, arrays=arrays, mapped={"mapped"}, appended=pixels)
    return path


def whole(path: Path, version: int = 3) -> list[object]:
    with open_store(path, "bassl.test", version, remedy=REMEDY) as file:
        return [
            read_array(file, "numbers", np.int64, 2).tolist(),
            read_array(file, "group/names", np.uint8, 1).tolist(),
            int(read_array(file, "many", np.int64, 1).sum()),
            read_array(file, "empty", np.float64, 2).shape,
            read_json_attribute(file, "settings"),
            read_text_attribute(file, "name"),
        ]


def test_a_written_store_is_read_back(tmp_path: Path) -> None:
    path = make(tmp_path / "a.h5")
    numbers = np.arange(12).reshape(3, 4).tolist()
    assert whole(path) == [numbers, [0, 1], sum(range(200_000)), (0, 2), {"a": 1}, "«x»"]
    with open_store(path, "bassl.test", 3, remedy=REMEDY) as file:
        np.testing.assert_array_equal(map_array(path, file, "mapped"), file["mapped"][...])
        assert file["pixels"][...].tobytes() == PIXELS
    assert [path.name for path in tmp_path.iterdir()] == ["a.h5"]


def test_the_same_content_gives_the_same_bytes_at_any_time(tmp_path: Path) -> None:
    first = make(tmp_path / "a.h5").read_bytes()
    time.sleep(1.01 - time.time() % 1)  # HDF5 counts seconds
    assert make(tmp_path / "b.h5").read_bytes() == first


# --- what is refused --------------------------------------------------------------------------------------------------


NOT_STORES: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: None, "no such file"),
    "a folder": (Path.mkdir, "is not a file"),
    "a pipe, which is not read": (os.mkfifo, "is not a file"),
    "HDF5 from elsewhere": (lambda path: h5py.File(path, "w").close(), "is a file of another program"),
    "another schema": (
        lambda path: write_store(path, "bassl.other", 3, attributes={}, arrays={}),
        "is version 3 of bassl.other, not version 3 of bassl.test",
    ),
    "another version": (lambda path: make(path, 2), "is version 2 of bassl.test, not version 3 of bassl.test"),
}
CONTENTS = (b"", b"\0" * 600, b"text\n" * 200, b"\x89HDF\r\n\x1a\n" * 99)
NOT_STORES |= {
    f"content {content[:4]!r}": (lambda path, content=content: path.write_bytes(content), "damaged")
    for content in CONTENTS
}


@pytest.mark.parametrize("name", NOT_STORES)
def test_a_file_that_is_not_an_intact_store_is_refused(tmp_path: Path, name: str) -> None:
    put, words = NOT_STORES[name]
    put(tmp_path / "a.h5")
    message = refusal(lambda: whole(tmp_path / "a.h5"), words)
    assert message.startswith(f"{tmp_path}/a.h5: ")
    assert message.endswith(REMEDY)


@pytest.mark.parametrize(
    ("read", "fault"),
    [
        (lambda file: read_array(file, "nothing", np.int64, 2), "it has no data set 'nothing'"),
        (lambda file: read_array(file, "numbers", np.float64, 2), "'numbers' is int64, 2 dimension(s)"),
        (lambda file: read_array(file, "numbers", np.int64, 1), "'numbers' is int64, 2 dimension(s)"),
        (lambda file: map_array(Path("a.h5"), file, "numbers"), "'numbers' is not (N, D) contiguous floats"),
        (lambda file: read_json_attribute(file, "nothing"), "its attribute 'nothing' is not a text"),
        (lambda file: read_json_attribute(file, "list"), "its attribute 'list' is not an object"),
        (lambda file: read_json_attribute(file, "text"), ""),
    ],
)
def test_missing_or_wrong_content_is_refused(tmp_path: Path, read: Callable[[h5py.File], object], fault: str) -> None:
    arrays = {"numbers": np.arange(12).reshape(3, 4), "group/names": np.array([b"b"])}
    write_store(tmp_path / "a.h5", "bassl.test", 3, attributes={"list": "[1]", "text": "{"}, arrays=arrays)
    with pytest.raises(StoreError) as caught, open_store(tmp_path / "a.h5", "bassl.test", 3, remedy=REMEDY) as opened:
        read(opened)
    assert re.fullmatch(rf"{tmp_path}/a\.h5: is damaged.*{re.escape(fault)}.*; {REMEDY}", str(caught.value))


@pytest.mark.parametrize("options", [{}, {"compression": "gzip"}])
def test_a_small_file_that_claims_a_large_array_is_refused(tmp_path: Path, options: dict[str, str]) -> None:
    path = make(tmp_path / "a.h5")
    with h5py.File(path, "r+") as file:
        del file["numbers"]
        numbers = file.create_dataset("numbers", (60_000_000, 2), np.int64, chunks=(1_000_000, 2), **options)
        numbers[:1000] = 1
    assert path.stat().st_size < 20_000_000
    refusal(lambda: whole(path), "a.h5: is damaged: 'numbers' has ")


@pytest.mark.parametrize("kind", ["link to a file", "link of a group", "bytes of a file", "virtual"])
def test_a_store_reads_no_data_from_another_file(tmp_path: Path, kind: str) -> None:
    other, path = tmp_path / "other.h5", tmp_path / "a.h5"
    for file in (other, path):
        write_store(file, "bassl.test", 3, attributes={}, arrays={"group/numbers": np.arange(12).reshape(3, 4)})
    with h5py.File(path, "r+") as file:
        del file["group"]
        if kind == "link to a file":
            file["group/numbers"] = h5py.ExternalLink("other.h5", "/group/numbers")
        elif kind == "link of a group":
            file["group"] = h5py.ExternalLink(str(other), "/group")
        elif kind == "bytes of a file":
            file.create_dataset("group/numbers", (3, 4), np.int64, external=[(str(other), 0, 96)])
        else:
            layout = h5py.VirtualLayout((3, 4), np.int64)
            layout[:] = h5py.VirtualSource(str(other), "group/numbers", (3, 4))
            file.create_virtual_dataset("group/numbers", layout)
    with (
        pytest.raises(StoreError, match=r"a\.h5: is damaged: it has no data set 'group/numbers'; make it again"),
        open_store(path, "bassl.test", 3, remedy=REMEDY) as file,
    ):
        read_array(file, "group/numbers", np.int64, 2)


@posix
def test_a_store_is_read_without_a_lock_which_a_network_file_system_may_not_have(tmp_path: Path) -> None:
    path = make(tmp_path / "a.h5")
    with path.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # a lock of HDF5 would fail
        whole(path)
