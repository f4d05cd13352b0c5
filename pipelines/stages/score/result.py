"""Results of scoring, and their JSON."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # start-up time: numpy; the package imports this module
    from pipelines.evaluation.alignment import Alignment
    from pipelines.evaluation.bootstrap import Measure
    from pipelines.evaluation.metrics import VideoScores
    from pipelines.evaluation.representation import KnnPrecision, SceneClustering
    from pipelines.stages.score import ScoreSettings

SCHEMA, SCHEMA_VERSION = "bassl.score", 1


@dataclass(frozen=True)
class Representation:
    """How well the features of the videos group by scene, see `pipelines.evaluation.representation`."""

    encoder: str
    knn: KnnPrecision
    nmi: tuple[SceneClustering, ...]


@dataclass(frozen=True)
class SeedSpread:
    """A metric over the seeds of a run."""

    mean: float  # of the seeds
    deviation: float | None  # sample standard deviation (n - 1); None for one seed
    values: Mapping[int, float]  # by seed


def seed_spreads(measures: Mapping[int, Mapping[str, Measure]]) -> dict[str, SeedSpread]:
    """The spread of each metric over the seeds that define it."""
    values: dict[str, dict[int, float]] = {}
    for seed, own in measures.items():
        for name, measure in own.items():
            if measure.value is not None:
                values.setdefault(name, {})[seed] = measure.value
    return {
        name: SeedSpread(statistics.fmean(own.values()), statistics.stdev(own.values()) if len(own) > 1 else None, own)
        for name, own in values.items()
    }


@dataclass(frozen=True)
class ScoreResult:
    """The metrics of one prediction."""

    name: str
    videos: tuple[VideoScores, ...]  # labels and scores of each video
    # by name, see `pipelines.evaluation.bootstrap.METRICS`; empty if only features were scored
    measures: Mapping[str, Measure]
    threshold: float | None  # of the scores; None if the prediction lists scene ends itself
    settings: ScoreSettings  # of the scoring
    # by metric, for a run of several seeds; what `measures` shows is the seed that the run chose
    seeds: Mapping[str, SeedSpread] = field(default_factory=dict)
    representation: Representation | None = None  # if it was requested
    # by video, how prediction and truth were matched, for lists of scenes
    alignments: Mapping[str, Alignment] = field(default_factory=dict)
    problems: tuple[str, ...] = ()  # a line for each file or video that could not be scored
    notes: tuple[str, ...] = ()  # lines that explain the numbers

    @property
    def parts(self) -> tuple[ScoreResult, ...]:
        """This result alone; others have several."""
        return (self,)

    @property
    def shots(self) -> int:
        """Shots that are scored."""
        return sum(int(video.is_counted.sum()) for video in self.videos)

    @property
    def scene_ends(self) -> int:
        """True scene ends among the shots."""
        return sum(int(video.labels[video.is_counted].sum()) for video in self.videos)

    def to_dict(self) -> dict[str, Any]:
        """The result as plain JSON values; metrics from 0 to 1 (Sum to 4), None where not defined."""
        from pipelines.evaluation.bootstrap import CONFIDENCE, JSON_KEYS, flatten  # start-up time: numpy

        content: dict[str, Any] = {
            "schema": SCHEMA,
            "version": SCHEMA_VERSION,
            "name": self.name,
            "videos": [video.video for video in self.videos],
            "shots": self.shots,
            "scene_ends": self.scene_ends,
            "threshold": self.threshold,
            "within": self.settings.matching.within,
            "resamples": self.settings.resampling.resamples,
            "confidence": CONFIDENCE,
            "metrics": flatten(self.measures),
            "seeds": {
                JSON_KEYS.get(name, name): {
                    "mean": one.mean,
                    "std": one.deviation,
                    "values": {str(seed): value for seed, value in one.values.items()},
                }
                for name, one in self.seeds.items()
            },
            "problems": list(self.problems),
            "notes": list(self.notes),
        }
        if self.alignments:
            content["tolerance"] = self.settings.matching.tolerance
            content["matching"] = {video: _matching(one) for video, one in self.alignments.items()}
        if self.representation is not None:
            content["representation"] = {
                "encoder": self.representation.encoder,
                "knn": {str(k): _number(value) for k, value in self.representation.knn.pooled.items()},
                "knn_videos": {str(k): _number(value) for k, value in self.representation.knn.by_video.items()},
                "nmi": {
                    str(one.length): {"mean": _number(one.nmi), "scenes": one.scenes, "trials": list(one.trials)}
                    for one in self.representation.nmi
                },
            }
        return content


@dataclass(frozen=True)
class Comparison:
    """Two predictions for the same videos."""

    first: ScoreResult  # as ``second``, on the videos that both have
    second: ScoreResult
    difference: Mapping[str, Measure]  # first less second, metric by metric, measured on the same draws of videos

    @property
    def parts(self) -> tuple[ScoreResult, ...]:
        return self.first, self.second

    @property
    def problems(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.first.problems, *self.second.problems)))

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((*self.first.notes, *self.second.notes)))

    def to_dict(self) -> dict[str, Any]:
        """The result as plain JSON values."""
        from pipelines.evaluation.bootstrap import flatten  # start-up time: numpy

        return {
            "schema": f"{SCHEMA}.comparison",
            "version": SCHEMA_VERSION,
            "first": self.first.to_dict(),
            "second": self.second.to_dict(),
            "difference": flatten(self.difference),
        }


@dataclass(frozen=True)
class AnnotatorScores:
    """A prediction scored against several truths of the same videos."""

    scores: Mapping[str, ScoreResult]  # by truth, in the order of the arguments
    between: Mapping[tuple[str, str], ScoreResult]  # by (truth taken for a prediction, truth), both ways

    @property
    def parts(self) -> tuple[ScoreResult, ...]:
        return tuple(self.scores.values())

    @property
    def problems(self) -> tuple[str, ...]:
        results = (*self.parts, *self.between.values())
        return tuple(dict.fromkeys(line for result in results for line in result.problems))

    @property
    def notes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(line for result in self.parts for line in result.notes))

    def mean(self, metric: str) -> float | None:
        """Of the prediction over the truths; None if the metric is not defined for one of them."""
        return _mean(self.scores.values(), metric)

    def agreement(self, metric: str) -> float | None:
        """Of the annotators against each other, a mean over ordered pairs; None if not defined for one of them."""
        return _mean(self.between.values(), metric)

    def to_dict(self) -> dict[str, Any]:
        """The result as plain JSON values; metrics from 0 to 1."""
        metrics = next(iter(self.scores.values())).measures
        return {
            "schema": f"{SCHEMA}.annotators",
            "version": SCHEMA_VERSION,
            "scores": {name: one.to_dict() for name, one in self.scores.items()},
            "mean": {metric: self.mean(metric) for metric in metrics},
            "between": [{"prediction": a, "truth": b, **one.to_dict()} for (a, b), one in self.between.items()],
            "agreement": {metric: self.agreement(metric) for metric in metrics},
        }


def _mean(results: Iterable[ScoreResult], metric: str) -> float | None:
    values = [one.measures[metric].value if metric in one.measures else None for one in results]
    return None if None in values else statistics.fmean(value for value in values if value is not None)


def _matching(one: Alignment) -> dict[str, Any]:
    truth, prediction = (
        report and {**asdict(report), "unmatched": list(report.unmatched)} for report in (one.truth, one.prediction)
    )
    return {"shots": one.basis, "part": one.part, "truth": truth, "prediction": prediction}


def _number(value: float) -> float | None:
    return None if value != value else value
