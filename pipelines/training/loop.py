"""The training loop of pre-training and fine-tuning: step, loss, log, validation, state, signals.

What is trained is a :class:`Task`. All random draws are functions of the seed, the step and the window, never of
earlier draws: a stopped run continues with the same numbers, and several processes draw the same as one, but dropout.
"""

from __future__ import annotations

import inspect
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from pipelines.errors import BasslError
from pipelines.pretext import Variant
from pipelines.progress import TrainingProgress
from pipelines.settings import Precision
from pipelines.training.distributed import (
    Process,
    any_process,
    average_gradients,
    deterministic_algorithms,
    device_name,
    mean_over_processes,
)
from pipelines.training.run_folder import LOG, VALIDATION, RunLog, record_run

_STEPS_AHEAD = 2  # queued on a GPU: the data of each takes memory

Batch = TypeVar("Batch")
Autocast = Callable[[], AbstractContextManager[object]]
"""Makes the context in which losses are computed."""


@dataclass(frozen=True, eq=False)
class Task(Generic[Batch]):
    """What is trained: its schedule, and the functions that the loop calls in every process. Steps count from 0."""

    batches: Callable[[int], Iterator[Batch]]  # this process's batches, from a step on
    # Computes the gradients of a batch. Returns the losses by name, on the device, first ``loss``, which is minimized;
    # their means over processes are logged.
    backward: Callable[[Batch], Mapping[str, Tensor]]
    validate: Callable[[int], dict[str, float]]  # metrics after an epoch (from 1); empty if there is nothing to log
    save: Callable[[], None]  # writes the state to resume from, and perhaps the model
    inputs: Callable[[Batch], Tensor]  # what the network reads of a batch, to explain a loss that is not finite

    epoch_steps: int
    epochs: int
    items: float  # windows or shots in a step, over all processes
    rate: float  # peak learning rate
    warm_up: float  # share of the steps over which the rate rises
    dropout_seed: tuple[int, ...]  # each step and process adds its own numbers
    progress: TrainingProgress  # its step is the number of steps before this training, of other seeds
    inputs_name: str  # features or keyframes
    rate_option: str
    log_steps: int  # from one row of the log to the next; the end of an epoch has one too
    save_minutes: float = 0.0  # from one saved state to the next within an epoch; 0: never
    clip: float | None = None  # greatest norm of the gradient
    seed: int | None = None  # logged in each row

    @property
    def steps(self) -> int:
        return self.epoch_steps * self.epochs


@dataclass(eq=False)
class Trainer:
    """A network in training, and how far it has come."""

    network: nn.Module  # on its device; its weights are saved
    module: nn.Module  # computes the loss: the network, or the network wrapped in DDP
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    autocast: Autocast
    process: Process
    step: int = 0  # steps taken
    sums: dict[str, float] = field(default_factory=dict)  # losses by name, summed over the steps of this epoch
    queued: deque[torch.cuda.Event] = field(default_factory=deque)  # ends of the steps queued on a GPU

    def state(self) -> dict[str, Any]:
        return {
            "model": self.network.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "sums": dict(self.sums),
        }

    def load_state(self, state: Mapping[str, Any], step: int) -> None:
        """Continue from what :meth:`state` returned after so many steps."""
        self.network.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if state["scaler"]:  # empty if the run began without fp16
            self.scaler.load_state_dict(state["scaler"])
        self.step, self.sums = step, dict(state["sums"])

    def mean_losses(self, epoch_steps: int) -> dict[str, float]:
        """Return the mean of each loss over the steps of the current epoch; empty before the first step."""
        return {name: total / ((self.step - 1) % epoch_steps + 1) for name, total in self.sums.items()}


def make_trainer(
    network: nn.Module, optimizer: torch.optim.Optimizer, precision: Precision, process: Process, *, ddp: bool = True
) -> Trainer:
    """Return the trainer of a network on its device. Without ``ddp``, gradients of several processes are averaged after
    the backward pass. Raises BasslError for a precision that the device lacks."""
    autocast, scaler = mixed_precision(precision, process.device)
    module = network
    if process.world_size > 1 and ddp:
        wrapper = nn.parallel.DistributedDataParallel
        # torch 2.14 renamed the argument, and warns of the old name.
        name = "forward_sync_buffers"
        name = name if name in inspect.signature(wrapper).parameters else "broadcast_buffers"
        # The first process's own buffers are saved; synchronized norms are equal anyway.
        options: dict[str, Any] = {name: False, "gradient_as_bucket_view": True}
        device_ids = [process.device.index] if process.device.type == "cuda" else None
        module = wrapper(network, device_ids=device_ids, **options)
    return Trainer(network, module, optimizer, scaler, autocast, process)


