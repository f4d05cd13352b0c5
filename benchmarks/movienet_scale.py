"""The training commands at MovieNet's size on a CPU, without MovieNet: time, processor time and peak memory of each.

    python benchmarks/movienet_scale.py

By default 318 videos with 500,000 shots: label files in MovieNet's layout, and 2,048 random float16 numbers a shot that
differ from scene to scene, in a feature store. Pre-training runs in two processes for some minutes and is then asked to
stop; fine-tuning is one epoch of one seed. ``cores`` is processor time over time: below the number of processes, a
command waited for the disk, another process, or other programs of the machine. Prints the table in docs/training.md.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import measure
import numpy as np

from pipelines.stores.features import shots_checksum, write_features
from pipelines.stores.index import read_index
from pipelines.training.run_folder import LOG, read_log

ENCODER = "made up"
FRAMES = 96  # of a shot


def write_labels(root: Path, videos: int, shots: int) -> None:
    """Shots, labels and splits in MovieNet's layout; scenes of 5 to 20 shots."""
    scenes = root / "scene318"
    for name in ("label318", "shot_movie318", "meta"):
        (scenes / name).mkdir(parents=True)
    rng, names = np.random.default_rng(0), [f"tt{number:07}" for number in range(1, videos + 1)]
    for number, name in enumerate(names):
        count = shots // videos + (number < shots % videos)
        ends = np.isin(np.arange(count), np.cumsum(rng.integers(5, 21, count)) - 1)
        starts = range(0, FRAMES * count, FRAMES)
        spans = (f"{at} {at + 95} {at + 24} {at + 48} {at + 72}\n" for at in starts)
        (scenes / "shot_movie318" / f"{name}.txt").write_text("".join(spans))
        labels = (f"{shot:04} {int(end)}\n" for shot, end in enumerate(ends[:-1]))
        (scenes / "label318" / f"{name}.txt").write_text("".join(labels))
    first, second = round(videos * 190 / 318), round(videos * 254 / 318)
    split = {"train": names[:first], "val": names[first:second], "test": names[second:]}
    (scenes / "meta" / "split318.json").write_text(json.dumps(split))


def write_store(index_file: Path, store: Path, width: int) -> None:
    index, rng = read_index(index_file), np.random.default_rng(1)
    for video, name in enumerate(index.video_ids):
        rows = index.rows([video])
        scene = np.cumsum(np.append(0, index.targets(rows)[:-1]))
        places = rng.standard_normal((scene[-1] + 1, width), np.float32)
        features = places[scene] + 2 * rng.standard_normal((len(rows), width), np.float32)
        write_features(store, ENCODER, name, features.astype(np.float16), shots=shots_checksum(index, video))


def run_for(seconds: float, command: measure.Command, log: Path) -> measure.Run:
    """Run a command until its log has had ``seconds`` of rows, stop it by SIGTERM, and wait for its end."""
    begun, peak, first = time.perf_counter(), 0, None
    environment = os.environ | {"PYTHONPATH": str(measure.HOME)}
    with subprocess.Popen([str(word) for word in command], env=environment, stderr=subprocess.PIPE) as process:
        stopped = False
        while process.poll() is None:
            time.sleep(0.05)
            peak = max(peak, measure._memory(process.pid))
            first = first or (time.perf_counter() if log.exists() else None)
            if first and not stopped and time.perf_counter() - first > seconds:
                process.send_signal(signal.SIGTERM)
                stopped = True
        assert process.stderr is not None
        if process.returncode != 128 + signal.SIGTERM:
            raise SystemExit(process.stderr.read().decode())
    usage = os.times()
    return measure.Run(time.perf_counter() - begun, usage.children_user + usage.children_system, peak / 2**20)


def main() -> None:
    parser = measure.command_line(__doc__)
    parser.add_argument("--videos", type=int, default=318)
    parser.add_argument("--shots", type=int, default=500_000)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--minutes", type=float, default=3.0, help="of pre-training")
    arguments = parser.parse_args()
    bassl = [sys.executable, "-m", "bassl_cli"]
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        index, store, runs = home / "index.h5", home / "features", home / "runs"
        write_labels(home / "movienet", arguments.videos, arguments.shots)
        figures = {"build-index": measure.measure([*bassl, "build-index", home / "movienet", "-o", index])}
        show("build-index", figures["build-index"])
        write_store(index, store, arguments.width)
        data = ["--index", index, "--features", store]
        on_cpu = [*data, "--gpus", "0", "--log-steps", "1"]
        pretrain = [*bassl, "pretrain", *on_cpu, "--processes", "2", "-o", runs / "pretrain"]
        before = sum(os.times()[2:4])
        run = run_for(60 * arguments.minutes, pretrain, runs / "pretrain" / LOG)
        rows = read_log(runs / "pretrain" / LOG)
        speed, waiting = (float(np.mean([row[name] for row in rows[1:]])) for name in ("windows_per_second", "waiting"))
        figures["pretrain"] = measure.Run(run.wall, run.cpu - before, run.peak)
        show(f"pretrain, {len(rows)} steps: {speed:.1f} windows/s, {100 * waiting:.0f} % waiting", figures["pretrain"])
        tuning = ["--init", "none", "--crn", "relational", "--seeds", "1", "--epochs", "1", "-o", runs / "finetune"]
        commands = {
            "finetune --crn relational, an epoch": ["finetune", *on_cpu, *tuning],
            "score": ["score", runs / "finetune", *data],
            "baseline graph-cut": ["baseline", "graph-cut", *data],
            "baseline dp": ["baseline", "dp", *data],
        }
        for what, words in commands.items():
            figures[what] = measure.measure([*bassl, *words])
            show(what, figures[what])
    sizes = {"videos": arguments.videos, "shots": arguments.shots, "width": arguments.width}
    pretraining = {"steps": len(rows), "windows_per_second": speed, "waiting": waiting}
    measure.save(
        "movienet_scale", {**sizes, "pretraining": pretraining, "runs": {k: vars(v) for k, v in figures.items()}}
    )


def show(what: str, run: measure.Run) -> None:
    """Print a row of the table."""
    if what == "build-index":
        print("| command | time | cores | peak memory |\n| --- | ---: | ---: | ---: |")
    print(f"| `{what}` | {run.wall:,.0f} s | {run.cpu / run.wall:.1f} | {run.peak / 1024:.1f} GB |", flush=True)


if __name__ == "__main__":
    main()
