"""Measurement of the figures of the model card: cross-validation, tests across data sets, untrained baselines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pipelines.baselines.graphs import graph_cut
from pipelines.datasets.sources import ShotFeatures
from pipelines.evaluation.bootstrap import evaluate
from pipelines.evaluation.metrics import VideoScores
from pipelines.models.calibration import Calibration, apply_calibration
from pipelines.models.networks.cut_evidence import (
    REACH,
    BlockSums,
    side_means,
    similarity_band,
    unit_features,
    z_scores,
)
from recipes.default_model.fitting import (
    FOLDS,
    UNCHANGED,
    Form,
    Forms,
    Logits,
    Report,
    blind_logits,
    calibrate,
    choose,
    fit,
    folds,
    form_of,
)


def left_right_contrast(video: ShotFeatures, reach: int) -> NDArray[np.float64]:
    """Return a baseline without learning, (N,): the mean similarity among the last `reach` shots before each cut and
    among the first `reach` after it, minus the mean across: the evidence of that name, for any reach. The video's last
    shot gets the lowest value."""
    left, right, across = side_means(BlockSums(video_similarities(video)), reach)
    contrast = (left + right) / 2 - across
    return np.append(contrast, contrast.min(initial=0.0))


def closest_across(video: ShotFeatures, reach: int) -> NDArray[np.float64]:
    """Return a baseline without learning, (N,): the greatest similarity of one of the last `reach` shots before each
    cut and one of the first `reach` after it, negated. The video's last shot gets the lowest value."""
    z = video_similarities(video)
    N = len(z)
    cuts, places = np.arange(1, N)[:, None, None], np.arange(reach)
    before, after = cuts - 1 - places[:, None], cuts + places
    exists = (before >= 0) & (after < N)
    greatest = np.where(exists, z[np.maximum(before, 0), np.where(exists, after - before, 0)], -np.inf).max(axis=(1, 2))
    return np.append(-greatest, (-greatest).min(initial=0.0))


def video_similarities(video: ShotFeatures) -> NDArray[np.float64]:
    """Return z-scores of shot similarities as the evidence uses them, (N, REACH + 1)."""
    return z_scores(similarity_band(unit_features(video.features)[0], REACH))


def recursive_cuts(video: ShotFeatures, reach: int) -> NDArray[np.float64]:
    """Return GraphCut (Rasheed and Shah 2005) of the whole video, see `pipelines.baselines`; `reach` is not used."""
    return graph_cut(video.features.astype(np.float64), video.shots.astype(np.float64)).score


BASELINES = {
    "left-right contrast": left_right_contrast,
    "closest pair across": closest_across,
    "GraphCut": recursive_cuts,
}
SIDES = range(2, 9)  # reaches to try for baselines that have one


def video_scores(videos: Sequence[ShotFeatures], scores: Sequence[NDArray[np.float64]]) -> list[VideoScores]:
    """Return videos with scores (N,) each."""
    return [
        VideoScores(video.scene_end, score, video.shots, video=video.video_id)
        for video, score in zip(videos, scores, strict=True)
    ]


@dataclass(frozen=True)
class Test:
    """Results of a model that was trained on some videos, on other videos."""

    penalties: tuple[float, ...]  # chosen on the training videos, one per part of the test
    videos: list[VideoScores]  # the test videos with their scores
    parts: list[VideoScores]  # their parts, each scored as a video of its own
    colorless: list[VideoScores]  # the test videos again, scored without color


@dataclass(frozen=True)
class Study:
    """All figures of the model card."""

    videos: Sequence[ShotFeatures]  # in the order in which they were read
    penalty: float  # chosen on all videos
    logits: Logits  # of each video, by the model of cross-validation that was fitted without it
    calibration: Calibration  # fitted on these logits
    validation: Mapping[str, float]  # metrics of these logits, calibrated, on all videos
    perturbed: Mapping[str, Mapping[str, float]]  # the same metrics for each form of the held-out videos
    colorless: Mapping[str, float]  # metrics of the same videos and models without color
    across: Mapping[tuple[str, str], Test]  # by (set trained on, set tested on); empty for one set
    nested: Test  # each video, scored by a model that was fitted and chosen without its fold
    # the baselines' best reach and its metrics, by set (and "all") and baseline
    unlearned: Mapping[tuple[str, str], tuple[int, Mapping[str, float]]]


