"""Intro, outro and recap of generated seasons: precision, recall, error of the ends, and the cost of a long season.

    python benchmarks/series.py movie.mp4 [--seasons 4]

Each season has five episodes made of parts of the video by FFmpeg: a cold open, an opening (the last two have another),
a body, an ending, and in some a recap of six pieces of earlier bodies. Sizes, rates, qualities, black bars and a caption
over the opening differ from episode to episode. The cost is that of 26 episodes of 45 minutes, of made-up hashes.
"""

from __future__ import annotations

import resource
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from measure import command_line, save

from pipelines.video.reader import VideoReader
from pipelines.video.series import Episode, find_repeats
from pipelines.video.shots import ReaderSettings

KINDS = ("intro", "outro", "recap")
FILTERS = (
    "fps=24,scale=426:240",
    "fps=25,scale=640:360",
    "fps=30,scale=320:180,pad=320:240:0:30",
    "fps=24000/1001,scale=426:240,drawbox=x=20:y=190:w=200:h=30:color=white:t=fill:enable='between(t,12,17)'",
    "fps=25,scale=480:270",
)


def make_season(video: Path, folder: Path, seed: int, length: float) -> list[dict[str, tuple[float, float]]]:
    """Write ``0.mp4`` to ``4.mp4``, and return the true spans of each in seconds."""
    rng = np.random.default_rng(seed)
    cuts = np.sort(rng.choice(np.arange(20, length - 40, 10), 14, replace=False))
    openings = [(cuts[0], cuts[0] + rng.uniform(9, 10)), (cuts[1], cuts[1] + rng.uniform(8.5, 10))]
    ending, bodies = (cuts[2], cuts[2] + 10.0), [(start, start + 10.0) for start in cuts[3:13]]
    truth = []
    for number, picture in enumerate(FILTERS):
        recap = []
        if number in (2, 4):
            earlier = [bodies[i] for i in rng.choice(2 * number, min(6, 2 * number), replace=False)]
            recap = [(start + 2, start + 2 + rng.uniform(1.5, 4)) for start, _ in earlier]
        cold = (cuts[13] + 2 * number, cuts[13] + 2 * number + 2)
        parts = [*recap, cold, openings[number > 2], *bodies[2 * number : 2 * number + 2], ending]
        trims = [f"[0:v]trim={a:.3f}:{b:.3f},setpts=PTS-STARTPTS[v{i}]" for i, (a, b) in enumerate(parts)]
        joined = "".join(f"[v{i}]" for i in range(len(parts)))
        graph = ";".join([*trims, f"{joined}concat=n={len(parts)}:v=1,{picture}[out]"])
        quality = ["-c:v", "libx264", "-preset", "veryfast", "-crf", str(20 + 3 * number)]
        command = ["ffmpeg", "-v", "error", "-y", "-i", str(video), "-filter_complex", graph, "-map", "[out]", *quality]
        subprocess.run([*command, str(folder / f"{number}.mp4")], check=True)
        times = np.concatenate([[0.0], np.cumsum([b - a for a, b in parts])])
        spans = {"intro": (times[len(recap) + 1], times[len(recap) + 2]), "outro": (times[-2], times[-1])}
        truth.append(spans | ({"recap": (0.0, times[len(recap)])} if recap else {}))
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
    parser.add_argument("video", type=Path)
    parser.add_argument("--seasons", type=int, default=4)
    arguments = parser.parse_args()
    length = float(subprocess.check_output(
        ["ffprobe", "-v", "error", "-show_entries", "format=duration", "-of", "csv=p=0", str(arguments.video)]
    ))  # fmt: skip
    counts = {kind: {"true": 0, "found": 0, "hits": 0, "errors": list[float]()} for kind in KINDS}
    for seed in range(arguments.seasons):
        with tempfile.TemporaryDirectory() as folder:
            truth = make_season(arguments.video, Path(folder), seed, length)
            repeats, _ = find_repeats([read(Path(folder) / f"{number}.mp4") for number in range(len(truth))])
        for true, found in zip(truth, repeats, strict=True):
            for kind, count in counts.items():
                count["true"] += kind in true
                count["found"] += kind in found
                if kind in true and kind in found:
                    (start, end), span = true[kind], found[kind]
                    overlap = min(end, span.end) - max(start, span.start)
                    if overlap > 0.5 * (max(end, span.end) - min(start, span.start)):
                        count["hits"] += 1
                        count["errors"] += [24 * abs(start - span.start), 24 * abs(end - span.end)]
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


if __name__ == "__main__":
    main()
