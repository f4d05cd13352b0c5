"""Fine-tuning: windows per second of its data path, and of the whole step.

    python benchmarks/finetune.py

The data path is compared with what the paper's release does with features of a frozen encoder: one small ``.npy`` file
per shot, 17 of them opened and stacked for each sample, in a ``torch.utils.data.DataLoader``. Both sides make the same
windows of 17 shots of width 2048 in batches of 1024, alternately and in the same process (``--workers`` gives the other
side processes of its own). The files are in the page cache: the code is compared, not the disk.

The whole step is the paper's CRN at its size, forward, backward and Adam, on this machine's device; on a CPU with a
smaller batch.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import measure
import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from pipelines.models.networks.kinds import CRNSettings
from pipelines.models.networks.torch_networks import build_network
from pipelines.stages.finetune.data import LabeledVideos, batches, weighted_cross_entropy, window_epoch
from pipelines.stores.features import features_of, write_features
from pipelines.stores.index import IndexedVideo, joined, read_index, save_index, window_rows
from pipelines.training.distributed import Process

WIDTH, NEIGHBORS, SHOTS = 2048, 8, 400


class FilesOfShots(Dataset[tuple[Tensor, int]]):
    """One window per sample, one file per shot."""

    def __init__(self, files: list[Path], first_row: np.ndarray, targets: np.ndarray, rows: np.ndarray) -> None:
        self.files, self.first_row, self.targets, self.rows = files, first_row, targets, rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, item: int) -> tuple[Tensor, int]:
        row = int(self.rows[item])
        window = window_rows(self.first_row, np.array([row]), NEIGHBORS, "clip")[0]
        shots = [torch.from_numpy(np.load(self.files[shot])) for shot in window]
        return torch.stack(shots), int(self.targets[row])


def seconds_of(make: Callable[[], Iterator[object]]) -> float:
    start = time.perf_counter()
    for _ in make():
        pass
    return time.perf_counter() - start


def main() -> None:
    parser = measure.command_line(__doc__)
    parser.add_argument("--videos", type=int, default=12, help=f"of {SHOTS} shots each")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--workers", type=int, default=0, help="processes of the peer's loader")
    parser.add_argument("--step-batch", type=int, default=128, help="windows in a step on a CPU; a GPU takes --batch")
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    device = torch.device(arguments.device)
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        features, entries, files = {}, [], []
        for number in range(arguments.videos):
            video_id = f"video{number:03}"
            features[video_id] = rng.normal(size=(SHOTS, WIDTH)).astype(np.float32)
            frames = np.stack([np.arange(SHOTS) * 10, np.arange(SHOTS) * 10 + 10], axis=1)
            label = (np.arange(SHOTS) % 10 == 9).astype(np.int8)
            entries.append(IndexedVideo(video_id, video_id, frames, frames / 25, label, "train"))
            (home / video_id).mkdir()
            for shot in range(SHOTS):
                files.append(home / video_id / f"shot_{shot:04}.npy")
                np.save(files[-1], features[video_id][shot])
        for video_id, values in features.items():
            write_features(home / "features", "made up", video_id, values)
        save_index(joined(home / "index.h5", entries, {}))
        index = read_index(home / "index.h5")
        labeled = LabeledVideos(index, features_of(index, [home / "features"]).features, device)
        process, everything = Process(0, 1, device), list(range(arguments.videos))

        def ours() -> Iterator[object]:
            epoch = window_epoch(labeled, everything, CRNSettings(), torch.float32, 0, 0)
            for batch in batches(epoch, arguments.batch, seed=0, number=0, first=0, loss="balanced", process=process):
                yield batch.inputs.sum() if device.type == "cuda" else batch.inputs

        def theirs() -> Iterator[object]:
            dataset = FilesOfShots(files, index.first_row, labeled.targets, np.flatnonzero(labeled.usable))
            for windows, _ in DataLoader(dataset, arguments.batch, shuffle=True, num_workers=arguments.workers):
                yield windows.to(device)

        shots = window_epoch(labeled, [0], CRNSettings(), torch.float32, 0, 0)
        chosen = next(batches(shots, 1, seed=0, number=0, first=7, loss="plain", process=process))
        order = np.random.default_rng((0, 200, 0)).permutation(SHOTS)[7]
        same = FilesOfShots(files, index.first_row, labeled.targets, np.array([order]))[0][0]
        assert torch.equal(chosen.inputs[0].cpu(), same), "both sides must make the same windows"

        times: dict[str, list[float]] = {"ours": [], "theirs": []}
        for _ in range(arguments.repeats + 1):
            times["ours"].append(seconds_of(ours))
            times["theirs"].append(seconds_of(theirs))
        windows = len(labeled.targets)
        speed = {side: windows / statistics.median(taken[1:]) for side, taken in times.items()}

        batch_size = arguments.batch if device.type == "cuda" else arguments.step_batch
        network = build_network("transformer", CRNSettings()).to(device).train()
        trained = [parameter for parameter in network.parameters() if parameter.requires_grad]
        optimizer = torch.optim.AdamW(trained, lr=1e-5, weight_decay=0.0)
        epoch = window_epoch(labeled, everything, CRNSettings(), torch.float32, 0, 0)
        taken, waited = [], []
        source = batches(epoch, batch_size, seed=0, number=0, first=0, loss="balanced", process=process)
        for _ in range(arguments.steps + 1):
            start = time.perf_counter()
            batch = next(source)
            waited.append(time.perf_counter() - start)
            with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                logits = network(batch.inputs)
            weighted_cross_entropy(logits.float(), batch.targets, batch.weights).backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            if device.type == "cuda":
                torch.cuda.synchronize()
            taken.append(time.perf_counter() - start)
    step = statistics.median(taken[1:])
    share = statistics.median(waited[1:]) / step
    print(f"windows of {2 * NEIGHBORS + 1} shots, {WIDTH} wide, in batches of {arguments.batch}, {device}:")
    print(f"  one gather a batch  {speed['ours']:10,.0f} windows/s")
    print(f"  a file per shot       {speed['theirs']:10,.0f} windows/s ({arguments.workers} workers)")
    print(f"  ratio               {speed['ours'] / speed['theirs']:10.1f}")
    print(f"whole step, transformer of width 768, batch {batch_size}: {batch_size / step:,.0f} windows/s, ", end="")
    print(f"{share:.1%} of it for data; {torch.get_num_threads()} threads")
    measure.save(
        "finetune",
        {
            "device": str(device),
            "data path, windows/s": speed,
            "ratio": speed["ours"] / speed["theirs"],
            "peer workers": arguments.workers,
            "step": {"batch": batch_size, "windows/s": batch_size / step, "share for data": share},
        },
    )


if __name__ == "__main__":
    main()
