"""Data augmentation of windows of keyframes: cropped by the threads that read them, the rest a batch at a time, on the
device that holds them.

Random crop, flip, color jitter, grayscale and blur (appendix A), applied in the release's order, with torchvision's
distributions, drawn on the CPU. Other than torchvision on PIL images, as the paper's release uses it, images are not
rounded to 8 bits between operations, and the blur is a true Gaussian, which PIL approximates by boxes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from pipelines.pretext import AugmentationSettings
from pipelines.training.distributed import send

_TRIES = 10  # of torchvision's RandomResizedCrop, before it takes the center
_PER_WINDOW = 2 * _TRIES + 4
_FLIP = 2 * _TRIES + 2  # the place of the random number of a window that decides its flip; blur is next
_PER_SHOT = 11
_HUE = 3  # torchvision's numbers: 0 brightness, 1 contrast, 2 saturation, 3 hue
_GRAY = (0.2989, 0.587, 0.114)  # torchvision's weights of red, green and blue
# Images in one pass: on a CPU few enough for its caches, on a GPU for its memory (one to two GB at 224 x 224).
_CPU_IMAGES, _GPU_IMAGES = 9, 512


@dataclass(frozen=True, eq=False)
class Augmentations:
    """The augmentations of B windows of S shots. All tensors are on the CPU."""

    jittered: Tensor  # (B, S) bool
    factors: Tensor  # (B, S, 4) float32: brightness, contrast and saturation factor, hue shift in turns
    order: Tensor  # (B, S, 4) int64, the operations in their order: 0 brightness, 1 contrast, 2 saturation, 3 hue
    grayscale: Tensor  # (B, S) bool
    blurred: Tensor  # (B,) bool
    sigma: Tensor  # (B, S) float32, in pixels of the result; used if ``blurred``

    def part(self, windows: slice, shots: slice = slice(None)) -> Augmentations:
        """Return the augmentations of some windows, or of some of their shots."""
        parts = [drawn[windows] for drawn in vars(self).values()]
        return Augmentations(*(drawn[:, shots] if drawn.ndim > 1 else drawn for drawn in parts))


def random_numbers(windows: int, shots: int, generator: torch.Generator) -> Tensor:
    """Draw the random numbers (B, 24 + 11 S), float64 in [0, 1), that determine how B windows of S shots are augmented,
    each by its own row. Processes that share a batch draw all from equal CPU generators and keep their own."""
    return torch.rand(windows, _PER_WINDOW + _PER_SHOT * shots, generator=generator, dtype=torch.float64)


def plan_crops(
    numbers: Tensor, frame: Tensor, settings: AugmentationSettings = AugmentationSettings()
) -> tuple[Tensor, Tensor]:
    """Turn random numbers (B, 24 + 11 S) and frame sizes (B, 2), height and width, into (B, 4) int64 boxes, top, left,
    height and width, and (B,) bool, whether the crop is flipped.

    The box is torchvision's ``RandomResizedCrop.get_params``: the first of ten of random area and aspect ratio, in
    whole pixels, that fits; if none does, the largest central one of an allowed ratio.
    """
    areas, ratios, place = torch.split(numbers[:, :_FLIP], [_TRIES, _TRIES, 2], dim=1)
    H, W = frame.double().unbind(1)
    area = (H * W)[:, None] * _between(areas, *settings.scale)
    ratio = _between(ratios, math.log(settings.ratio[0]), math.log(settings.ratio[1])).exp()
    # Rounds halves to even, as Python's round, which torchvision calls.
    width, height = (area * ratio).sqrt().round(), (area / ratio).sqrt().round()
    fits = (width > 0) & (width <= W[:, None]) & (height > 0) & (height <= H[:, None])
    first = fits.int().argmax(dim=1, keepdim=True)  # of equal values the first
    width, height = width.gather(1, first)[:, 0], height.gather(1, first)[:, 0]
    top, left = torch.floor(place * torch.stack([H - height + 1, W - width + 1], dim=1)).unbind(1)
    # If none of the ten fits: the whole frame, cropped to the nearest allowed ratio about its center.
    none = ~fits.any(dim=1)
    shape = W / H
    narrow, wide = shape < settings.ratio[0], shape > settings.ratio[1]
    height = torch.where(none, torch.where(narrow, (W / settings.ratio[0]).round(), H), height)
    width = torch.where(none, torch.where(wide, (H * settings.ratio[1]).round(), W), width)
    top = torch.where(none, torch.floor((H - height) / 2), top)
    left = torch.where(none, torch.floor((W - width) / 2), left)
    return torch.stack([top, left, height, width], dim=1).to(torch.int64), numbers[:, _FLIP] < settings.flip


def crop_frames(
    frames: Sequence[NDArray[np.uint8]], numbers: Tensor, settings: AugmentationSettings = AugmentationSettings()
) -> NDArray[np.uint8]:
    """Crop the S frames (H, W, 3) of a window by its random numbers (1, 24 + 11 S): (S, size, size, 3): cut out,
    resized by bilinear interpolation with antialiasing, flipped. Frames of one size have the same box."""
    size = settings.size
    crops = np.empty((len(frames), size, size, 3), np.uint8)
    for shape in {frame.shape[:2] for frame in frames}:
        boxes, flips = plan_crops(numbers, torch.tensor([shape]), settings)
        top, left, height, width = boxes[0].tolist()
        places = [k for k, frame in enumerate(frames) if frame.shape[:2] == shape]
        parts = torch.from_numpy(np.stack([frames[k][top : top + height, left : left + width] for k in places]))
        views = F.interpolate(parts.permute(0, 3, 1, 2), size=(size, size), mode="bilinear", antialias=True)
        images = views.permute(0, 2, 3, 1).numpy()
        crops[places] = images[:, :, ::-1] if flips[0] else images
    return crops


def plan_augmentations(numbers: Tensor, settings: AugmentationSettings = AugmentationSettings()) -> Augmentations:
    """Turn random numbers (B, 24 + 11 S) into augmentations of crops."""
    B, shots = len(numbers), (numbers.shape[-1] - _PER_WINDOW) // _PER_SHOT
    gate, strengths, keys, gray, sigma = torch.split(
        numbers[:, _PER_WINDOW:].reshape(B, shots, _PER_SHOT), [1, 4, 4, 1, 1], dim=2
    )
    if settings.jitter_gate == "window":
        gate = gate[:, :1].expand(B, shots, 1)
    if settings.jitter_per == "window":
        strengths, keys = (drawn[:, :1].expand(B, shots, 4) for drawn in (strengths, keys))
    if settings.sigma_per == "window":
        sigma = sigma[:, :1].expand(B, shots, 1)
    spread = torch.tensor([settings.brightness, settings.contrast, settings.saturation, settings.hue])
    return Augmentations(
        jittered=gate[:, :, 0] < settings.jitter,
        factors=(torch.tensor([1.0, 1.0, 1.0, 0.0]) + spread * (2 * strengths - 1)).float(),
        order=keys.argsort(dim=2),  # random keys: all 24 orders are equally likely
        grayscale=gray[:, :, 0] < settings.grayscale,
        blurred=numbers[:, _FLIP + 1] < settings.blur,
        sigma=_between(sigma[:, :, 0], *settings.sigma).float(),
    )


@torch.no_grad()
def augment(
    keyframes: Tensor, augmentations: Augmentations, settings: AugmentationSettings = AugmentationSettings()
) -> Tensor:
    """Augment windows of cropped keyframes (B, S, 3, size, size), uint8 RGB, to float32, normalized; seen as
    (B S, 3, size, size) they are channels-last in memory. The work never waits for the device."""
    (B, S), size, device = augmentations.jittered.shape, settings.size, keyframes.device
    views = torch.empty(B * S, 3, size, size, device=device, memory_format=torch.channels_last)
    mean, std = (send(torch.tensor(v).view(1, 3, 1, 1), device) for v in (settings.mean, settings.std))
    views = views.view(B, S, 3, size, size)
    for windows, shots in _portions(B, S, _CPU_IMAGES if device.type == "cpu" else _GPU_IMAGES):
        drawn = augmentations.part(windows, shots)
        with torch.autocast(device.type, enabled=False):
            x = keyframes[windows, shots].flatten(0, 1).contiguous().float().mul_(1 / 255)
            _jitter(x, drawn)
            if drawn.grayscale.any():
                mask = send(drawn.grayscale.view(-1, 1, 1, 1), device)
                x.copy_(torch.where(mask, _gray(x), x))
            _blur(x, drawn, settings.kernel_size)
        views[windows, shots] = x.sub_(mean).div_(std).view(*drawn.jittered.shape, 3, size, size)
    return views


def _portions(B: int, S: int, keyframes: int) -> Iterator[tuple[slice, slice]]:
    """Yield parts with at most ``keyframes`` images each: whole windows, or shots of one window."""
    for window in range(0, B, max(1, keyframes // S)):
        for shot in range(0, S, min(S, keyframes)):
            yield slice(window, window + max(1, keyframes // S)), slice(shot, shot + min(S, keyframes))


def _between(numbers: Tensor, low: float, high: float) -> Tensor:
    return low + (high - low) * numbers


def _gray(x: Tensor) -> Tensor:
    """Convert (N, 3, H, W) to (N, 1, H, W)."""
    return x[:, 0:1].mul(_GRAY[0]).add_(x[:, 1:2], alpha=_GRAY[1]).add_(x[:, 2:3], alpha=_GRAY[2])


def _jitter(x: Tensor, drawn: Augmentations) -> None:
    """Apply each image's four color operations in its own order, in place; x is (N, 3, H, W), N windows times shots."""
    jittered, order, factors = drawn.jittered.flatten(), drawn.order.flatten(0, 1), drawn.factors.flatten(0, 1)
    hue_place = (order == _HUE).int().argmax(dim=1)
    blends = order[order != _HUE].view(-1, 3)
    factor = torch.where(jittered[:, None], factors.gather(1, blends), 1.0)
    # (3, N, 1, 1, 1): the factor, and how much of the reference is mean gray (contrast) and gray (saturation).
    columns = [factor, (1 - factor) * (blends == 1), (1 - factor) * (blends == 2)]
    scale, mean_share, gray_share = send(torch.stack(columns).transpose(1, 2)[..., None, None, None], x.device)
    for place in range(4):
        hued = jittered & (hue_place == place) & (factors[:, _HUE] != 0)
        _change(x, hued, _shift_hue, factors[:, _HUE])
        if place < 3:
            gray = _gray(x)
            reference = gray.mean(dim=(2, 3), keepdim=True).mul_(mean_share[place]).add(gray.mul_(gray_share[place]))
            torch.addcmul(reference, x, scale[place], out=x).clamp_(0, 1)


