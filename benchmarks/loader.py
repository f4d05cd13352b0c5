"""Windows per second: the reader of keyframe stores compared with JPEG files opened one by one with PIL.

    python benchmarks/loader.py data/index.h5

The comparison does what the paper's release does: one file per keyframe, ``Image.open(...).convert("RGB")``, and
torchvision's ``resized_crop``. Both sides read windows of 17 random keyframes in one process, and crop the 17 of the
dense and the 2 of the slow sequence; they take turns, and times are CPU seconds, which depend less on other work on the
machine. The files are in the page cache on both sides: the code is compared, not the disk.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from measure import command_line, least_cpu_seconds, save
from PIL import Image
from torchvision.transforms import RandomResizedCrop, v2
from torchvision.transforms.v2 import functional as tv

from pipelines.datasets.movienet import KeyframeReader
from pipelines.pretext import AugmentationSettings, PretextSettings
from pipelines.stages.pretrain.data import CroppedViews, PretextWindows
from pipelines.stores.index import read_index
from pipelines.training.data import KeyframeWindows, WindowOrder
from pipelines.training.distributed import process_group

SIZE = 224


def unpack(reader: KeyframeReader, folder: Path) -> list[list[Path]]:
    """Write every keyframe of an index as a file of its own, as MovieNet is distributed."""
    index = reader.index
    files = []
    images = np.arange(index.keyframes)[None]
    for row in range(len(index.label)):
        video = index.video_ids[int(index.video_of(np.array([row]))[0])]
        (folder / video).mkdir(exist_ok=True)
        jpegs = reader.read(np.array([row]), images)[0]
        files.append([folder / video / f"shot_{row:07d}_img_{k}.jpg" for k in range(len(jpegs))])
        for path, jpeg in zip(files[-1], jpegs, strict=True):
            path.write_bytes(jpeg)
    return files


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("index", type=Path)
    parser.add_argument("--windows", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)

    index = read_index(arguments.index)
    reader = KeyframeReader(index)
    choice = PretextWindows(index.first_row, PretextSettings(), neighbors=8, seed=0)
    order = WindowOrder(
        np.random.default_rng(0).choice(index.rows_of(), arguments.windows), arguments.windows, epochs=1, seed=0
    )
    [(_, _, centers)] = order.centers(0)
    windows = choice.rows(0, centers)[0]
    images = np.random.default_rng(1).integers(0, index.keyframes, windows.shape)
    shots = windows.shape[1]
    # The release also changes colors and blurs on the CPU; here only what makes an image a tensor of 224 x 224.
    normalized = v2.Compose(
        [
            v2.PILToTensor(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )

    with process_group("cpu") as process, tempfile.TemporaryDirectory() as folder:
        settings = AugmentationSettings(size=SIZE)
        views = choice.dense, choice.slow
        source = KeyframeWindows(index, choice.rows, process, 0, CroppedViews(views, order.seed, order.batch, settings))
        files = unpack(reader, Path(folder))

        def peer(to_tensor: Callable[[Image.Image], torch.Tensor]) -> None:
            torch.manual_seed(0)
            for rows, chosen in zip(windows.tolist(), images.tolist(), strict=True):
                frames = [Image.open(files[row][k]).convert("RGB") for row, k in zip(rows, chosen, strict=True)]
                for shots in views:
                    box = RandomResizedCrop.get_params(frames[0], list(settings.scale), list(settings.ratio))
                    torch.stack([to_tensor(tv.resized_crop(frames[k], *box, [SIZE, SIZE])) for k in shots])

        jpegs = [
            (int(row), jpeg)
            for rows, chosen in zip(windows, images, strict=True)
            for row, [jpeg] in zip(rows, reader.read(rows, chosen[:, None]), strict=True)
        ]
        actions: dict[str, Callable[[], object]] = {
            "keyframe stores": lambda: list(source.batches(order, 0)),
            "of which decoding": lambda: [reader.decoded(row, jpeg) for row, jpeg in jpegs],
            "files read with PIL": lambda: peer(lambda image: torch.from_numpy(np.asarray(image).copy())),
            "files read with PIL, normalized to float32": lambda: peer(normalized),
        }
        rounds = [{name: least_cpu_seconds(act, 1) for name, act in actions.items()} for _ in range(arguments.repeats)]
        seconds = {name: min(times[name] for times in rounds) for name in actions}

    stores = seconds["keyframe stores"]
    jpeg_bytes = float(np.mean([len(jpeg) for _, jpeg in jpegs]))
    print(f"windows of {shots} keyframes, cropped to {SIZE} x {SIZE}, on one core; {jpeg_bytes:,.0f} bytes a JPEG")
    for name, value in seconds.items():
        print(
            f"  {name:<44} {arguments.windows / value:6.0f} windows/s  {value / stores:5.2f} times the time of stores"
        )
    save("loader", {"windows": arguments.windows, "shots": shots, "jpeg_bytes": jpeg_bytes, "cpu_seconds": seconds})


if __name__ == "__main__":
    main()
