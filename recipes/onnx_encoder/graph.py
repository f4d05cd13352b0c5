"""The quantised network as an ONNX graph: images (B, 224, 224, 3) uint8 to ``features`` (B, 1280)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from recipes.onnx_encoder.network import SIZE, Layer
from recipes.onnx_encoder.quantisation import INPUT, IntegerLayer, Scale

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

    def convolution(self, layer: Layer, inputs: Sequence[str]) -> str:
        before, after = layer.padding
        return self.node(
            "Conv",
            inputs,
            layer.name,
            kernel_shape=list(layer.weight.shape[2:]),
            strides=[layer.stride] * 2,
            pads=[before, before, after, after],
            group=layer.groups,
        )

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
    """With each tensor between layers quantised and dequantised (QDQ), of which a runtime makes integer operations."""
    graph = _Graph()

    def dequantised(name: str, kind: str, values: NDArray[Any], steps: NDArray[np.float32]) -> str:
        """A constant of integers along whose first axis each has a step of its own."""
        inputs = [
            graph.constant(f"{name}.{kind}", values),
            graph.constant(f"{name}.{kind}.steps", steps),
            graph.constant(f"{name}.{kind}.zeros", np.zeros(len(steps), values.dtype)),
        ]
        return graph.node("DequantizeLinear", inputs, f"{name}.{kind}.real", axis=0)

    def requantised(x: str, scale: Scale) -> str:
        constants = (
            graph.constant(f"{x}.step", np.float32(scale.step)),
            graph.constant(f"{x}.zero", np.uint8(scale.zero)),
        )
        graph.node("QuantizeLinear", [x, *constants], f"{x}.integer")
        return graph.node("DequantizeLinear", [f"{x}.integer", *constants], f"{x}.real")

    graph.node("Transpose", ["images"], "channels", perm=[0, 3, 1, 2])
    constants = (
        graph.constant("images.step", np.float32(INPUT.step)),
        graph.constant("images.zero", np.uint8(INPUT.zero)),
    )
    x = kept = graph.node("DequantizeLinear", ["channels", *constants], "normalised")
    for one in layers:
        layer, name = one.layer, one.layer.name
        kept = x if layer.begins_block else kept
        steps = one.steps.numpy()
        weight = dequantised(name, "weight", one.weight.numpy(), steps)
        bias = dequantised(name, "bias", one.bias.numpy(), steps * np.float32(one.input.step))
        # ReLU6 needs no node: what lies outside of [0, 6] has no integer.
        x = requantised(graph.convolution(layer, [x, weight, bias]), one.output)
        if one.total is not None:
            x = requantised(graph.node("Add", [x, kept], f"{name}.sum"), one.total)
    graph.node("GlobalAveragePool", [x], "grid")
    graph.node("Flatten", ["grid"], "features")
    return graph.model(len(layers[-1].layer.bias), metadata)
