"""`bassl learn`: what a model of one's own gains over the built-in one, by the number of corrected videos.

    python benchmarks/learn.py FEATURES                  # a folder with bbc/*.npz, ovsd/*.npz and their color

The built-in model was fitted on both sets, so here the first model is fitted on the other set, with the recipe's parts
of videos and the penalty that its rule chose there (model card); in the mixed test on every other video of both. From
the remaining videos, random ones are learned from as `bassl learn` does, with their labels as the corrections, and the
rest are tested. AP and F1 are means over test videos; a video counts with its mean over the draws that test it.
Intervals are over bootstrap draws of test videos. Also F1 on the test videos' parts of 8 and 32 shots, as videos of
their own. Evidence is read from the folder in which `make default-model` stores it. Takes some minutes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from measure import features_line, save
from numpy.typing import NDArray

from pipelines.evaluation.metrics import average_precision
from pipelines.models.calibration import Calibration
from pipelines.models.networks.relational import LinearModel, relational_logits
from pipelines.outputs.tables import TextTable, markdown, percent
from pipelines.training.relational_fit import LabeledTokens, adapt_model
from recipes.default_model.fitting import Form, blind_logits, calibrate, cross_validate, fit, whole_form
from recipes.default_model.videos import read_videos

PENALTIES = {"bbc": 0.2, "ovsd": 0.1, "mixed": 0.5}  # of the first model, by the set that is learned from and tested
NUMBERS = (1, 2, 3, 4, 5, 8)
DRAWS = 20
RESAMPLES = 2000
PARTS = (8, 32)
METRICS = ("ap", "f1", *(f"f1 of {length} shots" for length in PARTS))


def f1(forms: Sequence[Form], model: LinearModel, offset: float) -> float:
    found = np.concatenate([relational_logits(model, form.tokens) >= offset for form in forms])
    true = np.concatenate([form.video.scene_end for form in forms])
    return float(2 * true[found].sum() / max(1, found.sum() + true.sum()))


def measures(form: Form, model: LinearModel, calibration: Calibration) -> list[float]:
    """`METRICS` of a model on one video."""
    ap = average_precision(form.video.scene_end, relational_logits(model, form.tokens))
    parts = [[part for part in form.parts if len(part.tokens) == length] for length in PARTS]
    return [ap, f1([form], model, calibration.offset), *(f1(some, model, calibration.offset) for some in parts)]


def first_model(forms: Sequence[Form], penalty: float) -> tuple[LinearModel, Calibration]:
    logits = blind_logits(cross_validate(forms, penalty), forms)
    return fit(forms, penalty), calibrate(logits, [form.video for form in forms])


def run_number(forms: Sequence[Form], start: LinearModel, calibration: Calibration, number: int) -> dict[str, Any]:
    """Figures of learning from so many of the videos."""
    before = np.array([measures(form, start, calibration) for form in forms])
    videos = [LabeledTokens(form.tokens, form.video.scene_end) for form in forms]
    after: list[list[list[float]]] = [[] for _ in forms]
    kept = 0
    for draw in range(DRAWS):
        order = np.random.default_rng((number, draw)).permutation(len(forms))
        own = adapt_model([videos[i] for i in order[:number]], start, calibration)
        kept += own.strength is None
        for i in order[number:]:
            after[i].append(measures(forms[i], own.network, own.calibration))
    tested = [i for i, values in enumerate(after) if values]
    means = np.array([np.mean(after[i], axis=0) for i in tested])
    drawn = np.random.default_rng(0).integers(0, len(tested), (RESAMPLES, len(tested)))
    gain: NDArray[np.float64] = np.round(means - before[tested], 9) + 0.0
    low, high = np.quantile(gain[drawn].mean(axis=1), (0.025, 0.975), axis=0)
    columns = zip(METRICS, before[tested].mean(axis=0), means.mean(axis=0), gain.mean(axis=0), low, high, strict=True)
    return {
        "built-in weights kept": kept / DRAWS,
        **{name: dict(zip(("before", "after", "gain", "low", "high"), row, strict=True)) for name, *row in columns},
    }


def main() -> None:
    options = features_line(__doc__).parse_args()
    forms = [whole_form(video, options.evidence) for video in read_videos(options.features)]
    sets = {name: [form for form in forms if form.video.video_id.startswith(f"{name}/")] for name in ("bbc", "ovsd")}
    tests = {
        "bbc": (sets["ovsd"], sets["bbc"]),
        "ovsd": (sets["bbc"], sets["ovsd"]),
        "mixed": (forms[::2], forms[1::2]),
    }
    results: dict[str, dict[str, Any]] = {}
    rows = []
    for name, (others, own) in tests.items():
        start, calibration = first_model(others, PENALTIES[name])
        results[name] = {}
        for number in (n for n in NUMBERS if n < len(own)):
            figures = results[name][str(number)] = run_number(own, start, calibration, number)
            cells = [
                f"{percent(of['before'])}; {percent(of['gain'])} [{percent(of['low'])}, {percent(of['high'])}]"
                for of in (figures[metric] for metric in METRICS)
            ]
            rows.append((f"{name}, {number}", *cells, percent(figures["built-in weights kept"])))
            print(rows[-1], flush=True)
    print(markdown(TextTable(("videos learned from", *METRICS, "built-in weights kept, %"), tuple(rows))))
    save("learn", results)


if __name__ == "__main__":
    main()
