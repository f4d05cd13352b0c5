"""Scoring a model on the labeled videos of an index."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from pipelines.errors import BasslError
from pipelines.evaluation.bootstrap import AT_SOFTMAX, Measure, measure
from pipelines.evaluation.metrics import SCENE_LENGTHS, VideoScores, knn_precision, scene_ids, scene_nmi, video_scores
from pipelines.models.boundary import BoundaryModel
from pipelines.models.calibration import apply_calibration
from pipelines.models.encoder_loading import encoder_for, features_for
from pipelines.models.encoders import named_encoder
from pipelines.models.opening import open_model
from pipelines.progress import ReportProgress
from pipelines.settings import Indexed, RunSettings
from pipelines.stages.encode import encode_shots
from pipelines.stages.score import Representation, ScoreResult, values_of_seeds
from pipelines.stages.settings import EncodeSettings, ScoreSettings
from pipelines.stores.features import IndexedFeatures, features_of, is_store
from pipelines.stores.index import ASSUMED_FRAME_RATE, Index, read_index
from pipelines.training.run_folder import seed_files


def score_model(subject: Path | str, settings: ScoreSettings, progress: ReportProgress) -> ScoreResult:
    """Score a run, a model file, the built-in model or a feature store, see :func:`pipelines.stages.score.score`."""
    path, rate = Path(subject), settings.matching.frame_rate
    if path.suffix.lower() in (".json", ".csv"):
        raise BasslError(f"{path}: is a list of scenes; pass the truth as the second argument")
    index = read_index(settings.data.index)
    videos, notes = labeled_videos(index, settings.split)
    if not is_store(path):
        model, stored = _model_and_features(subject, index, videos, settings, progress, notes)
    elif settings.representation:
        model, stored = None, features_of(index, [path], videos)
    else:
        raise BasslError(f"{path}: is a feature store, not a model; `representation` scores the features")
    representation = _representation(index, videos, stored) if settings.representation else None
    if model is None:
        return ScoreResult(str(subject), (), {}, None, settings, representation=representation, notes=tuple(notes))
    seeds = seed_files(path)
    if len(seeds) == 1:  # the run's own model
        seeds = {}
    done = iter(range(1, len(videos) * (1 + len(seeds)) + 1))

    def scores_of(model: BoundaryModel) -> tuple[VideoScores, ...]:
        model.check(stored.encoder, stored.features.width)
        scored = []
        for video in videos:
            span, seconds = index.span(video), index.shot_seconds(video, rate)
            scores = model.score(stored.features[span], seconds, None if stored.color is None else stored.color[span])
            scored.append(video_scores(index, video, scores, rate))
            progress("scoring", next(done) / (1 + len(seeds)), len(videos))
        return tuple(scored)

    scored, of_seeds = scores_of(model), dict[int, dict[str, Measure]]()
    for seed, file in seeds.items():
        other = open_model(file).boundary_model()
        of_seeds[seed] = _measures(scores_of(other), other, settings, resamples=0)
    if timeless := sum(one.seconds is None for one in scored):
        assumed = f"the model assumes {ASSUMED_FRAME_RATE:g} frames per second; give it with `frame_rate`"
        notes.append(f"{timeless} of {len(scored)} videos have no times: no Recall@3s and boundary F1, and {assumed}")
    return ScoreResult(
        name=str(subject),
        videos=scored,
        measures=_measures(scored, model, settings),
        threshold=settings.measuring["threshold"],
        settings=settings,
        seeds=values_of_seeds(of_seeds),
        representation=representation,
        notes=tuple(notes),
    )


def labeled_videos(index: Index, split: str) -> tuple[list[int], list[str]]:
    """Return a split's labeled videos, or ``all``, and a note on others. Raises BasslError if there are none."""
    selected = None if split == "all" else (split,)
    videos, labeled = index.videos_of(selected), index.videos_of(selected, labeled=True)
    if not labeled:
        splits = ", ".join(sorted({*index.splits} - {""})) or "none"
        labels = f"has no labels for the split {split!r} (it has: {splits})"
        raise BasslError(f"{index.path}: {labels}; choose one with `split`, or all videos with `split=all`")
    without = len(videos) - len(labeled)
    return labeled, [f"{without} of {len(videos)} videos have no labels and are left out"] if without else []


def _model_and_features(
    subject: Path | str,
    index: Index,
    videos: Sequence[int],
    settings: ScoreSettings,
    progress: ReportProgress,
    notes: list[str],
) -> tuple[BoundaryModel | None, IndexedFeatures]:
    """Open a model, and return it with the features that it reads, computed if there are none yet; add notes on what
    its scores mean. No model if it is pre-trained without a head that scores, and its representation is requested."""
    opened = open_model(subject)
    model: BoundaryModel | None = None
    if not opened.has_weights or opened.weights.finetuned:
        model = opened.boundary_model()
    elif not settings.representation or "head_pp.weight" in opened.weights.heads:
        model = opened.boundary_model(pseudo=True)
        head = "its head for pseudo-boundaries (BaSSL without fine-tuning), whose threshold is not fitted"
        notes.append(f"{opened.path} is pre-trained only: scored by {head}")
    training = {} if model is None else model.training
    if overlap := set(training.get("trained_on", ())) & {index.video_ids[video] for video in videos}:
        name, some = "the built-in model" if opened.built_in else opened.path, f"{len(overlap)} of these {len(videos)}"
        notes.insert(0, f"{name} learned from {some} videos: their scores are better than on other videos")
    encoder = opened.weights.settings.encoder if model is None else model.encoder
    if opened.has_weights and opened.weights.encoder:
        encoder = encoder_for(index, opened.path)  # its id with the keyframes of the index
    source, folder = EncodeSettings().encoder if encoder is None else opened.path, settings.data.features
    encoding = EncodeSettings(Indexed(index.path), source, RunSettings(folder), compute=settings.compute)
    compute = partial(encode_shots, encoding, progress, videos)
    stored = features_for(index, videos, folder, encoder, asker=opened.path, compute=compute)
    if model is not None and model.encoder == named_encoder(stored.encoder):
        encoder = stored.encoder  # a name alone stands for its published weights
    return model and replace(model, encoder=encoder), stored


def _measures(
    videos: Sequence[VideoScores], model: BoundaryModel, settings: ScoreSettings, **options: int
) -> dict[str, Measure]:
    """Return all metrics of a model's scores, by name; with the setting `at` also `AT_SOFTMAX`."""
    measuring = settings.measuring | options
    measures = measure(videos, **measuring)
    if settings.at is not None:  # in the order of scores, which calibration keeps
        logit = np.array([np.log(settings.at / (1 - settings.at))])
        threshold = float(apply_calibration(logit, model.calibration)[0])
        at_softmax = measure(videos, **measuring | {"threshold": threshold})
        measures |= {name: at_softmax[metric] for name, metric in AT_SOFTMAX.items()}
    return measures


def _representation(index: Index, videos: Sequence[int], stored: IndexedFeatures) -> Representation:
    rows = index.rows(videos)
    video_of = index.video_of(rows)
    scenes, features = scene_ids(index.targets(rows), video_of), stored.features[rows]
    return Representation(
        stored.encoder,
        knn_precision(features, scenes, video_of),
        tuple(scene_nmi(features, scenes, length) for length in SCENE_LENGTHS),
    )
