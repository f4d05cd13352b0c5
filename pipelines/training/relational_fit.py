"""Linear model on the evidence at cuts: fitted to labeled videos, adapted to a person's own, and variations of videos.

A model of one's own is pulled toward the one that it starts from: a few videos are too few for some two hundred
weights. The `strength` is about the number of scene ends that the weights of the first model count as.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from pipelines.evaluation.metrics import average_precision
from pipelines.models.calibration import Calibration, best_f1_threshold, fit_logistic
from pipelines.models.networks.cut_evidence import token_width
from pipelines.models.networks.relational import LinearModel, relational_logits

Logits = list[NDArray[np.float64]]
"""One (N,) array per video."""
STRENGTHS = (400.0, 200.0, 100.0)
"""Strengths to choose from. Weaker ones gained nothing more on videos of one series, and lost on mixed videos."""
OPERATING_POINT_ENDS = 100.0  # number of scene ends that the first operating point counts as
FOLDS = 10
"""Up to so many videos are left out one at a time; of more, a tenth at a time."""


@dataclass(frozen=True, eq=False)
class LabeledTokens:
    """The evidence of one video, and its labels."""

    tokens: NDArray[np.float32]  # (N, F), see `relational.shot_tokens`
    scene_end: NDArray[np.uint8]  # (N,) 1 at the last shot of a scene; 0 at the last shot of the video


def fit_linear_models(
    videos: Sequence[LabeledTokens], penalties: Sequence[float], start: LinearModel | None = None
) -> list[LinearModel]:
    """Fit logistic regression to videos, with balanced classes and a penalty on the squared weights, for evidence of
    standard deviation 1 and a loss that is a mean over shots; the optimum is exact (Newton's method).

    Args:
        penalties: one model is fitted for each, each beginning with the one before.
        start: a model whose weights are penalized for their distance from it, instead of from zero. The constant is
            free.
    Raises ValueError: no video, or labels of one class only.
    """
    # The last shot of a video has no cut after it, and so no evidence.
    x = np.concatenate([np.zeros((0, token_width() - 1)), *(video.tokens[:-1, :-1] for video in videos)])
    y = np.concatenate([np.zeros(0), *(video.scene_end[:-1] for video in videos)])
    positives = int(y.sum())
    if positives in (0, len(y)):
        raise ValueError("training needs videos with scene ends and with other shots")
    shot_weights = np.where(y == 1, 0.5 / positives, 0.5 / (len(y) - positives))
    mean, deviation = x.mean(axis=0), np.maximum(x.std(axis=0, ddof=1), 1e-6)
    x = np.hstack([(x - mean) / deviation, np.ones((len(x), 1))])
    center = np.zeros(x.shape[1])
    if start is not None:
        slopes = start.weight[:-1].astype(np.float64)
        center = np.append(slopes * deviation, start.bias + slopes @ mean)

    models = []
    weights = center
    for penalty in penalties:
        pull = np.append(np.full(x.shape[1] - 1, penalty), 0.0)
        weights = fit_logistic(x, y, penalties=pull, center=center, weights=shot_weights, start=weights)
        slopes = weights[:-1] / deviation
        models.append(
            LinearModel(
                np.append(slopes, 0).astype(np.float32),  # the padding mask has no weight
                float(np.float32(weights[-1] - slopes @ mean)),
            )
        )
    return models


# --- a model of one's own ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class AdaptedModel:
    """A model that learned from one's own videos."""

    network: LinearModel
    calibration: Calibration
    strength: float | None  # of the pull; None: the weights of the first model
    adapted: bool  # whether it finds another number of scene ends than the first model
    # Of models that learned without each video: `ap`, the mean over videos; `f1`, at the operating point, over all
    # shots. `ap_before` and `f1_before`: of the first model. Empty for one video.
    measured: Mapping[str, float]


def adapt_model(videos: Sequence[LabeledTokens], start: LinearModel, calibration: Calibration) -> AdaptedModel:
    """Learn from videos, each with a scene end and another shot. Strength and operating point are chosen by leaving
    videos out: the strength of the best mean AP, or none if the AP of ``start`` is as good; then the operating point of
    the better F1, as many scene ends as ``start`` finds or the number adapted to the videos. One video adapts the
    operating point alone."""
    before = [relational_logits(start, video.tokens) for video in videos]
    labels = [video.scene_end for video in videos]
    if len(videos) == 1:
        offset = operating_point(before, before, labels, calibration.offset)
        return AdaptedModel(start, Calibration(calibration.slope, offset), None, True, {})

    folds = min(FOLDS, len(videos))
    blind: dict[float, Logits] = {strength: list(before) for strength in STRENGTHS}
    for fold in range(folds):
        rest = [video for i, video in enumerate(videos) if i % folds != fold]
        for strength, model in zip(STRENGTHS, _pulled(rest, STRENGTHS, start), strict=True):
            for i in range(fold, len(videos), folds):
                blind[strength][i] = relational_logits(model, videos[i].tokens)
    best = max(STRENGTHS, key=lambda strength: _mean_ap(blind[strength], labels))  # the strongest of equal ones
    learned = _mean_ap(blind[best], labels) > _mean_ap(before, labels)
    after = blind[best] if learned else before
    network = _pulled(videos, (best,), start)[0] if learned else start

    f1 = {adapted: _blind_f1(before, after, labels, calibration.offset, adapted) for adapted in (False, True)}
    adapted = f1[True] > f1[False]
    offset = operating_point(before, after, labels, calibration.offset, adapted)
    return AdaptedModel(
        network,
        Calibration(calibration.slope, offset),
        best if learned else None,
        adapted,
        {
            "ap": _mean_ap(after, labels),
            "f1": f1[adapted],
            "ap_before": _mean_ap(before, labels),
            "f1_before": _f1([logits >= calibration.offset for logits in before], labels),
        },
    )


def operating_point(
    before: Logits, after: Logits, labels: Sequence[NDArray[np.uint8]], offset: float, adapted: bool = True
) -> float:
    """Return the threshold for the logits ``after`` of a model of one's own that finds as many scene ends as a
    threshold for the logits ``before`` of the first model: its own ``offset``, or if ``adapted`` the mean of it and of
    the threshold of best F1, weighted by numbers of scene ends (`OPERATING_POINT_ENDS`)."""
    first, second = np.concatenate(before), np.concatenate(after)
    if adapted:
        ends = sum(int(one.sum()) for one in labels)
        best = best_f1_threshold(first, np.concatenate(labels))
        offset = (ends * best + OPERATING_POINT_ENDS * offset) / (ends + OPERATING_POINT_ENDS)
    if np.array_equal(first, second):
        return float(offset)
    ranked = np.sort(second)[::-1]
    number = min(max(int((first >= offset).sum()), 1), len(ranked) - 1)
    return float(ranked[number - 1 : number + 1].mean())


def _pulled(videos: Sequence[LabeledTokens], strengths: Sequence[float], start: LinearModel) -> list[LinearModel]:
    ends = sum(int(video.scene_end.sum()) for video in videos)
    return fit_linear_models(videos, [strength / ends for strength in strengths], start)


def _mean_ap(logits: Logits, labels: Sequence[NDArray[np.uint8]]) -> float:
    return math.fsum(average_precision(y, one) for y, one in zip(labels, logits, strict=True)) / len(labels)


def _blind_f1(
    before: Logits, after: Logits, labels: Sequence[NDArray[np.uint8]], offset: float, adapted: bool
) -> float:
    """F1 with an operating point for each video that was chosen on the others."""
    decided = []
    for i, logits in enumerate(after):
        others = [j for j in range(len(labels)) if j != i]
        first, second = [before[j] for j in others], [after[j] for j in others]
        decided.append(logits >= operating_point(first, second, [labels[j] for j in others], offset, adapted))
    return _f1(decided, labels)


def _f1(decided: Sequence[NDArray[np.bool_]], labels: Sequence[NDArray[np.uint8]]) -> float:
    hits = sum(int(y[d].sum()) for d, y in zip(decided, labels, strict=True))
    return 2 * hits / sum(int(d.sum()) + int(y.sum()) for d, y in zip(decided, labels, strict=True))


# --- variations of videos ---------------------------------------------------------------------------------------------

# For fine-tuning; the built-in model is fitted to the original videos.
VIEWS = 4  # forms of each video: the video itself, and variations of it
_REORDERED_SHARE = 0.5  # share of variations whose scenes are put in a random order
# Range of the power to which a variation raises non-negative features: similarities change as by another encoder.
_POWERS = (0.5, 1.25)


@dataclass(frozen=True)
class LabeledVideo:
    """One video to learn from, its shots perhaps in another order."""

    features: NDArray[np.float32]
    durations: NDArray[np.float64]  # (N,) in seconds
    scene_end: NDArray[np.uint8]  # (N,)
    # (N,) False for a guess in `scene_end`, which is not learned; None: all are labels
    known: NDArray[np.bool_] | None = None
    color: NDArray[np.float32] | None = None  # (N, H) hue histograms; None if unknown


def reorder_scenes(video: LabeledVideo, generator: np.random.Generator) -> LabeledVideo:
    """Return the video with its scenes, each kept whole, in a random order."""
    scene = np.cumsum(video.scene_end, dtype=np.int64) - video.scene_end
    rank = generator.permutation(int(scene[-1]) + 1)
    order = np.argsort(rank[scene], kind="stable")
    ends = np.append(scene[order][1:] != scene[order][:-1], video.scene_end[-1] == 1).astype(np.uint8)
    known = None
    if video.known is not None:
        # Where two scenes were joined, there certainly is an end.
        known = np.append((video.known[order] | (ends == 1))[:-1], video.known[-1])
    color = None if video.color is None else video.color[order]
    return LabeledVideo(video.features[order], video.durations[order], ends, known, color)


def vary(video: LabeledVideo, generator: np.random.Generator) -> LabeledVideo:
    """Return a random variation of a video: its scenes reordered, its features raised to a power."""
    if generator.random() < _REORDERED_SHARE:
        video = reorder_scenes(video, generator)
    power = generator.uniform(*_POWERS)
    return replace(video, features=video.features**power) if (video.features >= 0).all() else video
