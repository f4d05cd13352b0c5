"""Shared by the benchmarks: commands timed as whole processes, in turns, and tables of the results."""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
HOME = Path(__file__).parents[1]

Command = Sequence[str | Path]


@dataclass(frozen=True)
class Run:
    """One run of a command."""

    wall: float  # seconds on the clock
    cpu: float  # seconds of all its processes on the cores, user and system
    # most MiB of its processes at once: the sum of their resident sizes, sampled; shared pages count for each
    peak: float


def command_line(description: str | None) -> argparse.ArgumentParser:
    """Return a parser whose help shows the docstring of a benchmark unchanged."""
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


def make_index(folder: Path) -> Path:
    """Make eight videos of about 90 shots each, their keyframes, and an index with their true scenes, in a folder."""
    import bassl  # start-up time, like what follows: most benchmarks run commands
    from pipelines.datasets.synthetic import SyntheticVideoSettings, write_video

    (folder / "videos").mkdir()
    videos = [SyntheticVideoSettings(seed, 12, (6, 10), (0.7, 1.0), width=426, height=240) for seed in range(8)]
    with ProcessPoolExecutor() as pool:
        list(pool.map(write_video, [folder / "videos" / f"{video.seed}.mp4" for video in videos], videos))
    bassl.extract_keyframes(folder / "videos", output=folder / "keyframes")
    labels, index = folder / "videos", folder / "index.h5"
    bassl.build_index(folder / "keyframes", labels=labels, split="0.5,0.25,0.25", output=index)
    return index


def program(name: str) -> Path:
    """Return a command of the environment of this Python."""
    return Path(sys.executable).with_name(name)


def python(code: str, *arguments: str | Path) -> Command:
    """Return a command that runs a few lines of Python."""
    return [sys.executable, "-c", code, *arguments]


def measure(command: Command) -> Run:
    """Run a command to its end. Raises SystemExit if it fails."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(HOME)},
    )
    peak, ended = 0, threading.Event()

    def watch() -> None:
        nonlocal peak
        while not ended.wait(0.03):
            peak = max(peak, _memory(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    assert process.stderr is not None
    complaint = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - start
    ended.set()
    watcher.join()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{' '.join(map(str, command))} failed:\n{complaint.decode(errors='replace')}")
    return Run(wall, usage.ru_utime + usage.ru_stime, peak / 2**20)


def least_cpu_seconds(work: Callable[[], object], repeats: int) -> float:
    """CPU seconds of this process for the fastest of some calls; a first call is not counted."""
    work()
    taken = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        taken.append(time.process_time() - start)
    return min(taken)


def compare(commands: Mapping[str, Command], repeats: int) -> dict[str, list[Run]]:
    """Run the commands in turns, so that other load affects all of them; the first turn is not counted."""
    runs: dict[str, list[Run]] = {name: [] for name in commands}
    for turn in range(repeats + 1):
        for name, command in commands.items():
            run = measure(command)
            if turn:
                runs[name].append(run)
    return runs


def median(runs: Sequence[Run]) -> Run:
    return Run(*(statistics.median(getattr(run, field) for run in runs) for field in ("wall", "cpu", "peak")))


def show(title: str, runs: Mapping[str, Sequence[Run]], against: str) -> None:
    """Print a table of medians; ratios are the time of each row divided by the time of the row ``against``."""
    print(f"\n{title}")
    width = max(map(len, runs))
    print(f"{'':{width}}  {'wall s':>7} {'(min-max)':>13} {'cpu s':>7} {'MiB':>6} {'wall ratio':>10} {'cpu ratio':>9}")
    base = median(runs[against])
    for name, of_name in runs.items():
        middle = median(of_name)
        walls = [run.wall for run in of_name]
        print(
            f"{name:{width}}  {middle.wall:7.2f} {f'({min(walls):.2f}-{max(walls):.2f})':>13} {middle.cpu:7.2f} "
            f"{middle.peak:6.0f} {middle.wall / base.wall:10.2f} {middle.cpu / base.cpu:9.2f}",
            flush=True,
        )


def save(name: str, figures: Mapping[str, Any]) -> None:
    """Write figures and the machine to ``benchmarks/results/NAME.json``."""
    RESULTS.mkdir(exist_ok=True)
    machine = {"processor": _processor(), "cores": len(os.sched_getaffinity(0)), "python": platform.python_version()}
    (RESULTS / f"{name}.json").write_text(json.dumps({"machine": machine, **figures}, indent=1) + "\n")


def plain(runs: Mapping[str, Sequence[Run]]) -> dict[str, Any]:
    """Runs for JSON: the median and each."""
    return {
        name: asdict(median(of_name)) | {"runs": [asdict(run) for run in of_name]} for name, of_name in runs.items()
    }


def _memory(pid: int) -> int:
    """Resident bytes of a process and its descendants."""
    total = 0
    with suppress(OSError, IndexError, ValueError):
        total = int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                total += _memory(int(child))
    return total


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor()
