"""Review of scene ends by a person, simulated: F1 after a number of looks, by where the person looks next.

    python benchmarks/review.py FEATURES                  # a folder with bbc/*.npz, ovsd/*.npz and their color

At each look the annotators' labels answer whether a scene ends at the cuts between eight consecutive shots. The scores
are from the built-in model's recipe, fitted on one set and tested on the other, with the penalty that its rule chose
there (model card); and in nested cross-validation over all videos. The means of the review's prior are fitted to the
cross-validated scores of the training videos too; its deviations are the shipped ones.

- time: from the beginning on
- entropy: the window with the most entropy left, with the scores as probabilities
- entropy, fitted: the same after Platt's slope and offset are fitted to the answers, with a prior at the scores
- review: as the page and `SceneList.next_look` do it; and with one thing changed. "Two looks of four" shows as many
  keyframes as one of eight, and asks about one cut less.

F1 is a mean over videos, with 95 % intervals by bootstrap over videos; below it the expected F1, as the page shows it,
also ten looks before; and differences. Last, a person who stops when the expected F1 is 90 %: the looks, and the F1
then. Evidence is read from the folder in which `make default-model` stores it. Takes half a minute, and about five
minutes without evidence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from measure import features_line, save
from numpy.typing import NDArray

from pipelines.models.calibration import apply_calibration
from pipelines.models.networks.relational import relational_logits
from pipelines.models.scenes.review import (
    Prior,
    best_expected_f1,
    cut_probabilities,
    expected_f1,
    fit_platt,
    next_window,
)
from pipelines.models.scenes.scene_ends import logit
from pipelines.outputs.tables import TextTable, markdown, percent
from recipes.default_model.fitting import FOLDS, Form, blind_logits, calibrate, cross_validate, fit, folds, whole_form
from recipes.default_model.videos import read_videos

Numbers = NDArray[np.float64]
Answers = Mapping[int, bool]

PENALTIES = {"bbc": 0.1, "ovsd": 0.2, "nested": (0.2, 0.5, 0.2, 0.5, 0.2)}  # by the set fitted on, or fold tested
WINDOW = 8
LOOKS = 40
SHOWN = (0, 5, 10, 20, 30, 40)
RESAMPLES = 2000
UNFITTED = Prior(slope=1.0, offset=0.0, slope_deviation=0.3, offset_deviation=1.0)
FLAT = Prior(slope=1.0, offset=0.0, slope_deviation=1e3, offset_deviation=1e3)


class Scored(NamedTuple):
    """A test video."""

    log_odds: Numbers  # (N - 1,) of the scores of its cuts
    truth: NDArray[np.bool_]  # (N - 1,)
    prior: Prior


class State(NamedTuple):
    """What a method makes of scores and answers."""

    probabilities: Numbers
    ends: NDArray[np.bool_]
    window: tuple[int, int] | None


Method = Callable[[Scored, Answers], State]


def most_of(values: Numbers, answers: Answers) -> tuple[int, int] | None:
    """Return the window with the greatest sum of values of cuts that are not answered."""
    left = values.copy()
    left[list(answers)] = 0
    cuts = min(WINDOW - 1, len(left))
    start = int(np.convolve(left, np.ones(cuts), "valid").argmax())
    return (start, start + cuts + 1) if len(answers) < len(left) else None


def entropy(p: Numbers) -> Numbers:
    p = np.clip(p, 1e-9, 1 - 1e-9)
    return np.asarray(-(p * np.log(p) + (1 - p) * np.log(1 - p)))


def in_time(video: Scored, answers: Answers) -> State:
    p = cut_probabilities(video.log_odds, answers, fit_platt(video.log_odds, {}, UNFITTED))
    window = (len(answers), min(len(answers) + WINDOW, len(p) + 1)) if len(answers) < len(p) else None
    return State(p, p >= 0.5, window)


def by_entropy(video: Scored, answers: Answers, fitted: bool) -> State:
    p = cut_probabilities(video.log_odds, answers, fit_platt(video.log_odds, answers if fitted else {}, UNFITTED))
    return State(p, p >= 0.5, most_of(entropy(p), answers))


def reviewed(video: Scored, answers: Answers, shots: int = WINDOW, fitted: bool = True, gain: bool = True) -> State:
    """As `pipelines.models.scenes.review.review`; before the first look the scores alone decide."""
    platt = fit_platt(video.log_odds, answers if fitted else {}, video.prior)
    p = cut_probabilities(video.log_odds, answers, platt)
    least = best_expected_f1(p)[1]
    window = next_window(p, answers, least, shots) if gain else most_of(entropy(p), answers)
    return State(p, p >= least if answers else video.log_odds >= 0, window)


METHODS: dict[str, Method] = {
    "time": in_time,
    "entropy": partial(by_entropy, fitted=False),
    "entropy, fitted": partial(by_entropy, fitted=True),
    "review": reviewed,
    "review, by entropy": partial(reviewed, gain=False),
    "review, not fitted": partial(reviewed, fitted=False),
    "review, two looks of four": partial(reviewed, shots=4),
}
COMPARED = ("time", "entropy, fitted", "review, by entropy", "review, not fitted", "review, two looks of four")


def true_f1(truth: NDArray[np.bool_], ends: NDArray[np.bool_]) -> float:
    return float(2 * (truth & ends).sum() / max(1, truth.sum() + ends.sum()))


def expected_later(p: Numbers, answers: Answers, looks: int) -> float:
    """Return the F1 that is expected after more looks of the review, as the page's ``expectedAfter``."""
    least, answered = best_expected_f1(p)[1], dict(answers)
    for _ in range(looks):
        if window := next_window(p, answered, least, WINDOW):
            answered |= dict.fromkeys(range(window[0], window[1] - 1), True)
    others = np.delete(p, list(answered))
    hits = p[list(answered)].sum() + np.cumsum([0.0, *np.sort(others)[::-1]])
    chosen = hits[0] + np.arange(len(hits))
    return float((2 * hits / np.maximum(chosen + p.sum(), 1e-9)).max())


