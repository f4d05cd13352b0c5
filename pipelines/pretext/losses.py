"""The pretext losses (paper, section 3.4): functions of head outputs or contextualized shots that return a scalar.

Shapes: B windows of this process, S = 2K+1 shots, D the contrastive space, D_c contextualized shots, D_e encodings.
``boundary`` (B,) is the pseudo-boundary, the last shot of the left sub-sequence.

If the paper's text and its release differ, ``variant`` chooses; the default is the release, which the published numbers
are from. Losses are means over windows. With several processes, losses and gradients averaged over processes equal the
ones of a single process with all windows: contrastive losses use the windows of all processes as negatives, and the
other losses weigh all windows the same. Similarities, softmax and errors are computed in float32 even under autocast;
float64 stays float64.

Embeddings are gathered from all processes with gradients; for one process that is a no-op.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from pipelines.pretext.pseudo_boundary import left_of
from pipelines.pretext.settings import Variant


def _world() -> tuple[int, int]:
    """Rank and world size."""
    if dist.is_available() and dist.is_initialized():
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, local: Tensor) -> Tensor:
        _, world_size = _world()
        parts = [torch.empty_like(local) for _ in range(world_size)]
        dist.all_gather(parts, local)
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        # The losses of all processes depend on these embeddings.
        rank, world_size = _world()
        total = gradients[0].contiguous().clone()
        dist.all_reduce(total)
        return total.chunk(world_size)[rank]


def gather(local: Tensor) -> tuple[Tensor, int]:
    """Return the rows of all processes in the order of ranks, and the index of this process's first row: (B, ...), of
    the same shape in all processes, to (world size * B, ...).

    Gradients flow back to every process: if each process takes the mean loss of its own rows and gradients are averaged
    over processes, as in DDP, the result is the gradient of the mean over all rows.
    """
    rank, world_size = _world()
    return (_Gather.apply(local.contiguous()) if world_size > 1 else local), rank * len(local)


def full_precision(x: Tensor) -> Tensor:
    """Convert to float32; float64 stays float64."""
    return x if x.dtype == torch.float64 else x.float()


def at(shots: Tensor, index: Tensor) -> Tensor:
    """Select one shot of each window: (B, S, D) and (B,) to (B, D)."""
    return shots[torch.arange(len(shots), device=shots.device), index]


def nt_xent(first: Tensor, second: Tensor, temperature: float = 0.1) -> Tensor:
    """NT-Xent (Chen et al., 2020): each of 2B vectors is matched with its partner among all of the global batch.

    For all vectors z of both kinds and all processes, the mean over i of
    ``-log(exp(sim(z_i, z_p(i)) / t) / sum over j != i of exp(sim(z_i, z_j) / t))``, with sim the cosine. `first` and
    `second`, (B, D), are positive pairs row by row; B is the same in all processes.
    """
    pairs = F.normalize(full_precision(torch.stack([first, second])), dim=-1)
    B = pairs.shape[1]
    # Gathered with windows as the first axis, which keeps each process's windows together; then (2, G, D).
    gathered, offset = gather(pairs.transpose(0, 1))
    everything = gathered.transpose(0, 1).flatten(0, 1)
    rows = torch.arange(offset, offset + B, device=pairs.device)
    G = len(gathered)
    self_column, partner_column = torch.cat([rows, rows + G]), torch.cat([rows + G, rows])
    with torch.autocast(pairs.device.type, enabled=False):
        logits = pairs.flatten(0, 1) @ everything.T / temperature
        itself = torch.arange(2 * G, device=pairs.device) == self_column[:, None]
        return F.cross_entropy(logits.masked_fill(itself, -torch.inf), partner_column)


def info_nce(shots: Tensor, scenes: Tensor, temperature: float = 0.1) -> Tensor:
    """L_NCE of the paper (section 3.4), the mean over pairs of a shot e and its scene r.

    ``-log(exp(sim(e, r) / t) / (exp(sim(e, r) / t) + sum of exp(sim(e', r) / t) + sum of exp(sim(e, r') / t)))`` with
    e' all other shots and r' all other scenes of the global batch. `shots` and `scenes`, (N, D), are positive pairs row
    by row; N is the same in all processes.
    """
    shots, scenes = F.normalize(full_precision(torch.stack([shots, scenes])), dim=-1).unbind()
    gathered, offset = gather(torch.stack([shots, scenes], dim=1))
    all_shots, all_scenes = gathered.unbind(dim=1)
    rows = torch.arange(offset, offset + len(shots), device=shots.device)
    with torch.autocast(shots.device.type, enabled=False):
        with_scenes = shots @ all_scenes.T / temperature
        with_shots = scenes @ all_shots.T / temperature
        pair = torch.arange(len(gathered), device=shots.device) == rows[:, None]
        logits = torch.cat([with_scenes, with_shots.masked_fill(pair, -torch.inf)], dim=1)
        return F.cross_entropy(logits, rows)


def scene_means(shots: Tensor, boundary: Tensor) -> Tensor:
    """r(S_left) and r(S_right) of section 3.4: the means of the shots of each sub-sequence, (B, S, D) to (B, 2, D)."""
    shots = full_precision(shots)
    left = left_of(boundary, shots.shape[1])
    members = torch.stack([left, ~left], dim=1).to(shots.dtype)
    with torch.autocast(shots.device.type, enabled=False):
        return members @ shots / members.sum(dim=2, keepdim=True)


def shot_scene_matching(
    slow: Tensor, dense: Tensor, boundary: Tensor, temperature: float = 0.1, variant: Variant = "release"
) -> Tensor:
    """Shot-scene matching (SSM): match a window's first shot with the left sub-sequence, its last with the right.

    *Release*: the head returns unit vectors, a scene is the mean of its shots' vectors, and the loss is the mean of
    :func:`nt_xent` of shots and scenes on the left and on the right.

    *Paper*: :func:`info_nce` on the left plus on the right, with a linear head (which commutes with the mean). The
    "other shots and pseudo-scenes in a mini-batch" are here the ends and scenes of both sides of every window,
    including the other side of the same window.

    `slow` (B, n, D) and `dense` (B, S, D) are head outputs of the slow sequence, its first two the window's ends, and
    of the window.
    """
    ends, scenes = slow[:, :2], scene_means(dense, boundary)
    if variant == "paper":
        return 2 * info_nce(ends.flatten(0, 1), scenes.flatten(0, 1), temperature)
    left, right = (nt_xent(ends[:, side], scenes[:, side], temperature) for side in range(2))
    return (left + right) / 2


def _two_class(head: nn.Module, positive: Tensor, negative: Tensor, variant: Variant) -> Tensor:
    """Cross-entropy of a head with two logits, class 1 for the positive inputs and class 0 for the negative. Its
    probability is the score h of the paper. The release takes the mean over both, the paper their sum."""
    logits = full_precision(head(torch.cat([positive, negative])))
    label = torch.arange(len(logits), device=logits.device) < len(positive)
    loss = F.cross_entropy(logits, label.long())
    return 2 * loss if variant == "paper" else loss


def contextual_group_matching(
    head: nn.Module, context: Tensor, positive: Tensor, negative: Tensor, variant: Variant = "release"
) -> Tensor:
    """Contextual group matching (CGM): is a shot in the same sub-sequence as the center shot?

    *Release*: mean cross-entropy of both pairs, from a linear layer on the two L2-normalized vectors. *Paper*:
    ``-log h(c_n, c_pos) - log(1 - h(c_n, c_neg))``, on the vectors without normalization.

    `head`: (..., 2 D_c) to two logits. `context`: (B, S, D_c), no shot masked. `positive`, `negative`: (B,), from
    :func:`pipelines.pretext.pseudo_boundary.sample_group_shots`.
    """
    center, same, different = context[:, context.shape[1] // 2], at(context, positive), at(context, negative)
    if variant == "release":
        center, same, different = (F.normalize(full_precision(c), dim=-1) for c in (center, same, different))
    matched, unmatched = (torch.cat([center, other], dim=-1) for other in (same, different))
    return _two_class(head, matched, unmatched, variant)


def pseudo_boundary_prediction(
    head: nn.Module, context: Tensor, boundary: Tensor, other: Tensor, variant: Variant = "release"
) -> Tensor:
    """Pseudo-boundary prediction (PP): is a shot the pseudo-boundary?

    *Release*: mean cross-entropy of the boundary and one other shot. *Paper*: ``-log h(c_b) - log(1 - h(c_other))``,
    twice as much.

    `head`: (..., D_c) to two logits. `context`: (B, S, D_c), no shot masked. `other`: (B,), from
    :func:`pipelines.pretext.pseudo_boundary.sample_other_shot`.
    """
    return _two_class(head, at(context, boundary), at(context, other), variant)


def masked_shot_modeling(
    head: nn.Module, context: Tensor, encodings: Tensor, mask: Tensor, variant: Variant = "release"
) -> Tensor:
    """Masked shot modeling (MSM): regress the encoding of a masked shot from the shots around it.

    *Release*: mean squared error over all dimensions of all masked shots of the global batch, so that a window weighs
    by its number of masked shots (with several processes, the release takes the mean of each process's mean). *Paper*:
    ``sum over m of ||e_m - h(c_m)||^2`` for each window, and the mean over windows. The target has no gradient
    (release; the paper does not say).

    `head`: (..., D_c) to (..., D_e). `context`: (B, S, D_c), with the masked shots hidden. `encodings`: (B, S, D_e), of
    the unmasked shots. `mask`: (B, S) bool, from :func:`pipelines.pretext.pseudo_boundary.sample_mask`.
    """
    # The head is applied to all shots, because it is cheap, and no shape then depends on the data.
    error = (full_precision(head(context)) - full_precision(encodings.detach())).square()
    weight = mask.to(error.dtype)
    if variant == "paper":
        return (error.sum(dim=2) * weight).sum(dim=1).mean()
    return (error.mean(dim=2) * weight).sum() / gather(weight.sum()[None])[0].mean()


def nearest_other(dense: Tensor) -> Tensor:
    """ShotCoL's positive shot (release): the other shot of a window most similar to its center, (B, S, D) to (B,).
    Raises ValueError for windows of one shot."""
    S = dense.shape[1]
    if S < 2:
        raise ValueError("a window of one shot has no other shot")
    with torch.no_grad(), torch.autocast(dense.device.type, enabled=False):
        units = F.normalize(full_precision(dense), dim=-1)
        similarity = (units @ units[:, S // 2, :, None]).squeeze(2)
        center = torch.arange(S, device=dense.device) == S // 2
        return similarity.masked_fill(center, -torch.inf).argmax(dim=1)


def shotcol(query: Tensor, dense: Tensor, temperature: float = 0.1) -> Tensor:
    """SimCLR (NN), ShotCoL in SimCLR's terms (section 4.3, M5): NT-Xent of the center shot and its nearest neighbor,
    from head outputs of the center shot under the second augmentation (B, D) and of the window (B, S, D)."""
    return nt_xent(query, at(dense, nearest_other(dense)), temperature)
