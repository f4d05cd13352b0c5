"""The pre-training objective: heads, pseudo-boundaries and the weighted sum of the pretext losses, for every method."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from pipelines.pretext import losses
from pipelines.pretext.losses import full_precision
from pipelines.pretext.pseudo_boundary import NOISE, discover, sample_group_shots, sample_mask, sample_other_shot
from pipelines.pretext.settings import PretextSettings

Contextualize = Callable[[Tensor, Tensor | None], Tensor]
"""The CRN: encodings (B, S, D_e) and a (B, S) bool mask or None to contextualized shots (B, S, D_c)."""


def _no_crn(encodings: Tensor, mask: Tensor | None) -> Tensor:
    raise ValueError("these tasks need a CRN")


class PretextLoss(NamedTuple):
    """The loss of a batch."""

    total: Tensor  # the weighted sum, which is minimized
    # each loss before weighting, for the tasks in use: ``ssm``, ``cgm``, ``pp``, ``msm``, ``simclr``
    parts: dict[str, Tensor]
    boundary: Tensor | None  # (B,) the pseudo-boundaries; None if no task uses them


class PretextObjective(nn.Module):
    """L_pretrain = alpha_1 L_SSM + alpha_2 L_CGM + alpha_3 L_PP + alpha_4 L_MSM (section 3.4), for any set of tasks.

    ``simclr-instance``, ``simclr-temporal`` and ``simclr-nn`` (M3 to M5) have a contrastive loss only;
    ``bassl+simclr-nn`` (M8) adds ShotCoL's to BaSSL's, with weight 1. One head serves SSM, SimCLR and the alignment.
    Parameters have the names of a released checkpoint's ``loss.`` part; unused heads are not created.

    Example::

        objective = PretextObjective(PretextSettings(), encoding_dim=2048)
        noise = draw_noise(B, S, generator)
        loss = objective(slow_encodings, encodings, lambda shots, mask: crn(shots, mask)[0], noise)
        loss.total.backward()
    """

    def __init__(self, settings: PretextSettings, encoding_dim: int = 2048, context_dim: int = 768) -> None:
        super().__init__()
        self.settings = settings
        tasks = settings.tasks if settings.has_windows else ()
        learned = "ssm" in tasks or "simclr" in settings.method
        self.head_nce: nn.Module = nn.Identity()
        if learned or (settings.needs_alignment and settings.alignment == "head"):
            kind = LinearContrastiveHead if settings.variant == "paper" else ContrastiveHead
            # Without a contrastive loss the head stays a random projection (release). It must not be a trainable
            # parameter: DDP would wait for its gradient.
            self.head_nce = kind(encoding_dim, settings.head_dim).requires_grad_(learned)
        self.head_cgm = nn.Linear(2 * context_dim, 2) if "cgm" in tasks else None  # (release); class 1: same group
        self.head_pp = nn.Linear(context_dim, 2) if "pp" in tasks else None  # (release); class 1: the boundary
        self.head_msm = MaskedShotHead(context_dim, encoding_dim) if "msm" in tasks else None

    def forward(
        self,
        slow: Tensor,
        dense: Tensor,
        contextualize: Contextualize = _no_crn,
        noise: Tensor | None = None,
        joins: Tensor | None = None,
    ) -> PretextLoss:
        """Compute the loss of a batch.

        Args:
            slow: (B, n, D_e), encodings under the second augmentation of the shots at `PretextSettings.slow_positions`.
                For ShotCoL the last is the center; for SimCLR (instance, temporal) the only one is the second view.
            dense: (B, S, D_e), encodings of the window; for SimCLR (instance, temporal) the center is the first view,
                and S may be 1.
            contextualize: the CRN, called once without a mask (CGM, PP) and once with (MSM), as in the release.
            noise: (B, 5, S), see :func:`pipelines.pretext.pseudo_boundary.draw_noise`; for CGM, PP, MSM and random
                pseudo-boundaries.
            joins: (B,), for synthesized pseudo-boundaries.
        Raises ValueError: an argument that the settings need is missing, or windows are too short for a task.
        """
        settings, variant = self.settings, self.settings.variant
        if noise is None and settings.needs_noise:
            raise ValueError("these tasks and pseudo-boundaries need noise")
        chance = {} if noise is None else dict(zip(NOISE, noise.unbind(dim=1), strict=True))
        both = self.head_nce(torch.cat([slow, dense], dim=1))
        slow_head, dense_head = both.split([slow.shape[1], dense.shape[1]], dim=1)
        parts: dict[str, Tensor] = {}
        boundary = None
        if settings.needs_boundary:
            ends, shots = (slow_head, dense_head) if settings.alignment == "head" else (slow, dense)
            boundary = discover(settings.pseudo_boundary, ends, shots, chance.get("boundary"), joins)
            if "ssm" in settings.tasks:
                parts["ssm"] = losses.shot_scene_matching(
                    slow_head, dense_head, boundary, settings.temperature, variant
                )
            context = contextualize(dense, None) if self.head_cgm is not None or self.head_pp is not None else dense
            if self.head_cgm is not None:
                pair = sample_group_shots(boundary, chance["positive"], chance["negative"])
                parts["cgm"] = losses.contextual_group_matching(self.head_cgm, context, *pair, variant)
            if self.head_pp is not None:
                other = sample_other_shot(boundary, chance["other"])
                parts["pp"] = losses.pseudo_boundary_prediction(self.head_pp, context, boundary, other, variant)
        if self.head_msm is not None:
            mask = sample_mask(chance["mask"], settings.masking_rate)
            context = contextualize(dense, mask)
            parts["msm"] = losses.masked_shot_modeling(self.head_msm, context, dense, mask, variant)
        if settings.method.endswith("simclr-nn"):
            parts["simclr"] = losses.shotcol(slow_head[:, -1], dense_head, settings.temperature)
        elif "simclr" in settings.method:
            center = dense_head[:, dense_head.shape[1] // 2]
            parts["simclr"] = losses.nt_xent(center, slow_head[:, -1], settings.temperature)
        weights = settings.alphas | {"simclr": 1.0}
        total = torch.stack([weights[name] * loss for name, loss in parts.items()]).sum()
        return PretextLoss(total, parts, boundary)


class ContrastiveHead(nn.Module):
    """Linear, ReLU, Linear, L2 norm: h_SSM of the release, also its head for SimCLR. (..., D_e) to (..., 128)."""

    def __init__(self, input_dim: int = 2048, output_dim: int = 128) -> None:
        super().__init__()
        self.model = nn.Sequential(nn.Linear(input_dim, input_dim), nn.ReLU(), nn.Linear(input_dim, output_dim))

    def forward(self, encodings: Tensor) -> Tensor:
        """Return unit vectors in float32, whatever the precision of the head."""
        return F.normalize(full_precision(self.model(encodings)), dim=-1)


class LinearContrastiveHead(nn.Module):
    """h_SSM of the paper's text, a single linear layer (section 3.4). (..., D_e) to (..., 128), not of unit length."""

    def __init__(self, input_dim: int = 2048, output_dim: int = 128) -> None:
        super().__init__()
        self.model = nn.Sequential(nn.Linear(input_dim, output_dim))

    def forward(self, encodings: Tensor) -> Tensor:
        return full_precision(self.model(encodings))


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