def forecasts(video: Scored, more: int = 10) -> dict[int, float]:
    """By the looks before, the F1 that the page expects after so many more looks."""
    answers: dict[int, bool] = {}
    expected = {}
    for look in range(max(SHOWN) - more + 1):
        state = reviewed(video, answers)
        if look in SHOWN:
            expected[look + more] = expected_later(state.probabilities, answers, more)
        if state.window is not None:
            answers |= {cut: bool(video.truth[cut]) for cut in range(state.window[0], state.window[1] - 1)}
    return expected


def simulate(video: Scored, method: Method, looks: int) -> tuple[list[float], list[float]]:
    """F1 and expected F1 after 0 to so many looks."""
    answers: dict[int, bool] = {}
    f1, expected = [], []
    for _ in range(looks + 1):
        state = method(video, answers)
        f1.append(true_f1(video.truth, state.ends))
        expected.append(expected_f1(state.probabilities, state.ends))
        if state.window is not None:
            start, stop = state.window
            answers |= {cut: bool(video.truth[cut]) for cut in range(start, stop - 1)}
    return f1, expected


def scored(trained_on: Sequence[Form], tested_on: Sequence[Form], penalty: float) -> list[Scored]:
    """Test videos with the scores and the prior that are fitted on others."""
    logits = blind_logits(cross_validate(trained_on, penalty), trained_on)
    calibration = calibrate(logits, [form.video for form in trained_on])
    own = [logit(apply_calibration(values, calibration))[:-1] for values in logits]
    labels = [form.video.scene_end[:-1] for form in trained_on]
    platt = fit_platt(np.concatenate(own), dict(enumerate(np.concatenate(labels).tolist())), FLAT)
    model = fit(trained_on, penalty)
    return [
        Scored(
            logit(apply_calibration(relational_logits(model, form.tokens), calibration))[:-1],
            form.video.scene_end[:-1] == 1,
            Prior(platt.slope, platt.offset),
        )
        for form in tested_on
    ]


