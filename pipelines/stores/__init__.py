"""HDF5 files with a schema version and checksums: written atomically, and checked when they are read."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import h5py
import numpy as np
from numpy.typing import NDArray

from pipelines.errors import StoreError, first_line
from pipelines.files import atomic_file, os_reason


class DamageError(Exception):
    """Fault in the content of a store, in a few words; raised inside :func:`open_store`."""


# What h5py raises for damaged files.
_DAMAGE = (OSError, LookupError, RuntimeError, ValueError, TypeError, AttributeError, OverflowError, MemoryError)

# Errors of the system, not of the content: HDF5_USE_FILE_LOCKING=TRUE demands a lock.
_UNREADABLE = {errno.EAGAIN, errno.ENOLCK, errno.EOPNOTSUPP, errno.EIO, errno.EACCES, errno.ENOMEM}

# HDF5 1.10 is the first version with checksums in all its metadata: on damaged files of older ones it may hang.
_FORMAT = ("v110", "v110")
_FAULTS = {"truncated file": "is cut short", "file signature not found": "is not a file of bassl, or is damaged"}
_ALIGNMENT = 64  # bytes, of arrays that are mapped


def write_store(
    path: Path,
    schema: str,
    version: int,
    *,
    attributes: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    mapped: Collection[str] = (),
    appended: tuple[str, IO[bytes]] | None = None,
) -> None:
    """Write an HDF5 file atomically; equal content gives equal bytes. HDF5 checks ``arrays`` by Fletcher's checksum,
    except those named in ``mapped``, which are contiguous in the file and need checksums of their own, as does
    ``appended``: the name of a data set of bytes and a file with its content, which is never in memory as a whole.
    Raises BasslError if the path cannot be written or the disk is full."""
    # In memory, because HDF5 crashes if it cannot write to the disk.
    image, tail, start = BytesIO(), None, None
    with h5py.File(image, "w", libver=_FORMAT, alignment_threshold=_ALIGNMENT, alignment_interval=_ALIGNMENT) as file:
        if appended is not None:
            tail = file.create_dataset(appended[0], (appended[1].seek(0, os.SEEK_END),), np.uint8)
        for name, value in {"schema": schema, "schema_version": version, **attributes}.items():
            # HDF5 has no checksums for strings of variable length.
            file.attrs[name] = np.bytes_(os.fsencode(value)) if isinstance(value, str) else value
        for name, array in arrays.items():
            file.create_dataset(name, data=array, fletcher32=bool(array.size) and name not in mapped)
        if tail is not None and tail.size:
            tail[:1] = 0  # HDF5 reserves its bytes, which are then the last of the file
            start = tail.id.get_offset()
    with atomic_file(path) as partial, partial.open("wb") as target:
        target.write(image.getbuffer())
        if appended is not None and start is not None:
            appended[1].seek(0)
            target.seek(start)
            shutil.copyfileobj(appended[1], target)


@contextmanager
def open_store(
    path: Path, schema: str, version: int, *, remedy: str, missing: str | None = None
) -> Iterator[h5py.File]:
    """Open an HDF5 file that :func:`write_store` made. Raises StoreError if it is missing, damaged, or of another
    schema or version, also in the block, with ``remedy``, what to run, or for a missing file with ``missing``."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # reading a pipe could block forever
            raise StoreError(f"{path}: is not a file; {remedy}")
        path.open("rb").close()
    except FileNotFoundError as error:
        raise StoreError(f"{path}: no such file; {missing or remedy}") from error
    except OSError as error:
        raise StoreError(f"{path}: cannot be read ({os_reason(error)})") from error
    try:
        # Without a lock, which a network file system may not have: a file that is there is never written to.
        with h5py.File(path, "r", locking=False) as file:
            actual, written = _text(file.attrs.get("schema")), file.attrs.get("schema_version")
            if actual != schema or written != version:
                what = f"version {written} of {actual}" if isinstance(actual, str) else "a file of another program"
                raise StoreError(f"{path}: is {what}, not version {version} of {schema}; {remedy}")
            yield file
    except DamageError as error:
        raise StoreError(f"{path}: is damaged: {error}; {remedy}") from error
    except _DAMAGE as error:
        if isinstance(error, OSError) and error.errno in _UNREADABLE:
            raise StoreError(f"{path}: cannot be read ({os_reason(error)})") from error
        fault = f"is damaged or not HDF5 ({first_line(error)})"
        fault = next((ours for theirs, ours in _FAULTS.items() if theirs in str(error)), fault)
        raise StoreError(f"{path}: {fault}; {remedy}") from error


def read_array(file: h5py.File, name: str, dtype: Any, dimensions: int) -> NDArray[Any]:
    """Read a data set. Raises DamageError if it is missing, or of another kind of type or number of dimensions."""
    data = data_set(file, name)
    if data.dtype.kind != np.dtype(dtype).kind or data.ndim != dimensions:
        raise DamageError(f"{name!r} is {data.dtype}, {data.ndim} dimension(s)")
    return np.asarray(data[...], dtype)


def map_array(path: Path, file: h5py.File, name: str) -> NDArray[np.floating[Any]]:
    """Map a data set of floats (N, D) into memory. Raises DamageError if it is missing, or not contiguous floats."""
    data = data_set(file, name)
    start = data.id.get_offset()
    if start is None or data.ndim != 2 or data.dtype.kind != "f":
        raise DamageError(f"{name!r} is not (N, D) contiguous floats")
    # Copy on write: PyTorch warns about read-only arrays, and the file must not change.
    return np.asarray(np.memmap(path, data.dtype, "c", start, data.shape))


def data_set(file: h5py.File, name: str) -> h5py.Dataset:
    """Return a data set. Raises DamageError if it is missing, or not in this file: HDF5 would open any other file
    that a link names, take bytes from it, and make a few bytes any size by compression or by leaving out what is 0."""
    node: Any = file
    for part in name.split("/"):
        is_local = isinstance(node, h5py.Group) and isinstance(node.get(part, getlink=True), h5py.HardLink)
        node = node[part] if is_local else None
    if not isinstance(node, h5py.Dataset) or node.external or node.is_virtual:
        raise DamageError(f"it has no data set {name!r}")
    if node.id.get_storage_size() < node.nbytes:
        raise DamageError(f"{name!r} has {node.id.get_storage_size():,} of its {node.nbytes:,} bytes")
    return node


def read_text_attribute(file: h5py.File, name: str) -> str:
    """Read an attribute that is a text. Raises DamageError if it is missing or not a text."""
    text = _text(file.attrs.get(name))
    if not isinstance(text, str):
        raise DamageError(f"its attribute {name!r} is not a text")
    return text


def read_json_attribute(file: h5py.File, name: str) -> dict[str, Any]:
    """Read an attribute that is a JSON object. Raises DamageError for another JSON value."""
    value = json.loads(read_text_attribute(file, name))
    if not isinstance(value, dict):
        raise DamageError(f"its attribute {name!r} is not an object")
    return value


def _text(value: Any) -> Any:
    return os.fsdecode(value) if isinstance(value, bytes) else value
