"""What all our HDF5 files share: a schema and its version, settings, appearing whole or not at all, clear refusals."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from pipelines.errors import BasslError, StoreError
from pipelines.scenes import check_writable

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


@contextmanager
def create_store(path: Path, schema: str, version: int, unsealed: Collection[str] = ()) -> Iterator[h5py.File]:
    """A new HDF5 file that takes the name ``path`` when the block ends well, and vanishes when it does not.

    Two files with the same content are the same to the byte: no times are stored. The file is sealed: a digest of all
    attributes and of all data sets but the ``unsealed`` ones (which are large and have checks of their own) goes into
    it, so that a flipped byte is noticed.

    Raises:
        BasslError: where the path cannot be written, the disk being full included.
    """
    check_writable(path)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".partial")
    os.close(handle)
    partial = Path(name)
    try:
        # Newer formats of HDF5 note the time at which a group is made.
        with h5py.File(partial, "w", libver="earliest") as file:
            file.attrs["schema"] = schema
            file.attrs["schema_version"] = version
            yield file
            file.attrs["unsealed"] = json.dumps(sorted(unsealed))
            file.attrs["digest"] = _digest(file)
        partial.chmod(0o644)
        partial.replace(path)
    except OSError as error:
        raise BasslError(f"{path}: cannot be written ({first_line(error)})") from error
    finally:
        partial.unlink(missing_ok=True)


def remove_partials(path: Path) -> None:
    """Remove what killed runs left of ``path``."""
    for partial in path.parent.glob(f".{path.name}.*.partial"):
        partial.unlink(missing_ok=True)


@contextmanager
def open_store(path: Path, schema: str, version: int, remedy: str) -> Iterator[h5py.File]:
    """An HDF5 file of ours to read.

    Args:
        path: the file.
        schema: what it must be.
        version: of which version.
        remedy: what to run when it is not, for the message.

    Raises:
        StoreError: one line, when the file is missing, not HDF5, truncated, another schema or version, or when what is
            read from it in the block is not there or damaged.
    """
    if not path.exists():
        raise StoreError(f"{path}: no such file; {remedy}")
    try:
        with h5py.File(path, "r") as file:
            found = file.attrs.get("schema")
            if found != schema:
                what = f"a {found} file" if isinstance(found, str) else "not a file of bassl"
                raise StoreError(f"{path}: is {what}, where {schema} is needed; {remedy}")
            if (written := file.attrs.get("schema_version")) != version:
                raise StoreError(f"{path}: is version {written} of {schema}, this program reads {version}; {remedy}")
            if file.attrs.get("digest") != _digest(file):
                raise StoreError(f"{path}: is damaged: its content does not fit its digest; {remedy}")
            yield file
    except BasslError:
        raise
    except _DAMAGE as error:
        raise StoreError(f"{path}: is damaged or not HDF5 ({first_line(error)}); {remedy}") from error


def _digest(file: h5py.File) -> str:
    unsealed = json.loads(file.attrs["unsealed"])
    digest = hashlib.sha256()

    def add(name: str, item: Any) -> None:
        for key in sorted(item.attrs):
            if key != "digest":
                digest.update(f"{name}@{key}={item.attrs[key]}\n".encode())
        if isinstance(item, h5py.Dataset):
            digest.update(f"{name} {item.dtype} {item.shape}\n".encode())
            if name not in unsealed:
                content = item[...]
                if h5py.check_string_dtype(item.dtype):
                    digest.update(repr(content.tolist()).encode())
                else:
                    digest.update(np.ascontiguousarray(content).view(np.uint8).data)

    add("", file)
    names: list[str] = []
    file.visit(names.append)
    for name in sorted(names):
        add(name, file[name])
    return digest.hexdigest()


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
    return [str(value) for value in file[name].asstr()[...]]


def read_json_attribute(file: h5py.File, name: str) -> dict[str, Any]:
    """An attribute that holds a JSON object."""
    value = json.loads(file.attrs[name])
    if not isinstance(value, dict):
        raise StoreError(f"{file.filename}: is damaged: its attribute {name!r} is not an object")
    return value


def first_line(error: BaseException) -> str:
    """The first line of an error's text, for a message of one line."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
