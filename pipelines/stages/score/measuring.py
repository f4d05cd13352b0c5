"""The metrics of scored films under the settings of scoring, and the difference of two scored predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pipelines.errors import BasslError
from pipelines.evaluation import bootstrap
from pipelines.evaluation.bootstrap import Measure
from pipelines.evaluation.metrics import FilmScores
from pipelines.stages.score.result import Comparison, ScoreResult
from pipelines.stages.score.settings import ScoreSettings

THRESHOLD = 0.5
"""A score that ends a scene; after calibration, if there is one."""


def measures_of(films: Sequence[FilmScores], threshold: float | None, settings: ScoreSettings) -> dict[str, Measure]:
    """All metrics of some films; a threshold of None is `THRESHOLD`."""
    return bootstrap.measure(films, _or_default(threshold), settings.within, settings.resamples, settings.seed)


def _or_default(threshold: float | None) -> float:
    return THRESHOLD if threshold is None else threshold


def difference(first: ScoreResult, second: ScoreResult, settings: ScoreSettings) -> Comparison:
    """Two results and their difference on the films that both have, from the same draws of films. Raises BasslError if
    they have no film in common, or are of different parts of one."""
    common = {film.film for film in first.films} & {film.film for film in second.films}
    if not common:
        raise BasslError(f"{first.name} and {second.name} have no film in common that can be scored")
    for film in sorted(common):
        parts = [result.alignments[film].part if film in result.alignments else None for result in (first, second)]
        if parts[0] != parts[1]:
            raise BasslError(
                f"{film}: {first.name} and {second.name} are of different parts of it; compare the same part"
            )
    one, other = _keep_films(first, common, second.name, settings), _keep_films(second, common, first.name, settings)
    thresholds = _or_default(one.threshold), _or_default(other.threshold)
    measures = bootstrap.compare(one.films, other.films, thresholds, settings.within, settings.resamples, settings.seed)
    return Comparison(one, other, measures)


def _keep_films(result: ScoreResult, common: set[str], other: str, settings: ScoreSettings) -> ScoreResult:
    """A result for some of its films; the others are named among its problems."""
    left = sorted(film.film for film in result.films if film.film not in common)
    if not left:
        return result
    problems = (f"{film}: is scored for {result.name} only, not for {other}; left out" for film in left)
    films = tuple(film for film in result.films if film.film in common)
    return replace(
        result,
        films=films,
        measures=measures_of(films, result.threshold, settings),
        problems=(*result.problems, *problems),
    )
