"""The metrics of scored films under the settings of scoring."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.evaluation.bootstrap import Measure, measure
from pipelines.evaluation.metrics import FilmScores
from pipelines.stages.score.settings import ScoreSettings

THRESHOLD = 0.5
"""A score that ends a scene, as in the paper's release."""


def measured(films: Sequence[FilmScores], threshold: float | None, settings: ScoreSettings) -> dict[str, Measure]:
    """All metrics of some films; a threshold of None is `THRESHOLD`."""
    return measure(
        films, THRESHOLD if threshold is None else threshold, settings.within, settings.resamples, settings.seed
    )
