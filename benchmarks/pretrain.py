"""The step of ``bassl pretrain`` on windows of real keyframes, compared with the same step without reading.

    bassl extract-keyframes video.mp4 && bassl build-index
    python benchmarks/pretrain.py data/index.h5
    python benchmarks/pretrain.py data/index.h5 --encoder resnet18 --size 64 --batch 16 --steps 5   # on a CPU

Three sources feed the same step: *bassl*, keyframes read and resized by workers, augmented in batches on the device;
*random*, augmented tensors on the device; *images*, a loader whose workers decode with PIL and augment with
torchvision, image by image, as the paper's release does. Each in each precision. The first steps, in which workers
start and kernels are chosen, are not counted.

Memory is the peak that PyTorch allocated on a GPU; on a CPU, the peak of this process so far.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
from augmentation import image_by_image
from measure import command_line, save
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from pipelines.datasets.keyframe_reader import KeyframeReader
from pipelines.options import with_options
from pipelines.pretext.settings import AugmentationSettings
from pipelines.stages.pretrain import PretrainSettings
from pipelines.stages.pretrain.data import CroppedViews, PretextWindows, Views, make_views, noise_of
from pipelines.stages.pretrain.model import backward_windows, make_model
from pipelines.stores.index import Index, read_index
from pipelines.training.data import KeyframeWindows, WindowOrder
from pipelines.training.distributed import Process, process_group
from pipelines.training.loop import make_lars, make_trainer, take_step, weight_dtype

WARM_UP = 3  # steps that are not counted

Work = Iterator[tuple[Views, Tensor | None]]
"""Iterates over the views of a step's windows and its noise; the time of getting the next is the wait for data."""


class Images(Dataset[tuple[Tensor, Tensor]]):
    """Windows as in the release's workers: (S, 3, size, size) and (2, 3, size, size), augmented."""

    def __init__(
        self, index: Path, windows: PretextWindows, centers: NDArray[np.int64], settings: AugmentationSettings
    ):
        self.reader = KeyframeReader(index)
        self.windows, self.centers, self.settings = windows, centers, settings

    def __len__(self) -> int:
        return len(self.centers)

    def __getitem__(self, position: int) -> tuple[Tensor, Tensor]:
        rng = np.random.default_rng(position)
        rows = self.windows.rows(0, self.centers[position : position + 1])[0][0]
        images = rng.integers(0, self.reader.index.keyframes, (len(rows), 1))
        jpegs = [jpeg for (jpeg,) in self.reader.read(rows, images)]
        window = [Image.open(BytesIO(jpeg)).convert("RGB") for jpeg in jpegs]
        augmented = image_by_image(self.settings)

        def view(images: list[Image.Image]) -> Tensor:
            flip, jitter, blur = rng.random(3) < (self.settings.flip, self.settings.jitter, self.settings.blur)
            return augmented(images, bool(flip), bool(jitter), bool(blur))

        return view(window), view([window[0], window[-1]])


def bassl(
    settings: PretrainSettings, index: Index, process: Process, augmentation: AugmentationSettings, order: WindowOrder
) -> Work:
    windows = PretextWindows(index.first_row, settings.pretext, settings.neighbors, settings.run.seed)
    cropped = CroppedViews((windows.dense, windows.slow), order.seed, order.batch, augmentation)
    source = KeyframeWindows(index, windows.rows, process, settings.compute.workers or 0, cropped)
    dtype = weight_dtype(settings.compute.precision)
    for batch in source.batches(order, 0):
        yield (
            make_views(windows, batch, process, cropped, dtype),
            noise_of(order, batch.step, len(windows.dense), process),
        )


def random(settings: PretrainSettings, process: Process, order: WindowOrder) -> Work:
    S, size = 2 * settings.neighbors + 1, settings.augmentation.size
    dense, slow = (torch.randn(settings.batch, n, 3, size, size, device=process.device) for n in (S, 2))
    noise = noise_of(order, 0, S, process)
    while True:
        yield lambda part: (dense[part], slow[part]), noise


def images(settings: PretrainSettings, index: Index, process: Process, order: WindowOrder, workers: int) -> Work:
    windows = PretextWindows(index.first_row, settings.pretext, settings.neighbors, settings.run.seed)
    centers = np.concatenate([centers for _, _, centers in order.centers(0)])
    cuda = process.device.type == "cuda"
    loader = DataLoader(
        Images(index.path, windows, centers, settings.augmentation),
        settings.batch,
        num_workers=workers,
        pin_memory=cuda,
        multiprocessing_context="forkserver" if cuda and workers else None,
        worker_init_fn=one_thread,
    )
    for step, (dense, slow) in enumerate(loader):
        on_device = tuple(part.to(process.device, non_blocking=True) for part in (dense, slow))
        yield (
            lambda part, held=on_device: (held[0][part], held[1][part]),
            noise_of(order, step, dense.shape[1], process),
        )


