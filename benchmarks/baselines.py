"""The classical systems on real features, beside chance and scenes of fixed length; and their time for 3,000 shots.

    python benchmarks/baselines.py FEATURES            # a folder with two sets, such as bbc/*.npz and ovsd/*.npz
    python benchmarks/baselines.py --speed             # a generated video, no input
    python benchmarks/baselines.py FEATURES --systems graph-cut,dp

Of each system's few candidate settings, the one with the greatest sum of AP, F1 and mIoU on the other set is taken, so
no setting is chosen by the labels of the set it is tested on. Networks are trained on the other set too. The files have
frames and no frame rate; 25 frames per second is assumed.

AP is pooled over all shots of a set, from the scores; F1 and mIoU are from the scenes; "AP of ends" is the AP of the
scenes alone, every shot scored 1 or 0. Chance ends a scene with each shot with the probability that shots of the other
set do (mean of 20 draws); scenes of fixed length have the mean length of the scenes in the other set.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measure import command_line, save
from numpy.typing import NDArray

from pipelines.baselines import SYSTEMS, Labeled, Segmentation
from pipelines.datasets.sources import ShotFeatures, read_shot_feature_folder
from pipelines.evaluation.bootstrap import evaluate
from pipelines.evaluation.metrics import VideoScores, average_precision
from pipelines.evaluation.paper_tables import TABLES
from pipelines.options import with_options
from pipelines.stages.baseline import BaselineVideo, choose
from pipelines.stages.reproduce import ROWS
from recipes.default_model.study import by_set

FRAME_RATE = 25.0
NAMES = [name for name, system in SYSTEMS.items() if system.candidates]
Figures = dict[str, float]


def judge(videos: Sequence[ShotFeatures], found: Sequence[Segmentation]) -> Figures:
    scored = [
        VideoScores(video.scene_end, one.score, video.shots, predicted=one.labels == 1)
        for video, one in zip(videos, found, strict=True)
    ]
    ends = np.concatenate([one.labels for one in found])
    of_ends = average_precision(np.concatenate([video.scene_end for video in videos]), ends)
    return {**evaluate(scored), "ap_of_ends": of_ends, "scenes": float(ends.sum() + len(videos))}


def run(name: str, settings: Any, videos: Sequence[ShotFeatures]) -> list[Segmentation]:
    return [SYSTEMS[name].segment([video.features], video.shots / FRAME_RATE, settings) for video in videos]


def chosen(name: str, videos: Sequence[ShotFeatures]) -> Any:
    """Return the best candidate on some videos; if the system has a network, it is trained on them."""
    system = SYSTEMS[name]
    baseline_videos = [
        BaselineVideo((v.features,), VideoScores(v.scene_end, np.zeros(len(v.shots)), v.shots, v.shots / FRAME_RATE))
        for v in videos
    ]
    labeled = [Labeled((video.features,), video.scene_end) for video in videos]
    return with_options(system.default_settings(labeled), **choose(system, baseline_videos))


def chance(videos: Sequence[ShotFeatures], rate: float) -> Figures:
    rng = np.random.default_rng(0)

    def drawn(video: ShotFeatures) -> Segmentation:
        score = np.append(rng.uniform(size=len(video.shots) - 1), 1.0)
        return Segmentation(np.flatnonzero(score < rate), -score)

    draws = [judge(videos, [drawn(video) for video in videos]) for _ in range(20)]
    return {key: float(np.mean([draw[key] for draw in draws])) for key in draws[0]}


def shown(settings: Any, name: str) -> dict[str, Any]:
    return {key: getattr(settings, key) for key in SYSTEMS[name].candidates}


def measure_sets(sets: dict[str, list[ShotFeatures]], names: Sequence[str]) -> dict[str, Any]:
    """Figures of each row on each set."""
    (one, other) = sets
    foreign = {one: sets[other], other: sets[one]}
    rows: dict[str, Any] = {"chance": {}, "fixed-length": {}} | {name: {} for name in names}
    for tested, videos in sets.items():
        training_videos = foreign[tested]
        rate = np.concatenate([video.scene_end for video in training_videos]).mean()
        seconds = sum(float(v.shots[-1, 1] - v.shots[0, 0]) for v in training_videos) / FRAME_RATE
        length = seconds / sum(int(v.scene_end.sum()) + 1 for v in training_videos)
        rows["chance"][tested] = chance(videos, float(rate)) | {"settings": {"rate": round(float(rate), 3)}}
        fixed = SYSTEMS["fixed-length"].settings(seconds=length)
        figures = judge(videos, run("fixed-length", fixed, videos))
        rows["fixed-length"][tested] = figures | {"settings": {"seconds": round(length, 1)}}
    for name in names:
        for tested, videos in sets.items():
            settings = chosen(name, foreign[tested])
            rows[name][tested] = judge(videos, run(name, settings, videos)) | {"settings": shown(settings, name)}
        print_row(name, rows[name], sets)
    return rows


def print_row(name: str, row: dict[str, Any], sets: dict[str, list[ShotFeatures]]) -> None:
    labels = {row.cells["AP"][0].baseline: row.label for row in ROWS["table1"]}
    paper = TABLES["table1"].rows.get(labels.get(name, ""), {})
    numbers = [paper.get(column) for column in ("AP", "mIoU")]
    published = " ".join(f"{number.mean:5.1f}" if number else "    -" for number in numbers)
    cells = []
    for tested in sets:
        f = row[tested]
        cells.append(" ".join(f"{100 * f[key]:6.1f}" for key in ("ap", "video_ap", "f1", "miou", "ap_of_ends")))
    chosen = "; ".join(" ".join(f"{k}={v}" for k, v in row[tested]["settings"].items()) for tested in sets)
    print(f"{name:12} | {' | '.join(cells)} | {published} | {chosen}", flush=True)


def made_up(shots: int, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return a video of scenes of about twelve shots, from a few cameras each."""
    rng = np.random.default_rng(seed)
    scene = np.cumsum(rng.random(shots) < 1 / 12)
    camera = 3 * scene + rng.integers(0, 3, shots)
    features = rng.normal(size=(camera.max() + 1, 512))[camera] + rng.normal(size=(scene.max() + 1, 512))[scene]
    ends = np.cumsum(rng.uniform(1, 8, shots))
    noisy = (features + rng.normal(size=features.shape)).astype(np.float32)
    return noisy, np.stack([np.concatenate([[0.0], ends[:-1]]), ends], axis=1)


