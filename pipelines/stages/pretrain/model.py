"""Network of pre-training: shot encoder, contextual relation network, heads of the pretext tasks; in parts, if memory
is short."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from pipelines.errors import BasslError, count
from pipelines.models.encoders.torch_encoders import trainable_encoder
from pipelines.models.networks import CRNSettings
from pipelines.models.networks.torch_networks import ContextualRelationNetwork
from pipelines.pretext import AugmentationSettings
from pipelines.pretext.losses import PretextLoss, PretextObjective
from pipelines.stages.pretrain import PretrainSettings
from pipelines.stages.pretrain.data import PretextWindows, Views
from pipelines.training.data import free_bytes, gigabytes, measure_images, micro_batch_size
from pipelines.training.distributed import Process
from pipelines.training.loop import Trainer, mixed_precision, weight_dtype

_BATCHES_IN_MEMORY = 3  # of keyframes: the current one, and those that are read ahead
_PROGRAM = 700_000_000  # bytes


class PretrainModel(nn.Module):
    """Dense and slow sequences of windows, or of encodings without an encoder, in, the loss out."""

    def __init__(
        self,
        encoder: nn.Module | None,
        crn: ContextualRelationNetwork | None,
        objective: PretextObjective,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.crn = crn
        self.objective = objective
        # A parameter that no loss reaches must not be trained: DDP would wait for its gradient, LARS would decay it.
        if crn is not None and objective.head_msm is None:
            crn.shot_embedding.mask_embedding.requires_grad_(False)

    def encode(self, dense: Tensor, slow: Tensor) -> tuple[Tensor, Tensor]:
        """Encode frames (B, S, 3, H, W) and (B, n, 3, H, W) as (B, S, D_e) and (B, n, D_e), in one batch for BN."""
        if self.encoder is None:
            return dense, slow
        B, S, n = len(dense), dense.shape[1], slow.shape[1]
        frames = torch.cat([dense.flatten(0, 1), slow.flatten(0, 1)]).contiguous(memory_format=torch.channels_last)
        encodings: Tensor = self.encoder(frames)
        return encodings[: B * S].view(B, S, -1), encodings[B * S :].view(B, n, -1)

    def loss(self, dense: Tensor, slow: Tensor, noise: Tensor, joins: Tensor | None) -> PretextLoss:
        """Compute the loss of encodings (B, S, D_e) and (B, n, D_e)."""

        def contextualize(encodings: Tensor, mask: Tensor | None) -> Tensor:
            assert self.crn is not None
            shots: Tensor = self.crn(encodings, mask)[0]
            return shots

        result: PretextLoss = self.objective(slow, dense, contextualize, noise, joins)
        return result

    def forward(self, dense: Tensor, slow: Tensor, noise: Tensor, joins: Tensor | None) -> PretextLoss:
        """Compute the loss of windows; ``noise`` and ``joins`` are as for the objective."""
        return self.loss(*self.encode(dense, slow), noise, joins)


def backward_windows(
    trainer: Trainer,
    model: PretrainModel,
    views: Views,
    windows: int,
    micro_batch: int,
    *,
    noise: Tensor,
    joins: Tensor | None,
    seed: int,
) -> PretextLoss:
    """Compute the loss and gradients of this process's B ``windows``, encoding ``micro_batch`` at a time (0: all). In
    parts, all windows are encoded without a graph. Their loss, with all negatives, gives the gradient of each encoding.
    Then each part is encoded again, with a graph, and these gradients are propagated through it (GradCache, Gao et al.
    2021). The result equals the whole batch's, except for batch normalization, which normalizes each part by itself and
    updates its running statistics twice. ``views`` is called twice for each part; ``seed`` makes its dropout the same
    both times. The model must not be wrapped in DDP."""
    if not 0 < micro_batch < windows:
        with trainer.autocast():
            loss: PretextLoss = trainer.module(*views(slice(0, windows)), noise, joins)
        trainer.scaler.scale(loss.total).backward()  # type: ignore[no-untyped-call]
        return loss
    parts = [slice(start, min(start + micro_batch, windows)) for start in range(0, windows, micro_batch)]

    def encode(number: int) -> tuple[Tensor, Tensor]:
        torch.manual_seed(seed + number)
        with trainer.autocast():
            return model.encode(*views(parts[number]))

    with torch.no_grad():
        encoded = [encode(number) for number in range(len(parts))]
    dense, slow = (torch.cat(each).detach().requires_grad_() for each in zip(*encoded, strict=True))
    del encoded
    torch.manual_seed(seed)
    with trainer.autocast():
        loss = model.loss(dense, slow, noise, joins)
    trainer.scaler.scale(loss.total).backward()  # type: ignore[no-untyped-call]
    for number, rows in enumerate(parts):
        encodings = zip(encode(number), (dense, slow), strict=True)
        gradients = [(e, whole.grad[rows]) for e, whole in encodings if whole.grad is not None]
        torch.autograd.backward([e for e, _ in gradients], [g for _, g in gradients])
    return loss


def choose_micro_batch(
    settings: PretrainSettings, model: PretrainModel, windows: PretextWindows, process: Process
) -> tuple[int, str]:
    """Return the number of windows to encode at a time (0: all) so that a step fits into the free memory, and a line
    about it if these are not all. Raises BasslError if not even one fits, or the number in the settings cannot."""
    if model.encoder is None:
        return 0, ""
    local, images = settings.batch // process.world_size, len(windows.dense) + len(windows.slow)
    autocast, _ = mixed_precision(settings.compute.precision, process.device)
    image = measure_images(model.encoder, settings.augmentation.size, autocast)
    free = free_bytes(process)
    if free is None:
        return settings.micro_batch or 0, ""
    # Of an image its augmented copy, also joined with the others; of the weights gradient, momentum and a copy to save.
    window = images * (image.needed + 2 * image.input)
    rest = 3 * sum(parameter.nbytes for parameter in model.parameters())
    rest += _BATCHES_IN_MEMORY * local * images * 3 * settings.augmentation.size**2
    if process.device.type == "cpu":
        rest += _PROGRAM
    fit = micro_batch_size(local, window, rest, free, process.device)
    at_once, least = 1, window + rest
    if settings.micro_batch is not None:  # a number in the settings is refused only if it certainly cannot fit
        at_once = min(settings.micro_batch or local, local)
        least = at_once * images * image.kept
    if least > free or (not fit and settings.micro_batch is None):
        relief = f"`micro_batch={fit}` fits" if fit else "use fewer `neighbors`, a smaller `encoder`, or `features`"
        need = f"{count(at_once, 'window')} of {images} images at a time takes {gigabytes(least)} of memory or more"
        raise BasslError(f"to encode {need}, but {gigabytes(free)} are free; {relief}")
    if settings.micro_batch is not None:
        return settings.micro_batch, ""
    if fit == local:
        return 0, ""
    memory = f"{gigabytes(fit * window + rest)} of {gigabytes(free)} of free memory"
    note = f"encodes {fit} of {local} windows at a time ({memory}); batch normalization sees only these"
    return fit, f"{note}; `micro_batch` sets another number"


def make_model(
    settings: PretrainSettings, feature_width: int | None, process: Process
) -> tuple[PretrainModel, AugmentationSettings]:
    """Make the network to train, on its device, for features of a width, or with an encoder (None); and the
    augmentation with that encoder's mean and deviation. Raises BasslError for an encoder that cannot be trained."""
    torch.manual_seed(settings.run.seed)
    network, input_width, crn, augmentation = None, feature_width, None, settings.augmentation
    if input_width is None:
        encoder = trainable_encoder(settings.encoder, False, augmentation.size)
        network, input_width = encoder.network, encoder.width
        augmentation = replace(augmentation, mean=encoder.mean, std=encoder.std)
    if settings.pretext.needs_crn:
        sizes = {name: getattr(settings, name) for name in ("neighbors", "width", "layers", "heads", "dropout")}
        crn = ContextualRelationNetwork(CRNSettings(input_width=input_width, hidden=4 * settings.width, **sizes))
    model = PretrainModel(network, crn, PretextObjective(settings.pretext, input_width, settings.width))
    if model.encoder is not None and process.device.type == "cuda" and process.world_size > 1:
        from timm.layers import convert_sync_batchnorm  # start-up time: timm, which only this needs

        # As in the release; PyTorch's own conversion would drop the activations inside timm's norms.
        model.encoder = convert_sync_batchnorm(model.encoder)
    model.to(process.device, weight_dtype(settings.compute.precision))
    if model.encoder is not None:
        model.to(memory_format=torch.channels_last)
    return model, augmentation
