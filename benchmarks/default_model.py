"""How good the built-in model is on films that its fit and its settings were not chosen on.

    python benchmarks/default_model.py FEATURES               # a folder with two sets, such as bbc/*.npz and ovsd/*.npz
    python benchmarks/default_model.py FEATURES --encoders    # also: generated films through EfficientNet-Lite0

The protocol. What the recipe leaves open, its penalty, is chosen by the rule that chooses the shipped model's
(`recipes.box_model.fitting.choose`), on the training videos alone: once for each direction between the sets,
and for each fold of a nested cross-validation over all videos. The operating point is fitted on the same training
videos' blind scores. The rule shows held-out videos perturbed, which is random: as many draws are averaged as the
recipe takes, and nothing else is left to chance, so there is one run. Intervals are of 1,000 draws of films. Beside it
stand the baselines without learning, with the reach that is best on the training side.

Genre: trained on everything but the animated films of OVSD, tested on these; and on the animated films alone, tested on
the others of OVSD. Encoders: films drawn by `pipelines.datasets.synthetic`, whose scenes are known, in the shipped
model's scores, and how many shots a second the encoder takes; of these films no model has learned.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measure import save

from pipelines.datasets.shot_features import ShotFeatures
from pipelines.evaluation.bootstrap import measure
from pipelines.evaluation.metrics import FilmScores, average_precision
from pipelines.models.calibration import calibrated
from pipelines.models.relational import load_scorer
from recipes.box_model.__main__ import DRAWS
from recipes.box_model.fitting import (
    AS_IT_IS,
    FOLDS,
    Forms,
    Logits,
    blind_logits,
    calibrate,
    choose,
    fit,
    folds,
    prepare,
)
from recipes.box_model.study import BASELINES, SIDES, set_of
from recipes.box_model.videos import read_videos

ANIMATED = {"ovsd/02", "ovsd/03", "ovsd/04", "ovsd/13"}
GENERATED = 4
NESTED = "nested cross-validation"


def ap(videos: Sequence[ShotFeatures], scores: Logits) -> float:
    return average_precision(np.concatenate([v.scene_end for v in videos]), np.concatenate(scores))


def learned(
    draws: Sequence[Sequence[Forms]], taught: Sequence[int], tested: Sequence[int]
) -> tuple[float, dict[int, FilmScores]]:
    """Choose, calibrate and fit on some videos; score others."""
    penalty, scorers = choose([[films[i] for i in taught] for films in draws])
    films = draws[0]
    known = [films[i][AS_IT_IS] for i in taught]
    calibration = calibrate(blind_logits(scorers, known), [form.video for form in known])
    scorer, found = fit(known, penalty), {}
    for i in tested:
        video, tokens = films[i][AS_IT_IS]
        scores = calibrated(scorer.token_logits(tokens), calibration)
        found[i] = FilmScores(video.scene_end, scores, video.shots, film=video.video_id)
    return penalty, found


def baselines(videos: Sequence[ShotFeatures], taught: Sequence[int], tested: Sequence[int]) -> dict[str, float]:
    """AP on the tested videos, with the reach that is best on the others."""
    result = {}
    for name, baseline in BASELINES.items():

        def on(group: Sequence[int], reach: int, baseline: Any = baseline) -> float:
            return ap([videos[i] for i in group], [baseline(videos[i], reach) for i in group])

        result[name] = on(tested, max(SIDES, key=lambda reach: on(taught, reach)))
    return result


def summary(found: Sequence[FilmScores]) -> dict[str, Any]:
    measures = measure(found)
    return {
        "ap": measures["ap"].pooled,
        "ap_interval": measures["ap"].interval,
        "film_ap": measures["ap"].films,
        "f1": measures["f1"].pooled,
        "f1_interval": measures["f1"].interval,
        "miou": measures["miou"].films,
        "miou_interval": measures["miou"].films_interval,
    }


def tests(videos: Sequence[ShotFeatures]) -> dict[str, tuple[list[int], list[int]]]:
    """Videos to learn from and to test on, by the name of the test."""
    names = [video.video_id for video in videos]
    everything = range(len(names))
    sets = sorted({set_of(video) for video in videos})
    result = {
        f"{a} to {b}": (
            [i for i in everything if set_of(videos[i]) == a],
            [i for i in everything if set_of(videos[i]) == b],
        )
        for a in sets
        for b in sets
        if a != b
    }
    animated = [i for i in everything if names[i] in ANIMATED]
    if animated:
        acted = [i for i in everything if names[i].split("/")[0] == "ovsd" and i not in animated]
        result["all others to animated"] = ([i for i in everything if i not in animated], animated)
        result["animated to acted"] = (animated, acted)
    return result


def run_features(folder: Path) -> dict[str, Any]:
    videos = read_videos(folder)
    return run_videos(videos, [prepare(videos, seed) for seed in range(DRAWS)])


def run_videos(videos: Sequence[ShotFeatures], draws: Sequence[Sequence[Forms]]) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for name, (taught, tested) in tests(videos).items():
        penalty, found = learned(draws, taught, tested)
        results[name] = summary(list(found.values())) | {"penalties": [penalty]}
        results[name]["baselines"] = baselines(videos, taught, tested)
        show(name, results[name])
    nested: dict[int, FilmScores] = {}
    penalties = []
    for held_out in folds(len(videos), FOLDS):
        penalty, found = learned(draws, [i for i in range(len(videos)) if i not in held_out], held_out)
        nested |= found
        penalties.append(penalty)
    results[NESTED] = summary([nested[i] for i in range(len(videos))]) | {"penalties": penalties}
    show(NESTED, results[NESTED])
    return results


def show(name: str, result: dict[str, Any]) -> None:
    def cell(key: str) -> str:
        interval = result.get(f"{key}_interval")
        drawn = f" [{100 * interval[0]:.1f}, {100 * interval[1]:.1f}]" if interval else ""
        return f"{100 * result[key]:.1f}{drawn}"

    plain = ", ".join(f"{100 * value:.1f}" for value in result.get("baselines", {}).values())
    chosen = ", ".join(f"{penalty:g}" for penalty in sorted(set(result["penalties"])))
    cells = " | ".join(cell(key) for key in ("ap", "film_ap", "f1", "miou"))
    print(f"| {name} | {chosen} | {cells} | {plain} |", flush=True)


def run_encoder() -> dict[str, Any]:
    """Generated films through the built-in encoder: AP of the shipped model, and of the baselines at their best."""
    from pipelines.datasets.synthetic import SyntheticFilmSettings, plan_film, render_keyframes
    from pipelines.models.encoders import encode_groups, load_encoder

    encoder = load_encoder("efficientnet_lite0", "cpu", keyframes=1)
    videos, seconds = [], 0.0
    for i in range(GENERATED):
        plan = plan_film(SyntheticFilmSettings(seed=900 + i, width=320, height=180, scenes=10))
        shots = list(render_keyframes(plan, per_shot=1))
        began = time.perf_counter()
        ((_, features, colour),) = encode_groups(encoder, [shots], lambda group: group, 1)
        seconds += time.perf_counter() - began
        scene = np.array(plan.scene_of_shot)
        ends = np.append(scene[1:] != scene[:-1], False).astype(np.uint8)
        ranges = np.array(plan.shot_ranges, dtype=np.int64)
        videos.append(ShotFeatures(f"generated/{i}", features, ranges, ends, colour, float(plan.frame_rate)))
    scorer = load_scorer()
    result = {
        "shots": sum(len(v.features) for v in videos),
        "scene_ends": int(sum(v.scene_end.sum() for v in videos)),
        "ap": ap(videos, [scorer.score(v.features, v.seconds, v.colour) for v in videos]),
        "shots_a_second": sum(len(v.features) for v in videos) / seconds,
        "baselines": {
            method: max(ap(videos, [baseline(v, reach) for v in videos]) for reach in SIDES)
            for method, baseline in BASELINES.items()
        },
    }
    print("generated films, efficientnet_lite0:", result, flush=True)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("features", type=Path, help="folder of labelled per-shot features, a folder a set")
    parser.add_argument(
        "--encoders", action="store_true", help="also test on generated films, through EfficientNet-Lite0"
    )
    options = parser.parse_args()
    torch.set_num_threads(1)
    print("| test | penalty | AP | AP, mean of films | F1 | mIoU | AP of " + ", ".join(BASELINES) + " |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    results = run_features(options.features)
    if options.encoders:
        results["generated films"] = run_encoder()
    save("default_model", results)


if __name__ == "__main__":
    main()
