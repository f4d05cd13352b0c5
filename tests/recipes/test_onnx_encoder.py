"""The default encoder's ONNX file is the published network, in integers; the recipe's network is the original one."""

from itertools import combinations

import numpy as np
import onnx
import onnxruntime
import pytest
import timm
import torch
from onnx import numpy_helper

from pipelines.datasets.synthetic import SyntheticVideoSettings, plan_video, render_keyframes
from pipelines.models.encoders.onnx_encoder import BUILT_IN, open_onnx_encoder
from pipelines.models.networks.cut_evidence import unit_rows
from recipes.onnx_encoder.graph import integer_model
from recipes.onnx_encoder.network import SIZE, Layer, float_features, layers_of, published_weights
from recipes.onnx_encoder.quantization import PAIR_LIMIT, quantize


def mixed_images(count: int) -> torch.Tensor:
    """Images (B, SIZE, SIZE, 3) uint8 with large and small structures."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(count, 3, 7, 7, generator=generator)
    fine = torch.rand(count, 3, SIZE, SIZE, generator=generator)
    mixed = torch.nn.functional.interpolate(coarse, SIZE, mode="bilinear") * 0.7 + fine * 0.3
    return (mixed * 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()


def test_the_floating_point_network_equals_timms_with_the_same_weights() -> None:
    network = timm.create_model("tf_efficientnet_lite0")
    # Layers have other names there, in the same order.
    network.load_state_dict(dict(zip(network.state_dict(), published_weights().values(), strict=True)))
    images = mixed_images(4)
    with torch.inference_mode():
        pixels = (images.permute(0, 3, 1, 2).float() - 127) / 128
        expected = network.eval().forward_features(pixels).mean(dim=(2, 3))
        result = float_features(layers_of(published_weights()), images)
    assert expected.std() > 0.01
    torch.testing.assert_close(result, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_the_shipped_file_agrees_with_the_published_network_on_videos_it_was_not_calibrated_on() -> None:
    encoder, layers = open_onnx_encoder(BUILT_IN), layers_of(published_weights())
    assert (encoder.width, encoder.size, encoder.precision) == (1280, SIZE, "int8")
    video = plan_video(SyntheticVideoSettings(seed=1000, width=426, height=240))
    shots = [np.stack([encoder.prepare(frame) for frame in shot]) for shot in render_keyframes(video)[:40]]
    with torch.inference_mode():
        original = np.concatenate([float_features(layers, torch.from_numpy(shot)).numpy() for shot in shots])
    features = [np.concatenate([encoder.features(shot) for shot in shots]), original]
    centered = [unit_rows((x - x.mean(axis=0)).astype(np.float64), 0) for x in features]
    assert (centered[0] * centered[1]).sum(axis=1).mean() >= 0.98
    similarities = [(unit @ unit.T).ravel() for unit in (unit_rows(x.astype(np.float64), 0) for x in features)]
    assert np.corrcoef(*similarities)[0, 1] >= 0.995


def test_features_of_an_image_do_not_depend_on_the_batch() -> None:
    encoder, images = open_onnx_encoder(BUILT_IN), mixed_images(5).numpy()
    alone = np.concatenate([encoder.features(image[None]) for image in images])
    np.testing.assert_array_equal(encoder.features(images), alone)


def test_no_two_neighboring_weights_of_the_shipped_file_can_saturate_a_16_bit_sum() -> None:
    weights = {
        tensor.name: numpy_helper.to_array(tensor).astype(int)
        for tensor in onnx.load(BUILT_IN).graph.initializer
        if tensor.name.endswith(".weight") and tensor.dims[1] > 1  # depthwise kernels are not multiplied in pairs
    }
    assert len(weights) > 30
    for name, weight in weights.items():
        rows = weight.reshape(len(weight), -1)
        pairs = list(combinations(rows.T, 2) if name == "stem.weight" else zip(rows.T[::2], rows.T[1::2], strict=True))
        assert max(int(abs(a + b).max()) for a, b in pairs) <= PAIR_LIMIT
        assert max(255 * int(abs(np.maximum(a, 0) + np.maximum(b, 0)).max()) for a, b in pairs) < 2**15


def test_the_integer_network_is_close_to_the_floating_point_network() -> None:
    generator = torch.Generator().manual_seed(1)

    def weights(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator) / float(np.prod(shape[1:])) ** 0.5

    layers = [
        Layer("stem", weights(16, 3, 3, 3) * 3, torch.full((16,), 1.0), stride=2),
        Layer("expand", weights(32, 16, 1, 1) * 2, torch.full((32,), 0.5), begins_block=True),
        Layer("depthwise", weights(32, 1, 3, 3), torch.full((32,), 0.5), groups=32),
        Layer("project", weights(16, 32, 1, 1), torch.zeros(16), relu6=False, adds=True),
        Layer("head", weights(24, 16, 1, 1), torch.full((24,), 0.5)),
    ]
    images = mixed_images(12)
    model = integer_model(quantize(layers, images[:8]), {"output": "features"}).SerializeToString()
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    (result,) = session.run(["features"], {"images": images[8:].numpy()})
    expected = float_features(layers, images[8:]).numpy()
    assert np.corrcoef(result.ravel(), expected.ravel())[0, 1] > 0.999
