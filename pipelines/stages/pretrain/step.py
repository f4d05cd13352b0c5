"""One step of pre-training: windows in, loss and gradients, weights updated."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from pipelines.pretext.objective import PretextLoss
from pipelines.stages.pretrain.data import Views
from pipelines.stages.pretrain.model import PretrainModel, backward_in_parts
from pipelines.stages.pretrain.settings import PretrainSettings
from pipelines.training.distributed import Process, average_gradients
from pipelines.training.loops import Autocast, make_lars, mixed_precision, set_learning_rate

_STEPS_AHEAD = 2  # queued on a GPU: the data of each takes memory


@dataclass(frozen=True, eq=False)
class Trainer:
    """A model and its optimizer."""

    model: PretrainModel
    module: nn.Module  # computes the loss: the model, or the model wrapped in DDP
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    autocast: Autocast  # the context to compute losses in
    micro_batch: int  # windows encoded at a time; 0 means all
    process: Process
    ahead: deque[torch.cuda.Event] = field(default_factory=deque)  # ends of the steps queued on a GPU

    def state(self) -> dict[str, Any]:
        """State needed to resume."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
        }

    def load_state(self, state: dict[str, Any]) -> None:
        """Resume from what :meth:`state` returned."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if state["scaler"]:  # empty if the run began on a CPU
            self.scaler.load_state_dict(state["scaler"])


def make_trainer(settings: PretrainSettings, model: PretrainModel, process: Process) -> Trainer:
    """The optimizer, DDP and compilation for a model on its device, as the settings say. Raises BasslError for a
    precision that the device lacks."""
    autocast, scaler = mixed_precision(settings.compute.precision, process.device)
    optimizer = make_lars(model, settings.momentum, settings.weight_decay, settings.trust, settings.lars_exclude)
    if settings.compile:
        model.compile_networks()
    cuda = process.device.type == "cuda"
    if cuda:
        torch.backends.cudnn.benchmark = True  # all inputs have one size
    module: nn.Module = model
    # Micro-batches accumulate the encoder's gradients over several passes; DDP would average after each.
    if process.world_size > 1 and not settings.micro_batch:
        module = nn.parallel.DistributedDataParallel(
            model, device_ids=[process.device.index] if cuda else None, gradient_as_bucket_view=True
        )
    return Trainer(model, module, optimizer, scaler, autocast, settings.micro_batch, process)


def take_step(
    trainer: Trainer, views: Views, windows: int, *, noise: Tensor | None, joins: Tensor | None, rate: float, seed: int
) -> PretextLoss:
    """Update the weights with the B ``windows`` of each process; ``seed`` is for dropout. On a GPU the step is only
    queued, at most `_STEPS_AHEAD` ahead."""
    torch.manual_seed(seed)
    set_learning_rate(trainer.optimizer, rate)
    scaler = trainer.scaler
    if 0 < trainer.micro_batch < windows:
        loss = backward_in_parts(
            trainer.model,
            views,
            windows,
            trainer.micro_batch,
            noise=noise,
            joins=joins,
            autocast=trainer.autocast,
            scale=scaler.scale,
            seed=seed,
        )
    else:
        with trainer.autocast():
            loss = trainer.module(*views(slice(0, windows)), noise, joins)
        scaler.scale(loss.total).backward()
    if trainer.module is trainer.model:
        average_gradients(trainer.process, [p for p in trainer.model.parameters() if p.requires_grad])
    scaler.step(trainer.optimizer)
    scaler.update()
    trainer.optimizer.zero_grad(set_to_none=True)
    if trainer.process.device.type == "cuda":
        trainer.ahead.append(torch.cuda.Event())  # type: ignore[no-untyped-call]
        trainer.ahead[-1].record()
        if len(trainer.ahead) > _STEPS_AHEAD:
            trainer.ahead.popleft().synchronize()
    return loss
