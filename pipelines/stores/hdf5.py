"""HDF5 files with a schema version and a checksum: created atomically, and verified when they are opened."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO

import h5py
import numpy as np
from numpy.typing import NDArray

from pipelines.errors import StoreError, first_line
from pipelines.files import atomic_file, os_reason


class DamageError(Exception):
    """A fault in the content of a store, in a few words; a block of :func:`open_store` raises it."""


# What h5py raises for damaged files.
_DAMAGE = (OSError, LookupError, RuntimeError, ValueError, TypeError, AttributeError, OverflowError, MemoryError)

# The seal is a line of JSON with the checksum in HDF5's user block, the first bytes of the file, padded with zeros.
_SEAL_SIZE = 512
_BLOCK = 4 * 2**20

# HDF5 writes metadata in smaller pieces, most data in larger ones.
_LARGEST_METADATA = 2**16


@contextmanager
def create_store(path: Path, schema: str, version: int, unsealed: Collection[str] = ()) -> Iterator[h5py.File]:
    """Create an HDF5 file, which appears at ``path`` when the block ends without an exception.

    Equal content gives equal bytes: no times are stored. A SHA-256 digest of the file is stored in its first bytes (the
    seal) and checked before HDF5 opens the file, because HDF5 hangs on some damaged files and reads others wrong
    without an error. Data sets named in ``unsealed`` are left out of the digest if they are contiguous in the file:
    large ones with checksums of their own. Raises BasslError: the path cannot be written, or the disk is full.
    """
    with atomic_file(path) as partial:
        with _Target(partial) as target:
            # Newer HDF5 formats store the creation times of groups.
            with h5py.File(target, "w", libver="earliest", userblock_size=_SEAL_SIZE) as file:
                file.attrs["schema"] = schema
                file.attrs["schema_version"] = version
                yield file
                open_ranges = _byte_ranges(file[name] for name in unsealed)
            if target.failure is not None:
                raise target.failure
        with partial.open("r+b") as written:
            seal = _seal(written, open_ranges)
            written.seek(0)
            written.write(seal)


@contextmanager
def open_store(path: Path, schema: str, version: int, remedy: str, missing: str | None = None) -> Iterator[h5py.File]:
    """Open an HDF5 file that :func:`create_store` made, for reading. Raises StoreError if it is missing, not HDF5,
    truncated, or of another schema or version, or if the block raises a DamageError or what h5py raises; the message
    ends with ``remedy``, what to run, or for a missing file with ``missing``."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # reading a pipe could block forever
            raise StoreError(f"{path}: is not a file; {remedy}")
        if (fault := _broken_seal(path)) is not None:
            raise StoreError(f"{path}: {fault}; {remedy}")
    except FileNotFoundError as error:
        raise StoreError(f"{path}: no such file; {missing or remedy}") from error
    except OSError as error:
        raise StoreError(f"{path}: cannot be read ({os_reason(error)})") from error
    try:
        with h5py.File(path, "r") as file:
            actual = file.attrs.get("schema")
            if actual != schema:
                what = f"a {actual} file" if isinstance(actual, str) else "not a file of bassl"
                raise StoreError(f"{path}: is {what}, not a {schema} file; {remedy}")
            if (written := file.attrs.get("schema_version")) != version:
                raise StoreError(
                    f"{path}: is version {written} of {schema}, but this program reads {version}; {remedy}"
                )
            yield file
    except DamageError as error:
        raise StoreError(f"{path}: is damaged: {error}; {remedy}") from error
    except _DAMAGE as error:
        raise StoreError(f"{path}: is damaged or not HDF5 ({first_line(error)}); {remedy}") from error


