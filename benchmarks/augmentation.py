"""Augmented windows per second: in batches, and image by image with torchvision on PIL images.

    python benchmarks/augmentation.py

The comparison does what the paper's release does in each worker of its loader: the same crop and flip for all images
of a window, color jitter drawn for each, blur, and ``ToTensor`` with ``Normalize``. Both sides begin with decoded
images at 448 x 252. One process, one thread, CPU seconds.

Only a CPU is measured. Augmentation in batches is meant for a GPU, where the loader's workers only crop.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import torch
from measure import command_line, least_cpu_seconds, save
from PIL import Image, ImageFilter
from torch import Tensor
from torchvision import transforms
from torchvision.transforms import functional as tv

from pipelines.pretext.settings import AugmentationSettings
from pipelines.training.augmentation import (
    Augmentations,
    augment,
    crop_frames,
    plan_augmentations,
    plan_crops,
    random_numbers,
)

HEIGHT, WIDTH = 252, 448


def frames(windows: int, shots: int) -> list[list[Image.Image]]:
    """Smooth random images with some noise: the time of no operation depends much on the content."""
    rng = np.random.default_rng(0)

    def frame() -> Image.Image:
        coarse = Image.fromarray(rng.integers(0, 256, (9, 16, 3), dtype=np.uint8)).resize((WIDTH, HEIGHT))
        noisy = np.asarray(coarse, np.int16) + rng.integers(-8, 9, (HEIGHT, WIDTH, 3))
        return Image.fromarray(noisy.clip(0, 255).astype(np.uint8))

    return [[frame() for _ in range(shots)] for _ in range(windows)]


def image_by_image(settings: AugmentationSettings) -> Callable[[list[Image.Image], bool, bool, bool], Tensor]:
    """Return the release's augmentation of a window; flipping, jitter and blur are arguments, the same for both
    sides."""
    jitter = transforms.ColorJitter(settings.brightness, settings.contrast, settings.saturation, settings.hue)
    finish = transforms.Compose([transforms.ToTensor(), transforms.Normalize(settings.mean, settings.std)])

    def window(images: list[Image.Image], flip: bool, jittered: bool, blurred: bool) -> Tensor:
        box = transforms.RandomResizedCrop.get_params(images[0], list(settings.scale), list(settings.ratio))
        images = [tv.resized_crop(image, *box, [settings.size, settings.size]) for image in images]
        if flip:
            images = [tv.hflip(image) for image in images]
        if jittered:
            images = [jitter(image) for image in images]
        if blurred:
            images = [image.filter(ImageFilter.GaussianBlur(random.uniform(*settings.sigma))) for image in images]
        return torch.stack([finish(image) for image in images])

    return window


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--windows", type=int, default=16)
    parser.add_argument("--shots", type=int, default=17)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    B, S = arguments.windows, arguments.shots
    settings = AugmentationSettings()

    originals = frames(B, S)
    decoded = [[np.array(image) for image in window] for window in originals]
    frame = torch.tensor([[HEIGHT, WIDTH]]).expand(B, 2)
    peer = image_by_image(settings)

    def draw() -> tuple[Tensor, Augmentations]:
        numbers = random_numbers(B, S, torch.Generator().manual_seed(0))
        return numbers, plan_augmentations(numbers, settings)

    def ours() -> Tensor:
        numbers, drawn = draw()
        crops = np.stack([crop_frames(w, numbers[b : b + 1], settings) for b, w in enumerate(decoded)])
        return augment(torch.from_numpy(crops).permute(0, 1, 4, 2, 3), drawn, settings)

    def theirs() -> list[Tensor]:
        random.seed(0)
        torch.manual_seed(0)
        return [peer(window, *happens) for window, happens in zip(originals, decided, strict=True)]

    numbers, drawn = draw()
    _, flips = plan_crops(numbers, frame, settings)
    decided = torch.stack([flips, drawn.jittered[:, 0], drawn.blurred], dim=1).tolist()
    figures = {
        "batched": B / least_cpu_seconds(ours, arguments.repeats),
        "image by image": B / least_cpu_seconds(theirs, arguments.repeats),
        "batched, only what is drawn": B / least_cpu_seconds(draw, arguments.repeats),
    }
    ratio = figures["batched"] / figures["image by image"]
    print(f"windows of {S} keyframes per second on one core of a CPU; the GPU was not measured")
    for name, value in figures.items():
        print(f"  {name}: {value:,.1f}")
    shares = f"{drawn.jittered.float().mean():.0%} of them jittered, {drawn.blurred.float().mean():.0%} blurred"
    print(f"  ratio {ratio:.2f}; {shares}")
    result = {"device": "cpu", "threads": 1, "windows": B, "shots": S, "windows a second": figures, "ratio": ratio}
    save("augmentation", result)


if __name__ == "__main__":
    main()
