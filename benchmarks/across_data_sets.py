"""Networks trained on one data set and tested on another, and by cross-validation within each.

    python benchmarks/across_data_sets.py FEATURES

``FEATURES`` has one folder per data set, with one ``.npz`` of labeled features per video (``data/README.md``).
Each network is trained from scratch with five seeds: on one set and tested on the other, and within each set leaving
out one video at a time (or ``--folds`` by video). Everything goes through ``bassl finetune``, one run folder each, and
scores are read back from its model files. Finished runs are kept under ``results/`` by their settings and the path of
the features, so that an interrupted table continues; delete them when features or code change.
docs/across-data-sets.md has the settings and how the learning rate is chosen.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import measure
import numpy as np
from numpy.typing import NDArray

from pipelines.datasets.shot_features import ShotFeatures, read_shot_feature_folder
from pipelines.options import with_options
from pipelines.outputs import tables
from pipelines.outputs.tables import TextTable, percent_with_deviation
from pipelines.stages.score import SeedSpread

RATES = (3e-4, 1e-3, 3e-3)
NETWORKS: Mapping[str, Mapping[str, Any]] = {
    "transformer": {"width": 64, "layers": 2, "heads": 8, "epochs": 8, "batch": 128},
    "mlp": {"width": 128, "epochs": 10, "batch": 128},
    "ms-lstm": {"width": 32, "epochs": 10, "batch": 128},
    "relational": {},  # as it is: its recipe is for sets of this size
}
COLUMNS = {"ap": "AP", "auc": "AUC", "f1": "F1", "miou": "mIoU"}
COLUMNS |= {f"{name}_calibrated": f"{COLUMNS[name]} calibrated" for name in ("f1", "miou")}


@dataclass(frozen=True)
class Job:
    """One fine-tuning: the videos of each split, the network, its learning rate and its seeds."""

    train: tuple[str, ...]
    val: tuple[str, ...]
    test: tuple[str, ...]
    crn: str
    rate: float | None
    seeds: int


Said = dict[str, list[tuple[NDArray[np.float64], NDArray[np.float64]]]]
"""Of each test video, for each seed: plain softmax scores, and calibrated ones."""


def run(job: Job, features: str, folder: str) -> tuple[float, Said, float]:
    """Return the result of `trained`, from its file if it is there."""
    what = json.dumps([asdict(job), NETWORKS[job.crn], features], sort_keys=True)
    kept = measure.RESULTS / "across_data_sets" / f"{job.crn}-{hashlib.sha256(what.encode()).hexdigest()[:16]}.npz"
    if not kept.exists():
        ap, said, seconds = trained(job, features, folder)
        kept.parent.mkdir(parents=True, exist_ok=True)
        arrays = {f"{video}|{i}": np.stack(pair) for video, pairs in said.items() for i, pair in enumerate(pairs)}
        partial = kept.with_suffix(f".{os.getpid()}.npz")
        np.savez(partial, validation=np.array([ap, seconds]), **arrays)  # type: ignore[arg-type]
        partial.rename(kept)
    with np.load(kept) as file:
        ap, seconds = file["validation"].tolist()
        said = {
            video: [(file[f"{video}|{i}"][0], file[f"{video}|{i}"][1]) for i in range(job.seeds)] for video in job.test
        }
    return ap, said, seconds


def trained(job: Job, features: str, folder: str) -> tuple[float, Said, float]:
    """Fine-tune in this process; the validation AP of the first seed, scores of the test videos, and seconds."""
    import torch

    from pipelines.models.calibration import Calibration, apply_calibration
    from pipelines.models.opening import open_model
    from pipelines.stages.finetune import FinetuneSettings, finetune
    from pipelines.stores.features import write_features
    from pipelines.stores.index import IndexedVideo, joined, save_index
    from pipelines.training.run_folder import seed_file

    torch.set_num_threads(1)
    begun = time.perf_counter()
    videos = {video.video_id: video for video in read_shot_feature_folder(Path(features))}
    with tempfile.TemporaryDirectory(dir=folder) as name:
        home = Path(name)
        split = {video: kind for kind in ("train", "val") for video in getattr(job, kind)}
        for video in split:
            write_features(home / "features", "vgg19", video, videos[video].features)
        indexed = [
            IndexedVideo(
                video,
                video,
                videos[video].shots,
                np.full((len(videos[video].shots), 2), np.nan),
                videos[video].scene_end.astype(np.int8),
                kind,
            )
            for video, kind in split.items()
        ]
        save_index(joined(home / "index.h5", indexed, {}))
        settings = with_options(
            FinetuneSettings,
            index=home / "index.h5",
            features=(home / "features",),
            output=home / "run",
            init="none",
            crn=job.crn,  # type: ignore[arg-type]
            rate=job.rate,
            seeds=job.seeds,
            device="cpu",
            **NETWORKS[job.crn],
        )
        result = finetune(settings)
        said: Said = {video: [] for video in job.test}
        for seed in range(job.seeds):
            model = open_model(home / "run" / seed_file(seed)).boundary_model()
            for video in job.test:
                shown = videos[video]
                logits = model.logits(shown.features, shown.seconds)
                said[video].append(
                    (apply_calibration(logits, Calibration()), apply_calibration(logits, model.calibration))
                )
    return result.mean["ap"], said, time.perf_counter() - begun


def halves(videos: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Videos for training, and every fourth for validation; of fewer than four the last one."""
    chosen_on = tuple(videos[3::4]) or tuple(videos[-1:])
    return tuple(video for video in videos if video not in chosen_on), chosen_on


