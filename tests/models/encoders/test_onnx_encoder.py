"""Networks in ONNX files as shot encoders: input, output, and one-line errors for others."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given, settings, strategies as st
from numpy.typing import NDArray
from onnx import TensorProto

from pipelines.errors import BasslError
from pipelines.models.encoders import EncoderOptions
from pipelines.models.encoders.onnx_encoder import open_onnx_encoder
from tests.onnx_networks import write_network

PLAIN = EncoderOptions(encoder_mean=(0.0, 0.0, 0.0), encoder_std=(1 / 255,) * 3)
"""The input of the network is then 0 to 255."""


def plain(*color: float, size: int = 8) -> NDArray[np.uint8]:
    return np.full((size, size, 3), color, np.uint8)


def refusal(path: Path, options: EncoderOptions = EncoderOptions()) -> str:
    """The one line with which a file is refused."""
    with pytest.raises(BasslError) as caught:
        open_onnx_encoder(path, options=options)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(f"{path}: ")
    return str(caught.value)


# --- input and output -------------------------------------------------------------------------------------------------


def test_the_encoding_of_a_shot_is_the_mean_over_its_keyframes(tmp_path: Path) -> None:
    encoder = open_onnx_encoder(write_network(tmp_path / "net.onnx"), options=PLAIN)
    shots = [[plain(10, 1, 2), plain(20, 3, 4), plain(60, 5, 6)], [plain(5, 5, 5)], [plain(7, 7, 7), plain(9, 9, 9)]]
    np.testing.assert_allclose(encoder.encode(shots), [[30, 3, 4], [5, 5, 5], [8, 8, 8]], rtol=1e-6)
    assert encoder.width == 3


def test_floating_point_networks_get_red_green_blue_normalized_by_mean_and_std(tmp_path: Path) -> None:
    options = EncoderOptions(encoder_mean=(0.1, 0.2, 0.3), encoder_std=(0.2, 0.5, 1.0))
    encoder = open_onnx_encoder(write_network(tmp_path / "net.onnx"), options=options)
    expected = [(51 / 255 - 0.1) / 0.2, (102 / 255 - 0.2) / 0.5, (153 / 255 - 0.3) / 1.0]
    np.testing.assert_allclose(encoder.encode([[plain(51, 102, 153)]]), [expected], rtol=1e-4)


def test_a_network_for_uint8_gets_images_as_they_are(tmp_path: Path) -> None:
    file = write_network(tmp_path / "net.onnx", shape=("B", 8, 8, 3), kind=TensorProto.UINT8)
    np.testing.assert_allclose(open_onnx_encoder(file).encode([[plain(51, 102, 153)]]), [[51, 102, 153]])


def test_a_network_of_half_precision_gets_half_precision(tmp_path: Path) -> None:
    file = write_network(tmp_path / "net.onnx", kind=TensorProto.FLOAT16)
    np.testing.assert_allclose(open_onnx_encoder(file, options=PLAIN).encode([[plain(3, 2, 1)]]), [[3, 2, 1]], 1e-3)


def test_a_grid_output_is_averaged(tmp_path: Path) -> None:
    encoder = open_onnx_encoder(write_network(tmp_path / "net.onnx", grid=True), options=PLAIN)
    image = plain(10, 20, 30)
    image[:4] += 8
    assert encoder.width == 3
    np.testing.assert_allclose(encoder.encode([[image]]), [[14, 24, 34]], rtol=1e-6)


def test_a_network_with_batch_size_one_gets_one_image_at_a_time(tmp_path: Path) -> None:
    fixed = open_onnx_encoder(write_network(tmp_path / "one.onnx", shape=(1, 3, 8, 8)), options=PLAIN)
    dynamic = open_onnx_encoder(write_network(tmp_path / "many.onnx"), options=PLAIN)
    shots = [[plain(value + k, value, k) for k in range(3)] for value in range(7)]
    np.testing.assert_array_equal(fixed.encode(shots), dynamic.encode(shots))


def test_metadata_of_the_file_stand_in_for_options(tmp_path: Path) -> None:
    metadata = {"name": "my net", "mean": "[0.1, 0.2, 0.3]", "std": "[0.2, 0.5, 1.0]", "size": "12", "output": "b"}
    shape = ("B", 3, "H", "W")
    labeled = write_network(tmp_path / "labeled.onnx", shape=shape, outputs=("a", "b"), metadata=metadata)
    plain_file = write_network(tmp_path / "silent.onnx", shape=shape, outputs=("a", "b"))
    options = EncoderOptions(
        encoder_mean=(0.1, 0.2, 0.3), encoder_std=(0.2, 0.5, 1.0), encoder_size=12, encoder_output="b"
    )
    one, other = open_onnx_encoder(labeled), open_onnx_encoder(plain_file, options=options)
    assert (one.name, other.name) == ("my net", "silent")
    assert (
        (one.mean, one.std, one.size) == (other.mean, other.std, other.size) == ((25.5, 51, 76.5), (51, 127.5, 255), 12)
    )
    shots = [[plain(51, 102, 153, size=12)]]
    np.testing.assert_array_equal(one.encode(shots), other.encode(shots))
    # an option overrides the metadata
    np.testing.assert_allclose(
        open_onnx_encoder(labeled, options=EncoderOptions(encoder_output="a")).encode(shots) * 10,
        one.encode(shots),
        rtol=1e-5,
    )


def test_threads_share_one_encoder_and_get_their_own_features(tmp_path: Path) -> None:
    encoder = open_onnx_encoder(write_network(tmp_path / "net.onnx"), options=PLAIN)
    with ThreadPoolExecutor(4) as pool:
        result = list(pool.map(lambda value: encoder.encode([[plain(value, 0, 0)]])[0, 0], range(100)))
    np.testing.assert_allclose(result, range(100), rtol=1e-6)


# --- ids --------------------------------------------------------------------------------------------------------------


def test_the_id_covers_the_file_and_the_preprocessing(tmp_path: Path) -> None:
    shape = ("B", 3, None, None)
    file = write_network(tmp_path / "my net!.onnx", shape=shape, outputs=("a", "b"))
    other = write_network(tmp_path / "other.onnx", shape=shape, outputs=("a", "c"), metadata={"name": "my net!"})
    options = EncoderOptions(PLAIN.encoder_mean, PLAIN.encoder_std, encoder_size=8, encoder_output="a")
    one = open_onnx_encoder(file, options=options)
    assert one.id == open_onnx_encoder(file, options=options).id
    assert one.id.startswith("my-net-")
    changed = {
        open_onnx_encoder(other, options=options).id,
        open_onnx_encoder(file, keyframes=5, options=options).id,
        open_onnx_encoder(file, options=EncoderOptions((0.1, 0.0, 0.0), PLAIN.encoder_std, 8, "a")).id,
        open_onnx_encoder(file, options=EncoderOptions(PLAIN.encoder_mean, (1.0, 1.0, 1.0), 8, "a")).id,
        open_onnx_encoder(file, options=EncoderOptions(PLAIN.encoder_mean, PLAIN.encoder_std, 9, "a")).id,
        open_onnx_encoder(file, options=EncoderOptions(PLAIN.encoder_mean, PLAIN.encoder_std, 8, "b")).id,
    }
    assert len(changed | {one.id}) == 7


# --- refusals ---------------------------------------------------------------------------------------------------------


@settings(max_examples=30)
@given(content=st.binary(max_size=400))
def test_a_file_that_is_not_a_network_is_refused(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("bytes") / "net.onnx"
    path.write_bytes(content)
    assert "is not an ONNX network that can be run" in refusal(path)
    assert "no such file" in refusal(path.with_name("other.onnx"))


def test_a_damaged_network_is_refused_without_a_banner_on_stdout(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = write_network(tmp_path / "net.onnx")
    path.write_bytes(path.read_bytes().replace(b"ReduceMean", b"ReduceMe\xff\xfe"))
    assert "is not an ONNX network that can be run" in refusal(path)
    assert capfd.readouterr().out == ""


MEAN, STD = PLAIN.encoder_mean, PLAIN.encoder_std
NONE, ANY_SIZE = EncoderOptions(), ("B", 3, None, None)
IMAGES_ONLY = "the only input of an encoder is images"
REFUSED: dict[str, tuple[dict[str, Any], EncoderOptions, str]] = {
    "no mean": ({}, NONE, "has no mean in its metadata"),
    "no std": ({}, EncoderOptions(encoder_mean=MEAN), "has no std in its metadata"),
    "mean up to 255": ({}, EncoderOptions((123.7, 116.3, 103.5), STD), "mean is .* on the scale of 0 to 1"),
    "std of 0": ({}, EncoderOptions(MEAN, (0.0, 1.0, 1.0)), "std is .*no std is 0"),
    "cut mean": ({"metadata": {"mean": "[0.5"}}, NONE, r"the mean in its metadata cannot be read: '\[0.5'"),
    "two means": ({"metadata": {"mean": "[0.5, 0.5]"}}, NONE, "mean is .*three numbers"),
    "size a word": ({"metadata": {"size": "large"}}, PLAIN, "size in its metadata cannot be read: 'large'"),
    "no size": ({"shape": ANY_SIZE}, PLAIN, "is of any size; it is one number .*`encoder_size`"),
    "size 0": (
        {"shape": ANY_SIZE},
        EncoderOptions(MEAN, STD, 0),
        "is 0; it is one number from 1 to 4096 .*`encoder_size`",
    ),
    "another size": ({}, EncoderOptions(MEAN, STD, 9), "the side of its input is 8 or 9; it is one number"),
    "not square": ({"shape": ("B", 3, 8, 16)}, PLAIN, "the side of its input is 8 or 16; it is one number"),
    "batch of 4": ({"shape": (4, 3, 8, 8)}, PLAIN, "takes exactly 4 images at a time"),
    "one channel": ({"shape": ("B", 1, 8, 8)}, PLAIN, rf"takes tensor\(float\) \['B', 1, 8, 8\]; {IMAGES_ONLY}"),
    "float channels last": ({"shape": ("B", 8, 8, 3)}, PLAIN, IMAGES_ONLY),
    "uint8 channels first": ({"kind": TensorProto.UINT8}, PLAIN, IMAGES_ONLY),
    "two inputs": ({"inputs": ("image", "words")}, PLAIN, f"has the inputs image, words; {IMAGES_ONLY}"),
    "two outputs": ({"outputs": ("a", "b")}, PLAIN, "has several outputs; name one with `encoder_output`: a, b"),
    "unknown output": ({}, EncoderOptions(MEAN, STD, None, "pooled"), "has no output 'pooled'; .* features"),
    "integers": ({"result": TensorProto.INT64}, PLAIN, r"its output features is int64 \(1, 3\)"),
    "nothing": ({"width": 0}, PLAIN, r"its output features is float32 \(1, 0\)"),
    "mean for uint8": (
        {"shape": ("B", 8, 8, 3), "kind": TensorProto.UINT8},
        PLAIN,
        "normalizes them itself; leave out mean and std",
    ),
}


@pytest.mark.parametrize(("network", "options", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_network_that_is_not_an_encoder_is_refused(
    tmp_path: Path, network: dict[str, Any], options: EncoderOptions, reason: str
) -> None:
    message = refusal(write_network(tmp_path / "net.onnx", **network), options)
    assert re.search(reason, message), message


def test_a_network_that_cannot_be_run_on_its_images_is_refused(tmp_path: Path) -> None:
    file = write_network(tmp_path / "net.onnx")
    model = onnx.load(file)
    model.graph.node[2].op_type = "Flatten"  # (B, 192)
    del model.graph.node[2].attribute[:]
    model.graph.node.insert(3, onnx.helper.make_node("Reshape", ["z", "to"], ["zz"]))
    model.graph.initializer.append(onnx.helper.make_tensor("to", TensorProto.INT64, [2], [7, 7]))
    model.graph.node[4].input[0] = "zz"
    onnx.save(model, file)
    assert "cannot be run on images (1, 3, 8, 8)" in refusal(file, PLAIN)


def test_a_network_that_mixes_images_of_a_batch_is_refused_when_it_encodes(tmp_path: Path) -> None:
    file = write_network(tmp_path / "net.onnx")
    model = onnx.load(file)
    model.graph.node.insert(3, onnx.helper.make_node("ReduceMean", ["z"], ["all"], axes=[0], keepdims=1))
    model.graph.node[4].input[0] = "all"
    onnx.save(model, file)
    encoder = open_onnx_encoder(file, options=PLAIN)
    with pytest.raises(BasslError, match=r"returns \(1, 3\) for 2 images, not \(2, 3\)"):
        encoder.encode([[plain(1, 2, 3), plain(4, 5, 6)]])


def test_weights_in_another_file_are_refused_because_the_id_would_not_cover_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = write_network(tmp_path / "net.onnx")
    model = onnx.load(file)
    onnx.save(model, file, save_as_external_data=True, location="net.onnx.data", size_threshold=0)
    assert (tmp_path / "net.onnx.data").exists()
    assert "export it into one" in refusal(file, PLAIN)


@pytest.mark.filterwarnings("ignore")  # of tracing
def test_the_documented_export_of_a_network_of_timm_gives_its_features(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (Path(__file__).parents[3] / "docs" / "encoders.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    code = code.replace("pretrained=True", "pretrained=False").replace("vit_small_patch14_dinov2.lvd142m", "test_vit")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(code, names)
    encoder = open_onnx_encoder(tmp_path / "dinov2.onnx")
    image = np.random.default_rng(0).integers(0, 256, (224, 224, 3), np.uint8)
    mean, std = (np.array(names["config"][key]) for key in ("mean", "std"))
    x = torch.from_numpy(((image / 255 - mean) / std).transpose(2, 0, 1)[None]).float()
    with torch.inference_mode():
        expected = names["model"](x).numpy()
    assert (encoder.name, encoder.size) == ("dinov2", 224)
    np.testing.assert_allclose(encoder.features(np.stack([image, image])), np.tile(expected, (2, 1)), atol=1e-4)


def test_metadata_that_are_not_utf_8_are_refused(tmp_path: Path) -> None:
    path = write_network(tmp_path / "a.onnx", metadata={"author": "Gr__e"})
    path.write_bytes(path.read_bytes().replace(b"Gr__e", b"Gr\xf6\xdfe"))
    assert "its metadata or names are not UTF-8" in refusal(path)
