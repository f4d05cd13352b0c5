"""HDF5 files are written atomically, reproducible byte for byte, and refused when damaged."""

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from pipelines.errors import BasslError, StoreError
from pipelines.stores.hdf5 import create_store, open_store, read_array, read_json_attribute, read_strings
from tests.small_stores import refusal

REMEDY = "make it again"


def make(path: Path, unsealed: bool = True) -> Path:
    with create_store(path, "bassl.test", 3, {"pixels"} if unsealed else ()) as file:
        file.attrs["settings"] = json.dumps({"a": 1})
        file["numbers"] = np.arange(12).reshape(3, 4)
        file["group/names"] = np.array(["à".encode(), b"b"])
        file["pixels"] = np.arange(5000, dtype=np.uint8)
    return path


def whole(path: Path, version: int = 3) -> list[object]:
    with open_store(path, "bassl.test", version, REMEDY) as file:
        return [
            read_array(file, "numbers", "i", 2).tolist(),
            read_strings(file, "group/names"),
            read_json_attribute(file, "settings"),
        ]


def complaint(path: Path, version: int = 3) -> str:
    with pytest.raises(StoreError) as caught:
        whole(path, version)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert len(message.splitlines()) == 1
    assert message.endswith(REMEDY)
    return message


def test_a_written_store_is_read_back(tmp_path: Path) -> None:
    assert whole(make(tmp_path / "a.h5")) == [np.arange(12).reshape(3, 4).tolist(), ["à", "b"], {"a": 1}]
    assert [path.name for path in tmp_path.iterdir()] == ["a.h5"]


def test_the_same_content_gives_the_same_bytes_at_any_time(tmp_path: Path) -> None:
    first = make(tmp_path / "a.h5").read_bytes()
    time.sleep(1.1)  # HDF5 counts seconds
    assert make(tmp_path / "b.h5").read_bytes() == first


def test_a_store_can_be_read_with_plain_h5py(tmp_path: Path) -> None:
    with h5py.File(make(tmp_path / "a.h5")) as file:
        assert file.attrs["schema"] == "bassl.test"
        assert file["numbers"].shape == (3, 4)


@pytest.mark.parametrize("fault", [ValueError("no"), KeyboardInterrupt(), BasslError("video.mp4: is empty")])
def test_an_error_while_writing_is_raised_and_keeps_the_existing_file(tmp_path: Path, fault: BaseException) -> None:
    before = make(tmp_path / "a.h5").read_bytes()
    with pytest.raises(type(fault)) as caught, create_store(tmp_path / "a.h5", "bassl.test", 3):
        raise fault
    assert caught.value is fault
    assert list(tmp_path.iterdir()) == [tmp_path / "a.h5"]
    assert (tmp_path / "a.h5").read_bytes() == before


def test_a_full_disk_gives_a_one_line_error(tmp_path: Path) -> None:
    with (
        pytest.raises(BasslError, match=r"a\.h5: cannot be written \(no space left on device\)$"),
        create_store(tmp_path / "a.h5", "bassl.test", 3),
    ):
        raise OSError(errno.ENOSPC, "Can't synchronously write data (file write failed: time = ...)")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "reason"),
    [("file/a.h5", "its folder cannot be made"), ("a" * 260 + ".h5", r"cannot be written \(file name too long\)$")],
)
def test_a_path_that_cannot_be_written_gives_a_one_line_error(tmp_path: Path, name: str, reason: str) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(BasslError, match=rf"\.h5: {reason}"), create_store(tmp_path / name, "bassl.test", 3):
        pass


