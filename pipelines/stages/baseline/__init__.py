"""The systems that the paper compares with (Table 1), run and scored on the videos of an index."""

from __future__ import annotations

from typing import Any

from pipelines.errors import explain_missing_extra
from pipelines.options import with_options
from pipelines.progress import ReportProgress
from pipelines.stages.baseline.settings import BaselineSettings
from pipelines.stages.score import ScoreResult

__all__ = ["BaselineSettings", "baseline"]


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