def judged(videos: Mapping[str, ShotFeatures], said: Said, seeds: int) -> dict[str, list[float]]:
    """Metrics of each seed over all videos; F1 and mIoU at softmax 0.5, and at the calibrated operating point."""
    from pipelines.evaluation.bootstrap import evaluate
    from pipelines.evaluation.metrics import VideoScores

    table: dict[str, list[float]] = {name: [] for name in COLUMNS}
    for seed in range(seeds):
        plain, calibrated = (
            evaluate(
                [VideoScores(videos[name].scene_end, of[seed][which], videos[name].shots) for name, of in said.items()]
            )
            for which in (0, 1)
        )
        found = plain | {f"{name}_calibrated": calibrated[name] for name in ("f1", "miou")}
        for name, values in table.items():
            values.append(found[name])
    return table


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the table, in percent, mean and standard deviation over seeds."""
    names = ("trained on", "tested on", "network")
    lines = []
    for row in rows:
        spreads = [SeedSpread(dict(enumerate(row["measures"][name]))) for name in COLUMNS]
        cells = (percent_with_deviation(one.mean, one.deviation) for one in spreads)
        lines.append((*(row[name] for name in names), *cells))
    return tables.markdown(TextTable((*names, *COLUMNS.values()), tuple(lines)))


def main() -> None:
    parser = measure.command_line(__doc__)
    parser.add_argument("features", type=Path)
    parser.add_argument("--folds", type=int, default=0, help="within each set; 0 leaves one video out at a time")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--networks", default=",".join(NETWORKS))
    arguments = parser.parse_args()
    begun = time.perf_counter()
    networks = [name for name in NETWORKS if name in arguments.networks.split(",")]
    videos = {video.video_id: video for video in read_shot_feature_folder(arguments.features)}
    sets: dict[str, list[str]] = {}
    for name in videos:
        sets.setdefault(name.split("/")[0], []).append(name)
    if len(sets) != 2:
        parser.error(f"{arguments.features} must hold two sets, not {len(sets)}")
    for one, names in sets.items():
        if len(names) - len(names[:: arguments.folds or len(names)]) < 2:
            parser.error(f"{one} has {len(names)} videos; a fold needs two beside those that it leaves out")
    os.environ["OMP_NUM_THREADS"] = "1"
    with (
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(arguments.processes, multiprocessing.get_context("spawn")) as pool,
    ):

        def start(job: Job) -> Any:
            return pool.submit(run, job, str(arguments.features), folder)

        trials = {
            (trained_on, crn, rate): start(Job(*halves(sets[trained_on]), (), crn, rate, 1))
            for trained_on in sets
            for crn in networks
            if crn != "relational"
            for rate in RATES
        }
        tried = {key: trial.result()[0] for key, trial in trials.items()}
        best: dict[tuple[str, str], float | None] = {
            (trained_on, crn): None
            if crn == "relational"
            else max(RATES, key=lambda rate, at=(trained_on, crn): tried[(*at, rate)])  # type: ignore[misc]
            for trained_on in sets
            for crn in networks
        }
        for (trained_on, crn), rate in best.items():
            print(f"rate of {crn} from {trained_on}: {rate}", flush=True)
        jobs: dict[tuple[str, str, str], list[Any]] = {}
        for trained_on, tested_on in (tuple(sets), tuple(sets)[::-1]):
            for crn in networks:
                rate = best[trained_on, crn]
                job = Job(*halves(sets[trained_on]), tuple(sets[tested_on]), crn, rate, arguments.seeds)
                jobs[trained_on, tested_on, crn] = [start(job)]
        for one, other in (tuple(sets), tuple(sets)[::-1]):
            names, count = sets[one], arguments.folds or len(sets[one])
            for crn in networks:
                for fold in range(count):
                    rest = [name for i, name in enumerate(names) if i % count != fold]
                    job = Job(*halves(rest), tuple(names[fold::count]), crn, best[other, crn], arguments.seeds)
                    jobs.setdefault((one, one, crn), []).append(start(job))
        rows = []
        for (trained_on, tested_on, crn), parts in jobs.items():
            said: Said = {}
            for part in parts:
                said |= part.result()[1]
            how = "" if trained_on != tested_on else f" ({len(parts)} folds)"
            rows.append(
                {
                    "trained on": trained_on + how,
                    "tested on": tested_on,
                    "network": crn,
                    "measures": judged(videos, said, arguments.seeds),
                    "seconds": sum(part.result()[2] for part in parts),
                }
            )
            print(f"{trained_on} to {tested_on}, {crn}: AP {100 * np.mean(rows[-1]['measures']['ap']):.1f}", flush=True)
    print()
    print(markdown(rows))
    measure.save(
        "across_data_sets",
        {
            "networks": {name: dict(NETWORKS[name]) for name in networks},
            "rates": {f"{crn} from {trained_on}": rate for (trained_on, crn), rate in best.items()},
            "validation AP of each rate": {" ".join(map(str, key)): value for key, value in tried.items()},
            "rows": rows,
            "seconds": time.perf_counter() - begun,
        },
    )
    (measure.RESULTS / "across_data_sets.md").write_text(markdown(rows))
    print(f"\n{(time.perf_counter() - begun) / 60:.1f} minutes")


if __name__ == "__main__":
    main()
