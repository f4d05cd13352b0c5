"""Memory of training and scoring on stored features, for a stand-in store of MovieNet's labeled size.

    python benchmarks/training_memory.py

By default 501,677 shots of 318 videos, 2,048 float16 numbers a shot: 2 GB. Each task makes batches or scores videos, in
its own process. The table has the peak memory of the process itself (anonymous), of the files that it maps, which all
processes of a machine share, and the speed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread

import measure
import numpy as np
import torch

from pipelines.models.boundary import BoundaryModel, save_boundary_model
from pipelines.models.networks.kinds import CRNSettings
from pipelines.models.networks.torch_networks import build_network
from pipelines.pretext.settings import PretextSettings
from pipelines.stages.finetune.data import LabeledVideos, batches, window_epoch
from pipelines.stages.pretrain.data import FeatureWindows, PretextWindows
from pipelines.stages.score import score
from pipelines.stores.features import features_of, write_features
from pipelines.stores.index import IndexedVideo, joined, read_index, save_index
from pipelines.training.data import WindowOrder
from pipelines.training.distributed import Process

HERE = Process(0, 1, torch.device("cpu"))
BATCH = 1024
TASKS = ("fine-tuning", "pre-training", "scoring")


def write_store(home: Path, videos: int, shots: int, width: int) -> None:
    noise = np.random.default_rng(0).normal(size=(4000, width)).astype(np.float16)
    entries = []
    for number in range(videos):
        name, count = f"video{number:03}", shots // videos + (number < shots % videos)
        write_features(home / "features", "made up", name, noise[(np.arange(count) * 7 + number * 13) % len(noise)])
        frames = np.stack([np.arange(count) * 10, np.arange(count) * 10 + 10], axis=1)
        label = (np.arange(count) % 10 == 9).astype(np.int8)
        split = ("train", "train", "train", "val", "test")[number % 5]
        entries.append(IndexedVideo(name, name, frames, frames / 25, label, split))
    save_index(joined(home / "index.h5", entries, {}, features={"made up": home / "features"}))
    shape = CRNSettings(input_width=width, width=32, layers=1, heads=2, hidden=64)
    model = BoundaryModel(
        crn="transformer", network=build_network("transformer", shape), shape=shape, encoder="made up"
    )
    save_boundary_model(home / "model.safetensors", model)


def windows_of(task: str, home: Path, steps: int) -> Iterator[int]:
    """Run a task; after each step, the number of its windows."""
    index = read_index(home / "index.h5")
    train = index.videos_of(("train",))
    if task == "fine-tuning":
        labeled = LabeledVideos(index, features_of(index, [home / "features"]).features, HERE.device)
        epoch = window_epoch(labeled, train, CRNSettings(), torch.float32, 0, 0)
        epoch_steps = len(epoch.targets) // BATCH
        source = batches(epoch, epoch_steps, seed=0, number=0, first=0, loss="balanced", process=HERE)
        yield from (len(batch.inputs) for _, batch in zip(range(steps), source, strict=False))
    elif task == "pre-training":
        windows = PretextWindows(index.first_row, PretextSettings(), 8, 0, index.rows_of(("train",)))
        features = FeatureWindows(index, [home / "features"], windows, HERE, train)
        source = features.batches(WindowOrder(index.rows_of(("train",)), BATCH, 1, 0), 0)
        yield from (len(batch.shots) for _, batch in zip(range(steps), source, strict=False))
    else:
        result = score(home / "model.safetensors", index=home / "index.h5", features=home / "features", resamples=0)
        yield sum(len(video.labels) for video in result.videos)


def run(task: str, home: Path, steps: int) -> None:
    """Print the peaks of memory of this process in MiB and its speed, as JSON."""
    peaks, ended = {"RssAnon": 0, "RssFile": 0}, Event()

    def watch() -> None:
        while not ended.wait(0.02):
            for line in Path("/proc/self/status").read_text().splitlines():
                name, _, value = line.partition(":")
                if name in peaks:
                    peaks[name] = max(peaks[name], int(value.split()[0]) // 1024)

    watcher = Thread(target=watch)
    watcher.start()
    windows, begun = 0, None
    for count in windows_of(task, home, steps):
        if begun is None:
            begun = time.perf_counter()  # opening the store, and the first step, are not counted
        else:
            windows += count
    seconds = time.perf_counter() - (begun or 0.0)
    ended.set()
    watcher.join()
    print(json.dumps({**peaks, "windows/s": windows / seconds if windows else None}))


def main() -> None:
    parser = measure.command_line(__doc__)
    parser.add_argument("--videos", type=int, default=318)
    parser.add_argument("--shots", type=int, default=501_677)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--steps", type=int, default=40, help=f"of {BATCH} windows")
    parser.add_argument("--task", choices=TASKS, help=measure.argparse.SUPPRESS)
    parser.add_argument("--home", type=Path, help=measure.argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.task:
        run(arguments.task, arguments.home, arguments.steps)
        return
    figures = {}
    with tempfile.TemporaryDirectory() as name:
        write_store(Path(name), arguments.videos, arguments.shots, arguments.width)
        for task in TASKS:
            command = [sys.executable, __file__, "--task", task, "--home", name, "--steps", str(arguments.steps)]
            printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
            figures[task] = json.loads(printed)
            speed = figures[task]["windows/s"]
            print(
                f"{task:12}  own {figures[task]['RssAnon']:5} MiB, mapped files {figures[task]['RssFile']:5} MiB"
                + (f", {speed:,.0f} windows/s" if speed else "")
            )
    measure.save("training_memory", {"shots": arguments.shots, "width": arguments.width, "tasks": figures})


if __name__ == "__main__":
    main()
