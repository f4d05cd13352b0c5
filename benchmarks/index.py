"""The index at the size of MovieNet: 1,100 videos, 1.6 million shots, three keyframes each.

    python benchmarks/index.py

Rows are synthetic. The videos share a few keyframe stores filled with noise in place of JPEGs, so that 1.6 million
shots need little disk; the same amount is read and checked as with real ones. Each step runs in a process of its own,
to measure its memory; the page cache is warm. Times are the best of several.
"""

from __future__ import annotations

import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from measure import command_line, save
from numpy.typing import NDArray

from pipelines.datasets.keyframe_reader import KeyframeReader
from pipelines.scenes import VideoFacts
from pipelines.stores.index import Index, IndexedVideo, joined, read_index, save_index, window_rows
from pipelines.stores.keyframes import StoredShot, read_keyframes, write_keyframes

KEYFRAMES = 3
JPEG_BYTES = (6_000, 18_000)
"""A keyframe of 240 lines has about 12 kB."""
FRAME_RATE = 24.0


def write_store(path: Path, shots: int, seed: int) -> None:
    """A keyframe store of shots of a hundred frames, with noise in place of JPEGs."""
    rng = np.random.default_rng(seed)
    stored = (
        StoredShot(
            (100 * shot, 100 * shot + 100),
            (100 * shot / FRAME_RATE, (100 * shot + 100) / FRAME_RATE),
            tuple(100 * shot + 25 * (k + 1) for k in range(KEYFRAMES)),
            tuple(rng.bytes(int(rng.integers(*JPEG_BYTES))) for _ in range(KEYFRAMES)),
        )
        for shot in range(shots)
    )
    facts = VideoFacts(path.stem, 426, 240, 100 * shots / FRAME_RATE, 100 * shots, FRAME_RATE)
    source = {"name": path.stem, "bytes": 0, "sha256": ""}
    write_keyframes(path, stored, lambda: (facts, source), {"keyframes": KEYFRAMES})


def synthetic_videos(stores: list[Path], videos: int, rows: int) -> list[IndexedVideo]:
    """Videos of equal length up to one shot, each with the first shots of one of the stores."""
    rng = np.random.default_rng(0)
    opened = [read_keyframes(store) for store in stores]
    lengths = np.diff(np.linspace(0, rows, videos + 1).astype(int)).tolist()
    indexed = []
    for number, shots in enumerate(lengths):
        store = opened[number % len(opened)]
        places = np.arange(shots)[:, None] * KEYFRAMES + np.arange(KEYFRAMES + 1)
        indexed.append(
            IndexedVideo(
                video_id=f"tt{number:07d}",
                source=str(store.path),
                frames=store.frames[:shots],
                seconds=store.seconds[:shots],
                label=(rng.random(shots) < 0.08).astype(np.int8),
                split=("train", "val", "test")[number % 3],
                keyframe_source=store.path,
                keyframes=KEYFRAMES,
                jpeg=store.jpeg_offsets[places],
                jpeg_crc32=store.jpeg_crc32[: shots * KEYFRAMES].reshape(shots, KEYFRAMES),
            )
        )
    return indexed


def best_of(repeats: int, action: Callable[[], Any]) -> dict[str, float]:
    """Least wall-clock and least CPU seconds of several calls."""
    walls, cpus = [], []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        action()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return {"seconds": min(walls), "cpu_seconds": min(cpus)}


def peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def building(index: Path, stores: list[Path], videos: int, rows: int, repeats: int) -> dict[str, float]:
    indexed = synthetic_videos(stores, videos, rows)
    before = peak_mib()
    measured = best_of(repeats, lambda: save_index(joined(index, indexed, {})))
    return {**measured, "memory_mib": peak_mib() - before}


def opening(index: Path, repeats: int) -> dict[str, float]:
    before = peak_mib()
    opened: list[Index] = []

    def open_it() -> None:
        opened.clear()
        opened.append(read_index(index))

    open_it()
    memory = peak_mib() - before
    return {**best_of(repeats, open_it), "memory_mib": memory}


def fetching(path: Path, neighbors: int, batch: int, repeats: int) -> dict[str, dict[str, float]]:
    index = read_index(path)
    reader = KeyframeReader(index)
    rng = np.random.default_rng(0)
    draw = [rng.integers(0, len(index.label), batch) for _ in range(repeats)]

    def read(centers: NDArray[np.int64]) -> None:
        """One random keyframe of each shot of each window, as pre-training reads them."""
        for rows in window_rows(index.first_row, centers, neighbors, "shift"):
            reader.read(rows, rng.integers(0, index.keyframes, (len(rows), 1)))

    for centers in draw:  # opens the stores and warms the page cache
        read(centers)
    waiting, waiting_too = iter(draw), iter(draw)
    return {
        "row_numbers": best_of(repeats, lambda: window_rows(index.first_row, next(waiting), neighbors, "shift")),
        "jpeg_bytes": best_of(repeats, lambda: read(next(waiting_too))),
    }


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("--shots", type=int, default=1_600_000)
    parser.add_argument("--videos", type=int, default=1_100)
    parser.add_argument("--stores", type=int, default=4)
    parser.add_argument("--neighbors", type=int, default=8, help="K")
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        index = folder / "index.h5"
        stores = [folder / f"{number}.h5" for number in range(arguments.stores)]
        for number, store in enumerate(stores):
            write_store(store, -(-arguments.shots // arguments.videos), number)
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, spawn, max_tasks_per_child=1) as process:
            built = process.submit(
                building, index, stores, arguments.videos, arguments.shots, arguments.repeats
            ).result()
            opened = process.submit(opening, index, arguments.repeats).result()
            fetched = process.submit(
                fetching, index, arguments.neighbors, arguments.batch, 4 * arguments.repeats
            ).result()
        size = index.stat().st_size / 2**20
    print(f"{arguments.shots:,} shots of {arguments.videos:,} videos, {KEYFRAMES} keyframes per shot")
    for what, values in (("build", built), ("open", opened)):
        print(f"  {what:<24} {values['seconds']:8.2f} s   {values['memory_mib']:6.0f} MiB of memory")
    print(f"  {'file':<24} {size:8.0f} MiB")
    shots = 2 * arguments.neighbors + 1
    for what, values in fetched.items():
        label = f"{arguments.batch} windows, {what.replace('_', ' ')}"
        print(f"  {label:<32} {1000 * values['seconds']:8.2f} ms   (each {shots} shots, random)")
    save("index", {"settings": vars(arguments), "build": built, "open": opened, "file_mib": size, "fetch": fetched})


if __name__ == "__main__":
    main()