def one_thread(worker: int) -> None:
    torch.set_num_threads(1)


def measure(settings: PretrainSettings, process: Process, model: Any, work: Work, steps: int) -> dict[str, float]:
    """Windows per second, share of the time spent waiting for data, and memory, over some steps."""
    optimizer = make_lars(model, settings.momentum, settings.weight_decay, settings.trust, settings.lars_exclude)
    if process.device.type == "cuda":
        torch.backends.cudnn.benchmark = True
    micro_batch = settings.micro_batch or 0
    trainer = make_trainer(model, optimizer, settings.compute.precision, process, ddp=not micro_batch)

    def backward(views: Views, noise: Tensor, seed: int) -> dict[str, Tensor]:
        options = {"noise": noise, "joins": None, "seed": seed}
        return {"loss": backward_windows(trainer, model, views, settings.batch, micro_batch, **options).total}

    cuda = process.device.type == "cuda"
    wait = torch.cuda.synchronize if cuda else (lambda: None)
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    start, waited = 0.0, 0.0
    for step in range(WARM_UP + steps):
        if step == WARM_UP:
            wait()
            start, waited = time.perf_counter(), 0.0
        asking = time.perf_counter()
        views, noise = next(work)
        waited += time.perf_counter() - asking
        take_step(trainer, partial(backward, views, noise, step), rate=0.01, clip=None, seed=step)
    wait()
    seconds = time.perf_counter() - start
    peak = torch.cuda.max_memory_allocated() if cuda else 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"windows a second": steps * settings.batch / seconds, "waiting": waited / seconds, "MiB": peak / 2**20}


def main() -> None:
    defaults = PretrainSettings()
    parser = command_line(__doc__)
    parser.add_argument("index", type=Path)
    parser.add_argument("--encoder", default=defaults.encoder)
    parser.add_argument("--size", type=int, default=defaults.augmentation.size)
    parser.add_argument("--batch", type=int, default=defaults.batch)
    parser.add_argument("--neighbors", type=int, default=defaults.neighbors)
    parser.add_argument("--width", type=int, default=defaults.width)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--workers", type=int, default=16, help="of bassl's loader")
    parser.add_argument("--image-workers", type=int, default=16, help="of the loader with PIL")
    parser.add_argument("--precision", default="float32,bf16")
    parser.add_argument("--device", default="auto")
    arguments = parser.parse_args()

    taps = max(3, arguments.size // 10 // 2 * 2 + 1)
    settings = with_options(
        defaults,
        index=arguments.index,
        encoder=arguments.encoder,
        augmentation=AugmentationSettings(size=arguments.size, kernel_size=taps),
        batch=arguments.batch,
        neighbors=arguments.neighbors,
        width=arguments.width,
        workers=arguments.workers,
    )
    index = read_index(arguments.index)
    needed = (WARM_UP + arguments.steps) * settings.batch
    # As many epochs as the steps need: a short video has fewer windows than a long measurement takes.
    rows = np.tile(index.rows_of(), -(-needed // len(index.label)))
    order = WindowOrder(rows, settings.batch, 1, settings.run.seed)
    table: list[dict[str, Any]] = []
    with process_group(arguments.device) as process:
        for precision in arguments.precision.split(","):
            now = with_options(settings, precision=precision)
            sources: dict[str, Callable[[Any], Work]] = {
                "bassl": lambda augmentation, now=now: bassl(now, index, process, augmentation, order),
                "random": lambda _, now=now: random(now, process, order),
                "images": lambda _, now=now: images(now, index, process, order, arguments.image_workers),
            }
            for name, make in sources.items():
                model, augmentation = make_model(now, None, process)
                model.train()
                figures = measure(now, process, model, make(augmentation), arguments.steps)
                table.append({"precision": precision, "data": name, **figures})
                print(_line(table), flush=True)
    chosen = {name: str(value) for name, value in vars(arguments).items()}
    save("pretrain", {"settings": chosen, "device": str(process.device), "rows": table})


def _line(table: list[dict[str, Any]]) -> str:
    row = table[-1]
    same = [r for r in table if r["precision"] == row["precision"]]
    ratio = row["windows a second"] / same[0]["windows a second"]
    return (
        f"{row['precision']:8} {row['data']:8} {row['windows a second']:8.2f} windows/s "
        f"({ratio:.2f} of bassl)  waiting {row['waiting']:4.0%}  {row['MiB']:6.0f} MiB"
    )


if __name__ == "__main__":
    main()
