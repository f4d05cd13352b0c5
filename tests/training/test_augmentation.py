"""Augmentations: draws have torchvision's distributions, and operations equal torchvision's on each image."""

from collections import Counter
from collections.abc import Callable
from dataclasses import fields, replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from scipy import stats
from torch import Tensor
from torchvision import transforms
from torchvision.transforms.v2 import functional as tv

from pipelines.pretext import AugmentationSettings
from pipelines.training.augmentation import (
    Augmentations,
    augment,
    crop_frames,
    plan_augmentations,
    plan_crops,
    random_numbers,
)

SMALL = AugmentationSettings(size=40, kernel_size=9)
LIKELY = 1e-3
"""With fixed seeds a test passes or fails for good; at this level one in a thousand seeds would fail."""
PAPER = AugmentationSettings(jitter_per="shot", sigma_per="window")
"""Where the paper's text differs from its release, which is the default."""


def draw_augmentations(
    windows: int, shots: int, generator: torch.Generator, settings: AugmentationSettings = AugmentationSettings()
) -> Augmentations:
    return plan_augmentations(random_numbers(windows, shots, generator), settings)


def draw_boxes(
    frame: Tensor, generator: torch.Generator, settings: AugmentationSettings = AugmentationSettings()
) -> Tensor:
    return plan_crops(random_numbers(len(frame), 1, generator), frame, settings)[0]


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def frames(B: int, height: int = 252, width: int = 448) -> Tensor:
    return torch.tensor([[height, width]]).expand(B, 2)