def by_set(videos: Sequence[ShotFeatures]) -> dict[str, list[ShotFeatures]]:
    """Return videos by their data set, the first part of their ids."""
    sets: dict[str, list[ShotFeatures]] = {}
    for video in videos:
        sets.setdefault(video.video_id.split("/")[0], []).append(video)
    return sets


def calibrated_scores(forms: Sequence[Form], logits: Logits, calibration: Calibration) -> list[VideoScores]:
    """Return videos with the scores of logits, one array per form."""
    return video_scores([form.video for form in forms], [apply_calibration(values, calibration) for values in logits])


def learn_and_test(draws: Sequence[Sequence[Forms]], trained_on: Sequence[int], tested_on: Sequence[int]) -> Test:
    """Choose the penalty, fit, and fit the operating point on some videos; score others. ``draws``: all forms of all
    videos, in one or more draws of the perturbations."""
    penalty, models = choose([[videos[i] for i in trained_on] for videos in draws])
    plain = [forms[UNCHANGED] for forms in draws[0]]
    training_forms = [plain[i] for i in trained_on]
    operating = calibrate(blind_logits(models, training_forms), [form.video for form in training_forms])
    model = fit(training_forms, penalty)

    def scores(forms: Sequence[Form]) -> list[VideoScores]:
        return calibrated_scores(forms, blind_logits([model] * len(forms), forms), operating)

    others = [plain[i] for i in tested_on]
    parts = [part for form in others for part in form.parts]
    return Test((penalty,), scores(others), scores(parts), scores([colorless(form) for form in others]))


def colorless(form: Form) -> Form:
    """Return the same video without color."""
    return form if form.video.color is None else form_of(replace(form.video, color=None))


def measure(videos: Sequence[ShotFeatures], draws: Sequence[Sequence[Forms]], report: Report) -> Study:
    """Choose the penalty, calibrate, and test: from one data set to the other, and by nested cross-validation.

    ``draws``: all forms of each video, in one or more draws of the perturbations; `Study.perturbed` is of the first.
    ``report`` is called with one line when each part of the work starts.
    """
    report("choosing the penalty by cross-validation")
    penalty, blind = choose(draws)
    first_draw = draws[0]
    plain = [forms[UNCHANGED] for forms in first_draw]
    logits = blind_logits(blind, plain)
    calibration = calibrate(logits, videos)

    sets = by_set(videos)
    members = {name: [i for i, video in enumerate(videos) if video.video_id.startswith(f"{name}/")] for name in sets}
    across = {}
    for training, test in ((a, b) for a in sets for b in sets if a != b):
        report(f"training on {training}, testing on {test}")
        across[training, test] = learn_and_test(draws, members[training], members[test])

    report("nested cross-validation")
    parts = folds(len(videos), FOLDS)
    tests = [learn_and_test(draws, [i for i in range(len(videos)) if i not in part], part) for part in parts]
    order = np.argsort([i for part in parts for i in part])
    videos_of, without, of_parts = (
        [one for test in tests for one in getattr(test, name)] for name in ("videos", "colorless", "parts")
    )
    penalties = sum((t.penalties for t in tests), ())
    nested = Test(penalties, [videos_of[i] for i in order], of_parts, [without[i] for i in order])

    report("baselines")
    unlearned = {}
    for name, group in {**sets, "all": list(videos)}.items():
        for method, baseline in BASELINES.items():
            sides = (REACH,) if baseline is recursive_cuts else SIDES
            tried = [
                (side, evaluate(video_scores(group, [baseline(video, side) for video in group]))) for side in sides
            ]
            unlearned[name, method] = max(tried, key=lambda pair: pair[1]["ap"])

    def validated(forms: Sequence[Form]) -> dict[str, float]:
        return evaluate(calibrated_scores(forms, blind_logits(blind, forms), calibration))

    return Study(
        videos=videos,
        penalty=penalty,
        logits=logits,
        calibration=calibration,
        validation=validated(plain),
        colorless=validated([colorless(form) for form in plain]),
        perturbed={name: validated([forms[name] for forms in first_draw]) for name in first_draw[0]},
        across=across,
        nested=nested,
        unlearned=unlearned,
    )
