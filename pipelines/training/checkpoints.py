"""The state of a training run: weights, optimizer and step, saved so that the run can be resumed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from pipelines.errors import BasslError, StoreError, first_line
from pipelines.files import atomic_file, os_reason
from pipelines.models.opening import STATE
from pipelines.training.distributed import Process
from pipelines.training.peers import gather
from pipelines.training.run_folder import check_identity


def plain_weights(module: nn.Module | None) -> dict[str, Tensor]:
    """The weights of a module as model files store them: on the CPU, floating-point ones as float32; empty for None."""
    tensors = {} if module is None else module.state_dict()
    return {
        name: (tensor.float() if tensor.is_floating_point() else tensor).detach().cpu().contiguous()
        for name, tensor in tensors.items()
    }


def save_state(folder: Path, state: Mapping[str, Any]) -> None:
    """Write the state of a run, tensors and plain containers, atomically. Raises BasslError if it cannot be written."""
    path = folder / STATE
    try:
        with atomic_file(path) as partial:
            torch.save(dict(state), partial)
    except RuntimeError as error:  # what torch raises on a full disk
        raise StoreError(f"{path}: cannot be written ({first_line(error)})") from error


def load_state(folder: Path, identity: Mapping[str, Any], process: Process) -> dict[str, Any] | None:
    """The state of a run, None if there is none yet. Raises StoreError for a file that is damaged or contains anything
    but tensors and plain containers, BasslError if its ``settings`` (JSON) are not ``identity``: the run was started
    with other settings."""
    path = folder / STATE
    if len(set(gather(process, path.exists() and path.stat().st_size))) > 1:
        raise BasslError(f"{folder}: not all processes find the same {STATE}; name a folder that all machines share")
    if not path.exists():
        return None
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        if not isinstance(state, dict) or not {"settings", "step", "model", "optimizer"} <= set(state):
            raise ValueError("not the state of a run")
        stored = json.loads(state["settings"])
    except OSError as error:
        raise StoreError(f"{path}: cannot be read ({os_reason(error)})") from error
    except Exception as error:  # unpickling raises nearly anything
        raise StoreError(f"{path}: is damaged or not the state of a run; start again with --overwrite") from error
    check_identity(folder, stored, identity)
    return state
