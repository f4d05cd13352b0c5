"""What both training loops share: seeds, precision, optimizer, schedule, throughput, errors of the machine, features on
a device, and the state of a run, saved so that it can be resumed."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pipelines.errors import BasslError, StoreError, first_line
from pipelines.files import atomic_file, os_reason
from pipelines.models.opening import STATE
from pipelines.pretext.settings import Variant
from pipelines.settings import Precision
from pipelines.stores.features import ShotRows
from pipelines.training.distributed import Process, send
from pipelines.training.jobs import gather
from pipelines.training.run_folder import check_identity

# Each random draw has a seed of its own: a function of the run's seed, the purpose, and the epoch or step.
# Do not change their values: resumed runs depend on them.
WINDOW_ORDER, WINDOW_ROWS, KEYFRAMES, PRETEXT_NOISE, AUGMENTATION = range(5)
PRETRAIN_DROPOUT = 100
EXAMPLE_ORDER, VARIATIONS = 200, 201
FINETUNE_DROPOUT = 300


def torch_seed(*numbers: int) -> int:
    """A seed for a torch generator."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)


Autocast = Callable[[], AbstractContextManager[object]]


def mixed_precision(precision: Precision, device: torch.device) -> tuple[Autocast, torch.amp.GradScaler]:
    """The autocast context for computing losses, and the gradient scaler, which does nothing except for fp16. Raises
    BasslError for fp16 without a GPU."""
    cuda = device.type == "cuda"
    kind = precision
    if kind == "auto":
        kind = ("bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16") if cuda else "float32"
    if kind == "fp16" and not cuda:
        raise BasslError("fp16 needs a GPU; use `precision=auto`")
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(kind)
    scaler = torch.amp.GradScaler(device.type, enabled=kind == "fp16")
    return lambda: torch.autocast(device.type, dtype, enabled=dtype is not None), scaler


def weight_dtype(precision: Precision) -> torch.dtype:
    """The type of weights and inputs; bf16 and fp16 are used under autocast only."""
    return torch.float64 if precision == "float64" else torch.float32


def make_lars(
    module: nn.Module, momentum: float, weight_decay: float, trust_coefficient: float, exclusion: Variant = "release"
) -> torch.optim.Optimizer:
    """LARS (You et al. 2017) by timm, without adaptation and decay of some parameters.

    ``release`` excludes the parameters whose name contains ``bn`` or ``bias``. So it adapts and decays the weights of
    BN in the shortcuts of a ResNet (``downsample.1.weight``) and of LayerNorm in the CRN and in the MSM head. ``paper``
    excludes "bias and BN parameters" (appendix A), here all parameters with at most one dimension, which includes these
    ten tensors of the paper's model. The learning rate is set before each step."""
    from timm.optim import Lars  # start-up time: timm, which fine-tuning does not need

    def excluded(name: str, parameter: Tensor) -> bool:
        return parameter.ndim <= 1 if exclusion == "paper" else "bn" in name or "bias" in name

    trained = [(name, parameter) for name, parameter in module.named_parameters() if parameter.requires_grad]
    adapted = [parameter for name, parameter in trained if not excluded(name, parameter)]
    groups = [
        # Without ``always_adapt`` timm adapts only decayed parameters: a weight decay of 0 would be plain SGD.
        {"params": adapted, "weight_decay": weight_decay, "always_adapt": True},
        {"params": [parameter for name, parameter in trained if excluded(name, parameter)], "weight_decay": 0.0},
    ]
    optimizer: torch.optim.Optimizer = Lars(
        [group for group in groups if group["params"]], lr=1.0, momentum=momentum, trust_coeff=trust_coefficient
    )
    return optimizer


def learning_rate(step: int, steps: int, peak: float, warm_up: float) -> float:
    """The rate of a step, from 0: a linear rise to ``peak``, the base rate times batch / 256 (release), over the first
    ``warm_up`` share of the steps, then a cosine to zero."""
    rising = round(warm_up * steps)
    if step < rising:
        return peak * (step + 1) / rising
    return peak * 0.5 * (1 + math.cos(math.pi * (step - rising) / max(1, steps - rising)))


def set_learning_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = rate


T = TypeVar("T")


