"""The systems that the paper compares with (Table 1), run and scored on the videos of an index: settings are chosen on
labeled videos, then the scenes of others are found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import NDArray

from pipelines.baselines import SYSTEMS, Baseline, Labeled
from pipelines.errors import BasslError, count, explain_missing_extra
from pipelines.evaluation.bootstrap import measure
from pipelines.evaluation.metrics import VideoScores, video_scores
from pipelines.models.encoder_loading import features_for
from pipelines.options import resolve_settings
from pipelines.progress import ReportProgress, no_progress
from pipelines.settings import ScoredData
from pipelines.stages.score import ScoreResult, values_of_seeds
from pipelines.stages.score.model import labeled_videos
from pipelines.stages.settings import BaselineSettings, EncodeSettings, ScoreSettings
from pipelines.stores.features import ShotRows, features_of
from pipelines.stores.index import Index, read_index

if TYPE_CHECKING:  # types of options for editors and mypy
    from pipelines.stages.option_types import BaselineOptions


BaselineVideo = tuple[tuple[NDArray[np.floating[Any]], ...], VideoScores]
"""The feature sets of a video of N shots, (N, D_m) each; and its times and labels, 0 at the last shot."""


@explain_missing_extra()
def baseline(
    settings: BaselineSettings | None = None,
    progress: ReportProgress | None = None,
    **options: Unpack[BaselineOptions],
) -> ScoreResult:
    """Find the scenes of the videos of a split with one of the systems, and score them, as `score` does.

    Settings that a system's paper leaves open (`candidates` in `pipelines.baselines`) take the values with the
    greatest sum of AP, F1 and mIoU on the training splits, if these have labeled videos. A system with a network learns
    from them; its result shows the first seed, with mean and deviation over ``seeds``. Raises BasslError for an unknown
    system, or videos without labels, features or times."""
    settings = resolve_settings(BaselineSettings, settings, options)
    report = progress or no_progress
    if settings.system not in SYSTEMS:
        raise BasslError(f"unknown system {settings.system!r}; choose from {', '.join(SYSTEMS)}")
    system = SYSTEMS[settings.system]
    if settings.extra and not system.several:
        names = ", ".join(name for name, other in SYSTEMS.items() if other.several)
        raise BasslError(f"{settings.system} takes one feature set; leave `extra` out, or use {names}")
    index = read_index(settings.data.index)
    index.check_splits(settings.data.splits, ("train", "val"))
    scored_videos, notes = labeled_videos(index, settings.split)
    others = [video for video in index.videos_of(settings.data.splits, labeled=True) if video not in scored_videos]
    used, stores = [*scored_videos, *others], settings.data.features
    first = features_of(index, stores, used) if stores else features_for(index, used, EncodeSettings().run.output)
    sets = [first.features, *(features_of(index, [store], used).features for store in settings.extra)]
    videos, training = (_videos(index, sets, some, settings.matching.frame_rate) for some in (scored_videos, others))
    if system.trainer and len(training) < 2:
        raise BasslError(f"{settings.data.index}: {settings.system} needs two labeled videos to learn from")

    device: Any = "cpu"
    if system.trainer:
        from pipelines.models.encoders.torch_encoders import choose_device  # optional dependency: torch

        device = choose_device(settings.compute.device)
    best: dict[str, Any] = {}
    if not training:
        notes.append("no labeled videos to choose settings by: defaults")
    elif system.candidates:
        best = choose(system, training, lambda done, total: report("choosing settings", done, total), device)
        values = ", ".join(f"{name} {value}" for name, value in best.items())
        notes.append(f"settings chosen on {count(len(training), 'video')}: {values}")

    seeds = settings.seeds if system.trainer else 1
    total = seeds * len(videos)
    done = iter(range(1, total + 1))
    report("finding scenes", 0, total)
    scored = []
    for seed in range(seeds):
        fitted = replace(_trained(system, training, seed, device), **best)
        scored.append(_scored(system, videos, fitted, lambda: report("finding scenes", next(done), total)))
    of_seeds = {seed: measure(scores, resamples=0) for seed, scores in enumerate(scored)} if seeds > 1 else {}
    matching, resampling = settings.matching, settings.resampling
    scoring = ScoreSettings(ScoredData(index.path), settings.split, matching=matching, resampling=resampling)
    measures = measure(scored[0], **scoring.measuring)
    return ScoreResult(
        settings.system, scored[0], measures, None, scoring, values_of_seeds(of_seeds), notes=tuple(notes)
    )


def choose(
    system: Baseline,
    videos: Sequence[BaselineVideo],
    progress: Callable[[int, int], None] = lambda done, total: None,
    device: Any = "cpu",
) -> dict[str, Any]:
    """Return the candidate settings of a system, by name, with the best scores on labeled videos. With a network, each
    half of the videos is scored by one trained on the other half. ``progress`` gets the videos done, and in all."""
    halves = videos[::2], videos[1::2]
    folds = [(videos, videos)] if not system.trainer else [halves, halves[::-1]]
    candidates = [dict(zip(system.candidates, values, strict=True)) for values in product(*system.candidates.values())]
    sums, total = [0.0] * len(candidates), len(candidates) * len(videos)
    done = iter(range(1, total + 1))
    progress(0, total)
    for training, test in folds:
        settings = _trained(system, training, 0, device)
        for i, values in enumerate(candidates):
            scores = _scored(system, test, replace(settings, **values), lambda: progress(next(done), total))
            measures = measure(scores, resamples=0)
            sums[i] += sum(measures[name].value or 0.0 for name in ("ap", "f1", "miou"))
    return candidates[max(range(len(candidates)), key=lambda i: sums[i])]


def _scored(
    system: Baseline, videos: Sequence[BaselineVideo], settings: Any, step: Callable[[], None]
) -> tuple[VideoScores, ...]:
    """Return the scenes of videos by a system, from all feature sets or the first; call ``step`` after each video."""
    scored = []
    for features, truth in videos:
        assert truth.seconds is not None
        scenes = system.segment(features, truth.seconds, settings)
        scored.append(replace(truth, scores=scenes.score, predicted=scenes.labels.astype(bool)))
        step()
    return tuple(scored)


def _trained(system: Baseline, videos: Sequence[BaselineVideo], seed: int, device: Any) -> Any:
    try:
        return system.default_settings([Labeled(features, truth.labels) for features, truth in videos], seed, device)
    except ValueError as error:
        raise BasslError(f"nothing can be learned from the labeled videos: {error}") from error


def _videos(index: Index, sets: Sequence[ShotRows], numbers: Sequence[int], rate: float | None) -> list[BaselineVideo]:
    videos = []
    for video in numbers:
        span = index.span(video)
        truth = video_scores(index, video, np.zeros(span.stop - span.start), rate)
        if truth.seconds is None:
            raise BasslError(f"{index.path}: {index.video_ids[video]} has no times in seconds; `frame_rate` gives them")
        truth.labels[-1] = 0  # the video's end is not a scene end to predict
        videos.append((tuple(one[span] for one in sets), truth))
    return videos
