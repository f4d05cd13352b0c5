"""Keyframes read ahead of training; measured activations against their definition, and what fits into memory."""

from __future__ import annotations

import threading
from contextlib import nullcontext

import pytest
import torch
from torch import nn

from pipelines.errors import StoreError
from pipelines.training.data import measure_images, micro_batch_size, read_ahead


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_values_come_in_the_order_of_items_a_few_are_read_ahead_and_an_error_is_raised_in_its_place(
    threads: int,
) -> None:
    started: list[int] = []

    def read(item: int) -> tuple[int, bool]:
        started.append(item)
        if item == 30:
            raise StoreError("a.h5: is damaged")
        return item, threading.current_thread() is threading.main_thread()

    values = read_ahead(read, range(100), threads=threads, ahead=4)
    assert next(values) == (0, not threads)
    assert len(started) <= 6
    assert [next(values)[0] for _ in range(29)] == list(range(1, 30))
    with pytest.raises(StoreError, match=r"^a\.h5: is damaged$"):
        next(values)
    assert len(started) <= 36


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
    assert micro_batch_size(16, 15, 40, free, torch.device("cpu")) == fit
