"""The optimizer of pre-training, and the learning rate of pre-training and fine-tuning (appendix A)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from pipelines.pretext.settings import Variant


def make_lars(
    module: nn.Module, momentum: float, weight_decay: float, trust_coefficient: float, exclusion: Variant = "release"
) -> torch.optim.Optimizer:
    """LARS (You et al. 2017) by timm, without adaptation and decay of some parameters.

    ``release`` excludes the parameters whose name contains ``bn`` or ``bias``. So it adapts and decays the weights of
    BN in the shortcuts of a ResNet (``downsample.1.weight``) and of LayerNorm in the CRN and in the MSM head. ``paper``
    excludes "bias and BN parameters" (appendix A), here all parameters with at most one dimension, which includes these
    ten tensors of the paper's model. The learning rate is set before each step, see :func:`learning_rate`.
    """
    from timm.optim import Lars  # start-up time: timm, which fine-tuning does not need

    def excluded(name: str, parameter: Tensor) -> bool:
        return parameter.ndim <= 1 if exclusion == "paper" else "bn" in name or "bias" in name

    trained = [(name, parameter) for name, parameter in module.named_parameters() if parameter.requires_grad]
    groups = [
        # Without ``always_adapt`` timm adapts only decayed parameters: a weight decay of 0 would be plain SGD.
        {
            "params": [p for name, p in trained if not excluded(name, p)],
            "weight_decay": weight_decay,
            "always_adapt": True,
        },
        {"params": [p for name, p in trained if excluded(name, p)], "weight_decay": 0.0},
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
    """Set the rate of all parameters."""
    for group in optimizer.param_groups:
        group["lr"] = rate
