"""Memory of training: measured activations against their definition, and what fits into the free memory."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
from torch import nn

from pipelines.training.memory import measure_images, micro_batch_size

CPU = torch.device("cpu")


def test_activations_are_those_that_the_backward_pass_needs_each_counted_once() -> None:
    network = nn.Sequential(
        nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Flatten(), nn.LazyLinear(2)
    )
    network(torch.zeros(2, 3, 8, 8))
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    image = measure_images(network, 8, nullcontext)
    plane = 8 * 8 * 4  # bytes of a channel
    # The input, the output of the convolution, the output of the norm (the ReLU changes it in place), its flat copy.
    assert plane * (3 + 4 + 4 + 4) <= image.kept < plane * (3 + 4 + 4 + 4) + 100  # and the statistics of the norm
    assert (image.largest, image.input) == (4 * plane, 3 * plane)
    assert all(torch.equal(tensor, before[name]) for name, tensor in network.state_dict().items())
    with torch.no_grad():
        assert measure_images(network, 8, nullcontext).kept == 0


@pytest.mark.parametrize(("free", "fit"), [(1000, 16), (400, 16), (380, 8), (300, 8), (130, 3), (100, 2), (50, 0)])
def test_a_batch_is_divided_into_the_fewest_equal_parts_that_fit(free: int, fit: int) -> None:
    assert micro_batch_size(16, 15, 40, free, CPU) == fit