class _Target(FileIO):
    """The file object that HDF5 writes to. HDF5 crashes if a write fails while it closes a file, so failed writes are
    hidden from it: from the first on, metadata, which it may read again, is kept in memory, and data is dropped. The
    caller raises :attr:`failure` when HDF5 has finished."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, "r+")
        self.failure: OSError | None = None
        self._kept: dict[int, bytes] = {}

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        start = self.tell()
        try:
            done = 0
            while done < len(view):  # a disk that is nearly full takes a part
                done += super().write(view[done:])
        except OSError as error:
            self.failure = self.failure or error
        if self.failure is not None and len(view) <= _LARGEST_METADATA:
            self._kept[start] = bytes(view)
        return len(view)

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        start = self.tell()
        length = super().readinto(view) or 0
        view[length:] = bytes(len(view) - length)
        for place, data in self._kept.items():
            first, last = max(start, place), min(start + len(view), place + len(data))
            if first < last:
                view[first - start : last - start] = data[first - place : last - place]
        return len(view)

    def truncate(self, size: int | None = None) -> int:
        try:
            return super().truncate(size)
        except OSError as error:
            self.failure = self.failure or error
            return size or 0


def _byte_ranges(data_sets: Iterable[h5py.Dataset]) -> list[tuple[int, int]]:
    """The byte ranges of data sets in the file, in order, except empty ones and ones that are not contiguous."""
    starts = ((data.id.get_offset(), data.nbytes) for data in data_sets)
    return sorted((start, start + size) for start, size in starts if start is not None and size)


def _seal(file: BinaryIO, unsealed: Sequence[tuple[int, int]]) -> bytes:
    """The seal of a file: its size, the ranges left out, in order, and the digest of all other bytes after the seal."""
    size = file.seek(0, os.SEEK_END)
    digest = hashlib.sha256()
    position = _SEAL_SIZE
    for start, end in (*unsealed, (size, size)):
        file.seek(position)
        while position < start:
            block = file.read(min(_BLOCK, start - position))
            if not block:
                break
            digest.update(block)
            position += len(block)
        position = end
    stated = {"bytes": size, "unsealed": [list(open_range) for open_range in unsealed], "sha256": digest.hexdigest()}
    seal = json.dumps(stated).encode() + b"\n"
    return seal.ljust(_SEAL_SIZE, b"\0")


def _broken_seal(path: Path) -> str | None:
    """The fault that the seal shows, or None for an intact file."""
    with path.open("rb") as file:
        seal = file.read(_SEAL_SIZE)
        try:
            stated = json.loads(seal.rstrip(b"\0"))
            size, unsealed = int(stated["bytes"]), [(int(start), int(end)) for start, end in stated["unsealed"]]
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return "is not a file of bassl, or is damaged"
        there = os.fstat(file.fileno()).st_size
        if there < size:
            return f"is cut short: {there} of {size} bytes"
        edges = [_SEAL_SIZE, *(edge for open_range in unsealed for edge in open_range), size]
        if there > size or edges != sorted(edges) or _seal(file, unsealed) != seal:
            return "is damaged: its content does not fit its checksum"
    return None


def read_array(file: h5py.File, name: str, kind: str, dimensions: int) -> NDArray[Any]:
    """Read a data set as an array. ``kind`` is the expected NumPy kind, such as ``"i"``. Raises DamageError if it is
    missing, or of another kind or number of dimensions."""
    data = _data_set(file, name)
    if data.dtype.kind != kind or data.ndim != dimensions:
        raise DamageError(f"{name!r} is {data.dtype}, {data.ndim} dimension(s)")
    return np.asarray(data[...])


def read_strings(file: h5py.File, name: str) -> list[str]:
    """Read a data set of UTF-8 strings. Raises DamageError if it is missing."""
    return [str(value) for value in _data_set(file, name).asstr("utf-8")[...]]


def _data_set(file: h5py.File, name: str) -> h5py.Dataset:
    if not isinstance(file.get(name), h5py.Dataset):
        raise DamageError(f"it has no data set {name!r}")
    return file[name]


def read_json_attribute(file: h5py.File, name: str) -> dict[str, Any]:
    """Read an attribute that is a JSON object. Raises DamageError for another JSON value."""
    value = json.loads(file.attrs[name])
    if not isinstance(value, dict):
        raise DamageError(f"its attribute {name!r} is not an object")
    return value
