"""Pre-training losses (paper, section 3.4), and the objective: heads, pseudo-boundaries and the weighted sum of losses.

Shapes: B windows of this process, S = 2K+1 shots, D the contrastive space, D_c contextualized shots, D_e encodings.
``boundary`` (B,) is the pseudo-boundary, the last shot of the left sub-sequence.

If the paper's text and its release differ, ``variant`` chooses; the default is the release, which the published numbers
are from. Losses are means over windows. With several processes, losses and gradients averaged over processes equal the
ones of a single process with all windows. Similarities, softmax and errors are computed in float32 even under autocast;
float64 stays float64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from pipelines.pretext import PretextSettings, Variant
from pipelines.pretext.pseudo_boundary import (
    NOISE,
    discover,
    left_of,
    sample_group_shots,
    sample_mask,
    sample_other_shot,
)


class _AllGather(torch.autograd.Function):
    # torch's own, in torch.distributed.nn, is deprecated, and with gloo its gradients are not the sum over processes.
    @staticmethod
    def forward(ctx: Any, local: Tensor) -> Tensor:
        parts = [torch.empty_like(local) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, local)
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        total = gradients[0].contiguous().clone()
        dist.all_reduce(total)
        return total.chunk(dist.get_world_size())[dist.get_rank()]


def rows_of_all(local: Tensor) -> tuple[Tensor, int]:
    """Return the rows of all processes in the order of ranks, and the index of this process's first row: (B, ...), of
    the same shape in all processes, to (world size * B, ...). Gradients flow back to every process."""
    if not dist.is_available() or not dist.is_initialized() or dist.get_world_size() == 1:
        return local, 0
    return _AllGather.apply(local.contiguous()), dist.get_rank() * len(local)


def full_precision(x: Tensor) -> Tensor:
    """Convert to float32; float64 stays float64."""
    return x if x.dtype == torch.float64 else x.float()


def at(shots: Tensor, index: Tensor) -> Tensor:
    """Select one shot of each window: (B, S, D) and (B,) to (B, D)."""
    return shots[torch.arange(len(shots), device=shots.device), index]


def nt_xent(first: Tensor, second: Tensor, temperature: float = 0.1) -> Tensor:
    """Compute NT-Xent (Chen et al., 2020) of positive pairs, the rows of `first` and `second`, (B, D) each: the mean
    over all vectors z of ``-log(exp(sim(z_i, z_p(i)) / t) / sum over j != i of exp(sim(z_i, z_j) / t))``, with p(i)
    the partner of i and sim the cosine."""
    pairs = F.normalize(full_precision(torch.stack([first, second])), dim=-1)
    B = pairs.shape[1]
    # Gathered with windows as the first axis, which keeps each process's windows together; then (2, G, D).
    gathered, offset = rows_of_all(pairs.transpose(0, 1))
    everything = gathered.transpose(0, 1).flatten(0, 1)
    rows = torch.arange(offset, offset + B, device=pairs.device)
    G = len(gathered)
    self_column, partner_column = torch.cat([rows, rows + G]), torch.cat([rows + G, rows])
    with torch.autocast(pairs.device.type, enabled=False):
        logits = pairs.flatten(0, 1) @ everything.T / temperature
        itself = torch.arange(2 * G, device=pairs.device) == self_column[:, None]
        return F.cross_entropy(logits.masked_fill(itself, -torch.inf), partner_column)


def info_nce(shots: Tensor, scenes: Tensor, temperature: float = 0.1) -> Tensor:
    """Compute L_NCE of the paper (section 3.4): the mean over shots e and their scenes r, the rows of (N, D) each, of
    ``-log(exp(sim(e, r) / t) / (exp(sim(e, r) / t) + sum of exp(sim(e', r) / t) + sum of exp(sim(e, r') / t)))`` with
    e' all other shots and r' all other scenes of the global batch."""
    shots, scenes = F.normalize(full_precision(torch.stack([shots, scenes])), dim=-1).unbind()
    gathered, offset = rows_of_all(torch.stack([shots, scenes], dim=1))
    all_shots, all_scenes = gathered.unbind(dim=1)
    rows = torch.arange(offset, offset + len(shots), device=shots.device)
    with torch.autocast(shots.device.type, enabled=False):
        with_scenes = shots @ all_scenes.T / temperature
        with_shots = scenes @ all_shots.T / temperature
        pair = torch.arange(len(gathered), device=shots.device) == rows[:, None]
        logits = torch.cat([with_scenes, with_shots.masked_fill(pair, -torch.inf)], dim=1)
        return F.cross_entropy(logits, rows)


def scene_means(shots: Tensor, boundary: Tensor) -> Tensor:
    """Return r(S_left) and r(S_right) of section 3.4: the mean shot of each sub-sequence, (B, S, D) to (B, 2, D)."""
    shots = full_precision(shots)
    left = left_of(boundary, shots.shape[1])
    members = torch.stack([left, ~left], dim=1).to(shots.dtype)
    with torch.autocast(shots.device.type, enabled=False):
        return members @ shots / members.sum(dim=2, keepdim=True)


def shot_scene_matching(
    slow: Tensor, dense: Tensor, boundary: Tensor, temperature: float = 0.1, variant: Variant = "release"
) -> Tensor:
    """Match a window's first shot with the left sub-sequence, its last with the right (SSM).

    *Release*: the head returns unit vectors, a scene is the mean of its shots' vectors, and the loss is the mean of
    :func:`nt_xent` of shots and scenes on the left and on the right. *Paper*: :func:`info_nce` on the left plus on the
    right, with a linear head, over the ends and scenes of both sides of every window.

    `slow` (B, n, D) and `dense` (B, S, D) are head outputs of the slow sequence, its first two the window's ends, and
    of the window.
    """
    ends, scenes = slow[:, :2], scene_means(dense, boundary)
    if variant == "paper":
        return 2 * info_nce(ends.flatten(0, 1), scenes.flatten(0, 1), temperature)
    left, right = (nt_xent(ends[:, side], scenes[:, side], temperature) for side in range(2))
    return (left + right) / 2


def _two_class(head: nn.Module, positive: Tensor, negative: Tensor, variant: Variant) -> Tensor:
    """Compute the cross-entropy of a head with two logits, class 1 for the positive inputs and 0 for the negative. Its
    probability is the score h of the paper. The release takes the mean over both, the paper their sum."""
    logits = full_precision(head(torch.cat([positive, negative])))
    label = torch.arange(len(logits), device=logits.device) < len(positive)
    loss = F.cross_entropy(logits, label.long())
    return 2 * loss if variant == "paper" else loss


def contextual_group_matching(
    head: nn.Module, context: Tensor, positive: Tensor, negative: Tensor, variant: Variant = "release"
) -> Tensor:
    """Learn whether a shot is in the same sub-sequence as the center shot: contextual group matching (CGM).

    *Release*: mean cross-entropy of both pairs, from a linear layer on the two L2-normalized vectors. *Paper*:
    ``-log h(c_n, c_pos) - log(1 - h(c_n, c_neg))``, on the vectors without normalization.

    `head`: (..., 2 D_c) to two logits. `context`: (B, S, D_c), no shot masked. Others: (B,), by `sample_group_shots`.
    """
    center, same, different = context[:, context.shape[1] // 2], at(context, positive), at(context, negative)
    if variant == "release":
        center, same, different = (F.normalize(full_precision(c), dim=-1) for c in (center, same, different))
    matched, unmatched = (torch.cat([center, other], dim=-1) for other in (same, different))
    return _two_class(head, matched, unmatched, variant)


def pseudo_boundary_prediction(
    head: nn.Module, context: Tensor, boundary: Tensor, other: Tensor, variant: Variant = "release"
) -> Tensor:
    """Learn whether a shot is the pseudo-boundary (PP). *Release*: mean cross-entropy of the boundary and one other
    shot. *Paper*: ``-log h(c_b) - log(1 - h(c_other))``, twice as much.

    `head`: (..., D_c) to two logits. `context`: (B, S, D_c), no shot masked. `other`: (B,), by `sample_other_shot`.
    """
    return _two_class(head, at(context, boundary), at(context, other), variant)


def masked_shot_modeling(
    head: nn.Module, context: Tensor, encodings: Tensor, mask: Tensor, variant: Variant = "release"
) -> Tensor:
    """Regress the encoding of a masked shot from the shots around it: masked shot modeling (MSM).

    *Release*: mean squared error over all dimensions of all masked shots of the global batch. *Paper*:
    ``sum over m of ||e_m - h(c_m)||^2`` for each window, and the mean over windows. The target has no gradient
    (release; the paper does not say).

    `head`: (..., D_c) to (..., D_e). `context`: (B, S, D_c), with the masked shots hidden. `encodings`: (B, S, D_e), of
    the unmasked shots. `mask`: (B, S) bool.
    """
    # The head is applied to all shots, because it is cheap, and no shape then depends on the data.
    error = (full_precision(head(context)) - full_precision(encodings.detach())).square()
    weight = mask.to(error.dtype)
    if variant == "paper":
        return (error.sum(dim=2) * weight).sum(dim=1).mean()
    return (error.mean(dim=2) * weight).sum() / rows_of_all(weight.sum()[None])[0].mean()


def nearest_other(dense: Tensor) -> Tensor:
    """Return ShotCoL's positive shot (release), the most similar to the center: (B, S, D) to (B,)."""
    S = dense.shape[1]
    with torch.no_grad(), torch.autocast(dense.device.type, enabled=False):
        units = F.normalize(full_precision(dense), dim=-1)
        similarity = (units @ units[:, S // 2, :, None]).squeeze(2)
        center = torch.arange(S, device=dense.device) == S // 2
        return similarity.masked_fill(center, -torch.inf).argmax(dim=1)


def shotcol(query: Tensor, dense: Tensor, temperature: float = 0.1) -> Tensor:
    """Compute NT-Xent of the center shot and its nearest neighbor: SimCLR (NN), ShotCoL in SimCLR's terms (section 4.3,
    M5), of head outputs of the center shot under the second augmentation (B, D) and of the window (B, S, D)."""
    return nt_xent(query, at(dense, nearest_other(dense)), temperature)


# --- the objective ----------------------------------------------------------------------------------------------------

Contextualize = Callable[[Tensor, Tensor | None], Tensor]
"""The CRN: encodings (B, S, D_e) and a (B, S) bool mask or None to contextualized shots (B, S, D_c)."""


class PretextLoss(NamedTuple):
    """The loss of a batch."""

    total: Tensor  # the weighted sum, which is minimized
    # each loss before weighting, for the tasks in use: ``ssm``, ``cgm``, ``pp``, ``msm``, ``simclr``
    parts: dict[str, Tensor]
    boundary: Tensor | None  # (B,) the pseudo-boundaries; None if no task uses them


class PretextObjective(nn.Module):
    """L_pretrain = alpha_1 L_SSM + alpha_2 L_CGM + alpha_3 L_PP + alpha_4 L_MSM (section 3.4), for any set of tasks.

    M3 to M5 have a contrastive loss only; ``bassl+simclr-nn`` (M8) adds ShotCoL's to BaSSL's, with weight 1. One head
    serves SSM, SimCLR and the alignment. Parameters have the names of a released checkpoint's ``loss.`` part.
    """

    def __init__(self, settings: PretextSettings, encoding_dim: int = 2048, context_dim: int = 768) -> None:
        super().__init__()
        self.settings = settings
        tasks = settings.tasks if settings.has_windows else ()
        learned = "ssm" in tasks or "simclr" in settings.method
        self.head_nce: nn.Module = nn.Identity()
        if learned or (settings.needs_alignment and settings.alignment == "head"):
            # Without a contrastive loss the head stays a random projection (release): DDP would wait for its gradient.
            head = ContrastiveHead(encoding_dim, settings.head_dim, settings.variant)
            self.head_nce = head.requires_grad_(learned)
        self.head_cgm = nn.Linear(2 * context_dim, 2) if "cgm" in tasks else None  # (release); class 1: same group
        self.head_pp = nn.Linear(context_dim, 2) if "pp" in tasks else None  # (release); class 1: the boundary
        self.head_msm = MaskedShotHead(context_dim, encoding_dim) if "msm" in tasks else None

    def forward(
        self,
        slow: Tensor,
        dense: Tensor,
        contextualize: Contextualize,
        noise: Tensor,
        joins: Tensor | None = None,
    ) -> PretextLoss:
        """Compute the loss of a batch.

        Args:
            slow: (B, n, D_e), encodings under the second augmentation of the shots at `PretextSettings.slow_positions`.
                For ShotCoL the last is the center; for SimCLR (instance, temporal) the only one is the second view.
            dense: (B, S, D_e), encodings of the window; for SimCLR (instance, temporal) the center is the first view,
                and S may be 1.
            contextualize: the CRN, called once without a mask (CGM, PP) and once with (MSM), as in the release.
            noise: (B, 5, S) as from `draw_noise`, for CGM, PP, MSM and random pseudo-boundaries.
            joins: (B,), for synthesized pseudo-boundaries.
        """
        settings, variant = self.settings, self.settings.variant
        chance = dict(zip(NOISE, noise.unbind(dim=1), strict=True))
        both = self.head_nce(torch.cat([slow, dense], dim=1))
        slow_head, dense_head = both.split([slow.shape[1], dense.shape[1]], dim=1)
        parts: dict[str, Tensor] = {}
        boundary = None
        if settings.needs_boundary:
            ends, shots = (slow_head, dense_head) if settings.alignment == "head" else (slow, dense)
            boundary = discover(settings.pseudo_boundary, ends, shots, chance["boundary"], joins)
            if "ssm" in settings.tasks:
                parts["ssm"] = shot_scene_matching(slow_head, dense_head, boundary, settings.temperature, variant)
            context = contextualize(dense, None) if self.head_cgm is not None or self.head_pp is not None else dense
            if self.head_cgm is not None:
                pair = sample_group_shots(boundary, chance["positive"], chance["negative"])
                parts["cgm"] = contextual_group_matching(self.head_cgm, context, *pair, variant)
            if self.head_pp is not None:
                other = sample_other_shot(boundary, chance["other"])
                parts["pp"] = pseudo_boundary_prediction(self.head_pp, context, boundary, other, variant)
        if self.head_msm is not None:
            mask = sample_mask(chance["mask"], settings.masking_rate)
            context = contextualize(dense, mask)
            parts["msm"] = masked_shot_modeling(self.head_msm, context, dense, mask, variant)
        if settings.method.endswith("simclr-nn"):
            parts["simclr"] = shotcol(slow_head[:, -1], dense_head, settings.temperature)
        elif "simclr" in settings.method:
            center = dense_head[:, dense_head.shape[1] // 2]
            parts["simclr"] = nt_xent(center, slow_head[:, -1], settings.temperature)
        weights = settings.alphas | {"simclr": 1.0}
        total = torch.stack([weights[name] * loss for name, loss in parts.items()]).sum()
        return PretextLoss(total, parts, boundary)


class ContrastiveHead(nn.Module):
    """h_SSM, also the head for SimCLR: (..., D_e) to (..., 128) in float32.

    *Release*: Linear, ReLU, Linear, L2 norm. *Paper*: a single linear layer (section 3.4), not of unit length.
    """

    def __init__(self, input_dim: int = 2048, output_dim: int = 128, variant: Variant = "release") -> None:
        super().__init__()
        self.variant = variant
        hidden = (nn.Linear(input_dim, input_dim), nn.ReLU()) if variant == "release" else ()
        self.model = nn.Sequential(*hidden, nn.Linear(input_dim, output_dim))

    def forward(self, encodings: Tensor) -> Tensor:
        output = full_precision(self.model(encodings))
        return F.normalize(output, dim=-1) if self.variant == "release" else output


class MaskedShotHead(nn.Module):
    """Linear, GELU, LayerNorm, Linear: h_MSM of the release, BERT's. (..., D_c) to (..., D_e)."""

    def __init__(self, context_dim: int = 768, output_dim: int = 2048) -> None:
        super().__init__()
        transform = nn.ModuleDict(
            {"dense": nn.Linear(context_dim, context_dim), "LayerNorm": nn.LayerNorm(context_dim, eps=1e-12)}
        )
        decoder = nn.Linear(context_dim, output_dim)
        nn.init.zeros_(decoder.bias)
        self.predictions = nn.ModuleDict({"transform": transform, "decoder": decoder})

    def forward(self, context: Tensor) -> Tensor:
        transform = self.predictions["transform"]
        assert isinstance(transform, nn.ModuleDict)
        hidden = transform["LayerNorm"](F.gelu(transform["dense"](context)))
        output: Tensor = self.predictions["decoder"](hidden)
        return output
