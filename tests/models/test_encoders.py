"""Shot encoders: the mean over key-frames, pictures of any size, and one clear line where one cannot be had."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from pipelines.errors import BasslError
from pipelines.models.encoders import (
    ShotEncoder,
    choose_device,
    half_of_the_cores,
    import_torchvision,
    load_encoder,
    resize_to_square,
)


class MeanColour(nn.Module):
    """An encoder whose answer is known: the mean of each channel."""

    def forward(self, x: Tensor) -> Tensor:
        return x.mean(dim=(2, 3))


def mean_colour(**changes: object) -> ShotEncoder:
    settings = {"name": "mean", "network": MeanColour(), "size": 8, "mean": (0.0,) * 3, "std": (1.0,) * 3}
    return ShotEncoder(**settings | {"device": torch.device("cpu"), "dtype": torch.float32} | changes)


def plain(value: float, size: int = 8) -> NDArray[np.uint8]:
    return np.full((size, size, 3), value, np.uint8)


def test_the_encoding_of_a_shot_is_the_mean_over_its_key_frames() -> None:
    shots = [[plain(10), plain(20), plain(60)], [plain(5)], [plain(7), plain(9)]]
    np.testing.assert_allclose(mean_colour().encode(shots), [[30.0] * 3, [5.0] * 3, [8.0] * 3])


def test_many_key_frames_are_encoded_in_parts_and_none_is_lost() -> None:
    shots = [[plain(value + k) for k in range(3)] for value in range(50)]
    np.testing.assert_allclose(mean_colour().encode(shots)[:, 0], np.arange(50) + 1)


def test_channels_are_red_green_blue_and_normalised() -> None:
    picture = np.stack([np.full((8, 8), value) for value in (10, 20, 30)], axis=2).astype(np.uint8)
    encoder = mean_colour(mean=(8.0, 10.0, 15.0), std=(1.0, 2.0, 5.0))
    np.testing.assert_allclose(encoder.encode([[picture]]), [[2.0, 5.0, 3.0]])


@pytest.mark.parametrize("size", [(1, 1), (2, 300), (300, 2), (51, 101), (480, 640), (224, 224)])
def test_a_picture_of_any_size_becomes_the_square_and_keeps_its_colour(size: tuple[int, int]) -> None:
    picture = np.full((*size, 3), (200, 100, 50), np.uint8)
    square = resize_to_square(picture, 224)
    assert square.shape == (224, 224, 3)
    assert (square == (200, 100, 50)).all()


def test_the_whole_picture_is_kept() -> None:
    picture = np.zeros((240, 426, 3), np.uint8)
    picture[:, :20], picture[:, -20:] = 255, 255
    square = resize_to_square(picture, 224)
    assert (square[:, 0] == 255).all()
    assert (square[:, -1] == 255).all()
    assert (square[:, 112] == 0).all()


def test_the_default_encoder_tells_pictures_apart_and_says_the_same_again(rng: np.random.Generator) -> None:
    encoder = load_encoder("efficientnet_lite0", "cpu")
    pictures = [[encoder.prepare(rng.integers(0, 256, (60, 80, 3)).astype(np.uint8))], [plain(30, 224)]]
    first, second = encoder.encode(pictures), encoder.encode(pictures)
    assert first.shape == (2, 1280)
    assert first.dtype == np.float32
    np.testing.assert_array_equal(first, second)
    assert np.abs(first[0] - first[1]).max() > 0.1


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("vgg", "there are efficientnet_lite0, resnet50 and timm:NAME"),
        ("", "there are efficientnet_lite0"),
        ("timm:resnet5", "timm has no model 'resnet5'; similar: .*resnet5"),
        ("timm:", "timm has no model ''"),
    ],
)
def test_an_unknown_encoder_is_told_with_those_there_are(name: str, reason: str) -> None:
    with pytest.raises(BasslError, match=reason) as caught:
        load_encoder(name, "cpu")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["quantum", "", "cpu:x", "meta"])
def test_a_device_that_is_not_there_is_told(name: str) -> None:
    with pytest.raises(BasslError, match=f"the device '{name}' is not there") as caught:
        choose_device(name)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_where_there_is_none_is_told() -> None:
    with pytest.raises(BasslError, match="the device 'cuda' is not there"):
        choose_device("cuda")
    assert choose_device("auto") == torch.device("cpu")


def test_the_number_of_threads_is_restored() -> None:
    before = torch.get_num_threads()
    with half_of_the_cores():
        assert torch.get_num_threads() == max(1, before // 2)
    assert torch.get_num_threads() == before


def test_a_torchvision_that_does_not_fit_torch_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    class Misfit:
        def find_spec(self, name: str, path: object, target: object = None) -> None:
            if name == "torchvision":
                raise RuntimeError("operator torchvision::nms does not exist\nand more")

    monkeypatch.delitem(sys.modules, "torchvision", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Misfit(), *sys.meta_path])
    with pytest.raises(BasslError, match=r"pip install --upgrade torch torchvision \(operator .* not exist\)$"):
        import_torchvision()


@pytest.mark.parametrize("name", ["resnet50", "timm:resnet18"])
def test_weights_that_cannot_be_downloaded_are_told_in_one_line(tmp_path: Path, name: str) -> None:
    code = (
        "import sys\n"
        "from pipelines.errors import BasslError\n"
        "from pipelines.models.encoders import load_encoder\n"
        "try: load_encoder(sys.argv[1], 'cpu')\n"
        "except BasslError as error: print(error)\n"
    )
    nowhere = "http://127.0.0.1:9"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("HF_")}
    environment |= {"HTTPS_PROXY": nowhere, "https_proxy": nowhere, "HTTP_PROXY": nowhere, "http_proxy": nowhere}
    environment |= {"NO_PROXY": "", "no_proxy": "", "HF_HOME": str(tmp_path), "TORCH_HOME": str(tmp_path)}
    environment["HF_HUB_OFFLINE"] = "1"  # otherwise its client tries again for a minute
    run = subprocess.run(
        [sys.executable, "-c", code, name],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment,
        cwd=Path(__file__).parents[2],
    )
    assert "Traceback" not in run.stderr
    assert run.stdout.count("\n") == 1
    assert run.stdout.startswith(f"the weights of {name} cannot be ")
