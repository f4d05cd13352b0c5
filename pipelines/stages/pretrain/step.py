"""One step of pre-training: windows in, losses and gradients, weights moved; what a run repeats, a benchmark times."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from pipelines.errors import BasslError, first_line
from pipelines.pretext.objective import PretextLoss
from pipelines.stages.pretrain.model import PretrainModel, Views, backward_in_parts
from pipelines.training import optimization
from pipelines.training.distributed import Place, average_gradients
from pipelines.training.running import computing_in

if TYPE_CHECKING:
    from pipelines.stages.pretrain import PretrainSettings

_STEPS_AHEAD = 2  # that a GPU may be given before it has done them: what they need must lie in memory


@dataclass(frozen=True, eq=False)
class Learner:
    """A model with what trains it.

    Attributes:
        model: the weights.
        module: what the loss is asked of: the model, or the model in DDP.
        optimizer, scaler: whose states belong to a checkpoint.
        precision: the context to compute losses in.
        micro_batch: windows that are encoded at a time; 0 is all.
        place: this process.
        ahead: what tells that a GPU has done a step, of those that it has been given last.
    """

    model: PretrainModel
    module: nn.Module
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler
    precision: Callable[[], AbstractContextManager[object]]
    micro_batch: int
    place: Place
    ahead: deque[torch.cuda.Event] = field(default_factory=deque)

    def state(self) -> dict[str, Any]:
        """What is needed to go on."""
        return {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
        }

    def go_on_from(self, state: dict[str, Any]) -> None:
        """Take up what :meth:`state` gave."""
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        if state["scaler"]:  # nothing was scaled where a run began on a CPU
            self.scaler.load_state_dict(state["scaler"])


def make_learner(settings: PretrainSettings, model: PretrainModel, place: Place) -> Learner:
    """Give a model on its device what trains it.

    Raises:
        BasslError: one line, for a precision that the device does not have.
    """
    precision, scaler = computing_in(settings.precision, place)
    optimizer = optimization.make_lars(model, settings.momentum, settings.weight_decay, settings.trust)
    if settings.compile:
        model.compile_networks()
    cuda = place.device.type == "cuda"
    if cuda:
        torch.backends.cudnn.benchmark = True  # pictures of one size, again and again
    module: nn.Module = model
    # In parts, the encoder's gradients come together several times a step, and DDP would average each time.
    if place.processes > 1 and not settings.micro_batch:
        module = nn.parallel.DistributedDataParallel(
            model, device_ids=[place.device.index] if cuda else None, gradient_as_bucket_view=True
        )
    return Learner(model, module, optimizer, scaler, precision, settings.micro_batch, place)


def take_step(
    learner: Learner, views: Views, windows: int, noise: Tensor | None, joins: Tensor | None, rate: float, seed: int
) -> PretextLoss:
    """Learn from the windows of this process, together with those of the others.

    On a GPU the step is begun and not waited for; what is waited for is the step before the last one.

    Args:
        learner: its weights move.
        views: dense and slow sequences of a slice of the windows.
        windows: B.
        noise, joins: as for :class:`pipelines.stages.pretrain.model.PretrainModel`.
        rate: learning rate.
        seed: of dropout.
    """
    torch.manual_seed(seed)
    optimization.set_learning_rate(learner.optimizer, rate)
    scaler = learner.scaler
    if 0 < learner.micro_batch < windows:
        loss = backward_in_parts(
            learner.model, views, windows, learner.micro_batch, noise, joins, learner.precision, scaler.scale, seed
        )
    else:
        with learner.precision():
            loss = learner.module(*views(slice(0, windows)), noise, joins)
        scaler.scale(loss.total).backward()
    if learner.module is learner.model:
        average_gradients(learner.place, [p for p in learner.model.parameters() if p.requires_grad])
    scaler.step(learner.optimizer)
    scaler.update()
    learner.optimizer.zero_grad(set_to_none=True)
    if learner.place.device.type == "cuda":
        learner.ahead.append(torch.cuda.Event())  # type: ignore[no-untyped-call]
        learner.ahead[-1].record()
        if len(learner.ahead) > _STEPS_AHEAD:
            learner.ahead.popleft().synchronize()
    return loss


@contextmanager
def limits_in_one_line() -> Iterator[None]:
    """Make one line of what a machine cannot do: too little memory, a reading process that died, no compiler.

    Raises:
        BasslError: for these.
    """
    try:
        yield
    except torch.OutOfMemoryError as error:
        raise BasslError(
            f"the GPU's memory is short ({first_line(error)}); use --micro-batch to encode fewer windows at a time"
        ) from error
    except RuntimeError as error:
        if "DataLoader worker" in str(error):
            raise BasslError(
                f"a process that reads key-frames ended ({first_line(error)}); where memory is short, fewer --workers "
                "or more shared memory (docker run --shm-size) may help; go on with --resume"
            ) from error
        if type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
            raise BasslError(f"--compile does not work here ({first_line(error)}); leave it out") from error
        raise
