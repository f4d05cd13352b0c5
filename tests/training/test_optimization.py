"""The learning rate and LARS, against literal transcriptions."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from pipelines.training.optimization import learning_rate, make_lars, set_learning_rate


def test_the_rate_rises_in_a_line_and_falls_in_a_cosine() -> None:
    rates = [learning_rate(step, 100, 0.3, 0.1) for step in range(100)]
    assert rates[:10] == pytest.approx([0.03 * k for k in range(1, 11)])
    assert rates[10:] == pytest.approx([0.15 * (1 + math.cos(math.pi * k / 90)) for k in range(90)])
    assert learning_rate(0, 5, 0.3, 0.0) == 0.3


def test_lars_is_that_of_its_paper_and_leaves_biases_and_norms_alone() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(5, 4), nn.LayerNorm(4), nn.Linear(4, 3)).double()
    frozen = nn.Linear(3, 3).requires_grad_(False)
    network.append(frozen)
    mirror = {name: parameter.detach().clone() for name, parameter in network.named_parameters()}
    velocity = {name: torch.zeros_like(value) for name, value in mirror.items()}
    optimizer = make_lars(network, momentum=0.9, weight_decay=1e-2, trust_coefficient=0.001)
    assert sum(len(group["params"]) for group in optimizer.param_groups) == 6
    for step in range(4):
        set_learning_rate(optimizer, rate := 0.5 / (step + 1))
        optimizer.zero_grad()
        network[:3](torch.randn(7, 5, dtype=torch.float64)).square().sum().backward()
        for name, parameter in network.named_parameters():
            if parameter.grad is None:
                continue
            update = parameter.grad.clone()
            if parameter.ndim > 1:
                lengths = mirror[name].norm(), update.norm()
                trust = 0.001 * lengths[0] / (lengths[1] + 1e-2 * lengths[0] + 1e-8)
                update = trust * (update + 1e-2 * mirror[name])
            velocity[name] = 0.9 * velocity[name] + update if step else update
            mirror[name] = mirror[name] - rate * velocity[name]
        optimizer.step()
        for name, parameter in network.named_parameters():
            torch.testing.assert_close(parameter.detach(), mirror[name], rtol=1e-9, atol=1e-12)
