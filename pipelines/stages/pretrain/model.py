"""The network of pre-training: shot encoder, contextual relation network, and heads of the pretext tasks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import torch
from torch import Tensor, nn

from pipelines.models.crn import ContextualRelationNetwork
from pipelines.pretext.objective import PretextLoss, PretextObjective
from pipelines.stages.pretrain.data import Views
from pipelines.training.distributed import synchronised_norms
from pipelines.training.loops import Autocast


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

    def synchronise_norms(self) -> None:
        """Normalize the encoder's batches over the frames of all processes (SyncBN, as in the release)."""
        if self.encoder is not None and not self.frozen:
            self.encoder = synchronised_norms(self.encoder)

    def compile_networks(self) -> None:
        """Compile the encoder and the CRN in place with ``torch.compile``; names of weights do not change. Heads,
        losses and pseudo-boundaries are not compiled: they are cheap and communicate between processes. SyncBN also
        communicates and is left out, so the encoder is compiled in pieces between such norms."""
        for module in self.modules():
            if isinstance(module, nn.SyncBatchNorm):
                module.forward = torch.compiler.disable(module.forward)  # type: ignore[method-assign, no-untyped-call]
        for network in (self.encoder, self.crn):
            if network is not None:
                network.compile()

    def encode(self, dense: Tensor, slow: Tensor) -> tuple[Tensor, Tensor]:
        """Frames (B, S, 3, H, W) and (B, n, 3, H, W) to encodings (B, S, D_e) and (B, n, D_e).

        Both go through the encoder together, so that BN sees one batch. Without an encoder, they are returned
        unchanged.
        """
        if self.encoder is None:
            return dense, slow
        B, S, n = len(dense), dense.shape[1], slow.shape[1]
        frames = torch.cat([dense.flatten(0, 1), slow.flatten(0, 1)]).contiguous(memory_format=torch.channels_last)
        with torch.no_grad() if self.frozen else nullcontext():
            encodings: Tensor = self.encoder(frames)
        return encodings[: B * S].view(B, S, -1), encodings[B * S :].view(B, n, -1)

    def loss(self, dense: Tensor, slow: Tensor, noise: Tensor | None, joins: Tensor | None) -> PretextLoss:
        """The loss of encodings (B, S, D_e) and (B, n, D_e)."""
        result: PretextLoss = self.objective(slow, dense, self._contextualise, noise, joins)
        return result

    def forward(self, dense: Tensor, slow: Tensor, noise: Tensor | None, joins: Tensor | None) -> PretextLoss:
        """The loss of windows; ``noise`` and ``joins`` are as for the objective."""
        return self.loss(*self.encode(dense, slow), noise, joins)

    def _contextualise(self, encodings: Tensor, mask: Tensor | None) -> Tensor:
        assert self.crn is not None
        shots: Tensor = self.crn(encodings, mask)[0]
        return shots


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
