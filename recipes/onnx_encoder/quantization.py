"""A network of convolutions in 8-bit integers, rounded so that each layer makes up for the errors before it.

Activations are uint8 with one step a tensor, weights int8 with one step an output channel. Layer by layer, on
calibration frames that run through the floating-point network and through the integer one beside each other:

1. The weights are moved so that on the integer network's inputs they give, in least squares, the outputs that the
   floating-point network has there. The error of the layers before is taken back as far as one layer can.
2. They are rounded one input after another; the error of each rounding is taken back by the weights that are not yet
   rounded (GPTQ: Frantar et al. 2023, section 3; the matrix is that of the inputs' covariances).
3. The bias makes the mean of each output channel right.

**No sum saturates.** x86 processors without VNNI (before about 2019, AMD's before Zen 4) multiply uint8 by
int8 and add two neighboring products in 16 bits, clipped at 32,767 (VPMADDUBSW). Two products of 255 * 127 are more,
and a network quantized without regard to it gives other features there. So two neighboring weights of one sign have
a sum of at most 128: 255 * 128 = 32,640. What remains between processors are roundings of ONNX Runtime: under
emulation of Haswell and of Nehalem (qemu) 94 and 91 % of the features are equal to those with VNNI, their correlation
is 0.9999; that of a file quantized without the limit is 0.69 to 0.95.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from recipes.onnx_encoder.network import MEAN, STD, Layer

PAIR_LIMIT = 128  # what two neighboring weights of one sign, in steps, sum to at most

# Steps that are tried for each output channel, to the largest weight divided by 127. Above 1 pairs seldom meet their
# limit, below 1 the largest weights are clipped.
_STEPS = (1.6, 1.3, 1.15, 1.05, 0.95, 0.85)

# Added to the covariances' diagonal, to its mean: 1 % as in GPTQ.
_DAMPING = 0.01

# Positions on each side of a map that are looked at. A depthwise kernel has 9 to 25 weights to find, others up to 1152.
_GRID, _DEPTHWISE_GRID = 14, 7


@dataclass(frozen=True)
class Scale:
    """What integers of a uint8 tensor stand for: ``step * (integer - zero)``."""

    step: float
    zero: int

    def rounded(self, x: Tensor) -> Tensor:
        """Round to the values that the tensor can hold nearest to ``x``, in place."""
        return x.div_(self.step).round_().add_(self.zero).clamp_(0, 255).sub_(self.zero).mul_(self.step)


INPUT = Scale(1.0 / STD, int(MEAN))  # a frame's uint8 values are its normalized values in integers already


@dataclass(frozen=True)
class IntegerLayer:
    """A layer in integers."""

    layer: Layer  # what it was
    weight: Tensor  # (outputs, inputs / groups, k, k) int8
    steps: Tensor  # (outputs,) float32, what a weight of 1 stands for
    bias: Tensor  # (outputs,) int32, in steps of ``steps * input.step``
    input: Scale  # of its input
    output: Scale  # of its output, before the block's input is added
    total: Scale | None  # of the sum, where the block's input is added


@torch.no_grad()
def quantize(layers: Sequence[Layer], frames: Tensor) -> list[IntegerLayer]:
    """Return the layers in integers, calibrated on frames (N, SIZE, SIZE, 3) uint8."""
    exact = [(part.permute(0, 3, 1, 2).float() - MEAN) / STD for part in torch.split(frames, 16)]
    integer = [part.clone() for part in exact]
    exact_kept, integer_kept, scale = exact, integer, INPUT
    integer_layers = []
    for layer in layers:
        if layer.begins_block:
            exact_kept, integer_kept = exact, integer
        wanted = [layer.convolve(x, layer.weight, layer.bias) for x in exact]
        if layer.adds:  # what is to be added has an error too, which this layer can take back
            exact = [x + kept for x, kept in zip(wanted, exact_kept, strict=True)]
            wanted = [x - kept for x, kept in zip(exact, integer_kept, strict=True)]
        else:
            exact = wanted
        weight, steps, bias = _rounded_weights(layer, integer, wanted, scale)
        integer = [layer.convolve(x, weight * steps[:, None, None, None], bias * steps * scale.step) for x in integer]
        if layer.relu6:
            exact = [x.clamp(0, 6) for x in exact]
            integer = [x.clamp_(0, 6) for x in integer]
        output = _scale_of(wanted if layer.adds else exact)
        integer = [output.rounded(x) for x in integer]
        total = None
        if layer.adds:
            total = _scale_of(exact)
            integer = [total.rounded(x.add_(kept)) for x, kept in zip(integer, integer_kept, strict=True)]
        integer_layers.append(
            IntegerLayer(layer, weight.to(torch.int8), steps, bias.to(torch.int32), scale, output, total)
        )
        scale = total or output
    return integer_layers


def _scale_of(parts: Sequence[Tensor]) -> Scale:
    """Return the step with which uint8 holds all values, 0 among them."""
    low, high = min(0.0, *(float(x.min()) for x in parts)), max(0.0, *(float(x.max()) for x in parts))
    step = float(np.float32((high - low) / 255))
    return Scale(step, round(-low / step))


def _rounded_weights(
    layer: Layer, inputs: Sequence[Tensor], wanted: Sequence[Tensor], scale: Scale
) -> tuple[Tensor, Tensor, Tensor]:
    """Return integer weights (as float32), their steps, and the bias in steps of both, for the integer network's
    inputs."""
    x, y = _patches(layer, inputs), _outputs(layer, wanted)
    n = x.shape[2]
    x_mean, y_mean = x.mean(dim=2), y.mean(dim=2)
    x, y = x - x_mean[:, :, None], y - y_mean[:, :, None]
    covariance = torch.bmm(x, x.transpose(1, 2)).double() / n
    shared = torch.bmm(y, x.transpose(1, 2)).double() / n
    weight = layer.weight.double().reshape(x.shape[0], -1, x.shape[1])
    size = covariance.diagonal(dim1=1, dim2=2).mean(dim=1)[:, None, None] + 1e-9
    damped = covariance + _DAMPING * size * torch.eye(x.shape[1], dtype=torch.double)
    weight = weight + torch.linalg.solve(damped, (shared - weight @ covariance).transpose(1, 2)).transpose(1, 2)
    # The stem's weights are not in one order with every processor: any two of them may be neighbors.
    pairs, limit = layer.groups == 1, 64 if layer.name == "stem" else 127
    # A channel of all but zero weights still has a bias, which must fit an integer.
    least = y_mean.double().abs() / (scale.step * 2**23) + 1e-12
    largest = (weight.abs().amax(dim=2) / limit).maximum(least)
    least_error, rounded, steps = torch.full_like(largest, torch.inf), torch.zeros_like(weight), largest
    for share in _STEPS:
        tried = _round_in_turn(weight, damped, share * largest, limit, pairs)
        off = tried * (share * largest)[:, :, None] - weight
        error = ((off @ damped) * off).sum(dim=2)
        better = error < least_error
        least_error = torch.where(better, error, least_error)
        rounded = torch.where(better[:, :, None], tried, rounded)
        steps = torch.where(better, share * largest, steps)
    steps = steps.float().double()  # as they are written
    bias = y_mean.double() - torch.einsum("gok,gk->go", rounded * steps[:, :, None], x_mean.double())
    in_steps = (bias / (steps * scale.step)).round().flatten().float()
    return rounded.float().reshape(layer.weight.shape), steps.float().flatten(), in_steps


def _round_in_turn(weight: Tensor, covariance: Tensor, steps: Tensor, limit: int, pairs: bool) -> Tensor:
    """Round groups of rows by GPTQ: weight (G, O, K), covariance (G, K, K), steps (G, O) to integers (G, O, K)."""
    left = weight.clone()
    rounded = torch.zeros_like(weight)
    factor = torch.linalg.cholesky(torch.linalg.inv(covariance), upper=True)
    for k in range(weight.shape[2]):
        now = (left[:, :, k] / steps).round().clamp(-limit, limit)
        if pairs and k % 2:
            before = rounded[:, :, k - 1]
            now = now.minimum(PAIR_LIMIT - before.clamp(min=0)).maximum(-PAIR_LIMIT - before.clamp(max=0))
        rounded[:, :, k] = now
        error = (left[:, :, k] - now * steps) / factor[:, None, k, k]
        left[:, :, k + 1 :] -= error[:, :, None] * factor[:, None, k, k + 1 :]
    return rounded


def _patches(layer: Layer, inputs: Sequence[Tensor]) -> Tensor:
    """Return what a layer's kernel sees at some positions: (groups, weights of a kernel, positions)."""
    kernel, stride = layer.weight.shape[-1], layer.stride
    parts = []
    for part in inputs:
        padded = layer.padded(part)
        height = part.shape[2] // stride
        every, first = _spacing(layer, height)
        seen = []
        for dy in range(kernel):
            for dx in range(kernel):
                y, x = dy + first * stride, dx + first * stride
                end_y, end_x = dy + stride * (height - 1) + 1, dx + stride * (height - 1) + 1
                seen.append(padded[:, :, y : end_y : every * stride, x : end_x : every * stride])
        parts.append(torch.stack(seen, dim=2).permute(1, 2, 0, 3, 4).flatten(2))  # (C, k * k, positions)
    together = torch.cat(parts, dim=2)
    return together if layer.groups > 1 else together.reshape(1, -1, together.shape[2])


def _outputs(layer: Layer, outputs: Sequence[Tensor]) -> Tensor:
    """Return its outputs at the same positions: (groups, outputs of a group, positions)."""
    every, first = _spacing(layer, outputs[0].shape[2])
    parts = [part[:, :, first::every, first::every].permute(1, 0, 2, 3).flatten(1) for part in outputs]
    together = torch.cat(parts, dim=1)
    return together.reshape(layer.groups, -1, together.shape[1])


def _spacing(layer: Layer, height: int) -> tuple[int, int]:
    """Return the step between positions to look at on a side, and the first."""
    every = -(-height // (_DEPTHWISE_GRID if layer.groups > 1 else _GRID))
    return every, every // 2
