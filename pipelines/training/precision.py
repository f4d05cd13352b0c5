"""Mixed precision: the autocast context of a training step, and the gradient scaling that fp16 needs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import torch

from pipelines.errors import BasslError
from pipelines.training.settings import Precision

Autocast = Callable[[], AbstractContextManager[object]]


def mixed_precision(precision: Precision, device: torch.device) -> tuple[Autocast, torch.amp.GradScaler]:
    """The context to compute losses in, and the gradient scaler, which does nothing unless the precision is fp16.
    Raises BasslError for fp16 without a GPU."""
    cuda = device.type == "cuda"
    chosen = precision
    if chosen == "auto":
        chosen = ("bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16") if cuda else "float32"
    if chosen == "fp16" and not cuda:
        raise BasslError("fp16 needs a GPU; use --precision auto")
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(chosen)
    scaler = torch.amp.GradScaler(device.type, enabled=chosen == "fp16")
    return lambda: torch.autocast(device.type, dtype, enabled=dtype is not None), scaler


def weight_dtype(precision: Precision) -> torch.dtype:
    """Of weights and inputs; bf16 and fp16 are for what is computed under autocast only."""
    return torch.float64 if precision == "float64" else torch.float32
