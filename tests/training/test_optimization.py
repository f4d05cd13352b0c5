"""The learning rate and LARS, against literal transcriptions."""

from __future__ import annotations

import math
from collections import OrderedDict

import pytest
import torch
from torch import nn

from pipelines.pretext import Variant
from pipelines.training.loop import learning_rate, make_lars


def test_the_learning_rate_has_linear_warm_up_and_cosine_decay() -> None:
    rates = [learning_rate(step, 100, 0.3, 0.1) for step in range(100)]
    assert rates[:10] == pytest.approx([0.03 * k for k in range(1, 11)])
    assert rates[10:] == pytest.approx([0.15 * (1 + math.cos(math.pi * k / 90)) for k in range(90)])
    assert learning_rate(0, 5, 0.3, 0.0) == 0.3


@pytest.mark.parametrize("decay", [1e-2, 0.0])
@pytest.mark.parametrize("exclusion", ["release", "paper"])
def test_lars_equals_its_paper_and_excludes_the_chosen_parameters(exclusion: Variant, decay: float) -> None:
    torch.manual_seed(0)
    layers = {"one": nn.Linear(5, 4), "norm": nn.LayerNorm(4), "bn": nn.LayerNorm(4), "two": nn.Linear(4, 3)}
    network = nn.Sequential(OrderedDict(layers, frozen=nn.Linear(3, 3).requires_grad_(False))).double()
    mirror = {name: parameter.detach().clone() for name, parameter in network.named_parameters()}
    velocity = {name: torch.zeros_like(value) for name, value in mirror.items()}
    optimizer = make_lars(network, 0.9, weight_decay=decay, trust_coefficient=0.001, exclusion=exclusion)
    # The release excludes by name, and so adapts norms that are not called so.
    adapted = {"one.weight", "two.weight", *(["norm.weight"] if exclusion == "release" else [])}
    assert sum(len(group["params"]) for group in optimizer.param_groups) == 8
    for step in range(4):
        rate = 0.5 / (step + 1)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.zero_grad()
        network[:4](torch.randn(7, 5, dtype=torch.float64)).square().sum().backward()
        for name, parameter in network.named_parameters():
            if parameter.grad is None:
                continue
            update = parameter.grad.clone()
            if name in adapted:
                lengths = mirror[name].norm(), update.norm()
                trust = 0.001 * lengths[0] / (lengths[1] + decay * lengths[0] + 1e-8)
                update = trust * (update + decay * mirror[name])
            velocity[name] = 0.9 * velocity[name] + update if step else update
            mirror[name] = mirror[name] - rate * velocity[name]
        optimizer.step()
        for name, parameter in network.named_parameters():
            torch.testing.assert_close(parameter.detach(), mirror[name], rtol=1e-9, atol=1e-12)
