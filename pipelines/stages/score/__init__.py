"""Metrics of scene detection: of a model on the videos of an index, or of lists of scenes against the truth."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Unpack

from annotated_doc import Doc

from pipelines.errors import BasslError, count, explain_missing_extra
from pipelines.options import Settings, nested, resolve_settings
from pipelines.progress import ReportProgress, no_progress
from pipelines.settings import Compute, Grouping, Matching, Resampling, ScoredData

if TYPE_CHECKING:  # start-up time: numpy
    from pipelines.evaluation.alignment import Alignment
    from pipelines.evaluation.bootstrap import Measure
    from pipelines.evaluation.metrics import VideoScores
    from pipelines.evaluation.representation import KnnPrecision, SceneClustering
    from pipelines.stages.option_types import ScoreOptions

SCHEMA, SCHEMA_VERSION = "bassl.score", 1


@dataclass(frozen=True)
class ScoreSettings(Settings):
    """What is scored, and how.

    A threshold of 0.5 is softmax's, as in the paper's release, for an imported or pre-trained model. A run of `bassl
    finetune` is calibrated on its validation split: 0.5 is the threshold of best F1 there, and its result.json has
    both. The setting for doubtful labels is for the truth; an index has its own.
    """

    data: ScoredData = nested(ScoredData())
    split: Annotated[str, Doc("Videos of this split; ``all`` takes every labeled video.")] = "test"
    grouping: Grouping = nested(
        Grouping(),
        without=("min_scene", "max_scene", "drop_short", "scenes"),
        defaults={"threshold": "0.5 for a model; for a list of scenes, the scenes that it lists"},
    )
    at: Annotated[
        float | None,
        Doc("""Also show F1 and mIoU at this softmax of the network itself, before calibration; the paper's protocol
        is 0.5."""),
    ] = None
    matching: Matching = nested(Matching(), without=("truth",))
    resampling: Resampling = nested(Resampling(1000))
    representation: Annotated[
        bool,
        Doc("""Also measure how well features group by scene: kNN precision and NMI (appendix). For a feature
        store, or a pre-trained run without a head that scores videos, only this is measured."""),
    ] = False
    compute: Compute = nested(Compute(), without=("workers", "precision"))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.at is not None and not 0 < self.at < 1:
            raise ValueError(f"at must be a softmax above 0 and below 1, for example 0.5, not {self.at:g}")

    @property
    def measuring(self) -> dict[str, Any]:
        """Return the arguments of `pipelines.evaluation.bootstrap.measure`."""
        return {"threshold": self.grouping.threshold or 0.5, "within": self.matching.within, **vars(self.resampling)}


@dataclass(frozen=True)
class Representation:
    """How well the features of the videos group by scene, see `pipelines.evaluation.representation`."""

    encoder: str
    knn: KnnPrecision
    nmi: tuple[SceneClustering, ...]


@dataclass(frozen=True)
class SeedSpread:
    """A metric over the seeds of a run."""

    values: Mapping[int, float]  # by seed

    @property
    def mean(self) -> float:
        """Return the mean over seeds."""
        return statistics.fmean(self.values.values())

    @property
    def deviation(self) -> float | None:
        """Return the sample standard deviation (n - 1), or None for one seed."""
        return statistics.stdev(self.values.values()) if len(self.values) > 1 else None


def seed_spreads(measures: Mapping[int, Mapping[str, Measure]]) -> dict[str, SeedSpread]:
    """Return the spread of each metric over the seeds that define it."""
    values: dict[str, dict[int, float]] = {}
    for seed, of_seed in measures.items():
        for name, measure in of_seed.items():
            if measure.value is not None:
                values.setdefault(name, {})[seed] = measure.value
    return {name: SeedSpread(by_seed) for name, by_seed in values.items()}


@dataclass(frozen=True, repr=False)
class ScoreResult:
    """The metrics of one prediction."""

    name: str
    videos: tuple[VideoScores, ...]  # labels and scores of each video
    # by name, see `pipelines.evaluation.bootstrap.METRICS`; with the setting `at` also `AT_SOFTMAX`; empty if only
    # features were scored
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

    def __repr__(self) -> str:
        counts = f"{count(len(self.videos), 'video')}, {count(self.shots, 'shot')}"
        return f"ScoreResult({self.name!r}, {counts}{_in_percent(self.measures)})"

    @property
    def shots(self) -> int:
        """Return the number of shots that are scored."""
        return sum(int(video.is_counted.sum()) for video in self.videos)

    @property
    def scene_ends(self) -> int:
        """Return the number of true scene ends among the shots."""
        return sum(int(video.labels[video.is_counted].sum()) for video in self.videos)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain JSON values; metrics from 0 to 1 (Sum to 4), None where not defined."""
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
                JSON_KEYS.get(name, name): {"mean": one.mean, "std": one.deviation, "values": one.values}
                for name, one in self.seeds.items()
            },
            "problems": self.problems,
            "notes": self.notes,
        }
        if self.alignments:
            content["tolerance"] = self.settings.matching.tolerance
            content["matching"] = {
                video: {"shots": one.basis, "part": one.part, "truth": one.truth, "prediction": one.prediction}
                for video, one in self.alignments.items()
            }
        if self.representation is not None:
            knn, nmi = self.representation.knn, self.representation.nmi
            content["representation"] = {
                "encoder": self.representation.encoder,
                "knn": knn.pooled,
                "knn_videos": knn.by_video,
                "nmi": {one.length: {"mean": one.nmi, "scenes": one.scenes, "trials": one.trials} for one in nmi},
            }
        plain: dict[str, Any] = json.loads(
            json.dumps(content, default=asdict), parse_constant=lambda not_a_number: None
        )
        return plain