def measure_speed(shots: int, names: Sequence[str]) -> dict[str, Any]:
    features, times = made_up(shots)
    short, _ = made_up(400, seed=1)
    figures: dict[str, Any] = {}
    print(
        f"\n{shots} shots of 512 features, {torch.get_num_threads()} thread(s)\n{'':12}  {'seconds':>8} {'scenes':>7}"
    )
    for name in names:
        settings = SYSTEMS[name].default_settings([Labeled((short,), (np.arange(400) % 12 == 11).astype(np.uint8))])
        start = time.perf_counter()
        found = SYSTEMS[name].segment([features], times, settings)
        figures[name] = {"seconds": time.perf_counter() - start, "scenes": len(found.ends) + 1}
        print(f"{name:12}  {figures[name]['seconds']:8.2f} {figures[name]['scenes']:7}", flush=True)
    return figures


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("features", type=Path, nargs="?", help="folder of two sets of labeled features")
    parser.add_argument("--speed", action="store_true", help="time each system on a made-up video")
    parser.add_argument("--shots", type=int, default=3000, help="of the made-up video")
    parser.add_argument("--systems", default=",".join(NAMES), help="comma-separated (default: %(default)s)")
    arguments = parser.parse_args()
    names = arguments.systems.split(",")
    if arguments.features is None and not arguments.speed:
        parser.error("give a folder of features, or --speed")
    if arguments.features is not None:
        sets = by_set(read_shot_feature_folder(arguments.features))
        if len(sets) != 2:
            parser.error(f"{arguments.features} must hold two sets, one folder each, not {', '.join(sets) or 'none'}")
        head = " ".join(f"{key:>6}" for key in ("AP", "video", "F1", "mIoU", "ends"))
        print(f"{'in percent':12} | " + " | ".join(f"{name:^34}" for name in sets) + " | Table 1     | settings")
        print(f"{'':12} | {head} | {head} |    AP  mIoU |")
        rows = measure_sets(sets, names)
        for name in ("chance", "fixed-length"):
            print_row(name, rows[name], sets)
        counts = {name: len(videos) for name, videos in sets.items()}
        candidates = {name: SYSTEMS[name].candidates for name in names}
        date = time.strftime("%Y-%m-%d")
        save("baselines", {"date": date, "videos": counts, "rows": rows, "candidates": candidates})
    if arguments.speed:
        save("baselines_speed", {"shots": arguments.shots, "systems": measure_speed(arguments.shots, names)})


if __name__ == "__main__":
    main()
