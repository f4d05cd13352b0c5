"""Shot encoders: the mean over keyframes, images of any size, ids, and one-line errors where one cannot be loaded."""

import colorsys
import re
import sys
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, get_args

import huggingface_hub.constants
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from pipelines.errors import BasslError, StoreError
from pipelines.models.bassl import BasslSettings, BasslWeights, save_bassl_model
from pipelines.models.boundary import BoundaryModel, save_boundary_model
from pipelines.models.encoder_loading import encoder_of_id, encoder_of_model, load_encoder
from pipelines.models.encoders import (
    Preparation,
    absolute_encoder,
    named_encoder,
    precision_of,
    torch_encoders as module,
)
from pipelines.models.encoders.shot_encoder import (
    HUES,
    ShotEncoder,
    encode_groups,
    hue_histogram,
    preparation_facts,
)
from pipelines.models.encoders.torch_encoders import (
    TorchEncoder,
    choose_device,
    torch_encoder,
    torch_encoder_id,
    trainable_encoder,
)
from pipelines.models.networks import RelationalSettings
from pipelines.models.networks.torch_networks import RelationalNetwork
from pipelines.models.opening import open_model
from pipelines.video.images import resize_and_crop, resize_to_square
from tests.small_stores import refusal


class MeanColor(nn.Module):
    """A network with known output: the mean of each channel."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=(2, 3))


def mean_color(**changes: Any) -> ShotEncoder:
    settings: dict[str, Any] = {"name": "mean", "id": "mean-0", "network": MeanColor(), "width": 3, "size": 8}
    settings |= {"mean": (0.0,) * 3, "std": (1.0,) * 3}
    return TorchEncoder(**settings | changes)


def plain(value: float, size: int = 8) -> NDArray[np.uint8]:
    return np.full((size, size, 3), value, np.uint8)


def test_the_path_of_an_encoder_is_made_absolute_and_a_name_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("run", "resnet50", "efficientnet_lite0"):
        Path(name).mkdir()
    assert absolute_encoder("run") == absolute_encoder(Path("run")) == str(tmp_path / "run")
    for name in ("resnet50", "efficientnet_lite0", "timm:resnet50", "resnet50-0123456789ab"):
        assert absolute_encoder(name) == name


def test_features_that_are_not_finite_are_refused_with_the_name_of_their_encoder() -> None:
    encoder = mean_color(std=(0.0, 1.0, 1.0))
    refusal(lambda: encoder.encode([[plain(10)]]), "the encoder mean returns features that are not", error=BasslError)


def test_images_are_normalized_in_rgb_order() -> None:
    picture = np.stack([np.full((8, 8), value) for value in (10, 20, 30)], axis=2).astype(np.uint8)
    encoder = mean_color(mean=(8.0, 10.0, 15.0), std=(1.0, 2.0, 5.0))
    np.testing.assert_allclose(encoder.encode([[picture]]), [[2.0, 5.0, 3.0]])


@pytest.mark.parametrize("size", [(1, 1), (2, 300), (240, 426)])
def test_an_image_of_any_size_is_squeezed_whole_to_the_square(size: tuple[int, int]) -> None:
    picture = np.full((*size, 3), (200, 100, 50), np.uint8)
    picture[:, : size[1] // 20], picture[:, size[1] - size[1] // 20 :] = 255, 255
    square = resize_to_square(picture, 224)
    assert square.shape == (224, 224, 3)
    assert (square[:, 112] == (200, 100, 50)).all()
    if size[1] > 20:
        assert (square[:, [0, -1]] == 255).all()


@pytest.mark.parametrize("size", [(240, 427), (426, 240), (1080, 1920), (224, 224)])
def test_the_center_of_an_image_is_read_as_in_the_release(size: tuple[int, int]) -> None:
    """torchvision's Resize(256, BICUBIC) and CenterCrop(224) on a Pillow image."""
    y, x = np.mgrid[: size[0], : size[1]]
    image = np.stack([x * 255 // size[1], y * 255 // size[0], (x + y) % 256], -1).astype(np.uint8)
    width, height = (256 if side == min(size) else int(256 * side / min(size)) for side in reversed(size))
    picture = Image.fromarray(image).resize((width, height), Image.Resampling.BICUBIC)
    left, top = (round((side - 224) / 2.0) for side in picture.size)
    expected = np.asarray(picture)[top : top + 224, left : left + 224]
    assert np.abs(resize_and_crop(image, 224).astype(int) - expected).mean() < 1


def test_a_missing_device_is_reported_and_the_default_is_a_gpu_if_there_is_one() -> None:
    has_gpu = torch.cuda.is_available()
    for name in ("quantum", "", "cpu:x", "meta", *([] if has_gpu else ["cuda"])):
        refusal(lambda name=name: choose_device(name), f"the device '{name}' is not available", error=BasslError)
    assert choose_device("auto").type == ("cuda" if has_gpu else "cpu")


# --- groups -----------------------------------------------------------------------------------------------------------


def test_an_error_in_a_group_is_raised_in_order_and_stops_further_groups() -> None:
    begun = []

    def pictures(value: int) -> list[list[NDArray[np.uint8]]]:
        begun.append(value)
        if value == 3:
            raise StoreError("the fourth is damaged")
        return [[plain(value)]]

    threads = torch.get_num_threads()
    groups = encode_groups(mean_color(), range(1000), pictures, 2)
    assert [next(groups)[0] for _ in range(3)] == [0, 1, 2]
    refusal(lambda: next(groups), "the fourth is damaged")
    assert len(begun) < 20
    assert torch.get_num_threads() == threads


# --- ids --------------------------------------------------------------------------------------------------------------


def test_the_id_of_the_default_encoder_is_the_same_on_every_machine() -> None:
    encoder = load_encoder("efficientnet_lite0", "cpu")
    assert (encoder.id, encoder.width) == ("efficientnet_lite0-d069d09dc7fa", 1280)
    assert (encoder.size, encoder.mean, encoder.std) == (160, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    assert load_encoder("efficientnet_lite0", "cpu", keyframes=5).id != encoder.id


def test_an_encoder_id_covers_everything_that_determines_features() -> None:
    weights = {"a": torch.zeros(2, 3), "b": torch.arange(4)}
    preparation = preparation_facts(224, (1.0, 2.0, 3.0), (4.0, 5.0, 6.0), 3)
    ids = [
        torch_encoder_id("resnet50", weights, preparation),
        torch_encoder_id("resnet50", weights | {"a": torch.full((2, 3), 1e-30)}, preparation),
        torch_encoder_id("resnet50", weights | {"a": torch.zeros(3, 2)}, preparation),
        torch_encoder_id("resnet50", weights | {"a": torch.zeros(2, 3, dtype=torch.float16)}, preparation),
        torch_encoder_id("resnet50", {"a": weights["a"], "c": weights["b"]}, preparation),
    ]
    changes = {"size": 225, "mean": [1.0, 2.0, 4.0], "std": [4.0, 5.0, 7.0], "resize": "crop", "keyframes": 1}
    ids += [torch_encoder_id("resnet50", weights, preparation | {name: value}) for name, value in changes.items()]
    assert len({identity.rpartition("-")[2] for identity in ids}) == len(ids)
    assert all(re.fullmatch("resnet50-[0-9a-f]{12}", identity) for identity in ids)
    assert torch_encoder_id("resnet50", dict(reversed(weights.items())), preparation) == ids[0]
    assert torch_encoder_id("other", weights, preparation) == ids[0].replace("resnet50", "other")


def test_an_encoder_id_is_a_file_name_from_which_the_name_can_be_read() -> None:
    for name in ("efficientnet_lite0", "resnet18", "timm:resnet18.a1_in1k"):
        identity = torch_encoder_id(name, {}, {})
        assert re.fullmatch(r"[\w.-]+", identity)
        assert (named_encoder(identity), precision_of(identity)) == (name, "float32")
        identity = torch_encoder_id(f"{name}-bfloat16", {}, {})
        assert (named_encoder(identity), precision_of(identity)) == (name, "bfloat16")
    assert torch_encoder_id("timm:a/../b", {}, {}).startswith("timm-a-..-b-")
    for other in ("ovsd-512d", "bbc", "vgg-0123456789ab", "", "resnet50"):
        assert named_encoder(other) is None


# --- encoders of models -----------------------------------------------------------------------------------------------


TINY = "timm:test_resnet"


@pytest.fixture(scope="module")
def state() -> dict[str, Tensor]:
    torch.manual_seed(0)
    return trainable_encoder(TINY, pretrained=False).network.state_dict()


def put_model(path: Path, name: str | None, state: dict[str, Tensor], **training: object) -> Path:
    save_bassl_model(path, BasslWeights(BasslSettings(name, None), state, {}, {}, training))
    return path


def test_the_preparation_is_part_of_the_id_and_can_be_chosen(state: dict[str, Tensor], tmp_path: Path) -> None:
    model = put_model(tmp_path / "model.safetensors", TINY, state)
    squeeze, center = (load_encoder(model, "cpu", preparation=preparation) for preparation in get_args(Preparation))
    assert load_encoder(model, "cpu").id == center.id != squeeze.id
    assert (squeeze.preparation, center.preparation) == get_args(Preparation)
    centered = load_encoder("efficientnet_lite0", "cpu", preparation="center")
    assert encoder_of_id(centered.id, "cpu", 3, "a model").preparation == "center"


def test_another_precision_than_float32_is_part_of_the_id_and_must_be_named(
    state: dict[str, Tensor], tmp_path: Path, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = put_model(tmp_path / "model.safetensors", TINY, state)
    exact, rounded = load_encoder(path, "cpu"), load_encoder(path, "cpu", precision="bfloat16")
    assert (exact.precision, rounded.precision) == ("float32", "bfloat16")
    assert rounded.id == exact.id[:-13] + "-bfloat16" + exact.id[-13:]
    images = rng.integers(0, 256, (2, 3, exact.size, exact.size, 3), np.uint8)
    features, other = exact.encode(images), rounded.encode(images)
    assert 0 < np.linalg.norm(other - features) < 0.05 * np.linalg.norm(features)
    for has_bf16, expected in ((True, rounded), (False, exact)):
        monkeypatch.setattr(module, "_has_bf16", lambda place, has=has_bf16: has)
        assert load_encoder(path, "cpu", precision="auto").id == expected.id
        assert load_encoder(path, "cpu").id == exact.id


def test_a_model_reads_features_in_the_precision_and_preparation_that_it_was_trained_with(
    state: dict[str, Tensor], tmp_path: Path
) -> None:
    path, shape = put_model(tmp_path / "model.safetensors", TINY, state), RelationalSettings()
    for precision, preparation in (("float32", "center"), ("bfloat16", "squeeze")):
        identity = load_encoder(path, "cpu", precision=precision, preparation=preparation).id
        network = RelationalNetwork(shape)
        model = BoundaryModel(
            crn="relational",
            network=network,
            shape=shape,
            encoder=identity,
            encoder_name=TINY,
            encoder_weights=state,
            input_size=load_encoder(path, "cpu").size,
            preparation=preparation,
        )
        save_boundary_model(tmp_path / "tuned.safetensors", model)
        model = open_model(tmp_path / "tuned.safetensors").boundary_model()
        encoder = encoder_of_model(model, path, "cpu", 3)
        assert (encoder.id, encoder.precision, encoder.preparation) == (identity, precision, preparation)


def test_an_encoder_has_the_input_size_of_its_pre_training(state: dict[str, Tensor], tmp_path: Path) -> None:
    for size in (96, 128):
        path = put_model(tmp_path / "model.safetensors", TINY, state, augmentation={"size": size})
        encoder = load_encoder(path, "cpu")
        assert (encoder.size, encoder.id) == (size, torch_encoder(TINY, state, "cpu", size=size).id)


def test_a_model_on_a_frozen_encoder_names_it_by_its_id(tmp_path: Path) -> None:
    encoder_again = load_encoder("efficientnet_lite0", "cpu")
    assert load_encoder(put_model(tmp_path / "m.safetensors", encoder_again.id, {}), "cpu").id == encoder_again.id
    assert load_encoder(put_model(tmp_path / "n.safetensors", encoder_again.name, {}), "cpu").id == encoder_again.id


LOADED: dict[str, tuple[Callable[[], object], str]] = {
    "unknown name": (lambda: load_encoder("vgg", "cpu"), "choose efficientnet_lite0, resnet50, timm:NAME, an ONNX fil"),
    "empty": (lambda: load_encoder("", "cpu"), "unknown encoder ''; choose efficientnet_lite0"),
    "timm": (lambda: load_encoder("timm:resnet5", "cpu"), "timm has no model 'resnet5'; similar: "),
    "path": (lambda: load_encoder(Path("runs"), "cpu"), "runs: no such run, model or ONNX file"),
    "precision": (
        lambda: load_encoder("efficientnet_lite0", "cpu", precision="bfloat16"),
        "`precision=bfloat16` is for encoders of torch; efficientnet_lite0 computes as its file says",
    ),
    "size": (
        lambda: trainable_encoder("timm:vit_tiny_patch16_224", pretrained=False, size=32),
        "timm:vit_tiny_patch16_224 cannot be loaded (",
    ),
    "other weights": (
        lambda: encoder_of_id("efficientnet_lite0-4af225db47d7", "cpu", 3, "a model"),
        "a model: was trained on features of efficientnet_lite0-4af225db47d7, but efficientnet_lite0 with 3 keyframes",
    ),
    "other keyframes": (
        lambda: encoder_of_id("efficientnet_lite0-d069d09dc7fa", "cpu", 5, "a model"),
        "with 5 keyframes per shot is efficientnet_lite0-",
    ),
}


@pytest.mark.parametrize(("load", "words"), LOADED.values(), ids=LOADED)
def test_an_encoder_that_cannot_be_loaded_is_refused(load: Callable[[], object], words: str) -> None:
    refusal(load, words, error=BasslError)


def test_a_model_whose_encoder_cannot_be_loaded_is_refused(state: dict[str, Tensor], tmp_path: Path) -> None:
    for name, weights, words in (
        (None, {}, "has no shot encoder"),
        ("ovsd-512d", {}, "trained on features called 'ovsd-512d', which cannot be computed"),
        ("efficientnet_lite0-000000000000", {}, "but efficientnet_lite0 with 3 keyframes per shot is"),
        ("resnet18", state, "its shot encoder is not a resnet18"),
        ("vgg", state, "no encoder 'vgg' can be trained"),
    ):
        path = put_model(tmp_path / "model.safetensors", name, weights)
        refusal(lambda path=path: load_encoder(path, "cpu"), path, words, error=BasslError)


def test_an_incompatible_torchvision_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Misfit:
        def find_spec(self, name: str, path: object, target: object = None) -> None:
            if name == "torchvision":
                raise RuntimeError("operator torchvision::nms does not exist\nand more")

    monkeypatch.delitem(sys.modules, "torchvision", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Misfit(), *sys.meta_path])
    with pytest.raises(BasslError, match=r"resnet18 cannot be loaded \(operator torchvision::nms does not exist\)$"):
        trainable_encoder("resnet18", pretrained=False)


@pytest.mark.parametrize("name", ["timm:mobilenetv3_small_050", "timm:ghostnet_050", "resnet18"])
def test_the_width_of_an_encoder_is_that_of_its_output(name: str) -> None:
    """timm's `num_features` is another number for many networks."""
    built = trainable_encoder(name, pretrained=False, size=64)
    assert built.network.training
    with torch.inference_mode():
        assert built.network.eval()(torch.zeros(2, 3, 64, 64)).shape == (2, built.width)


@pytest.mark.parametrize("identity", ["resnet50", "timm:resnet18.a1_in1k", "timm-resnet18.a1_in1k-0123456789ab"])
def test_weights_that_only_a_file_names_are_not_downloaded(identity: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[Any] = []
    monkeypatch.setattr(module, "torch_encoder", lambda *arguments, **how: loaded.append(arguments) or mean_color())
    name = named_encoder(identity) or identity
    match = (
        f"m.safetensors: names the encoder {name}, whose weights would be downloaded; allow that with `encoder={name}`"
    )
    shape = RelationalSettings()
    model = BoundaryModel(crn="relational", network=RelationalNetwork(shape), shape=shape, encoder=identity)
    refusal(lambda: encoder_of_id(identity, "cpu", 3, "m.safetensors"), match, error=BasslError)
    for other in (None, "resnet34"):
        refusal(
            lambda other=other: encoder_of_model(model, Path("m.safetensors"), "cpu", 3, other), match, error=BasslError
        )
    assert not loaded
    with suppress(BasslError):  # another id
        encoder_of_model(model, Path("m.safetensors"), "cpu", 3, requested=name)
    assert loaded[0][0] == name


@pytest.mark.parametrize("name", ["resnet18", "timm:test_resnet"])
def test_a_failed_download_of_weights_gives_a_one_line_error(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for variable in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(variable, "http://127.0.0.1:9")
    for variable in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setattr(urllib.request, "_opener", None)  # would keep the proxies of an earlier download
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)  # otherwise it tries again for a minute
    line = refusal(lambda: load_encoder(name, "cpu"), f"the encoder {name} cannot be loaded (", error=BasslError)
    assert line.startswith("the encoder")
    printed = capfd.readouterr()
    assert printed.out == ""
    assert "Traceback" not in printed.err


# --- color ------------------------------------------------------------------------------------------------------------


def test_a_histogram_counts_the_hues_of_all_pixels_in_steps_of_two_degrees() -> None:
    """Against the standard library, which rounds otherwise: each pixel within a bin."""
    image = np.random.default_rng(0).integers(0, 256, size=(9, 8, 3), dtype=np.uint8)
    image[0, 0] = 77  # gray counts as red
    pixels = image.reshape(-1, 3).tolist()
    hues = [round(180 * colorsys.rgb_to_hsv(*(value / 255 for value in pixel))[0]) for pixel in pixels]
    for pixel, hue in zip(image.reshape(-1, 1, 3), hues, strict=True):
        result = hue_histogram(pixel[:, None])
        assert result.sum() == 1
        assert (int(result.argmax()) - hue + 1) % HUES <= 2
    singles = [hue_histogram(pixel[:, None]) for pixel in image.reshape(-1, 1, 3)]
    np.testing.assert_allclose(hue_histogram(image), np.mean(singles, axis=0), atol=1e-6)