class Throughput:
    """Measures from its creation or the last :meth:`reset`."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self._since, self._waited, self.steps = time.perf_counter(), 0.0, 0

    def next_of(self, batches: Iterator[T]) -> T:
        """The next batch; the time to get it counts as waiting."""
        start = time.perf_counter()
        batch = next(batches)
        self._waited += time.perf_counter() - start
        self.steps += 1
        return batch

    def measure(self, items: float) -> tuple[float, float]:
        """Items per second, with so many ``items`` per step, and the share of time spent waiting."""
        seconds = time.perf_counter() - self._since
        return self.steps * items / seconds, self._waited / seconds


FEWER_WINDOWS = "use `micro_batch` to encode fewer windows at a time; batch normalization then sees only these"


@contextmanager
def limits_in_one_line(relief: str) -> Iterator[None]:
    """Raises BasslError for the limits of a machine: too little memory (``relief``: what to do), a dead worker process,
    no compiler."""
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise BasslError(f"the GPU is out of memory ({first_line(error)}); {relief}") from error
    except MemoryError as error:  # of NumPy
        raise BasslError(f"there is not enough memory ({first_line(error)}); {relief}") from error
    except RuntimeError as error:
        if "can't allocate memory" in str(error):
            raise BasslError(f"there is not enough memory ({first_line(error)}); {relief}") from error
        if "DataLoader worker" in str(error):
            raise BasslError(
                f"a process that reads keyframes ended ({first_line(error)}); if memory is short, use fewer `workers` "
                "or more shared memory (docker run --shm-size); continue with `resume=True`"
            ) from error
        if type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
            raise BasslError(f"`compile` does not work here ({first_line(error)}); leave it out") from error
        raise


def plain_weights(module: nn.Module | None) -> dict[str, Tensor]:
    """The weights of a module as model files store them: on the CPU, floating-point ones as float32."""
    tensors = {} if module is None else module.state_dict()
    return {
        name: (tensor.float() if tensor.is_floating_point() else tensor).detach().cpu().contiguous()
        for name, tensor in tensors.items()
    }


def save_state(folder: Path, state: Mapping[str, Any]) -> None:
    """Write the state of a run, tensors and plain containers. Raises BasslError if it cannot be written."""
    path = folder / STATE
    try:
        with atomic_file(path) as partial:
            torch.save(dict(state), partial)
    except RuntimeError as error:  # what torch raises on a full disk
        raise StoreError(f"{path}: cannot be written ({first_line(error)})") from error


def load_state(folder: Path, identity: Mapping[str, Any], process: Process) -> dict[str, Any] | None:
    """The state of a run, if there is one. Raises StoreError if it is damaged or contains more than tensors and plain
    containers, BasslError if its ``settings`` (JSON) are not ``identity``."""
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
        raise StoreError(f"{path}: is damaged or not the state of a run; start again with `overwrite=True`") from error
    check_identity(folder, stored, identity)
    return state


class DeviceRows:
    """Features of shots as batches on a device. They stay on a GPU, in their stored type, if they take less than half
    of its free memory; otherwise each batch is gathered on the CPU."""

    def __init__(self, rows: ShotRows, device: torch.device) -> None:
        self._rows, self._device = rows, device
        self._on_gpu: Tensor | None = None
        size = len(rows) * rows.width * rows.dtype.itemsize
        if device.type == "cuda" and size < torch.cuda.mem_get_info(device)[0] / 2:
            kind = torch.from_numpy(np.empty(0, rows.dtype)).dtype
            self._on_gpu = torch.empty(len(rows), rows.width, dtype=kind, device=device)
            for video in rows.videos:
                span = slice(int(rows.first_row[video]), int(rows.first_row[video + 1]))
                self._on_gpu[span] = torch.from_numpy(rows[span]).to(device)

    def gather(self, rows: NDArray[np.int64], dtype: torch.dtype = torch.float32) -> Tensor:
        """Features of rows (...), (..., D_e) on the device."""
        if self._on_gpu is None:
            return send(torch.from_numpy(self._rows[rows]), self._device).to(dtype)
        return self._on_gpu[send(torch.from_numpy(rows), self._device)].to(dtype)
