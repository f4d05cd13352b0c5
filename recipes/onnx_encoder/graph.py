"""The quantized network as an ONNX graph: images (B, SIZE, SIZE, 3) uint8 to ``features`` (B, 1280)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from recipes.onnx_encoder.network import SIZE, Layer
from recipes.onnx_encoder.quantization import INPUT, IntegerLayer, Scale

# Any ONNX Runtime since 1.15 reads these.
_OPSET, _IR_VERSION = 17, 8


class _Graph:
    """Nodes and constants as they come."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, name: str, values: NDArray[Any] | np.generic) -> str:
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def node(self, kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(kind, inputs, [output], name=output, **attributes))
        return output

    def convolution(self, layer: Layer, inputs: Sequence[str], strides: Sequence[int]) -> str:
        before, after = layer.padding
        pads = [before, before, after, after]
        return self.node("Conv", inputs, layer.name, strides=strides, pads=pads, group=layer.groups)

    def columns(self, x: str, width: int, channels: int) -> str:
        """Return the pixels (B, H, any, any) of ``x`` as (B, H, width, channels), in the same order in memory."""
        return self.node("Reshape", [x, self.constant(f"{x}.shape", np.array([0, 0, width, channels]))], f"{x}.columns")

    def model(self, width: int, metadata: Mapping[str, str]) -> onnx.ModelProto:
        images = helper.make_tensor_value_info("images", TensorProto.UINT8, ["B", SIZE, SIZE, 3])
        features = helper.make_tensor_value_info("features", TensorProto.FLOAT, ["B", width])
        graph = helper.make_graph(self.nodes, "efficientnet_lite0", [images], [features], self.constants)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION, producer_name="bassl"
        )
        helper.set_model_props(model, dict(metadata))
        onnx.checker.check_model(model, full_check=True)
        return model


def integer_model(layers: Sequence[IntegerLayer], metadata: Mapping[str, str]) -> onnx.ModelProto:
    """Return the network with each tensor between layers quantized and dequantized (QDQ), of which a runtime makes
    integer operations."""
    graph = _Graph()

    def dequantized(name: str, kind: str, values: NDArray[Any], steps: NDArray[np.float32]) -> str:
        """Return a constant of integers along whose first axis each has a step of its own."""
        inputs = [
            graph.constant(f"{name}.{kind}", values),
            graph.constant(f"{name}.{kind}.steps", steps),
            graph.constant(f"{name}.{kind}.zeros", np.zeros(len(steps), values.dtype)),
        ]
        return graph.node("DequantizeLinear", inputs, f"{name}.{kind}.real", axis=0)

    def requantized(x: str, scale: Scale) -> str:
        constants = (
            graph.constant(f"{x}.step", np.float32(scale.step)),
            graph.constant(f"{x}.zero", np.uint8(scale.zero)),
        )
        graph.node("QuantizeLinear", [x, *constants], f"{x}.integer")
        return graph.node("DequantizeLinear", [f"{x}.integer", *constants], f"{x}.real")

    def convolved(one: IntegerLayer, x: str, weight: NDArray[np.int8], strides: Sequence[int], copies: int = 1) -> str:
        steps, bias = np.tile(one.steps.numpy(), copies), np.tile(one.bias.numpy(), copies)
        weights = dequantized(one.layer.name, "weight", weight, steps)
        biases = dequantized(one.layer.name, "bias", bias, steps * np.float32(one.input.step))
        # ReLU6 needs no node: what lies outside of [0, 6] has no integer.
        return requantized(graph.convolution(one.layer, [x, weights, biases], strides), one.output)

    # ONNX Runtime convolves 12 channels three times as fast as 3: the stem takes four columns at once, and gives two.
    stem, *others = layers
    columns = graph.columns("images", SIZE // 4, 4 * 3)
    graph.node("Transpose", [columns], "channels", perm=[0, 3, 1, 2])
    constants = (
        graph.constant("images.step", np.float32(INPUT.step)),
        graph.constant("images.zero", np.uint8(INPUT.zero)),
    )
    x = graph.node("DequantizeLinear", ["channels", *constants], "normalised")
    x = convolved(stem, x, _two_columns(stem.weight.numpy()), [2, 1], copies=2)
    graph.node("Transpose", [x], "stem.pixels", perm=[0, 2, 3, 1])
    columns = graph.columns("stem.pixels", SIZE // 2, len(stem.weight))
    x = kept = graph.node("Transpose", [columns], "stem.channels", perm=[0, 3, 1, 2])
    for one in others:
        kept = x if one.layer.begins_block else kept
        x = convolved(one, x, one.weight.numpy(), [one.layer.stride] * 2)
        if one.total is not None:
            x = requantized(graph.node("Add", [x, kept], f"{one.layer.name}.sum"), one.total)
    graph.node("GlobalAveragePool", [x], "grid")
    graph.node("Flatten", ["grid"], "features")
    return graph.model(len(layers[-1].layer.bias), metadata)


def _two_columns(weight: NDArray[np.int8]) -> NDArray[np.int8]:
    """Return kernels (K, C, 3, 3) of stride 2 as (2 K, 4 C, 3, 2) of stride 1 along the rows: the same sums, of two
    columns of the output at once, from an input that has four columns as the channels of one."""
    K, C = weight.shape[:2]
    wide = np.zeros((2, K, 8, C, 3), np.int8)  # column and channel of the output, column and channel of the input, row
    for column in range(2):
        wide[column, :, 2 * column : 2 * column + 3] = weight.transpose(0, 3, 1, 2)
    return wide.reshape(2 * K, 2, 4 * C, 3).transpose(0, 2, 3, 1)