def interval(values: Numbers) -> list[float]:
    """Mean over videos, (V,), with its interval."""
    drawn = np.random.default_rng(0).integers(0, len(values), (RESAMPLES, len(values)))
    return [float(values.mean()), *np.quantile(values[drawn].mean(axis=1), (0.025, 0.975)).tolist()]


def run_test(videos: Sequence[Scored]) -> dict[str, Any]:
    """Figures of all methods, by the number of looks."""
    results: dict[str, Any] = {}
    f1: dict[str, Numbers] = {}
    for name, method in METHODS.items():
        every = 2 if "two looks" in name else 1
        runs = np.array([simulate(video, method, LOOKS * every) for video in videos])[:, :, ::every]
        f1[name], expected = runs[:, 0], runs[:, 1]
        results[name] = {"f1": {str(k): interval(f1[name][:, k]) for k in SHOWN}}
        if name == "review":
            results[name]["expected f1"] = {str(k): interval(expected[:, k]) for k in SHOWN}
            ahead = [forecasts(video) for video in videos]
            results[name]["expected ten looks before"] = {
                str(k): interval(np.array([of[k] for of in ahead])) for k in SHOWN if k in ahead[0]
            }
            stop = [int(np.argmax(np.append(values, 1.0) >= 0.9)) for values in expected]
            at_stop = np.array([values[min(k, LOOKS)] for values, k in zip(f1[name], stop, strict=True)])
            results["stop at 90 %"] = {
                "looks": interval(np.array(stop, float)),
                "f1": interval(at_stop),
                "lowest f1": float(at_stop.min()),
            }
    for name in METHODS:
        results[name]["review minus this"] = {str(k): interval(f1["review"][:, k] - f1[name][:, k]) for k in SHOWN}
    return results


def shown(of: Sequence[float]) -> str:
    return f"{percent(of[0])} [{percent(of[1])}, {percent(of[2])}]"


def main() -> None:
    options = features_line(__doc__).parse_args()
    forms = [whole_form(video, options.evidence) for video in read_videos(options.features)]
    sets = {name: [form for form in forms if form.video.video_id.startswith(f"{name}/")] for name in ("bbc", "ovsd")}
    tests = {
        "ovsd": scored(sets["bbc"], sets["ovsd"], PENALTIES["bbc"]),
        "bbc": scored(sets["ovsd"], sets["bbc"], PENALTIES["ovsd"]),
        "nested": [],
    }
    for part, penalty in zip(folds(len(forms), FOLDS), PENALTIES["nested"], strict=True):
        others = [form for i, form in enumerate(forms) if i not in part]
        tests["nested"] += scored(others, [forms[i] for i in part], penalty)
    results = {name: run_test(videos) for name, videos in tests.items()}
    rows = []
    for name, result in results.items():
        for method in METHODS:
            rows.append((f"{name}, {method}", *(shown(of) for of in result[method]["f1"].values())))
        rows.append((f"{name}, expected", *(shown(of) for of in result["review"]["expected f1"].values())))
        ahead = result["review"]["expected ten looks before"]
        rows.append(
            (f"{name}, expected ten looks before", *(shown(ahead[str(k)]) if str(k) in ahead else "" for k in SHOWN))
        )
        for method in COMPARED:
            gains = result[method]["review minus this"].values()
            rows.append((f"{name}, review minus {method}", *(shown(of) for of in gains)))
    print(markdown(TextTable(("F1 after looks", *map(str, SHOWN)), tuple(rows))))
    for name, result in results.items():
        stop = result["stop at 90 %"]
        looks = "{:.1f} [{:.1f}, {:.1f}]".format(*stop["looks"])
        f1 = f"{shown(stop['f1'])}, of the worst video {percent(stop['lowest f1'])}"
        print(f"{name}: expected F1 is 90 % after {looks} looks; F1 is then {f1}")
    save("review", results)


if __name__ == "__main__":
    main()