def images(B: int, S: int, Q: int, seed: int = 0) -> Tensor:
    """Noise with smooth parts and gray parts, so that no operation is without effect and no hue without a case."""
    g = generator(seed)
    noise = torch.randint(0, 256, (B, S, 3, Q, Q), generator=g, dtype=torch.uint8)
    noise[..., : Q // 4, :] = noise[..., :1, : Q // 4, :]
    noise[..., Q // 2 :, : Q // 3] //= 16
    return noise


def one_by_one(images: Tensor, drawn: Augmentations, settings: AugmentationSettings) -> Tensor:
    """The same, each image by itself with torchvision's functions."""
    B, S = images.shape[:2]
    taps = [settings.kernel_size] * 2
    views = torch.empty(B, S, 3, settings.size, settings.size)
    for b in range(B):
        for s in range(S):
            x = images[b, s].float() / 255
            brightness, contrast, saturation, hue = drawn.factors[b, s].tolist()
            operations: list[Callable[[Tensor], Tensor]] = [
                lambda x, f=brightness: tv.adjust_brightness(x, f),
                lambda x, f=contrast: tv.adjust_contrast(x, f),
                lambda x, f=saturation: tv.adjust_saturation(x, f),
                lambda x, f=hue: tv.adjust_hue(x, f),
            ]
            for operation in drawn.order[b, s].tolist() if drawn.jittered[b, s] else []:
                x = operations[operation](x)
            x = tv.rgb_to_grayscale(x, 3) if drawn.grayscale[b, s] else x
            x = tv.gaussian_blur(x, taps, [float(drawn.sigma[b, s])] * 2) if drawn.blurred[b] else x
            views[b, s] = tv.normalize(x, list(settings.mean), list(settings.std))
    return views


# What is drawn


@pytest.mark.parametrize(("height", "width"), [(252, 448), (400, 240), (90, 380)])
def test_crop_boxes_have_the_distribution_of_torchvision(height: int, width: int) -> None:
    N = 3000
    ours = draw_boxes(frames(N, height, width), generator(1))
    torch.manual_seed(2)
    crop = transforms.RandomResizedCrop(224, scale=(0.14, 1.0))
    theirs = torch.tensor(
        [crop.get_params(torch.empty(1, height, width), list(crop.scale), list(crop.ratio)) for _ in range(N)]
    )
    columns = [(ours[:, i], theirs[:, i]) for i in range(4)]
    columns += [(box[:, 2] * box[:, 3], other[:, 2] * other[:, 3]) for box, other in [(ours, theirs)]]
    columns += [(ours[:, 3] / ours[:, 2], theirs[:, 3] / theirs[:, 2])]
    for mine, other in columns:
        assert stats.ks_2samp(mine.numpy(), other.numpy()).pvalue > LIKELY
    assert (ours[:, :2] >= 0).all()
    assert (ours[:, 0] + ours[:, 2] <= height).all()
    assert (ours[:, 1] + ours[:, 3] <= width).all()


@pytest.mark.parametrize(("height", "width"), [(10, 1000), (1001, 9), (7, 300), (1, 1)])
def test_if_no_crop_box_fits_the_center_is_used_as_in_torchvision(height: int, width: int) -> None:
    settings = AugmentationSettings(scale=(0.9, 1.0))
    ours = draw_boxes(frames(5, height, width), generator(), settings)
    theirs = transforms.RandomResizedCrop.get_params(torch.empty(1, height, width), [0.9, 1.0], [3 / 4, 4 / 3])
    assert ours.tolist() == [list(theirs)] * 5


def test_color_factors_and_blur_have_the_distribution_of_torchvision() -> None:
    N, S = 500, 6
    drawn = draw_augmentations(N, S, generator(3), AugmentationSettings(jitter_per="shot"))
    ours = drawn.factors.reshape(N * S, 4)
    torch.manual_seed(4)
    jitter = transforms.ColorJitter(0.2, 0.2, 0.2, 0.05)
    theirs = torch.tensor(
        [jitter.get_params(jitter.brightness, jitter.contrast, jitter.saturation, jitter.hue)[1:] for _ in range(N * S)]
    )
    for i in range(4):
        assert stats.ks_2samp(ours[:, i].numpy(), theirs[:, i].numpy()).pvalue > LIKELY
    sigma = [transforms.GaussianBlur.get_params(0.1, 2.0) for _ in range(N * S)]
    assert stats.ks_2samp(drawn.sigma.flatten().numpy(), sigma).pvalue > LIKELY


@pytest.mark.parametrize("gate", ["window", "shot"])
def test_augmentations_have_the_papers_probabilities(gate: Any) -> None:
    N, S = 4000, 3
    numbers, settings = random_numbers(N, S, generator(8)), AugmentationSettings(grayscale=0.2, jitter_gate=gate)
    drawn, (_, flip) = plan_augmentations(numbers, settings), plan_crops(numbers, frames(N), settings)
    for happened, probability in [
        (flip, 0.5),
        (drawn.blurred, 0.5),
        (drawn.jittered[:, 1], 0.8),
        (drawn.grayscale[:, 1], 0.2),
        (flip & drawn.blurred & drawn.jittered[:, 2] & drawn.grayscale[:, 0], 0.5 * 0.5 * 0.8 * 0.2),
        (drawn.grayscale[:, 0] & drawn.grayscale[:, 1], 0.2 * 0.2),
        ((drawn.factors[:, 0] < torch.tensor([1.0, 1.0, 1.0, 0.0])).all(dim=1) & (drawn.sigma[:, 0] < 1.05), 1 / 32),
        (drawn.jittered[:, 0] & drawn.jittered[:, 1], 0.8 if gate == "window" else 0.8 * 0.8),
    ]:
        assert stats.binomtest(int(happened.sum()), N, probability).pvalue > LIKELY


def test_all_orders_of_color_operations_are_equally_likely_in_every_shot() -> None:
    N, S = 2400, 3
    drawn = draw_augmentations(N, S, generator(5), PAPER)
    seen = Counter(tuple(order) for order in drawn.order.flatten(0, 1).tolist())
    assert set(seen) == set(permutations(range(4)))
    assert stats.chisquare(list(seen.values())).pvalue > LIKELY
    same = (drawn.order[:, 0] == drawn.order[:, 1]).all(dim=1)
    assert stats.binomtest(int(same.sum()), N, 1 / 24).pvalue > LIKELY


def test_a_window_has_one_jitter_and_a_sigma_for_each_shot_and_in_the_paper_the_other_way_round() -> None:
    release, paper = (draw_augmentations(500, 3, generator(), settings) for settings in (AugmentationSettings(), PAPER))
    for alike in (release.factors, release.order, paper.sigma):
        assert (alike == alike[:, :1]).all()
    for apart in (paper.factors, release.sigma[..., None]):
        assert (apart[:, 1:] != apart[:, :1]).any(dim=2).all()
    assert torch.equal(release.factors[:, 0], paper.factors[:, 0])
    assert torch.equal(release.jittered, paper.jittered)
    assert not release.grayscale.any()


def test_two_processes_draw_the_augmentations_of_one() -> None:
    frame = torch.tensor([[252, 448], [240, 320], [100, 400], [300, 300]])
    numbers = random_numbers(4, 5, generator(10))
    whole, (boxes, flips) = plan_augmentations(numbers), plan_crops(numbers, frame)
    for own in (slice(0, None, 2), slice(1, None, 2)):
        part = plan_augmentations(numbers[own])
        assert [v.tolist() for v in plan_crops(numbers[own], frame[own])] == [boxes[own].tolist(), flips[own].tolist()]
        for field in fields(whole):
            assert torch.equal(getattr(part, field.name), getattr(whole.part(own), field.name))


# What is done


@pytest.mark.parametrize(("B", "S"), [(5, 4), (2, 11)], ids=["windows together", "shots of a window apart"])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_whole_augmentation_equals_torchvision_on_each_image(seed: int, B: int, S: int) -> None:
    strong = {"brightness": 0.9, "contrast": 0.9, "saturation": 0.9, "hue": 0.5} if seed % 2 else {}
    gate: Any = "shot" if seed % 2 else "window"
    settings = replace(SMALL, grayscale=0.3, jitter_gate=gate, jitter_per="shot", **strong)
    drawn = draw_augmentations(B, S, generator(seed), settings)
    x = images(B, S, SMALL.size, seed)
    torch.testing.assert_close(augment(x, drawn, settings), one_by_one(x, drawn, settings), atol=2e-4, rtol=0)


@pytest.mark.parametrize(
    ("height", "width", "size"), [(252, 448, 224), (240, 576, 32), (60, 40, 224), (1080, 1920, 32), (1, 1, 224)]
)
def test_crops_equal_torchvisions_on_pil_images_up_to_rounding(height: int, width: int, size: int) -> None:
    settings, noise = AugmentationSettings(size=size, kernel_size=3), np.random.default_rng(0)
    window = [noise.integers(0, 256, (height, width, 3), np.uint8) for _ in range(2)]
    differences = []
    for number in random_numbers(8, 2, generator()).split(1):
        boxes, flips = plan_crops(number, frames(1, height, width), settings)
        for frame, crop in zip(window, crop_frames(window, number, settings), strict=True):
            expected = tv.resized_crop(Image.fromarray(frame), *boxes[0].tolist(), [size, size])
            expected = tv.horizontal_flip(expected) if flips[0] else expected
            differences.append(np.abs(crop.astype(int) - np.asarray(expected, int)))
    # Both round after each of two axes, so that two roundings can add up, in one value of a million of noise.
    assert np.max(differences) <= 2
    assert np.mean(np.array(differences) > 1) < 1e-5


def test_frames_of_joined_videos_are_cropped_in_their_own_size_by_the_same_numbers() -> None:
    noise, numbers = np.random.default_rng(0), random_numbers(1, 3, generator())
    wide, tall = (noise.integers(0, 256, (*shape, 3), np.uint8) for shape in ((60, 90), (90, 60)))
    both = crop_frames([wide, tall, wide], numbers, SMALL)
    assert np.array_equal(both, np.concatenate([crop_frames([frame], numbers, SMALL) for frame in (wide, tall, wide)]))


def test_memory_layout_gradient_mode_and_autocast_do_not_change_the_result() -> None:
    x = images(2, 3, 40)
    drawn = draw_augmentations(2, 3, generator())
    expected = augment(x, drawn, SMALL)
    assert expected.dtype == torch.float32
    assert expected.flatten(0, 1).is_contiguous(memory_format=torch.channels_last)
    as_loaded = x.permute(0, 1, 3, 4, 2).contiguous().permute(0, 1, 4, 2, 3)
    assert torch.equal(augment(as_loaded, drawn, SMALL), expected)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(augment(x, drawn, SMALL), expected)
    assert not expected.requires_grad
    assert torch.equal(x, images(2, 3, 40))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_gpu_results_equal_cpu_results_without_synchronization() -> None:
    x = images(40, 17, 224)
    drawn = draw_augmentations(40, 17, generator(), AugmentationSettings(grayscale=0.2))
    on_device = x.cuda()
    augment(on_device, drawn)
    torch.cuda.set_sync_debug_mode("error")
    try:
        views = augment(on_device, drawn)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.testing.assert_close(views.cpu(), augment(x, drawn), atol=2e-3, rtol=0)


# What is refused


@pytest.mark.parametrize(
    ("name", "value"),
    [("scale", (0.5, 0.1)), ("hue", 0.6), ("flip", 1.5), ("kernel_size", 8), ("sigma", (0.0, 1.0))],
)
def test_settings_out_of_range_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        AugmentationSettings(**{name: value})
