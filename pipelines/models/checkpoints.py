"""Models on disk: safetensors with the settings in the header."""

from __future__ import annotations

import hashlib
import io
import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from safetensors import SafetensorError, safe_open

from pipelines.errors import StoreError, printable
from pipelines.files import check_regular, write_atomically

if TYPE_CHECKING:  # start-up time: NumPy; optional dependency: torch
    from numpy.typing import NDArray
    from torch import Tensor

T = TypeVar("T")
SCHEMA = "bassl.model"
SCHEMA_VERSION = "1"
_LONGEST_HEADER = 100 * 10**6  # of the format
# Not complex numbers, whose imaginary part would be lost, nor numbers of 8 bits or fewer.
_TYPES = {"F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL"}
_KINDS = {"bassl": "a pre-trained model", "boundary": "a fine-tuned model"}


def save_model(
    path: Path, weights: Mapping[str, Tensor | NDArray[Any]], kind: str, settings: Mapping[str, Any]
) -> None:
    """Write a model atomically; missing folders are created.

    `weights`: by name, arrays or tensors on the CPU, of types that NumPy has. `kind`: what they are, such as
    `boundary`; `read_arrays` checks it. `settings`: everything needed to build the model again.
    Raises BasslError: the file cannot be written; TypeError, ValueError: the settings are not plain JSON values (NaN
    and infinity are not).
    """
    import numpy as np  # start-up time: reading headers does not need it
    from safetensors.numpy import save  # start-up time: NumPy

    metadata = {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "kind": kind,
        "settings": json.dumps(settings, sort_keys=True, allow_nan=False),
    }
    arrays = {name: np.asarray(values, order="C") for name, values in weights.items()}
    write_atomically(path, _add_digest(save(arrays, metadata)))


def read_arrays(path: Path, kind: str) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read the weights by name and the settings of a model that `save_model` wrote; imports no torch. Raises
    StoreError: no such file; not safetensors, or damaged; not a bassl model; of another version or kind."""
    check_regular(path, kind=StoreError)
    try:
        with safe_open(path, framework="np") as file:
            metadata = _check_header(path, file.metadata())
            if metadata.get("kind") != kind:
                kinds = metadata.get("kind", ""), kind
                stored, needed = (_KINDS.get(name, f"a model of kind {name!r}") for name in kinds)
                raise StoreError(f"{path}: is {stored}, but {needed} is needed; give another file")
            _check_content(path)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, TypeError, ValueError) as error:
        raise _no_model(path) from error
    return arrays, _settings(metadata, path)


def read_model_header(path: Path) -> tuple[str, dict[str, Any]]:
    """Read the kind and the settings of a model, without its weights. Raises StoreError as
    `read_arrays`."""
    check_regular(path, kind=StoreError)
    try:
        # safetensors itself would import NumPy to read a header.
        with path.open("rb") as file:
            header = _read_header(file)
            ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
            whole = file.tell() + max(ends, default=0) == path.stat().st_size
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise _no_model(path) from error
    if not whole:
        raise _no_model(path)
    metadata = _check_header(path, header.get("__metadata__"))
    return metadata.get("kind", ""), _settings(metadata, path)


def numbers_of(stored: Mapping[str, Any], kind: type) -> dict[str, Any]:
    """Return the fields of a settings class from a header. Raises ValueError unless they are there and each is a finite
    number."""
    numbers = {field.name: stored[field.name] for field in fields(kind)}
    for name, value in numbers.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError(f"{name} is {value}")
    return numbers


@contextmanager
def settings_fit(path: Path) -> Iterator[None]:
    """Guard a block that builds a model from a file's weights and settings. Raises StoreError if that fails."""
    try:
        yield
    except (KeyError, TypeError, ValueError, RuntimeError, ArithmeticError) as error:
        raise StoreError(
            f"{path}: its weights and settings do not fit each other; train or download the model again"
        ) from error


def part_of(tensors: Mapping[str, T], part: str) -> dict[str, T]:
    """Return the tensors whose names begin with ``part.``, by the rest of the name."""
    return {name.removeprefix(f"{part}."): tensor for name, tensor in tensors.items() if name.startswith(f"{part}.")}


def _no_model(path: Path) -> StoreError:
    return StoreError(f"{path}: not a safetensors file, or truncated; train or download the model again")


def _check_header(path: Path, metadata: Any) -> dict[str, str]:
    if not isinstance(metadata, dict) or metadata.get("schema") != SCHEMA:
        raise StoreError(f"{path}: a safetensors file, but not a bassl model; give a file that bassl wrote")
    version = metadata.get("schema_version")
    if version != SCHEMA_VERSION:
        raise StoreError(
            f"{path}: model file of version {version}, but this bassl reads version {SCHEMA_VERSION}; "
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
    """Return a safetensors file with its header in a fixed order, and a digest of everything else in the header.
    safetensors keeps metadata in a hash map, in another order in every process, but the same model should give the same
    bytes."""
    file = io.BytesIO(content)
    header, start = _read_header(file), file.tell()
    header["__metadata__"]["digest"] = _digest(header, file)
    head = _json(header)
    head += b" " * (-len(head) % 8)  # the format requires aligned tensors
    return len(head).to_bytes(8, "little") + head + content[start:]


def _check_content(path: Path) -> None:
    with path.open("rb") as file:
        header = _read_header(file)
        for name, entry in header.items():
            if name != "__metadata__" and entry["dtype"] not in _TYPES:
                raise StoreError(
                    f"{path}: its weights {printable(name, 200)} are {entry['dtype']}, which cannot be used"
                )
        if header["__metadata__"].pop("digest", None) == _digest(header, file):
            return
    raise StoreError(f"{path}: is damaged: its digest does not match; train or download the model again")


def _read_header(file: BinaryIO) -> dict[str, Any]:
    """Read the header of a safetensors file: eight bytes with its length, then JSON. The tensors come next."""
    length = int.from_bytes(file.read(8), "little")
    header: dict[str, Any] = json.loads(file.read(min(length, _LONGEST_HEADER)))
    return header


def _digest(header: Mapping[str, Any], tensors: BinaryIO) -> str:
    digest = hashlib.sha256(_json(header))
    while part := tensors.read(1 << 20):
        digest.update(part)
    return digest.hexdigest()


def _json(header: Mapping[str, Any]) -> bytes:
    return json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
