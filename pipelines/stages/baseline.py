"""The systems that the paper compares with (Table 1), run and scored on the videos of an index: settings are chosen on
labeled videos, then the scenes of others are found."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import NDArray

from pipelines.baselines import SYSTEMS, Baseline
from pipelines.baselines.segmentation import Labeled
from pipelines.errors import BasslError, count, explain_missing_extra
from pipelines.evaluation.bootstrap import measure
from pipelines.evaluation.metrics import VideoScores, video_scores
from pipelines.models.lookup import features_for
from pipelines.options import resolve_settings
from pipelines.progress import ReportProgress
from pipelines.settings import ScoredData
from pipelines.stages.score import ScoreResult, ScoreSettings, seed_spreads
from pipelines.stages.settings import BaselineSettings, EncodeSettings
from pipelines.stores.features import ShotRows, features_of
from pipelines.stores.index import Index, read_index

if TYPE_CHECKING:  # types of options for editors and mypy
    from pipelines.stages.option_types import BaselineOptions


@dataclass(frozen=True, eq=False)
class BaselineVideo:
    """One video of N shots, as a baseline reads it."""

    features: tuple[NDArray[np.floating[Any]], ...]  # one or several sets, (N, D_m) each
    truth: VideoScores  # with times in seconds, the label 0 at the video's last shot, and any scores


@explain_missing_extra()
def baseline(
    settings: BaselineSettings = BaselineSettings(),
    progress: ReportProgress | None = None,
    **options: Unpack[BaselineOptions],
) -> ScoreResult:
    """Find the scenes of the videos of a split with one of the systems, and score them, as `score` does.

    Settings that a system's paper leaves open (`candidates` in `pipelines.baselines`) take the values with the
    greatest sum of AP, F1 and mIoU on the training splits, or their defaults if these have no labeled videos. A system
    with a network needs labeled videos to learn from; its result has mean and deviation over ``seeds``, and otherwise
    shows the first seed. Raises BasslError for an unknown system, or videos without labels, features or times.
    """
    settings = resolve_settings(BaselineSettings, settings, options)
    report = progress or (lambda stage, done, total: None)
    if settings.system not in SYSTEMS:
        raise BasslError(f"unknown system {settings.system!r}; choose from {', '.join(SYSTEMS)}")
    system = SYSTEMS[settings.system]
    if settings.extra and not system.several:
        names = ", ".join(name for name, other in SYSTEMS.items() if other.several)
        raise BasslError(f"{settings.system} takes one feature set; leave `extra` out, or use {names}")
    index = read_index(settings.data.index)
    if not index.videos_of((settings.split,), labeled=True):
        splits = ", ".join(sorted({split for split in index.splits if split})) or "none"
        raise BasslError(
            f"{settings.data.index}: no video of the split {settings.split!r} has labels (splits: {splits}); name "
            "another with `split`, or draw splits by `bassl build-index` with `split`"
        )
    index.check_splits(settings.data.splits, BaselineSettings().data.splits)
    sets = _feature_sets(settings, index)
    videos = _videos(settings, index, sets, (settings.split,))
    # the videos to score are never trained on
    training = _videos(settings, index, sets, set(settings.data.splits) - {settings.split})
    if system.trainer and len(training) < 2:
        raise BasslError(f"{settings.data.index}: {settings.system} needs two labeled videos to learn from")

    device: Any = "cpu"
    if system.trainer:
        from pipelines.models.encoders.torch_encoders import choose_device  # optional dependency: torch

        device = choose_device(settings.compute.device)
    notes: tuple[str, ...] = ()
    best: dict[str, Any] = {}
    if not training:
        notes = ("no labeled videos to choose settings by: defaults",)
    elif system.candidates:
        best = choose(system, training, lambda done, total: report("choosing settings", done, total), device)
        values = ", ".join(f"{name} {value}" for name, value in best.items())
        notes = (f"settings chosen on {count(len(training), 'video')}: {values}",)

    runs = 1 if not system.trainer else settings.seeds
    scored: list[tuple[VideoScores, ...]] = []
    report("finding scenes", 0, runs * len(videos))
    for seed in range(runs):
        fitted = replace(_trained(system, training, seed, device), **best)
        scores = []
        for i, video in enumerate(videos, start=seed * len(videos) + 1):
            scores.append(_scored(system, video, fitted))
            report("finding scenes", i, runs * len(videos))
        scored.append(tuple(scores))
    data, matching, resampling = ScoredData(settings.data.index), settings.matching, settings.resampling
    of_seeds = {seed: measure(scores, resamples=0) for seed, scores in enumerate(scored)} if runs > 1 else {}
    return ScoreResult(
        name=settings.system,
        videos=scored[0],
        measures=measure(scored[0], resamples=resampling.resamples),
        threshold=None,
        settings=ScoreSettings(data, settings.split, matching=matching, resampling=resampling),
        seeds=seed_spreads(of_seeds),
        notes=notes,
    )


def choose(
    system: Baseline,
    videos: Sequence[BaselineVideo],
    progress: Callable[[int, int], None] = lambda done, total: None,
    device: Any = "cpu",
) -> dict[str, Any]:
    """Return the candidate settings of a system, by name, with the best scores on labeled videos (at least one; two
    with a network). With a network, each half of the videos is scored by a network trained on the other half.
    ``progress`` gets the number of videos whose scenes were found, and in all, over the candidates."""
    halves = videos[::2], videos[1::2]
    folds = [(videos, videos)] if not system.trainer else [halves, halves[::-1]]
    combinations = product(*system.candidates.values())
    candidates = [dict(zip(system.candidates, values, strict=True)) for values in combinations]
    sums, done, total = [0.0] * len(candidates), 0, len(candidates) * len(videos)
    progress(done, total)
    for training, test in folds:
        settings = _trained(system, training, 0, device)
        for i, values in enumerate(candidates):
            fitted, scores = replace(settings, **values), []
            for video in test:
                scores.append(_scored(system, video, fitted))
                done += 1
                progress(done, total)
            measures = measure(scores, resamples=0)
            sums[i] += sum(measures[name].value or 0.0 for name in ("ap", "f1", "miou"))
    return candidates[max(range(len(candidates)), key=lambda i: sums[i])]


def _scored(system: Baseline, video: BaselineVideo, settings: Any) -> VideoScores:
    """Return the scenes of a video by a system, from all feature sets, or from the first if it takes one."""
    features = video.features if system.several and len(video.features) > 1 else video.features[0]
    assert video.truth.seconds is not None
    scenes = system.segment(features, video.truth.seconds, settings)
    return replace(video.truth, scores=scenes.score, predicted=scenes.labels.astype(bool))


def _trained(system: Baseline, videos: Sequence[BaselineVideo], seed: int, device: Any) -> Any:
    try:
        return system.default_settings([Labeled(video.features, video.truth.labels) for video in videos], seed, device)
    except ValueError as error:
        raise BasslError(f"nothing can be learned from the labeled videos: {error}") from error


def _feature_sets(settings: BaselineSettings, index: Index) -> list[ShotRows]:
    """Return the feature sets, (T, D_m) each. Raises BasslError if neither the index nor `bassl encode` has a store."""
    used = index.videos_of((settings.split, *settings.data.splits), labeled=True)
    if settings.data.features:
        first = features_of(index, settings.data.features, used)
    else:
        first = features_for(index, used, EncodeSettings().run.output)
    return [first.features, *(features_of(index, [store], used).features for store in settings.extra)]


def _videos(
    settings: BaselineSettings, index: Index, sets: Sequence[ShotRows], splits: Collection[str]
) -> list[BaselineVideo]:
    videos = []
    for video, (name, split) in enumerate(zip(index.video_ids, index.splits, strict=True)):
        span = index.span(video)
        if split not in splits or not index.usable[span].any():
            continue
        truth = video_scores(index, video, np.zeros(span.stop - span.start), settings.matching.frame_rate)
        if truth.seconds is None:
            raise BasslError(f"{settings.data.index}: {name} has no times in seconds; `frame_rate` gives them")
        truth.labels[-1] = 0  # the video's end is not a scene end to predict
        videos.append(BaselineVideo(tuple(one[span] for one in sets), truth))
    return videos
