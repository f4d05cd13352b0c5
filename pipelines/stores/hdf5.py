"""What all our HDF5 files share: a schema and its version, settings, appearing whole or not at all, clear refusals."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import h5py
import numpy as np
from numpy.typing import NDArray

from pipelines.errors import BasslError, StoreError, first_line
from pipelines.files import atomic_file

# What h5py raises on files that are damaged in one place or another.
_DAMAGE = (
    OSError,
    KeyError,
    RuntimeError,
    ValueError,
    TypeError,
    AttributeError,
    IndexError,
    OverflowError,
    MemoryError,
)

# HDF5 leaves the first bytes of a file to us. They hold the seal: a line of JSON, filled up with zeros.
_SEAL_SIZE = 512
_BLOCK = 4 * 2**20


@contextmanager
def create_store(path: Path, schema: str, version: int, unsealed: Collection[str] = ()) -> Iterator[h5py.File]:
    """A new HDF5 file that takes the name ``path`` when the block ends well, and vanishes when it does not.

    Two files with the same content are the same to the byte: no times are stored. The file is sealed: a digest of its
    bytes stands at its beginning and is checked before HDF5 sees the file, because HDF5 reads some damaged files
    without end and others quietly wrong. Data sets named in ``unsealed`` are left out of the digest where they are one
    stretch of the file: large ones that have checks of their own.

    Raises:
        BasslError: where the path cannot be written, the disk being full included.
    """
    with atomic_file(path) as partial:
        # Newer formats of HDF5 note the time at which a group is made.
        with h5py.File(partial, "w", libver="earliest", userblock_size=_SEAL_SIZE) as file:
            file.attrs["schema"] = schema
            file.attrs["schema_version"] = version
            yield file
            open_ranges = [_stretch(file[name]) for name in unsealed]
        with partial.open("r+b") as written:
            seal = _seal(written, sorted(stretch for stretch in open_ranges if stretch is not None))
            written.seek(0)
            written.write(seal)


@contextmanager
def open_store(path: Path, schema: str, version: int, remedy: str, missing: str | None = None) -> Iterator[h5py.File]:
    """An HDF5 file of ours to read.

    Args:
        path: the file.
        schema: what it must be.
        version: of which version.
        remedy: what to run when it is not, for the message.
        missing: what to run when there is no file, and so nothing to be written over; None is the remedy, too.

    Raises:
        StoreError: one line, when the file is missing, not HDF5, truncated, another schema or version, or when what is
            read from it in the block is not there or damaged.
    """
    if not path.exists():
        raise StoreError(f"{path}: no such file; {missing or remedy}")
    try:
        if (fault := _broken_seal(path)) is not None:
            raise StoreError(f"{path}: {fault}; {remedy}")
        with h5py.File(path, "r") as file:
            found = file.attrs.get("schema")
            if found != schema:
                what = f"a {found} file" if isinstance(found, str) else "not a file of bassl"
                raise StoreError(f"{path}: is {what}, where {schema} is needed; {remedy}")
            if (written := file.attrs.get("schema_version")) != version:
                raise StoreError(f"{path}: is version {written} of {schema}, this program reads {version}; {remedy}")
            yield file
    except StoreError as error:
        if str(error).endswith(remedy):
            raise
        raise StoreError(f"{error}; {remedy}") from error
    except BasslError:
        raise
    except _DAMAGE as error:
        raise StoreError(f"{path}: is damaged or not HDF5 ({first_line(error)}); {remedy}") from error


def _stretch(data: h5py.Dataset) -> tuple[int, int] | None:
    """Where in the file a data set is, or None when it is empty or in many places."""
    start = data.id.get_offset()
    return None if start is None or data.nbytes == 0 else (start, start + data.nbytes)


def _seal(file: BinaryIO, unsealed: Sequence[tuple[int, int]]) -> bytes:
    """The seal of a file: its size, the ranges left out, in order, and a digest of all other bytes after the seal."""
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
    stated = {"bytes": size, "unsealed": [list(stretch) for stretch in unsealed], "sha256": digest.hexdigest()}
    seal = json.dumps(stated).encode() + b"\n"
    if len(seal) > _SEAL_SIZE:
        raise ValueError("too many unsealed data sets")
    return seal.ljust(_SEAL_SIZE, b"\0")


def _broken_seal(path: Path) -> str | None:
    """What is wrong with the bytes of a file, if anything."""
    with path.open("rb") as file:
        found = file.read(_SEAL_SIZE)
        try:
            stated = json.loads(found.rstrip(b"\0"))
            size, unsealed = int(stated["bytes"]), [(int(start), int(end)) for start, end in stated["unsealed"]]
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
            return "is not a file of bassl, or is damaged"
        there = os.fstat(file.fileno()).st_size
        if there < size:
            return f"is cut short: {there} of {size} bytes"
        edges = [_SEAL_SIZE, *(edge for stretch in unsealed for edge in stretch), size]
        if there > size or edges != sorted(edges) or _seal(file, unsealed) != found:
            return "is damaged: its content does not fit its checksum"
    return None


def read_array(file: h5py.File, name: str, kind: str, dimensions: int) -> NDArray[Any]:
    """A data set as an array of the expected kind (NumPy's ``i``, ``u``, ``f``) and number of dimensions.

    Raises:
        StoreError: when it is missing or something else.
    """
    if name not in file or not isinstance(file[name], h5py.Dataset):
        raise StoreError(f"{file.filename}: is damaged: it has no data set {name!r}")
    data = file[name]
    if data.dtype.kind not in kind or data.ndim != dimensions:
        raise StoreError(f"{file.filename}: is damaged: {name!r} is {data.dtype}, {data.ndim} dimension(s)")
    return np.asarray(data[...])


def read_strings(file: h5py.File, name: str) -> list[str]:
    """A data set of UTF-8 strings."""
    if name not in file or not isinstance(file[name], h5py.Dataset):
        raise StoreError(f"{file.filename}: is damaged: it has no data set {name!r}")
    return [str(value) for value in file[name].asstr("utf-8")[...]]


def read_json_attribute(file: h5py.File, name: str) -> dict[str, Any]:
    """An attribute that holds a JSON object."""
    value = json.loads(file.attrs[name])
    if not isinstance(value, dict):
        raise StoreError(f"{file.filename}: is damaged: its attribute {name!r} is not an object")
    return value
