"""A simulated device: its tensors report it, compute on the CPU, and cannot be mixed with CPU tensors.

So a machine without a GPU can run, with all values, what would run on one, and finds the tensor that was left behind.
The tensors are on ``torch.device("meta")``, for which autograd needs no driver.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = torch.device("meta")

_aten = torch.ops.aten
_COPIES = (_aten._to_copy.default, _aten.copy_.default)


class _There(Tensor):
    """A tensor on the other device; ``inner`` has its values."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> _There:
        there: _There = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=DEVICE,
        )
        there.inner = inner
        return there

    def tolist(self) -> Any:
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise RuntimeError("the other device is only there within AnotherDevice")


class AnotherDevice(TorchDispatchMode):
    """While it is entered, the simulated device exists."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        autocast = torch.autocast
        # It knows no such device; without a GPU's own kernels there is nothing to cast for.
        monkeypatch.setattr(torch, "autocast", lambda _, *args, **kwargs: autocast("cpu", *args, **kwargs))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        tensors = [x for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)]
        there = any(isinstance(x, _There) for x in tensors)
        result_there = there
        if kwargs.get("device") is not None:
            result_there = torch.device(kwargs["device"]) == DEVICE
            kwargs["device"] = torch.device("cpu")
        mixed = there and any(not isinstance(x, _There) and x.ndim > 0 for x in tensors)
        if mixed and func not in _COPIES:
            raise RuntimeError(f"{func}: not all tensors are on one device")
        values = func(*tree_map(_value, args), **tree_map(_value, kwargs))
        if func._schema.is_mutable and tensors and func.__name__.partition(".")[0].endswith("_"):
            return args[0]  # what was changed in place
        if isinstance(kwargs.get("out"), Tensor):
            return kwargs["out"]
        return tree_map(lambda x: _There(x) if isinstance(x, Tensor) else x, values) if result_there else values


def _value(x: Any) -> Any:
    return x.inner if isinstance(x, _There) else x