def _change(x: Tensor, which: Tensor, operation: Callable[[Tensor, Tensor], Tensor], values: Tensor) -> None:
    """Replace some of the images by the operation's result; ``which`` is on the CPU, because their number is needed."""
    images = which.nonzero()[:, 0]
    if len(images):
        index = send(images, x.device)
        x.index_copy_(0, index, operation(x.index_select(0, index), send(values[images], x.device)))


def _shift_hue(x: Tensor, shift: Tensor) -> Tensor:
    """Turn the hue of (N, 3, H, W) by (N,) turns, keeping saturation and value: torchvision's HSV and back, in one."""
    red, green, blue = x.unbind(1)
    low, high = torch.minimum(torch.minimum(red, green), blue), torch.maximum(torch.maximum(red, green), blue)
    chroma = high - low
    # In sixths of a turn; without chroma the numerators are 0, and any hue will do.
    per = chroma.clamp_min(torch.finfo(x.dtype).tiny).reciprocal_()
    hue = torch.where(high == green, (blue - red).mul_(per).add_(2), (red - green).mul_(per).add_(4))
    hue = torch.where(high == red, (green - blue).mul_(per), hue)
    hue = hue.add_(6 * shift.view(-1, 1, 1)).remainder_(6)
    # Share of each primary color at a hue: 1 for a third of the circle about it, 0 for the opposite third.
    shares = torch.stack([(hue - 3).abs_().sub_(1), 2 - (hue - 2).abs_(), 2 - (hue - 4).abs_()], dim=1)
    return shares.clamp_(0, 1).mul_(chroma[:, None]).add_(low[:, None])