def _fill(path: Path, limit: int) -> None:
    """Write a store of about 500 kB where no file may be larger than ``limit``; to be run in a process of its own."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        with create_store(path, "bassl.test", 3) as file:
            chunked = file.create_dataset("chunked", (0,), "u1", maxshape=(None,), chunks=(1000,))
            for i in range(100):
                chunked.resize(((i + 1) * 1000,))
                chunked[i * 1000 :] = i
            file["whole"] = np.arange(50_000)
            file["names"] = ["name"] * 500
    except BasslError as error:
        sys.stdout.write(str(error))


@pytest.mark.parametrize("limit", [100, 600, 3000, 30_000, 120_000, 400_000, 505_000])
def test_a_full_disk_at_any_point_gives_one_line_and_keeps_the_old_file(tmp_path: Path, limit: int) -> None:
    path = tmp_path / "a.h5"
    path.write_bytes(b"old")
    program = f"from pathlib import Path; from tests.stores.test_hdf5 import _fill; _fill(Path({str(path)!r}), {limit})"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout == f"{path}: cannot be written (file too large)"
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


# --- what is refused --------------------------------------------------------------------------------------------------


def test_a_missing_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    assert "no such file" in complaint(path)
    with pytest.raises(StoreError) as caught, open_store(path, "bassl.test", 3, REMEDY, "make it"):
        pass
    assert str(caught.value) == f"{path}: no such file; make it"


def put_foreign(path: Path) -> None:
    with h5py.File(path, "w") as file:
        file["numbers"] = np.arange(3)


def put_changed(path: Path) -> None:
    with h5py.File(make(path), "r+") as file:
        file["numbers"][0, 0] = 7


def put_other(path: Path) -> None:
    with create_store(path, "bassl.other", 3):
        pass


NOT_STORES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a folder": (Path.mkdir, "is not a file"),
    "a pipe, which is not read": (os.mkfifo, "is not a file"),
    "HDF5 from elsewhere": (put_foreign, "is not a file of bassl"),
    "changed by another program": (put_changed, "does not fit its checksum"),
    "bytes after the end": (
        lambda path: path.write_bytes(make(path).read_bytes() + b"\0"),
        "does not fit its checksum",
    ),
    "another schema": (put_other, "is a bassl.other file, not a bassl.test file"),
}
CONTENTS = (b"", b"\0" * 600, b"text\n" * 200, b"[" * 512, b"{}", b"\xff" * 4000, b"1" * 600)
NOT_STORES |= {
    f"content {content[:4]!r}": (lambda path, content=content: path.write_bytes(content), "is not a file of bassl")
    for content in CONTENTS
}


@pytest.mark.parametrize("name", NOT_STORES)
def test_a_file_that_is_not_an_intact_store_is_refused(tmp_path: Path, name: str) -> None:
    put, words = NOT_STORES[name]
    put(tmp_path / "a.h5")
    assert words in complaint(tmp_path / "a.h5")


def test_a_store_of_another_version_is_refused(tmp_path: Path) -> None:
    path = make(tmp_path / "a.h5")
    assert "is version 3 of bassl.test, but this program reads 4" in complaint(path, version=4)


def test_a_file_that_cannot_be_opened_is_not_reported_as_damaged(tmp_path: Path) -> None:
    path = tmp_path / ("a" * 300)
    assert refusal(lambda: whole(path)) == f"{path}: cannot be read (file name too long)"
    if os.geteuid() != 0:  # root may read every file
        path = make(tmp_path / "a.h5")
        path.chmod(0)
        assert refusal(lambda: whole(path)) == f"{path}: cannot be read (permission denied)"


@pytest.mark.parametrize(
    "seal",
    [
        {"bytes": 1e400, "unsealed": [], "sha256": ""},
        {"bytes": 600, "unsealed": [[0, 10**30]], "sha256": ""},
        {"bytes": 600, "unsealed": [[590, 580]], "sha256": ""},
        {"bytes": 600, "unsealed": [[-5, 512]], "sha256": ""},
        {"bytes": 600, "unsealed": [[1, 2, 3]], "sha256": ""},
        {"bytes": 600, "unsealed": 7, "sha256": ""},
        {"bytes": None, "unsealed": []},
        {"bytes": 600, "unsealed": [[512, 600]], "sha256": 5},
    ],
)
def test_an_invalid_checksum_header_is_refused(tmp_path: Path, seal: object) -> None:
    path = tmp_path / "a.h5"
    path.write_bytes(json.dumps(seal).encode().ljust(600, b"\0"))
    complaint(path)


def test_a_store_truncated_at_any_place_is_refused(tmp_path: Path) -> None:
    content = make(tmp_path / "a.h5").read_bytes()
    path = tmp_path / "cut.h5"
    for length in [*range(0, 600, 23), *range(600, len(content), 251), len(content) - 1]:
        path.write_bytes(content[:length])
        message = complaint(path)
        assert "is cut short" in message or (length < 512 and "is not a file of bassl" in message)


def test_a_changed_byte_is_detected_except_in_data_with_its_own_checksum(tmp_path: Path) -> None:
    content = make(tmp_path / "a.h5").read_bytes()
    pixels = content.index(bytes(np.arange(5000, dtype=np.uint8)))
    path = tmp_path / "flipped.h5"
    rng = np.random.default_rng(0)
    expected = whole(tmp_path / "a.h5")
    for place in {*range(0, 600, 3), *rng.integers(0, len(content), 600).tolist()}:
        flipped = bytearray(content)
        flipped[place] ^= int(rng.integers(1, 256))
        path.write_bytes(flipped)
        if pixels <= place < pixels + 5000:
            assert whole(path) == expected
        else:
            complaint(path)


def test_all_data_have_a_checksum_except_exempt_and_chunked_data(tmp_path: Path) -> None:
    with create_store(tmp_path / "a.h5", "bassl.test", 3, {"chunks", "empty"}) as file:
        file.create_dataset("chunks", data=np.arange(3000), chunks=(1000,))
        file.create_dataset("empty", (0,), np.uint8)
    content = (tmp_path / "a.h5").read_bytes()
    assert json.loads(content[:512].rstrip(b"\0"))["unsealed"] == []


@pytest.mark.parametrize(
    ("read", "fault"),
    [
        (lambda file: read_array(file, "nothing", "i", 2), "it has no data set 'nothing'"),
        (lambda file: read_array(file, "group", "i", 2), "it has no data set 'group'"),
        (lambda file: read_array(file, "numbers", "f", 2), "'numbers' is int64, 2 dimension(s)"),
        (lambda file: read_array(file, "numbers", "i", 1), "'numbers' is int64, 2 dimension(s)"),
        (lambda file: read_strings(file, "nothing"), "it has no data set 'nothing'"),
        (lambda file: read_strings(file, "numbers"), ""),
        (lambda file: read_json_attribute(file, "nothing"), ""),
        (lambda file: read_json_attribute(file, "list"), "its attribute 'list' is not an object"),
        (lambda file: read_json_attribute(file, "text"), ""),
        (lambda file: read_json_attribute(file, "number"), ""),
    ],
)
def test_missing_or_wrong_content_is_refused(tmp_path: Path, read: Callable[[h5py.File], object], fault: str) -> None:
    with create_store(tmp_path / "a.h5", "bassl.test", 3) as file:
        file["numbers"], file["group/names"] = np.arange(12).reshape(3, 4), np.array([b"b"])
        file.attrs["list"], file.attrs["text"], file.attrs["number"] = "[1]", "{", 5
    with pytest.raises(StoreError) as caught, open_store(tmp_path / "a.h5", "bassl.test", 3, REMEDY) as opened:
        read(opened)
    message = str(caught.value)
    assert message.startswith(f"{tmp_path}/a.h5: is damaged")
    assert message.endswith(f"{fault}; {REMEDY}" if fault else REMEDY)
    assert "\n" not in message
