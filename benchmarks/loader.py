"""Windows a second: key-frame stores against a folder of JPEG files opened one by one with PIL.

    python benchmarks/loader.py data/index.h5

The peer is what the paper's release does: one file a key-frame, ``Image.open(...).convert("RGB")``. Both sides read the
same windows of 17 key-frames in one process; times are CPU seconds, so that other work on the machine matters less.
The pictures are in the page cache on both sides: what is compared is the path, not the disk.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torchvision.transforms import v2

from pipelines.datasets.keyframe_reader import KeyframeReader, KeyframeWindows, decode_whole
from pipelines.models.encoders import resize_to_square

RESULTS = Path(__file__).parent / "results"


def unpack(reader: KeyframeReader, folder: Path) -> list[list[Path]]:
    """Every key-frame of an index as a file of its own, as MovieNet is distributed."""
    index = reader.index
    files = []
    everything = np.arange(index.keyframes)[None]
    for row in range(len(index.label)):
        video = index.video_ids[int(index.video_of(np.array([row]))[0])]
        (folder / video).mkdir(exist_ok=True)
        jpegs = reader.read(np.array([row]), everything)[0]
        files.append([folder / video / f"shot_{row:07d}_img_{k}.jpg" for k in range(len(jpegs))])
        for path, jpeg in zip(files[-1], jpegs, strict=True):
            path.write_bytes(jpeg)
    return files


def windows_per_second(read: Callable[[int], object], windows: int, repeats: int) -> float:
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        for position in range(windows):
            read(position)
        best = min(best, time.process_time() - start)
    return windows / best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index", type=Path)
    parser.add_argument("--windows", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)

    rng = np.random.default_rng(0)
    raw = KeyframeWindows(arguments.index, size=None)
    rows = rng.choice(raw.rows, arguments.windows)
    raw = KeyframeWindows(raw.reader.index, rows, size=None)
    decoded = KeyframeWindows(raw.reader.index, rows, size=224)
    examples = [raw[i] for i in range(len(raw))]
    chosen: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = [
        (example["rows"].numpy(), raw._images(example["row"], len(example["rows"]))[:, 0]) for example in examples
    ]
    # The release crops, resizes and normalises each picture on the CPU; here only what makes it a tensor of 224 x 224.
    as_tensor = v2.Compose(
        [
            v2.PILToTensor(),
            v2.ToDtype(torch.float32, scale=True),
            v2.Normalize([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ]
    )
    with tempfile.TemporaryDirectory() as folder:
        files = unpack(raw.reader, Path(folder))

        def paths(position: int) -> list[Path]:
            return [files[row][image] for row, image in zip(*chosen[position], strict=True)]

        def pil(path: Path) -> Image.Image:
            return Image.open(path).convert("RGB").resize((224, 224), Image.Resampling.BILINEAR)

        results = {
            "raw bytes, the peer read as plain files": (
                lambda i: raw[i],
                lambda i: [path.read_bytes() for path in paths(i)],
            ),
            "raw bytes, the peer opened with PIL and not decoded": (
                lambda i: raw[i],
                lambda i: [Image.open(path).close() for path in paths(i)],
            ),
            "decoded at 224, uint8": (
                lambda i: decoded[i],
                lambda i: torch.stack([torch.from_numpy(np.asarray(pil(path)).copy()) for path in paths(i)]),
            ),
            "decoded at 224, the peer also normalised to float32 as the release does it": (
                lambda i: decoded[i],
                lambda i: torch.stack([as_tensor(pil(path)) for path in paths(i)]),
            ),
        }
        table = {
            name: (
                windows_per_second(ours, arguments.windows, arguments.repeats),
                windows_per_second(peer, arguments.windows, arguments.repeats),
            )
            for name, (ours, peer) in results.items()
        }
    jpegs = [jpeg for example in examples for shot in example["jpegs"] for jpeg in shot]
    start = time.process_time()
    for jpeg in jpegs:
        resize_to_square(decode_whole(jpeg), 224)
    per_picture = (time.process_time() - start) / len(jpegs)
    size = np.mean([len(jpeg) for jpeg in jpegs])
    print(f"windows of {len(examples[0]['rows'])} key-frames a second on one core; {size:,.0f} bytes a JPEG")
    for name, (ours, peer) in table.items():
        print(f"  {name}: stores {ours:,.0f}, files {peer:,.0f}, ratio {ours / peer:.1f}")
    share = per_picture * len(examples[0]["rows"]) * table["decoded at 224, uint8"][0]
    print(
        f"  decoding and resizing: {1000 * per_picture:.2f} ms a picture, {share:.0%} of the time of a decoded window"
    )
    RESULTS.mkdir(exist_ok=True)
    rows_of_table = {
        name: {"stores": ours, "files": peer, "ratio": ours / peer} for name, (ours, peer) in table.items()
    }
    (RESULTS / "loader.json").write_text(json.dumps(rows_of_table, indent=1))


if __name__ == "__main__":
    main()
