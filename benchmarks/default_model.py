"""The built-in model on films of another kind than those it was learned from, and through the built-in encoder.

    python benchmarks/default_model.py FEATURES                       # a folder with ovsd/*.npz and other sets
    python benchmarks/default_model.py FEATURES --encoder [--film big_buck_bunny_252p.mp4]

What `make default-model` writes into the model card is not measured again here: from one set to the other, nested
cross-validation, baselines. Genre, by the same protocol: trained on everything but the animated films of OVSD, tested
on these; and on the animated films alone, tested on the others of OVSD. Evidence is read from the folder in which
`make default-model` keeps it.

Encoder: the shipped model through EfficientNet-Lite0, on films drawn by `pipelines.datasets.synthetic`, whose scenes
are known, and on *Big Buck Bunny* with the labels of `big_buck_bunny_scenes.txt`; with and without colour, beside the
baselines at their best reach. Of these films no model has learned.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from encoders import Film, planned_film, real_film
from measure import command_line, save

from pipelines.datasets.shot_features import ShotFeatures
from pipelines.datasets.synthetic import SyntheticFilmSettings, plan_film, render_keyframes
from pipelines.evaluation.bootstrap import flatten, measure
from pipelines.evaluation.metrics import FilmScores, average_precision
from pipelines.models.encoders import KEYFRAMES, encode_groups, load_encoder
from pipelines.models.opening import open_model
from recipes.default_model.fitting import DRAWS, Logits, prepare
from recipes.default_model.study import BASELINES, SIDES, learn_and_test
from recipes.default_model.videos import read_videos

ANIMATED = {"ovsd/02", "ovsd/03", "ovsd/04", "ovsd/13"}
GENERATED = 4


def ap(videos: Sequence[ShotFeatures], scores: Logits) -> float:
    return average_precision(np.concatenate([v.scene_end for v in videos]), np.concatenate(scores))


def summary(found: Sequence[FilmScores]) -> dict[str, Any]:
    measures = flatten(measure(found))
    return {name: measures[name] for name in ("ap", "f1", "miou")}


def run_genres(folder: Path, evidence: Path) -> dict[str, Any]:
    videos = read_videos(folder)
    draws = prepare(videos, DRAWS, lambda line: print(line, flush=True), evidence)
    animated = [i for i, video in enumerate(videos) if video.video_id in ANIMATED]
    others = [i for i in range(len(videos)) if i not in animated]
    acted = [i for i in others if videos[i].video_id.startswith("ovsd/")]
    results = {}
    pairs = (("all others to animated", others, animated), ("animated to acted", animated, acted))
    for name, trained_on, tested_on in pairs:
        test = learn_and_test(draws, trained_on, tested_on)
        results[name] = summary(test.films) | {"penalty": test.penalties[0]}
        print(name, results[name], flush=True)
    return results


def run_films(films: Sequence[Film], keyframes: int) -> dict[str, Any]:
    """AP of the shipped model through the built-in encoder, with colour and without, by version of the labels."""
    encoder = load_encoder("efficientnet_lite0", "cpu", keyframes=keyframes)
    model = open_model().boundary_model()
    encoded = [next(encode_groups(encoder, [film.pictures()], lambda group: group, 1)) for film in films]
    results = {}
    for version in films[0].ends:
        videos = [
            ShotFeatures(film.name, features, film.shots, film.ends[version], colour, film.rate)
            for film, (_, features, colour) in zip(films, encoded, strict=True)
        ]
        grey = [replace(video, colour=None) for video in videos]
        results[version] = {
            "shots": sum(len(v.features) for v in videos),
            "scene_ends": int(sum(v.scene_end.sum() for v in videos)),
            **{
                name: ap(group, [model.score(v.features, v.seconds, v.colour) for v in group])
                for name, group in (("ap", videos), ("ap without colour", grey))
            },
            "baselines": {
                method: max(ap(videos, [baseline(v, reach) for v in videos]) for reach in SIDES)
                for method, baseline in BASELINES.items()
            },
        }
        print(films[0].name, version, results[version], flush=True)
    return results


def generated_film(seed: int) -> Film:
    plan = plan_film(SyntheticFilmSettings(seed=seed, width=320, height=180, scenes=10))
    return planned_film(f"generated-{seed}", plan, lambda: list(render_keyframes(plan, 1)))


def main() -> None:
    parser = command_line(__doc__)
    parser.add_argument("features", type=Path, nargs="?", help="folder of labelled per-shot features, a folder a set")
    parser.add_argument("--evidence", type=Path, default=Path("data/evidence"), help="folder that keeps evidence")
    parser.add_argument("--encoder", action="store_true", help="test on generated films, through EfficientNet-Lite0")
    parser.add_argument("--film", type=Path, help="and on this copy of Big Buck Bunny")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = {} if options.features is None else run_genres(options.features, options.evidence)
    if options.encoder:
        results["generated films"] = run_films([generated_film(900 + i) for i in range(GENERATED)], 1)
    if options.film is not None:
        results["Big Buck Bunny"] = run_films([real_film(options.film)], KEYFRAMES)
    save("default_model", results)


if __name__ == "__main__":
    main()
