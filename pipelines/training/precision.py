"""Mixed precision: the autocast context of a training step, and the gradient scaling that fp16 needs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import torch

from pipelines.errors import BasslError
from pipelines.training.settings import Precision

Autocast = Callable[[], AbstractContextManager[object]]


def mixed_precision(precision: Precision, device: torch.device) -> tuple[Autocast, torch.amp.GradScaler]:
    """The autocast context for computing losses, and the gradient scaler, which does nothing except for fp16. Raises
    BasslError for fp16 without a GPU."""
    cuda = device.type == "cuda"
    kind = precision
    if kind == "auto":
        kind = ("bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16") if cuda else "float32"
    if kind == "fp16" and not cuda:
        raise BasslError("fp16 needs a GPU; use --precision auto")
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(kind)
    scaler = torch.amp.GradScaler(device.type, enabled=kind == "fp16")
    return lambda: torch.autocast(device.type, dtype, enabled=dtype is not None), scaler


def weight_dtype(precision: Precision) -> torch.dtype:
    """The type of weights and inputs; bf16 and fp16 are used under autocast only."""
    return torch.float64 if precision == "float64" else torch.float32
