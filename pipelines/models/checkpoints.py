"""Models on disk: safetensors with the settings in the header."""

from __future__ import annotations

import hashlib
import io
import json
import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from safetensors import SafetensorError, safe_open

from pipelines.errors import BasslWarning, StoreError
from pipelines.files import write_atomically

if TYPE_CHECKING:  # start-up time: NumPy; optional dependency: torch
    from numpy.typing import NDArray
    from torch import Tensor

T = TypeVar("T")
SCHEMA = "bassl.model"
SCHEMA_VERSION = "1"
_LONGEST_HEADER = 100 * 10**6  # of the format
_KINDS = {"bassl": "a pre-trained model", "boundary": "a fine-tuned model"}


def save_model(
    path: Path, weights: Mapping[str, Tensor | NDArray[Any]], kind: str, settings: Mapping[str, Any]
) -> None:
    """Write a model. The file appears under its name only when it is whole; missing folders are made.

    Args:
        path: the file.
        weights: by name, arrays or tensors on the CPU, of types that NumPy has.
        kind: what the weights are, such as `boundary`; `read_arrays` asks for it.
        settings: all that is needed to build the model again, as plain JSON values.
    Raises BasslError: the file cannot be written.
    Raises TypeError, ValueError: the settings are not plain JSON values (NaN and infinity are not).
    """
    import numpy as np  # start-up time: reading headers needs none
    from safetensors.numpy import save  # start-up time: NumPy

    metadata = {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "kind": kind,
        "settings": json.dumps(settings, sort_keys=True, allow_nan=False),
    }
    arrays = {name: np.asarray(each, order="C") for name, each in weights.items()}
    write_atomically(path, _add_digest(save(arrays, metadata)))


def read_arrays(path: Path, kind: str) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read a model that `save_model` wrote; imports no torch.

    Returns: The weights by name, and the settings.
    Raises StoreError: no such file; not safetensors, or truncated; not one of ours; of another version or kind.
    """
    _check_there(path)
    try:
        with safe_open(path, framework="np") as file:
            metadata = _check_header(path, file.metadata())
            if metadata.get("kind") != kind:
                kinds = metadata.get("kind", ""), kind
                found, needed = (_KINDS.get(each, f"a model of kind {each!r}") for each in kinds)
                raise StoreError(f"{path}: holds {found}, and {needed} is needed; give another file")
            _check_digest(path)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, TypeError, ValueError) as error:
        raise _no_model(path) from error
    return arrays, _settings(metadata, path)


def read_model_header(path: Path) -> tuple[str, dict[str, Any]]:
    """The kind and the settings of a model, without its weights. Raises StoreError as `read_arrays`, whatever the
    kind."""
    metadata = _check_header(path, _header(path).get("__metadata__"))
    return metadata.get("kind", ""), _settings(metadata, path)


def numbers_of(stored: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """The fields of a settings class out of a header: all there, no other, each a finite number. Raises ValueError for
    anything else."""
    if set(stored) != {each.name for each in fields(kind)}:
        raise ValueError(f"fields {sorted(stored)}")
    for name, value in stored.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(f"{name} is {value}")
    return dict(stored)


@contextmanager
def settings_fit(path: Path) -> Iterator[None]:
    """A block in which a model is built from a file's weights and settings. Raises StoreError where that fails."""
    try:
        yield
    except (KeyError, TypeError, ValueError, RuntimeError, ArithmeticError) as error:
        raise StoreError(
            f"{path}: its weights and settings do not fit each other; train or download the model again"
        ) from error


def part_of(tensors: Mapping[str, T], part: str) -> dict[str, T]:
    """The tensors whose names begin with ``part.``, by the rest of the name."""
    return {name.removeprefix(f"{part}."): each for name, each in tensors.items() if name.startswith(f"{part}.")}


def _header(path: Path) -> dict[str, Any]:
    """The header of a whole safetensors file, for which safetensors itself would import NumPy."""
    _check_there(path)
    try:
        with path.open("rb") as file:
            header = _read_header(file)
            ends = [each["data_offsets"][1] for name, each in header.items() if name != "__metadata__"]
            whole = file.tell() + max(ends, default=0) == path.stat().st_size
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise _no_model(path) from error
    if not whole:
        raise _no_model(path)
    return header


def _check_there(path: Path) -> None:
    if not path.is_file():
        raise StoreError(f"{path}: no such model file; check the path")


def _no_model(path: Path) -> StoreError:
    return StoreError(f"{path}: not a safetensors file, or truncated; train or download the model again")


def _check_header(path: Path, metadata: Any) -> dict[str, str]:
    if not isinstance(metadata, dict) or metadata.get("schema") != SCHEMA:
        raise StoreError(f"{path}: a safetensors file, but not a bassl model; give a file that bassl wrote")
    version = metadata.get("schema_version")
    if version != SCHEMA_VERSION:
        raise StoreError(
            f"{path}: model file of version {version}, this bassl reads version {SCHEMA_VERSION}; "
            "use the bassl that wrote it, or train the model again"
        )
    return metadata


def _settings(metadata: Mapping[str, str], path: Path) -> dict[str, Any]:
    try:
        settings = json.loads(metadata["settings"])
        if not isinstance(settings, dict):
            raise TypeError("settings are an object")
        return settings
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"{path}: its settings cannot be read; train or download the model again") from error


def _add_digest(content: bytes) -> bytes:
    """A safetensors file with a digest of all else in its header, which is in a fixed order.

    safetensors keeps metadata in a hash map, in another order in every process; a model that is made again should be
    the same file, byte by byte.
    """
    file = io.BytesIO(content)
    header, start = _read_header(file), file.tell()
    header["__metadata__"]["digest"] = _digest(header, file)
    head = _json(header)
    head += b" " * (-len(head) % 8)  # the format wants the tensors aligned
    return len(head).to_bytes(8, "little") + head + content[start:]


def _check_digest(path: Path) -> None:
    """Raises StoreError for a file that is not as it was written. One without a digest is used, with a warning."""
    with path.open("rb") as file:
        header = _read_header(file)
        digest = header["__metadata__"].pop("digest", None)
        found = _digest(header, file)
    if digest is None and header["__metadata__"].keys() == {"schema", "schema_version", "kind", "settings"}:
        warnings.warn(f"{path}: has no digest; whether it is damaged cannot be told", BasslWarning, stacklevel=2)
    elif digest != found:
        raise StoreError(f"{path}: is damaged: its digest does not match; train or download the model again")


def _read_header(file: BinaryIO) -> dict[str, Any]:
    """The header of a safetensors file: eight bytes with its length, then JSON. The tensors come next."""
    length = int.from_bytes(file.read(8), "little")
    header: dict[str, Any] = json.loads(file.read(min(length, _LONGEST_HEADER)))
    return header


def _digest(header: Mapping[str, Any], tensors: BinaryIO) -> str:
    """Of a header and what is left to read of its file."""
    digest = hashlib.sha256(_json(header))
    while part := tensors.read(1 << 20):
        digest.update(part)
    return digest.hexdigest()


def _json(header: Mapping[str, Any]) -> bytes:
    return json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
