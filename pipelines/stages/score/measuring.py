"""The metrics of scored videos under the settings of scoring, and the difference of two scored predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from pipelines.errors import BasslError
from pipelines.evaluation import bootstrap
from pipelines.evaluation.bootstrap import Measure
from pipelines.evaluation.metrics import VideoScores
from pipelines.stages.score.result import Comparison, ScoreResult
from pipelines.stages.score.settings import ScoreSettings

THRESHOLD = 0.5
"""A score that ends a scene; after calibration, if there is one."""


def measures_of(videos: Sequence[VideoScores], threshold: float | None, settings: ScoreSettings) -> dict[str, Measure]:
    """All metrics of some videos; a threshold of None is `THRESHOLD`."""
    return bootstrap.measure(
        videos,
        _or_default(threshold),
        settings.matching.within,
        settings.resampling.resamples,
        settings.resampling.seed,
    )


def _or_default(threshold: float | None) -> float:
    return THRESHOLD if threshold is None else threshold


def difference(first: ScoreResult, second: ScoreResult, settings: ScoreSettings) -> Comparison:
    """Two results and their difference on the videos that both have, from the same draws of videos. Raises BasslError
    if they have no video in common, or are of different parts of one."""
    common = {video.video for video in first.videos} & {video.video for video in second.videos}
    if not common:
        raise BasslError(f"{first.name} and {second.name} have no video in common that can be scored")
    for video in sorted(common):
        parts = [result.alignments[video].part if video in result.alignments else None for result in (first, second)]
        if parts[0] != parts[1]:
            raise BasslError(
                f"{video}: {first.name} and {second.name} are of different parts of it; compare the same part"
            )
    one, other = _keep_videos(first, common, second.name, settings), _keep_videos(second, common, first.name, settings)
    thresholds = _or_default(one.threshold), _or_default(other.threshold)
    measures = bootstrap.compare(
        one.videos,
        other.videos,
        thresholds,
        settings.matching.within,
        settings.resampling.resamples,
        settings.resampling.seed,
    )
    return Comparison(one, other, measures)


def _keep_videos(result: ScoreResult, common: set[str], other: str, settings: ScoreSettings) -> ScoreResult:
    """A result for some of its videos; the others are named among its problems."""
    left = sorted(video.video for video in result.videos if video.video not in common)
    if not left:
        return result
    problems = (f"{video}: is scored for {result.name} only, not for {other}; left out" for video in left)
    videos = tuple(video for video in result.videos if video.video in common)
    return replace(
        result,
        videos=videos,
        measures=measures_of(videos, result.threshold, settings),
        problems=(*result.problems, *problems),
    )
