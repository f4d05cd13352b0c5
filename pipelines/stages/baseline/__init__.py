"""The systems that the paper compares with (Table 1), run and scored on the videos of an index."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from annotated_doc import Doc

from pipelines.errors import explain_missing_extra
from pipelines.options import Settings, check_at_least, nested, with_options
from pipelines.progress import ReportProgress
from pipelines.settings import Matching, Resampling, TrainingData
from pipelines.stages.score import ScoreResult


@dataclass(frozen=True)
class BaselineSettings(Settings):
    """Which system, on which videos."""

    system: Annotated[
        str,
        Doc("""graph-cut, scsa, dp, story-graph, grouping, siamese, lgss, lgss-movienet (lgss in its release's
        sizes, for about two hundred videos) or fixed-length."""),
    ] = "graph-cut"
    data: Annotated[
        TrainingData, Doc("Index with labels. Settings are chosen, and networks trained, on its splits.")
    ] = nested(TrainingData(splits=("train", "val")))
    extra: Annotated[
        tuple[Path, ...],
        Doc("Stores of more feature sets (sound, place, cast), for the systems that take several: grouping and lgss."),
    ] = ()
    matching: Matching = nested(Matching(), without=("truth", "tolerance", "within", "annotator", "doubtful"))
    split: Annotated[str, Doc("Split to score.")] = "test"
    resampling: Resampling = nested(Resampling(0), without=("seed",))
    seeds: Annotated[int, Doc("Training runs of siamese and lgss, each with another seed.")] = 5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_at_least(self, 1, "seeds")


@explain_missing_extra()
def baseline(
    settings: BaselineSettings = BaselineSettings(), progress: ReportProgress | None = None, **options: Any
) -> ScoreResult:
    """Find the scenes of the videos of a split with one of the systems, and score them, as `stages.score.score` does.

    Settings that a system's paper leaves open (`candidates` in `pipelines.baselines.systems`) take the values with the
    greatest sum of AP, F1 and mIoU on the training splits, or their defaults if these have no labelled videos. A system
    with a network needs labelled videos to learn from; its result has mean and deviation over ``seeds``, and otherwise
    shows the first seed. Raises BasslError for an unknown system, or videos without labels, features or times.
    """
    settings = with_options(settings, **options)
    from pipelines.stages.baseline.running import run_baseline  # start-up time: SciPy

    return run_baseline(settings, progress or (lambda stage, done, total: None))