@dataclass(frozen=True, repr=False)
class Comparison:
    """Two predictions for the same videos."""

    first: ScoreResult  # as ``second``, on the videos that both have
    second: ScoreResult
    difference: Mapping[str, Measure]  # first less second, metric by metric, measured on the same draws of videos

    def __repr__(self) -> str:
        return f"Comparison({self.first!r}, {self.second!r}{_in_percent(self.difference, '+')})"

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain JSON values."""
        from pipelines.evaluation.bootstrap import flatten  # start-up time: numpy

        return {
            "schema": f"{SCHEMA}.comparison",
            "version": SCHEMA_VERSION,
            "first": self.first.to_dict(),
            "second": self.second.to_dict(),
            "difference": flatten(self.difference),
        }


def _in_percent(measures: Mapping[str, Measure], sign: str = "") -> str:
    """Return the paper's metrics for a text such as a repr, in percent."""
    from pipelines.evaluation.bootstrap import METRICS  # start-up time: numpy

    values = {METRICS[name]: measures[name].value for name in ("ap", "miou", "auc", "f1") if name in measures}
    return "".join(f", {name} {100 * value:{sign}.1f}" for name, value in values.items() if value is not None)


@explain_missing_extra()
def score(
    subject: Path | str,
    truth: Path | str | None = None,
    settings: ScoreSettings | None = None,
    progress: ReportProgress | None = None,
    **options: Unpack[ScoreOptions],
) -> ScoreResult:
    """Score a model on the videos of an index, or lists of scenes against the truth.

    Without a truth, ``subject`` is the folder of a run, a model file, ``default`` for the built-in model, or, for its
    representation only, a feature store; with a truth a scenes.json or another list of scenes, or a folder of them.
    ``truth`` is labels in any format that `pipelines.datasets.sources` reads, or a folder of them, matched with the
    predictions by name. ``progress`` is called as videos are scored and features computed.
    Raises BasslError for anything that cannot be read or does not fit; in folders a damaged prediction, or one without
    its truth, is left out and named among the result's problems.
    """
    settings = resolve_settings(ScoreSettings, settings, options)
    if truth is None:
        from pipelines.stages.score.model import score_model  # start-up time: OpenCV

        return score_model(subject, settings, progress or no_progress)
    if settings.representation or settings.at is not None:
        raise BasslError(
            "`representation` and `at` are of a model, not of a list of scenes; leave them or the truth out"
        )
    from pipelines.stages.score.lists import score_lists  # start-up time: numpy

    return score_lists(Path(subject), Path(truth), settings)


def compare(
    first: Path | str,
    second: Path | str,
    truth: Path | str | None = None,
    settings: ScoreSettings | None = None,
    progress: ReportProgress | None = None,
    **options: Unpack[ScoreOptions],
) -> Comparison:
    """Score two predictions, and their difference with its confidence interval, from the same draws of videos.

    Videos that only one of the two has are excluded and named among its problems. Raises BasslError as `score`, or if
    the two have no video in common, or are of different parts of one.
    """
    from pipelines.evaluation import bootstrap  # start-up time: numpy

    settings = resolve_settings(ScoreSettings, settings, options)
    if settings.representation or settings.at is not None:
        raise BasslError("`representation` and `at` are of one model; score each of the two")
    scored = [score(subject, truth, settings, progress) for subject in (first, second)]
    names = [{video.video for video in result.videos} for result in scored]
    if not (common := names[0] & names[1]):
        raise BasslError(f"{first} and {second} have no video in common that can be scored")
    for i, other in enumerate((second, first)):
        if left := sorted(names[i] - common):
            result = scored[i]
            problems = (f"{video}: is scored for {result.name} only, not for {other}; left out" for video in left)
            videos = tuple(video for video in result.videos if video.video in common)
            measures = bootstrap.measure(videos, **settings.measuring)
            scored[i] = replace(result, videos=videos, measures=measures, problems=(*result.problems, *problems))
    a, b = scored
    for video in sorted(common & a.alignments.keys()):
        if a.alignments[video].part != b.alignments[video].part:
            raise BasslError(f"{video}: {first} and {second} are of different parts of it; compare the same part")
    return Comparison(a, b, bootstrap.compare(a.videos, b.videos, **settings.measuring))