def train(
    task: Task[Batch],
    trainer: Trainer,
    *,
    log: RunLog,
    report: Callable[[TrainingProgress], None],
    signals: list[int],
) -> bool:
    """Train from the trainer's step to the end of the last epoch, or to the first step after a signal; return whether
    a signal stopped it. The state is saved after each epoch, at a signal, and as `Task.save_minutes` says. Raises
    BasslError for a loss, gradient or weight that is not finite; then nothing is saved."""
    batches = task.batches(trainer.step)
    recent: list[tuple[Tensor, Tensor]] = []  # losses (L,) and gradient norm of each step since the last row
    stopped, waited, since, saved_at = False, 0.0, time.perf_counter(), time.monotonic()
    while trainer.step < task.steps and not stopped:
        asked = time.perf_counter()
        batch = next(batches)
        waited += time.perf_counter() - asked
        rate = learning_rate(trainer.step, task.steps, task.rate, task.warm_up)
        seed = torch_seed(*task.dropout_seed, trainer.step, trainer.process.rank)
        losses, norm = take_step(trainer, partial(task.backward, batch), rate=rate, clip=task.clip, seed=seed)
        recent.append((torch.stack(list(losses.values())).detach().double(), norm))
        epoch = (trainer.step - 1) // task.epoch_steps + 1
        ends_epoch = trainer.step % task.epoch_steps == 0
        stopped = any_process(trainer.process, bool(signals)) and trainer.step < task.steps
        if not (trainer.step % task.log_steps == 0 or ends_epoch or stopped):
            continue

        rows = _finite_losses(task, trainer, recent, list(losses))  # the only wait for the device
        if (trainer.step - len(rows)) % task.epoch_steps == 0:
            trainer.sums = dict.fromkeys(losses, 0.0)
        for row in rows:
            trainer.sums = {name: total + row[name] for name, total in trainer.sums.items()}
        seconds = time.perf_counter() - since
        speed, waiting = len(rows) * task.items / seconds, waited / seconds
        progress = replace(
            task.progress,
            step=task.progress.step + trainer.step,
            epoch=epoch,
            epochs=task.epochs,
            losses={name: math.fsum(row[name] for row in rows) / len(rows) for name in losses},
            rate=rate,
            speed=speed,
            waiting=waiting,
        )
        place = {"step": progress.step, **({} if task.seed is None else {"seed": task.seed}), "epoch": epoch}
        speeds = {f"{progress.unit}_per_second": speed, "waiting": waiting}
        log.write(LOG, {**place, "learning_rate": rate, **progress.losses, **speeds})
        report(progress)
        if ends_epoch and (metrics := task.validate(epoch)):
            log.write(VALIDATION, {**place, **metrics})
            report(replace(progress, validation=metrics))
        if ends_epoch or stopped or time.monotonic() - saved_at >= 60 * task.save_minutes > 0:
            task.save()
            saved_at = time.monotonic()
        recent, waited, since = [], 0.0, time.perf_counter()
    return stopped


@contextmanager
def logged_run(settings: Any, process: Process, step: int, *, seed_steps: int = 0, **facts: Any) -> Iterator[RunLog]:
    """Yield the log of a run that begins or continues at a step, and record the block in the folder, with the settings
    of the stage and ``facts`` that they became. ``seed_steps`` is as for `RunLog`."""
    run, precision = settings.run, resolved_precision(settings.compute.precision, process.device)
    device = device_name(process.device)
    with (
        deterministic_algorithms(run.deterministic),
        record_run(run.output, settings, process, device=device, precision=precision, **facts),
        RunLog(run.output if process.is_first else None, step, seed_steps=seed_steps) as log,
    ):
        yield log


def take_step(
    trainer: Trainer, backward: Callable[[], Mapping[str, Tensor]], *, rate: float, clip: float | None, seed: int
) -> tuple[Mapping[str, Tensor], Tensor]:
    """Update the weights with the gradients that ``backward`` computes; ``seed`` is for dropout. Returns its losses and
    the norm of the gradient, on the device. On a GPU the step is only queued, at most `_STEPS_AHEAD` ahead."""
    torch.manual_seed(seed)
    for group in trainer.optimizer.param_groups:
        group["lr"] = rate
    losses = backward()
    trained = [parameter for parameter in trainer.network.parameters() if parameter.requires_grad]
    if trainer.module is trainer.network:
        average_gradients(trainer.process, trained)
    trainer.scaler.unscale_(trainer.optimizer)
    norm = torch.nn.utils.get_total_norm([parameter.grad for parameter in trained if parameter.grad is not None])
    if clip is not None:
        torch.nn.utils.clip_grads_with_norm_(trained, clip, norm)
    trainer.scaler.step(trainer.optimizer)
    trainer.scaler.update()
    trainer.optimizer.zero_grad(set_to_none=True)
    trainer.step += 1
    if trainer.process.device.type == "cuda":
        trainer.queued.append(torch.cuda.Event())  # type: ignore[no-untyped-call]
        trainer.queued[-1].record()
        if len(trainer.queued) > _STEPS_AHEAD:
            trainer.queued.popleft().synchronize()
    return losses, norm.double()


