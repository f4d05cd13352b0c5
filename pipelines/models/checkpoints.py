"""Models on disk: safetensors with the settings in the header."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

from pipelines.errors import StoreError
from pipelines.files import write_atomically

if TYPE_CHECKING:  # headers are read without waiting for torch
    import torch

SCHEMA = "bassl.model"
SCHEMA_VERSION = "1"


def save_model(path: Path, tensors: Mapping[str, torch.Tensor], kind: str, settings: Mapping[str, Any]) -> None:
    """Write a model. The file appears under its name only when it is whole.

    Args:
        path: where to; missing folders are made.
        tensors: weights by name, any shapes and types that safetensors holds.
        kind: what the weights are, such as `relational`; `load_model` asks for it.
        settings: all that is needed to build the model again, as plain JSON values.

    Raises:
        BasslError: the file cannot be written.
        TypeError, ValueError: the settings are not plain JSON values (NaN and infinity are none).
    """
    from safetensors.torch import save as tensors_to_bytes

    metadata = {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "kind": kind,
        "settings": json.dumps(settings, sort_keys=True, allow_nan=False),
    }
    content = _with_sorted_header(
        tensors_to_bytes({name: tensors[name].detach().cpu().contiguous() for name in sorted(tensors)}, metadata)
    )
    write_atomically(path, content)


def load_model(path: Path, kind: str) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    """Read a model that `save_model` wrote.

    Returns:
        The tensors by name, and the settings.

    Raises:
        StoreError: no such file; not safetensors, or truncated; not one of ours; of another version or kind.
    """
    metadata, tensors = _read(path, with_tensors=True)
    if metadata.get("kind") != kind:
        raise StoreError(f"{path}: holds a model of kind '{metadata.get('kind')}', not '{kind}'; give another file")
    return tensors, _settings(metadata, path)


def read_model_header(path: Path) -> tuple[str, dict[str, Any]]:
    """The kind and the settings of a model, without its weights.

    Raises:
        StoreError: as `load_model`, whatever the kind.
    """
    metadata, _ = _read(path, with_tensors=False)
    return metadata.get("kind", ""), _settings(metadata, path)


def _read(path: Path, with_tensors: bool) -> tuple[dict[str, str], dict[str, torch.Tensor]]:
    if not path.is_file():
        raise StoreError(f"{path}: no such model file; check the path")
    tensors: dict[str, torch.Tensor] = {}
    try:
        with safe_open(path, framework="pt" if with_tensors else "np", device="cpu") as file:
            metadata: dict[str, str] = file.metadata() or {}
            if with_tensors:
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise StoreError(f"{path}: not a safetensors file, or truncated; get or make the model again") from error
    if metadata.get("schema") != SCHEMA:
        raise StoreError(f"{path}: a safetensors file, but not a bassl model; give a file that bassl wrote")
    version = metadata.get("schema_version")
    if version != SCHEMA_VERSION:
        raise StoreError(
            f"{path}: model file of version {version}, this bassl reads version {SCHEMA_VERSION}; "
            "use the bassl that wrote it, or make the model again"
        )
    return metadata, tensors


def _settings(metadata: Mapping[str, str], path: Path) -> dict[str, Any]:
    try:
        settings = json.loads(metadata["settings"])
    except (KeyError, ValueError) as error:
        raise StoreError(f"{path}: its settings cannot be read; get or make the model again") from error
    if not isinstance(settings, dict):
        raise StoreError(f"{path}: its settings cannot be read; get or make the model again")
    return settings


def _with_sorted_header(content: bytes) -> bytes:
    """Write the JSON header of a safetensors file in a fixed order.

    safetensors keeps metadata in a hash map, in another order in every process; a model that is made again should be
    the same file, byte by byte. The format is eight bytes with the header's length, the header, the tensors.
    """
    length = int.from_bytes(content[:8], "little")
    header = json.dumps(json.loads(content[8 : 8 + length]), sort_keys=True, separators=(",", ":")).encode()
    header += b" " * (-len(header) % 8)  # the format wants the tensors aligned
    return len(header).to_bytes(8, "little") + header + content[8 + length :]
