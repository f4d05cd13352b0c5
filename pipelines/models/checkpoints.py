"""Models on disk: safetensors with the settings in the header, and a digest of everything."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import msgspec
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
_KINDS = {"bassl": "a pre-trained model", "boundary": "a fine-tuned model"}


def save_model(
    path: Path, weights: Mapping[str, Tensor | NDArray[Any]], kind: str, settings: Mapping[str, Any]
) -> None:
    """Write a model atomically; missing folders are created. `weights` are on the CPU, of types that NumPy has; `kind`
    is what they are, such as `boundary`; `settings` are needed to build the model again. Raises BasslError: the file
    cannot be written; TypeError, ValueError: the settings are not plain JSON values."""
    import numpy as np  # start-up time: reading headers does not need it
    from safetensors.numpy import save  # start-up time: NumPy

    metadata = {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "kind": kind,
        "settings": json.dumps(settings, sort_keys=True, allow_nan=False),
    }
    arrays = {name: np.asarray(values, order="C") for name, values in weights.items()}
    content = save(arrays, metadata)
    # Its metadata are in another order in every process, but the same model should give the same bytes.
    tensors = io.BytesIO(content)
    header = _parse_header(tensors)
    header["__metadata__"]["digest"] = _digest(header, tensors)
    encoded = _json(header)
    encoded += b" " * (-len(encoded) % 8)  # the format requires aligned tensors
    start = 8 + int.from_bytes(content[:8], "little")
    write_atomically(path, len(encoded).to_bytes(8, "little") + encoded + content[start:])


def read_model_header(path: Path) -> tuple[str, dict[str, Any]]:
    """Read the kind and the settings of a model, without its weights or NumPy. Raises StoreError if it is none."""
    check_regular(path, kind=StoreError)
    try:
        with path.open("rb") as file:
            header = _parse_header(file)
            ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
            is_whole = file.tell() + max(ends, default=0) == path.stat().st_size
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        is_whole = False
    if not is_whole:
        remedy = "train or download the model again, or import it with `bassl import-checkpoint` if it is a .ckpt"
        raise StoreError(f"{path}: not a safetensors file, or truncated; {remedy}")
    metadata = header.get("__metadata__", {})
    if metadata.get("schema") != SCHEMA:
        raise StoreError(f"{path}: a safetensors file, but not a bassl model; give a file that bassl wrote")
    if (version := metadata.get("schema_version")) != SCHEMA_VERSION:
        raise StoreError(
            f"{path}: model file of version {version}, but this bassl reads version {SCHEMA_VERSION}; "
            "use the bassl that wrote it, or train the model again"
        )
    try:
        return str(metadata.get("kind", "")), msgspec.json.decode(metadata["settings"], type=dict[str, Any])
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise StoreError(f"{path}: its settings cannot be read; train or download the model again") from error


def read_arrays(path: Path, kind: str) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Read the weights by name and the settings of a model that `save_model` wrote; imports no torch. Raises StoreError
    as `read_model_header`; for another kind; for a damaged file, or weights that are not finite numbers."""
    import numpy as np  # start-up time: reading headers does not need it

    stored, settings = read_model_header(path)
    if stored != kind:
        words = [_KINDS.get(name, f"a model of kind {name!r}") for name in (stored, kind)]
        raise StoreError(f"{path}: is {words[0]}, but {words[1]} is needed; give another file")
    try:
        with path.open("rb") as file:
            header = _parse_header(file)
            is_whole = header["__metadata__"].pop("digest", None) == _digest(header, file)
        with safe_open(path, framework="np") as tensors:
            arrays = {name: tensors.get_tensor(name) for name in tensors.keys()} if is_whole else {}  # noqa: SIM118
    except (SafetensorError, OSError, TypeError, ValueError):
        is_whole = False
    if not is_whole:
        raise StoreError(f"{path}: is damaged: its digest does not match; train or download the model again")
    for name, array in arrays.items():
        if array.dtype.kind not in "fi" or not np.isfinite(array).all():
            raise StoreError(f"{path}: its weights {printable(name, 200)} are not finite numbers; get the file again")
    return arrays, settings


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


def _parse_header(file: BinaryIO) -> dict[str, dict[str, Any]]:
    """Read the header of a safetensors file: eight bytes with its length, then JSON. The tensors come next."""
    length = int.from_bytes(file.read(8), "little")
    return msgspec.json.decode(file.read(min(length, _LONGEST_HEADER)), type=dict[str, dict[str, Any]])


def _digest(header: Mapping[str, Any], tensors: BinaryIO) -> str:
    digest = hashlib.sha256(_json(header))
    while part := tensors.read(1 << 20):
        digest.update(part)
    return digest.hexdigest()


def _json(header: Mapping[str, Any]) -> bytes:
    return json.dumps(header, sort_keys=True, separators=(",", ":")).encode()
