"""The network of pre-training (shot encoder, contextual relation network, heads of the pretext tasks) and its steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from pipelines.errors import BasslError
from pipelines.models.networks.crn import ContextualRelationNetwork
from pipelines.pretext.objective import PretextLoss, PretextObjective
from pipelines.stages.pretrain.data import PretextWindows, Views
from pipelines.stages.pretrain.settings import PretrainSettings
from pipelines.training.distributed import Process, average_gradients, synchronised_norms
from pipelines.training.loops import Autocast, make_lars, mixed_precision, set_learning_rate
from pipelines.training.memory import check_kept, free_bytes, gigabytes, measure_images, windows_that_fit

_STEPS_AHEAD = 2  # queued on a GPU: the data of each takes memory
_BATCHES_IN_MEMORY = 3  # of keyframes: the current one, and those that are read ahead
_PROGRAM, _WORKER = 700_000_000, 300_000_000  # bytes of this program, and of each process that reads keyframes


class PretrainModel(nn.Module):
    """Dense and slow sequences of windows in, the loss out. Without an encoder, the sequences are encodings. There is
    no CRN if no task needs one. A frozen encoder also keeps its BN statistics."""

    def __init__(
        self,
        encoder: nn.Module | None,
        crn: ContextualRelationNetwork | None,
        objective: PretextObjective,
        freeze_encoder: bool = False,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.crn = crn
        self.objective = objective
        self.frozen = freeze_encoder
        # A parameter that no loss reaches must not be trained: DDP would wait for its gradient, LARS would decay it.
        if encoder is not None and freeze_encoder:
            encoder.requires_grad_(False)
        if crn is not None and objective.head_msm is None:
            crn.shot_embedding.mask_embedding.requires_grad_(False)

    def train(self, mode: bool = True) -> PretrainModel:
        super().train(mode)
        if self.encoder is not None and self.frozen:
            self.encoder.eval()
        return self

    def synchronise_norms(self, to_compile: bool = False) -> None:
        """Normalize the encoder's batches over the frames of all processes (SyncBN, as in the release). Raises
        BasslError if it is ``to_compile``: SyncBN communicates, and would break it into a piece for each norm."""
        if self.encoder is not None and not self.frozen:
            self.encoder = synchronised_norms(self.encoder)
            if to_compile and any(isinstance(module, nn.SyncBatchNorm) for module in self.encoder.modules()):
                raise BasslError(
                    "`compile` breaks batch normalization over several GPUs into many pieces and gains nothing; leave "
                    "it out, or use one GPU, `freeze_encoder` or `features`"
                )

    def compile_networks(self) -> None:
        """Compile the encoder and the CRN in place with ``torch.compile``; names of weights do not change. Heads,
        losses and pseudo-boundaries are cheap and communicate between processes."""
        for network in (self.encoder, self.crn):
            if network is not None:
                network.compile()

    def encode(self, dense: Tensor, slow: Tensor) -> tuple[Tensor, Tensor]:
        """Frames (B, S, 3, H, W) and (B, n, 3, H, W) to encodings (B, S, D_e) and (B, n, D_e), unchanged without an
        encoder. Both go through it together, so that BN sees one batch."""
        if self.encoder is None:
            return dense, slow
        B, S, n = len(dense), dense.shape[1], slow.shape[1]
        frames = torch.cat([dense.flatten(0, 1), slow.flatten(0, 1)]).contiguous(memory_format=torch.channels_last)
        with torch.no_grad() if self.frozen else nullcontext():
            encodings: Tensor = self.encoder(frames)
        return encodings[: B * S].view(B, S, -1), encodings[B * S :].view(B, n, -1)

    def loss(self, dense: Tensor, slow: Tensor, noise: Tensor | None, joins: Tensor | None) -> PretextLoss:
        """The loss of encodings (B, S, D_e) and (B, n, D_e)."""

        def contextualise(encodings: Tensor, mask: Tensor | None) -> Tensor:
            assert self.crn is not None
            shots: Tensor = self.crn(encodings, mask)[0]
            return shots

        result: PretextLoss = self.objective(slow, dense, contextualise, noise, joins)
        return result

    def forward(self, dense: Tensor, slow: Tensor, noise: Tensor | None, joins: Tensor | None) -> PretextLoss:
        """The loss of windows; ``noise`` and ``joins`` are as for the objective."""
        return self.loss(*self.encode(dense, slow), noise, joins)


def backward_in_parts(
    model: PretrainModel,
    views: Views,
    windows: int,
    part: int,
    *,
    noise: Tensor | None,
    joins: Tensor | None,
    autocast: Autocast,
    scale: Callable[[Tensor], Tensor],
    seed: int,
) -> PretextLoss:
    """The loss and gradients of a batch of B ``windows`` whose frames do not all fit into the device's memory.

    All windows are encoded ``part`` by part without a graph. Their loss, with all negatives, gives the gradient of each
    encoding. Then each part is encoded again, with a graph, and these gradients are propagated through it (GradCache,
    Gao et al. 2021). The result equals the whole batch's, except for batch normalization, which normalizes each part by
    itself and updates its running statistics twice. ``views`` is called twice for each part; ``seed`` makes its dropout
    the same both times. The model must not be wrapped in DDP.
    """
    parts = [slice(start, min(start + part, windows)) for start in range(0, windows, part)]

    def encode(at: int) -> tuple[Tensor, Tensor]:
        torch.manual_seed(seed + at)
        with autocast():
            return model.encode(*views(parts[at]))

    with torch.no_grad():
        encoded = [encode(at) for at in range(len(parts))]
    dense, slow = (torch.cat(each).detach().requires_grad_() for each in zip(*encoded, strict=True))
    del encoded
    torch.manual_seed(seed)
    with autocast():
        loss = model.loss(dense, slow, noise, joins)
    scale(loss.total).backward()  # type: ignore[no-untyped-call]
    if not model.frozen:
        for at, chosen in enumerate(parts):
            gradients = [
                (e, g.grad[chosen]) for e, g in zip(encode(at), (dense, slow), strict=True) if g.grad is not None
            ]
            torch.autograd.backward([e for e, _ in gradients], [g for _, g in gradients])
    return loss


def choose_micro_batch(
    settings: PretrainSettings, encoder: nn.Module, model: PretrainModel, windows: PretextWindows, process: Process
) -> tuple[int, str]:
    """The number of windows to encode at a time (0: all) so that a step fits into the free memory, and a line about it
    if these are not all. Raises BasslError if not even one fits, or the number in the settings cannot."""
    local, images = settings.batch // process.world_size, len(windows.dense) + len(windows.slow)
    autocast, _ = mixed_precision(settings.compute.precision, process.device)
    with torch.no_grad() if model.frozen else nullcontext():
        image = measure_images(encoder, settings.augmentation.size, autocast)
    free = free_bytes(process)
    if free is None:
        return settings.micro_batch or 0, ""
    # Of an image its augmented copy, also joined with the others; of the weights gradient, momentum and a copy to save.
    window = images * (image.needed + 2 * image.input)
    shots = 1 + max(*windows.dense, *windows.slow)
    rest = 3 * sum(parameter.nbytes for parameter in model.parameters())
    rest += _BATCHES_IN_MEMORY * local * shots * 3 * settings.decoded_size**2
    if process.device.type == "cpu":
        rest += _PROGRAM + (settings.compute.workers or 0) * _WORKER
    fit = windows_that_fit(local, window, rest, free, process.device)
    relief = f"`micro_batch={fit}` fits" if fit else "use fewer `neighbours`, a smaller `encoder`, or `features`"
    if settings.micro_batch is not None:
        at_once = min(settings.micro_batch or local, local)
        check_kept(at_once, images, image, free, relief)
        return settings.micro_batch, ""
    if not fit:
        raise BasslError(
            f"a window of {images} images needs {gigabytes(window)} of memory and the rest {gigabytes(rest)}, but "
            f"{gigabytes(free)} are free; {relief}"
        )
    if fit == local:
        return 0, ""
    norms = "" if model.frozen else "; batch normalization sees only these"
    return fit, (
        f"encodes {fit} of {local} windows at a time ({gigabytes(fit * window + rest)} of {gigabytes(free)} of free "
        f"memory){norms}; `micro_batch` sets another number"
    )


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


def make_trainer(settings: PretrainSettings, model: PretrainModel, micro_batch: int, process: Process) -> Trainer:
    """The optimizer, DDP and compilation for a model on its device, which encodes ``micro_batch`` windows at a time (0:
    all). Raises BasslError for a precision that the device lacks."""
    autocast, scaler = mixed_precision(settings.compute.precision, process.device)
    optimizer = make_lars(model, settings.momentum, settings.weight_decay, settings.trust, settings.lars_exclude)
    if settings.compile:
        model.compile_networks()
    cuda = process.device.type == "cuda"
    if cuda:
        torch.backends.cudnn.benchmark = True  # all inputs have one size
    module: nn.Module = model
    # Micro-batches accumulate the encoder's gradients over several passes; DDP would average after each.
    if process.world_size > 1 and not micro_batch:
        module = nn.parallel.DistributedDataParallel(
            model,
            device_ids=[process.device.index] if cuda else None,
            broadcast_buffers=False,  # the first process's own are saved; synchronized norms are equal anyway
            gradient_as_bucket_view=True,
        )
    return Trainer(model, module, optimizer, scaler, autocast, micro_batch, process)


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