def _blur(x: Tensor, drawn: Augmentations, taps: int) -> None:
    """Blur the images of the blurred windows, each with its sigma."""
    S = drawn.sigma.shape[1]
    offsets = torch.arange(taps, dtype=torch.float32) - taps // 2
    kernels = torch.exp(-0.5 * (offsets / drawn.sigma.flatten()[:, None]) ** 2)
    kernels = kernels / kernels.sum(dim=1, keepdim=True)
    _change(x, drawn.blurred.repeat_interleave(S), _convolve, kernels)


def _convolve(x: Tensor, kernels: Tensor) -> Tensor:
    """Convolve (N, 3, H, W) with (N, taps), along both axes, mirrored at the edges."""
    N, C, H, W = x.shape
    margin = kernels.shape[1] // 2
    # Every plane is a channel with its own kernel: a depthwise convolution of one image with many channels.
    kernels = kernels.repeat_interleave(C, dim=0)
    wide = F.pad(x, (margin, margin, 0, 0), mode="reflect").view(1, N * C, H, W + 2 * margin)
    x = F.conv2d(wide, kernels[:, None, None, :], groups=N * C).view(N, C, H, W)
    tall = F.pad(x, (0, 0, margin, margin), mode="reflect").view(1, N * C, H + 2 * margin, W)
    return F.conv2d(tall, kernels[:, None, :, None], groups=N * C).view(N, C, H, W)
