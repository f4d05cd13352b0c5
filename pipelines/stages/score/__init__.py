"""Metrics of scene detection: of a model on the videos of an index, or of lists of scenes against the truth."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from annotated_doc import Doc

from pipelines.errors import BasslError, explain_missing_extra
from pipelines.options import Settings, nested, with_options
from pipelines.progress import ReportProgress
from pipelines.settings import Compute, Grouping, Matching, Resampling, ScoredData
from pipelines.stages.score.result import Comparison, ScoreResult

__all__ = ["Comparison", "ScoreResult", "ScoreSettings", "compare", "score"]

ALL_SPLITS = "all"
"""Instead of a split: every labelled video."""


@dataclass(frozen=True)
class ScoreSettings(Settings):
    """What is scored, and how.

    A threshold of 0.5 is softmax's, as in the paper's release, for an imported or pre-trained model. A run of `bassl
    finetune` is calibrated on its validation split: 0.5 is the threshold of best F1 there, and its result.json has
    both. The setting for doubtful labels is for the truth; an index has its own.
    """

    data: Annotated[
        ScoredData,
        Doc("Index of the videos that a model is scored on. Features that are missing are computed into the folder."),
    ] = nested(ScoredData())
    split: Annotated[str, Doc("Videos of this split; ``all`` takes every labelled video.")] = "test"
    sound: Annotated[
        Path, Doc("Folder of sound (bassl extract-sound), for a model that was fine-tuned with sound.")
    ] = Path("data/sound")
    grouping: Grouping = nested(
        Grouping(),
        without=("min_scene", "max_scene", "drop_short", "scenes"),
        defaults={"threshold": "0.5 for a model; for a list of scenes, the scenes that it lists"},
    )
    matching: Matching = nested(Matching(), without=("truth",))
    resampling: Resampling = nested(Resampling(1000))
    representation: Annotated[
        bool,
        Doc("""Also measure how well features group by scene: kNN precision and NMI (appendix). For a feature
        store, or a pre-trained run without a head that scores videos, only this is measured."""),
    ] = False
    compute: Compute = nested(Compute(), without=("workers", "precision"))

    @property
    def measuring(self) -> dict[str, Any]:
        """The arguments of `pipelines.evaluation.bootstrap.measure`."""
        threshold = 0.5 if self.grouping.threshold is None else self.grouping.threshold
        resampling = {"resamples": self.resampling.resamples, "seed": self.resampling.seed}
        return {"threshold": threshold, "within": self.matching.within, **resampling}


@explain_missing_extra()
def score(
    subject: Path | str,
    truth: Path | str | None = None,
    settings: ScoreSettings = ScoreSettings(),
    progress: ReportProgress | None = None,
    **options: Any,
) -> ScoreResult:
    """Score a model on the videos of an index, or lists of scenes against the truth.

    Without a truth, ``subject`` is the folder of a run, a model file, ``default`` for the built-in model, or, for its
    representation only, a feature store; with a truth a scenes.json or another list of scenes, or a folder of them.
    ``truth`` is labels in any format that `pipelines.datasets.sources` reads, or a folder of them, matched with the
    predictions by name. ``progress`` is called as videos are scored and features computed.
    Raises BasslError for anything that cannot be read or does not fit; in folders a damaged prediction, or one without
    its truth, is left out and named among the result's problems.
    """
    settings = with_options(settings, **options)
    if truth is None:
        from pipelines.stages.score.model import score_model  # start-up time: OpenCV

        return score_model(subject, settings, progress or (lambda stage, done, total: None))
    if settings.representation:
        raise BasslError("a list of scenes has no representation to score; leave out `representation` or the truth")
    from pipelines.stages.score.lists import score_lists  # start-up time: numpy

    return score_lists(Path(subject), Path(truth), settings)


def compare(
    first: Path | str,
    second: Path | str,
    truth: Path | str | None = None,
    settings: ScoreSettings = ScoreSettings(),
    progress: ReportProgress | None = None,
    **options: Any,
) -> Comparison:
    """Score two predictions, and their difference with its confidence interval, from the same draws of videos.

    Videos that only one of the two has are excluded and named among the problems. Raises BasslError as `score`, or if
    the two have no video in common, or are of different parts of one.
    """
    from pipelines.evaluation import bootstrap  # start-up time: numpy

    settings = with_options(settings, **options)
    scored = [score(subject, truth, settings, progress) for subject in (first, second)]
    names = [{video.video for video in result.videos} for result in scored]
    common = names[0] & names[1]
    if not common:
        raise BasslError(f"{first} and {second} have no video in common that can be scored")
    for video in sorted(common):
        parts = [result.alignments[video].part if video in result.alignments else None for result in scored]
        if parts[0] != parts[1]:
            raise BasslError(f"{video}: {first} and {second} are of different parts of it; compare the same part")
    for i, other in enumerate((second, first)):
        if left := sorted(names[i] - common):
            result = scored[i]
            problems = (f"{video}: is scored for {result.name} only, not for {other}; left out" for video in left)
            videos = tuple(video for video in result.videos if video.video in common)
            measures = bootstrap.measure(videos, **settings.measuring)
            scored[i] = replace(result, videos=videos, measures=measures, problems=(*result.problems, *problems))
    difference = bootstrap.compare(scored[0].videos, scored[1].videos, **settings.measuring)
    return Comparison(scored[0], scored[1], difference)