def _finite_losses(
    task: Task[Batch], trainer: Trainer, steps: list[tuple[Tensor, Tensor]], names: list[str]
) -> list[dict[str, float]]:
    """Return the losses of the last steps over all processes. Raises BasslError for what is not finite."""
    values = mean_over_processes(torch.stack([losses for losses, _ in steps])).tolist()
    norms = torch.stack([norm for _, norm in steps]).tolist()
    for step, (losses, norm) in enumerate(zip(values, norms, strict=True), start=trainer.step - len(steps)):
        if not math.isfinite(losses[0]):
            raise _not_finite(task, trainer, step, f"its loss is {losses[0]}")
        # In fp16, gradients overflow now and then; the scaler skips such a step.
        if not math.isfinite(norm) and not trainer.scaler.is_enabled():
            raise _not_finite(task, trainer, step, f"its gradient is not finite, though its loss is ({losses[0]:.4g})")
    if not torch.stack([parameter.isfinite().all() for parameter in trainer.network.parameters()]).all():
        raise _not_finite(task, trainer, trainer.step - 1, "a weight is not finite after it")
    return [dict(zip(names, losses, strict=True)) for losses in values]


def _not_finite(task: Task[Batch], trainer: Trainer, step: int, what: str) -> BasslError:
    """Return the error of a step after which training cannot go on. All processes call this."""
    where = f"step {step + 1}" + ("" if task.seed is None else f" of seed {task.seed}")
    inputs = task.inputs(next(task.batches(step)))
    if any_process(trainer.process, not bool(torch.isfinite(inputs).all())):
        remedy = "; make the feature store again" if task.inputs_name == "features" else ""
        return BasslError(f"{where}: its {task.inputs_name} are not all finite numbers{remedy}")
    return BasslError(
        f"{where}: {what}, though its {task.inputs_name} are finite; try a smaller `{task.rate_option}`, or "
        "`precision=float32`"
    )


# --- seeds, precision, optimization, speed ----------------------------------------------------------------------------

# Each random draw has a seed of its own: a function of the run's seed, the purpose, and the epoch or step.
# Do not change their values: resumed runs depend on them.
WINDOW_ORDER, WINDOW_ROWS, KEYFRAMES, PRETEXT_NOISE, AUGMENTATION = range(5)
PRETRAIN_DROPOUT = 100
EXAMPLE_ORDER, VARIATIONS = 200, 201
FINETUNE_DROPOUT = 300


def torch_seed(*numbers: int) -> int:
    """Return a seed for a torch generator."""
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0] >> 1)


def resolved_precision(precision: Precision, device: torch.device) -> Precision:
    """Return what ``auto`` stands for on a device, or the precision. Raises BasslError for fp16 without a GPU."""
    cuda = device.type == "cuda"
    if precision == "fp16" and not cuda:
        raise BasslError("fp16 needs a GPU; use `precision=auto`")
    if precision != "auto":
        return precision
    return ("bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "fp16") if cuda else "float32"


def mixed_precision(precision: Precision, device: torch.device) -> tuple[Autocast, torch.amp.GradScaler]:
    """Return the context for computing losses, and the scaler for fp16. Raises BasslError for fp16 without a GPU."""
    kind = resolved_precision(precision, device)
    dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(kind)
    scaler = torch.amp.GradScaler(device.type, enabled=kind == "fp16")
    return lambda: torch.autocast(device.type, dtype, enabled=dtype is not None), scaler


def weight_dtype(precision: Precision) -> torch.dtype:
    """Return the type of weights and inputs; bf16 and fp16 are used under autocast only."""
    return torch.float64 if precision == "float64" else torch.float32


def make_lars(
    module: nn.Module, momentum: float, weight_decay: float, trust_coefficient: float, exclusion: Variant = "release"
) -> torch.optim.Optimizer:
    """Return timm's LARS (You et al. 2017), without adaptation and decay of some parameters: ``release`` excludes those
    whose name contains ``bn`` or ``bias``, and so not BN in the shortcuts of a ResNet nor LayerNorm; ``paper`` excludes
    "bias and BN parameters" (appendix A), all with at most one dimension. The learning rate is set before each step."""
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
    """Return the rate of a step, from 0: a linear rise to ``peak``, the base rate times batch / 256 (release), over the
    first ``warm_up`` share of the steps, then a cosine to zero."""
    rising = round(warm_up * steps)
    if step < rising:
        return peak * (step + 1) / rising
    return peak * 0.5 * (1 + math.cos(math.pi * (step - rising) / max(1, steps - rising)))


def plain_weights(module: nn.Module | None) -> dict[str, Tensor]:
    """Return the weights of a module as model files store them: on the CPU, floating-point ones as float32."""
    tensors = {} if module is None else module.state_dict()
    return {
        name: (tensor.float() if tensor.is_floating_point() else tensor).detach().cpu().contiguous()
        for name, tensor in tensors.items()
    }
