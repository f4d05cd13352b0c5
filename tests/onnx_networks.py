"""Small networks in ONNX files whose answers are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Dimensions = Sequence[int | str | None]


def write_network(
    path: Path,
    shape: Dimensions = ("B", 3, 8, 8),
    kind: int = TensorProto.FLOAT,
    grid: bool = False,
    outputs: Sequence[str] = ("features",),
    inputs: Sequence[str] = ("image",),
    metadata: Mapping[str, str] | None = None,
    result: int = TensorProto.FLOAT,
    width: int = 3,
) -> Path:
    """A network that gives the mean of each channel, (B, 3), or the input itself as a grid (B, 3, H, W).

    The second output is ten times the first, and so on. With channels last where the input is uint8. Only the
    first ``width`` channels are returned.
    """
    last = kind == TensorProto.UINT8
    nodes = [helper.make_node("Cast", [inputs[0]], ["x"], to=TensorProto.FLOAT)]
    nodes.append(helper.make_node("Transpose", ["x"], ["y"], perm=[0, 3, 1, 2] if last else [0, 1, 2, 3]))
    if not grid:
        nodes.append(helper.make_node("ReduceMean", ["y"], ["z"], axes=[2, 3], keepdims=0))
    dimensions = ["B", None, None, None] if grid else ["B", None]
    factors = []
    if width < 3:
        factors = [
            numpy_helper.from_array(np.array([number]), name) for name, number in (("0", 0), ("w", width), ("1", 1))
        ]
        nodes[-1].output[0] = "all"
        nodes.append(helper.make_node("Slice", ["all", "0", "w", "1"], ["z"]))
    for power, output in enumerate(outputs):
        factors.append(numpy_helper.from_array(np.array([10.0**power], np.float32), f"factor{power}"))
        nodes.append(helper.make_node("Mul", ["y" if grid else "z", f"factor{power}"], [f"product{power}"]))
        nodes.append(helper.make_node("Cast", [f"product{power}"], [output], to=result))
    graph = helper.make_graph(
        nodes,
        "means",
        [helper.make_tensor_value_info(name, kind, shape) for name in inputs],
        [helper.make_tensor_value_info(name, result, dimensions) for name in outputs],
        factors,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(model, dict(metadata or {}))
    onnx.save(model, path)
    return path
