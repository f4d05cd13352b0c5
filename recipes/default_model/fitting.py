"""Fitting the linear model of the built-in model, and choosing its penalty by cross-validation on perturbed videos."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from pipelines.datasets.sources import ShotFeatures
from pipelines.evaluation.metrics import average_precision
from pipelines.models.calibration import Calibration, fit_calibration
from pipelines.models.networks.relational import LinearModel, relational_logits, shot_tokens
from pipelines.training.relational_fit import LabeledTokens, LabeledVideo, fit_linear_models
from recipes.default_model.perturbations import PERTURBATIONS, Perturbation

Report = Callable[[str], None]
Logits = list[NDArray[np.float64]]  # one (N,) array per video
PENALTIES = (0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
"""L2 penalties to choose from, for evidence of standard deviation 1 and a loss that is a mean over shots."""
FOLDS = 5  # folds of cross-validation
DRAWS = 5
"""Random draws of the perturbations over which the penalty is chosen; with one draw the choice varies a little."""
UNCHANGED = "unchanged"
PARTS = (4, 8, 16, 32, 64, 128)
"""Numbers of shots of the parts of each video that are learned beside the whole: evidence in a short video has another
distribution, and a model of whole videos calls most of its cuts scene ends."""


class Form(NamedTuple):
    """A video, unchanged or perturbed, and its evidence."""

    video: ShotFeatures  # N shots
    tokens: NDArray[np.float32]  # (N, F) evidence, see `relational.shot_tokens`
    parts: tuple["Form", ...] = ()  # of the unchanged video, see `PARTS`


Forms = Mapping[str, Form]  # all forms of one video: `UNCHANGED` first, then each perturbation


def form_of(video: ShotFeatures) -> Form:
    """Return the unchanged video with its evidence."""
    return Form(video, shot_tokens(video.features, video.seconds, video.color))


def parts_of(video: ShotFeatures) -> Iterator[ShotFeatures]:
    """Divide a video into parts of each length in `PARTS` that is less than its own; shots left over at the end are in
    none of that length. The last shot of a part has the label 0, as that of a video."""
    N = len(video.features)
    for length in (length for length in PARTS if length < N):
        for first in range(0, N - length + 1, length):
            shots = slice(first, first + length)
            ends = video.scene_end[shots].copy()
            ends[-1] = 0
            yield replace(
                video,
                features=video.features[shots],
                shots=video.shots[shots],
                scene_end=ends,
                color=None if video.color is None else video.color[shots],
            )


def perturb(video: ShotFeatures, perturbation: Perturbation, generator: np.random.Generator) -> ShotFeatures:
    """Return a perturbed video of the same length; its shots have no gaps and a mean length of 1,000 short frames."""
    perturbed = perturbation(LabeledVideo(video.features, video.seconds, video.scene_end, color=video.color), generator)
    edges = np.cumsum(perturbed.durations) * (1000 / np.mean(perturbed.durations))
    edges = np.append(0, np.round(edges)).astype(np.int64)
    shots = np.stack([edges[:-1], edges[1:]], axis=1)
    rate = edges[-1] / float(video.seconds.sum())
    return ShotFeatures(video.video_id, perturbed.features, shots, perturbed.scene_end, perturbed.color, rate)


def whole_form(video: ShotFeatures) -> Form:
    """Return the unchanged video with its parts."""
    return form_of(video)._replace(parts=tuple(form_of(part) for part in parts_of(video)))


def forms_of(whole: Form, number: int, seed: int) -> Forms:
    """Return a video, unchanged as given by `whole_form`, and in one draw of each perturbation. The draw depends only
    on the seed, the video's number and the perturbation."""
    return {UNCHANGED: whole} | {
        name: form_of(perturb(whole.video, perturbation, np.random.default_rng((seed, number, k))))
        for k, (name, perturbation) in enumerate(PERTURBATIONS.items())
    }


def prepare(videos: Sequence[ShotFeatures], draws: int, report: Report) -> list[list[Forms]]:
    """Return all forms of each video, in `draws` draws. `report` gets a line for each part of the work."""
    forms: list[list[Forms]] = []
    report(f"evidence of {len(videos)} videos and their parts")
    wholes = [whole_form(video) for video in videos]
    for seed in range(draws):
        report(f"evidence of {len(videos)} videos in {len(PERTURBATIONS)} perturbations, draw {seed + 1} of {draws}")
        forms.append([forms_of(whole, i, seed) for i, whole in enumerate(wholes)])
    return forms


def fit(forms: Sequence[Form], penalty: float) -> LinearModel:
    """Fit the model to videos and their parts, not calibrated; `penalty`: see `PENALTIES`. Raises ValueError: no video,
    or labels of one class only."""
    everything = [each for form in forms for each in (form, *form.parts)]
    videos = [LabeledTokens(form.tokens, form.video.scene_end) for form in everything]
    return fit_linear_models(videos, (penalty,))[0]


def folds(count: int, number: int) -> list[list[int]]:
    """Return folds of `count` videos: every `number`-th video, so that each data set is spread evenly over them."""
    return [list(range(first, count, number)) for first in range(min(number, count))]


def cross_validate(forms: Sequence[Form], penalty: float, number: int = FOLDS) -> list[LinearModel]:
    """Return for each video the model that was fitted without its fold, of ``number`` folds or one for each video; the
    videos of a fold share one. Raises ValueError: fewer than two videos."""
    if len(forms) < 2:
        raise ValueError("cross-validation needs two videos or more")
    blind: dict[int, LinearModel] = {}
    for held_out in folds(len(forms), number):
        model = fit([form for i, form in enumerate(forms) if i not in held_out], penalty)
        blind.update(dict.fromkeys(held_out, model))
    return [blind[i] for i in range(len(forms))]


def choose(draws: Sequence[Sequence[Forms]], number: int = FOLDS) -> tuple[float, list[LinearModel]]:
    """Choose the penalty by cross-validation within the training videos.

    Models are fitted on unchanged videos. A held-out video counts with its mean AP over all its forms, unchanged
    and perturbed. The penalty with the best mean over videos wins; of equal ones, the smallest.

    ``draws``: all forms of the videos, in one random draw of the perturbations or, for a steadier choice, several.
    Returns: The penalty, and for each video the model of that penalty that was fitted without it.
    Raises ValueError: fewer than two videos with a scene end.
    """
    plain = [forms[UNCHANGED] for forms in draws[0]]
    blind = {penalty: cross_validate(plain, penalty, number) for penalty in PENALTIES}
    # AP is not defined for a video without scene ends.
    judging = [i for i, form in enumerate(plain) if form.video.scene_end.any()]
    precision = [
        [
            np.mean(
                [
                    average_precision(form.video.scene_end, relational_logits(models[i], form.tokens))
                    for videos in draws
                    for form in videos[i].values()
                ]
            )
            for i in judging
        ]
        for models in blind.values()
    ]
    penalty = PENALTIES[int(np.mean(precision, axis=1).argmax())]
    return penalty, blind[penalty]


def blind_logits(models: Sequence[LinearModel], forms: Sequence[Form]) -> Logits:
    """Return logits of each video by its own model."""
    return [relational_logits(model, form.tokens) for model, form in zip(models, forms, strict=True)]


def calibrate(logits: Logits, videos: Sequence[ShotFeatures]) -> Calibration:
    """Return Platt's slope, and a score of 0.5 where F1 is best, all shots pooled, from the logits of the videos by
    models that were fitted without them."""
    return fit_calibration(np.concatenate(logits), np.concatenate([video.scene_end for video in videos]))
