"""The step of ``bassl pretrain`` on windows of real keyframes, compared with the same step without reading.

    python benchmarks/pretrain.py data/index.h5
    python benchmarks/pretrain.py --encoder resnet18 --size 64 --batch 16 --steps 5   # on a CPU, on generated videos

Two sources feed the same step: *loader*, keyframes read and resized by workers, augmented in batches on the device; and
*resident*, augmented tensors on the device. Each in each precision. The first steps, in which workers start and kernels
are chosen, are not counted.

Memory is the peak that PyTorch allocated on a GPU; on a CPU, the peak of this process so far.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measure import command_line, make_index, save
from torch import Tensor

from pipelines.options import with_options
from pipelines.pretext import AugmentationSettings
from pipelines.settings import Precision
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


def loader(
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


def resident(settings: PretrainSettings, process: Process, order: WindowOrder) -> Work:
    S, size = 2 * settings.neighbors + 1, settings.augmentation.size
    dense, slow = (torch.randn(settings.batch, n, 3, size, size, device=process.device) for n in (S, 2))
    noise = noise_of(order, 0, S, process)
    while True:
        yield lambda part: (dense[part], slow[part]), noise


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


def make_settings(index: Path, *, size: int, **options: Any) -> PretrainSettings:
    """Return settings with views of ``size`` pixels, blurred as at the paper's size."""
    views = AugmentationSettings(size=size, kernel_size=max(3, size // 10 // 2 * 2 + 1))
    return with_options(PretrainSettings, index=index, augmentation=views, **options)


def measure_sources(
    settings: PretrainSettings, device: str, precisions: Sequence[Precision], steps: int
) -> Iterator[dict[str, Any]]:
    """Yield the figures of each precision and source of data."""
    index = read_index(settings.data.index)
    needed = (WARM_UP + steps) * settings.batch
    # As many epochs as the steps need: a short video has fewer windows than a long measurement takes.
    rows = np.tile(index.rows_of(), -(-needed // len(index.label)))
    order = WindowOrder(rows, settings.batch, 1, settings.run.seed)
    with process_group(device) as process:
        for precision in precisions:
            now = with_options(settings, precision=precision)
            sources: dict[str, Callable[[Any], Work]] = {
                "loader": lambda augmentation, now=now: loader(now, index, process, augmentation, order),
                "resident": lambda _, now=now: resident(now, process, order),
            }
            for name, make in sources.items():
                model, augmentation = make_model(now, None, process)
                model.train()
                yield {"precision": precision, "data": name, **measure(now, process, model, make(augmentation), steps)}


def main() -> None:
    defaults = PretrainSettings()
    parser = command_line(__doc__)
    parser.add_argument("index", type=Path, nargs="?", help="default: of generated videos")
    parser.add_argument("--encoder", default=defaults.encoder)
    parser.add_argument("--size", type=int, default=defaults.augmentation.size)
    parser.add_argument("--batch", type=int, default=defaults.batch)
    parser.add_argument("--neighbors", type=int, default=defaults.neighbors)
    parser.add_argument("--width", type=int, default=defaults.width)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--workers", type=int, default=16, help="that read keyframes")
    parser.add_argument("--precision", default="float32,bf16")
    parser.add_argument("--device", default="auto")
    arguments = parser.parse_args()

    names = ("encoder", "size", "batch", "neighbors", "width", "workers")
    table: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        index = arguments.index or make_index(Path(folder))
        settings = make_settings(index, **{name: getattr(arguments, name) for name in names})
        for row in measure_sources(settings, arguments.device, arguments.precision.split(","), arguments.steps):
            table.append(row)
            print(_line(table), flush=True)
    chosen = {name: str(value) for name, value in vars(arguments).items()}
    save("pretrain", {"settings": chosen, "rows": table})


def _line(table: list[dict[str, Any]]) -> str:
    row = table[-1]
    same = [r for r in table if r["precision"] == row["precision"]]
    ratio = row["windows a second"] / same[0]["windows a second"]
    return (
        f"{row['precision']:8} {row['data']:8} {row['windows a second']:8.2f} windows/s "
        f"({ratio:.2f} of loader)  waiting {row['waiting']:4.0%}  {row['MiB']:6.0f} MiB"
    )


if __name__ == "__main__":
    main()
