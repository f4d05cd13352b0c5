"""One figure from video to scenes: AP and F1 of `bassl predict` with its defaults, and with `--detector adaptive`.

    python benchmarks/scenes.py big_buck_bunny_252p.mp4                        # this version
    python benchmarks/scenes.py big_buck_bunny_252p.mp4 --checkout FOLDER      # another one, such as a git worktree

Run it whenever the detector, the encoder or the model changes, and add a row to the history in docs/benchmarks.md.

- *Big Buck Bunny* with the labels of `big_buck_bunny_scenes.txt`, strict and fine. They are ends of shots of
  `adaptive`, which puts a fade up to 2.6 s elsewhere: a true end counts for the nearest shot end within 3 s. Intervals
  are over blocks of ten consecutive shots.
- 16 videos by `pipelines.datasets.synthetic`, each with eight scenes and three dissolves between them, generated once.
  Intervals are over videos, and so is the paired difference of both detectors.

A true end without a shot end within reach counts as missed, with the lowest score. No model was trained on these
videos. Takes about five minutes.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from measure import HOME, RESULTS, command_line, save

from pipelines.datasets import VideoAnnotation
from pipelines.datasets.sources import read_scenes_of_video
from pipelines.datasets.synthetic import SyntheticVideoSettings, truth_path, write_video
from pipelines.evaluation.alignment import align
from pipelines.evaluation.bootstrap import Measure, compare, measure
from pipelines.evaluation.metrics import VideoScores
from pipelines.outputs.tables import TextTable, markdown, percent

FIRST_SEED, GENERATED = 2000, 16
LABELS, LENGTH = Path(__file__).with_name("big_buck_bunny_scenes.txt"), 596.45  # seconds
LABEL_TOLERANCE, TOLERANCE = 3.0, 1.0  # seconds
BLOCK = 10
METRICS = ("ap", "f1")
OPTIONS: Mapping[str, Sequence[str]] = {"default": (), "adaptive": ("--detector", "adaptive")}


def generated_videos(folder: Path) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    videos = [folder / f"generated-{FIRST_SEED + i}.mp4" for i in range(GENERATED)]
    for i, video in enumerate(videos):
        if not truth_path(video).exists():
            print(f"generating {video.name}", flush=True)
            settings = SyntheticVideoSettings(seed=FIRST_SEED + i, scenes=8, width=320, height=180, dissolves=3)
            write_video(video, settings)
    return videos


def labeled_scenes(version: str) -> VideoAnnotation:
    """Return the scenes of Big Buck Bunny: strict or fine."""
    lines = [line.split(maxsplit=2) for line in LABELS.read_text().splitlines() if not line.startswith("#")]
    ends = [float(second) for second, kind, _ in lines if version in (kind, "fine")]
    return VideoAnnotation(
        version, LABELS, scenes_seconds=np.array(list(zip([0.0, *ends], [*ends, LENGTH], strict=True)))
    )


def predict(checkout: Path, video: Path, options: Sequence[str], output: Path) -> VideoAnnotation:
    output.parent.mkdir(parents=True, exist_ok=True)
    output.unlink(missing_ok=True)
    command = [sys.executable, "-m", "bassl_cli", "predict", video.absolute(), "--output", output.absolute(), *options]
    subprocess.run([*command, "--quiet"], check=True, cwd=checkout, env=os.environ | {"PYTHONPATH": str(checkout)})
    return read_scenes_of_video(output)


def blocks(video: VideoScores) -> list[VideoScores]:
    """Consecutive shots of a video as videos of their own, whose pooled measures equal the measures of the whole."""
    assert video.predicted is not None
    count = len(video.labels)
    parts = [slice(start, start + BLOCK) for start in range(0, count, BLOCK)]
    return [
        VideoScores(video.labels[part], video.scores[part], video.shots[part], predicted=video.predicted[part])
        for part in parts
    ]


def figures(measures: Mapping[str, Measure]) -> dict[str, Any]:
    return {name: (measures[name].pooled, *(measures[name].interval or ())) for name in METRICS}


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("video", type=Path, help="Big Buck Bunny, the copy with the times of the labels")
    parser.add_argument("--checkout", type=Path, default=HOME, help="run `bassl predict` of this folder")
    options = parser.parse_args()
    checkout = options.checkout.resolve()
    kept = RESULTS / "scenes"
    videos = generated_videos(kept)
    results: dict[str, dict[str, Any]] = {"Big Buck Bunny, strict": {}, "Big Buck Bunny, fine": {}, "generated": {}}
    scored: dict[str, list[VideoScores]] = {}
    for name, arguments in OPTIONS.items():
        scenes = predict(checkout, options.video, arguments, kept / name / "big_buck_bunny.json")
        for version in ("strict", "fine"):
            video = align(scenes, labeled_scenes(version), LABEL_TOLERANCE).video
            results[f"Big Buck Bunny, {version}"][name] = figures(measure(blocks(video)))
        scored[name] = [
            align(
                predict(checkout, video, arguments, kept / name / f"{video.stem}.json"),
                read_scenes_of_video(truth_path(video)),
                TOLERANCE,
            ).video
            for video in videos
        ]
        results["generated"][name] = figures(measure(scored[name]))
        print(name, {videos: of[name] for videos, of in results.items()}, flush=True)
    results["generated"]["default less adaptive"] = figures(compare(scored["default"], scored["adaptive"]))
    rows = [
        (
            f"{videos}, {name}",
            *(f"{percent(value)} [{percent(low)}, {percent(high)}]" for value, low, high in of.values()),
        )
        for videos, detectors in results.items()
        for name, of in detectors.items()
    ]
    print(markdown(TextTable(("", "AP", "F1"), tuple(rows))))
    save("scenes", {"checkout": str(checkout), **results})


if __name__ == "__main__":
    main()
