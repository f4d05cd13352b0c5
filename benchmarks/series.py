"""Intro, outro and recap of generated seasons: precision, recall, error of the ends, and the cost of a long season.

    python benchmarks/series.py movie.mp4 [other.mp4 ...] [--seasons 4]      # of 24 frames per second

FFmpeg makes each season from parts of a video: five episodes of a cold open, an opening (the last two have another), a
body and an ending, some with a recap of six pieces of earlier bodies, and a stranger. Sizes, rates, qualities, black
bars and a caption over the opening differ from episode to episode. The cost is that of 26 episodes of 45 minutes, of
made-up hashes.
"""

from __future__ import annotations

import resource
import subprocess
import tempfile
import time
from itertools import product
from pathlib import Path
from typing import Any

import av
import numpy as np
from measure import command_line, save

from pipelines.video.reader import VideoReader
from pipelines.video.series import Episode, Span, find_repeats
from pipelines.video.shots import ReaderSettings

KINDS = ("intro", "outro", "recap")
_FIRST_SEED = 10  # the limits were set on seasons with others
FILTERS = (
    "fps=24,scale=426:240",
    "fps=25,scale=640:360",
    "fps=30,scale=320:180,pad=320:240:0:30",
    "fps=24000/1001,scale=426:240,drawbox=x=20:y=190:w=200:h=30:color=white:t=fill:enable='between(t,4,7)'",
    "fps=25,scale=480:270",
    "fps=24,scale=426:240",
)


def make_season(video: Path, folder: Path, seed: int, length: float) -> list[dict[str, tuple[float, float]]]:
    """Write ``0.mp4`` to ``5.mp4`` from a video with 24 frames per second; return the true spans of each in seconds."""
    rng = np.random.default_rng(seed)

    def seconds(least: float, most: float) -> float:
        return float(rng.integers(24 * least, 24 * most)) / 24

    starts = [float(start) for start in rng.choice(np.arange(10, length - 20, 10), 28, replace=False)]
    openings = [(starts[i], starts[i] + seconds(8.5, 10)) for i in range(2)]
    ending, bodies = (starts[2], starts[2] + 10), [(start, start + 10) for start in starts[3:23]]
    truth, episodes = list[dict[str, tuple[float, float]]](), []
    for number in range(5):
        recap = []
        if number in (2, 4):
            recap = [(bodies[i][0] + 2, bodies[i][0] + seconds(3.5, 6)) for i in rng.permutation(4 * number)[:6]]
        cold = (starts[23] + 2 * number, starts[23] + 2 * number + seconds(0.5, 2))
        parts = [*recap, cold, openings[number > 2], *bodies[4 * number : 4 * number + 4], ending]
        times = np.concatenate([[0.0], np.cumsum([end - start for start, end in parts])])
        spans = {"intro": (times[len(recap) + 1], times[len(recap) + 2]), "outro": (times[-2], times[-1])}
        truth.append(spans | ({"recap": (0.0, times[len(recap)])} if recap else {}))
        episodes.append(parts)
    truth.append({})
    episodes.append([(start, start + 10) for start in starts[24:28]])
    for number, (parts, picture) in enumerate(zip(episodes, FILTERS, strict=True)):
        inputs = [f"-ss {start} -t {end - start - 0.01} -i" for start, end in parts]
        files = [word for options in inputs for word in (*options.split(), str(video))]
        joined = "".join(f"[{i}:v]" for i in range(len(parts)))
        graph = f"{joined}concat=n={len(parts)}:v=1,{picture}[out]"
        quality = ["-c:v", "libx264", "-preset", "veryfast", "-crf", str(20 + 3 * number)]
        command = ["ffmpeg", "-v", "error", "-y", *files, "-filter_complex", graph, "-map", "[out]", *quality]
        subprocess.run([*command, str(folder / f"{number}.mp4")], check=True)
    return truth


def read(path: Path) -> Episode:
    reader = VideoReader(path, ReaderSettings(hashes=True))
    for _ in reader:
        pass
    episode = reader.episode()
    assert episode is not None
    return episode


def long_season(episodes: int = 26, minutes: int = 45) -> list[Episode]:
    """Episodes of made-up hashes that share an opening and an ending of a minute."""
    rng = np.random.default_rng(0)
    times = np.arange(0, 60 * minutes, 1 / 24)

    def shots(frames: int) -> Any:
        return np.repeat(rng.integers(1, 2**63, frames // 72 + 1).astype(np.uint64), 72)[:frames]

    opening, ending, season = shots(1440), shots(1440), []
    for _ in range(episodes):
        hashes, at = shots(len(times)), rng.integers(0, 7200)
        hashes[at : at + 1440], hashes[-2000:-560] = opening, ending
        season.append(Episode(hashes, times))
    return season


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("videos", type=Path, nargs="+")
    parser.add_argument("--seasons", type=int, default=4, help="of each video")
    arguments = parser.parse_args()
    counts = {kind: {"true": 0, "found": 0, "hits": 0, "errors": list[float]()} for kind in KINDS}
    for video, seed in product(arguments.videos, range(_FIRST_SEED, _FIRST_SEED + arguments.seasons)):
        with av.open(str(video)) as container:
            length = (container.duration or 0) / 1e6
        with tempfile.TemporaryDirectory() as folder:
            truth = make_season(video, Path(folder), seed, length)
            repeats, _ = find_repeats([read(Path(folder) / f"{number}.mp4") for number in range(len(truth))])
        for number, (true, found) in enumerate(zip(truth, repeats, strict=True)):
            for kind, count in counts.items():
                count["true"] += kind in true
                count["found"] += kind in found
                if kind in true and kind in found and overlap(true[kind], found[kind]) > 0.5:
                    count["hits"] += 1
                    count["errors"] += [24 * abs(a - b) for a, b in zip(true[kind], found[kind], strict=False)]
                elif kind in true or kind in found:
                    print(f"{video.name}, season {seed}, episode {number}: {kind} {true.get(kind)}, {found.get(kind)}")
    print("kind   true found hits  median and largest error of an end, in frames of 1/24 s")
    for kind, count in counts.items():
        errors = count.pop("errors") or [float("nan")]
        count |= {"median": float(np.median(errors)), "largest": float(np.max(errors))}
        numbers = f"{count['true']:4d} {count['found']:5d} {count['hits']:4d}"
        print(f"{kind:6} {numbers}  {count['median']:.1f} {count['largest']:.1f}")
    season, start = long_season(), time.perf_counter()
    found = find_repeats(season)[0]
    seconds, peak = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"26 episodes of 45 minutes: {seconds:.0f} s, {peak:.0f} MB, {sum('intro' in one for one in found)} intros")
    save("series", {"kinds": counts, "long_season": {"seconds": seconds, "peak_mb": peak}})


def overlap(true: tuple[float, float], span: Span) -> float:
    """Return the common part of two spans as a share of what they cover together."""
    return (min(true[1], span.end) - max(true[0], span.start)) / (max(true[1], span.end) - min(true[0], span.start))


if __name__ == "__main__":
    main()
