"""One prediction against the truths of several annotators, and the annotators against each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from statistics import fmean
from typing import Any

from pipelines.errors import BasslError
from pipelines.outputs.tables import NOTHING, TextTable, percent
from pipelines.stages.score.lists import score_lists
from pipelines.stages.score.result import SCHEMA, SCHEMA_VERSION, ScoreResult
from pipelines.stages.score.settings import ScoreSettings


@dataclass(frozen=True)
class AnnotatorScores:
    """A prediction scored against several truths of the same films."""

    scores: Mapping[str, ScoreResult]  # by truth, in the order given
    between: Mapping[tuple[str, str], ScoreResult]  # by (truth taken for a prediction, truth), both ways

    def mean(self, metric: str) -> float | None:
        """Of the prediction over the truths; None where the metric is not defined for one of them."""
        return _mean(self.scores.values(), metric)

    def agreement(self, metric: str) -> float | None:
        """Of the annotators against each other, a mean over ordered pairs; None where not defined for one of them."""
        return _mean(self.between.values(), metric)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain JSON values; metrics from 0 to 1."""
        metrics = next(iter(self.scores.values())).measures
        return {
            "schema": f"{SCHEMA}.annotators",
            "version": SCHEMA_VERSION,
            "scores": {name: one.to_dict() for name, one in self.scores.items()},
            "mean": {metric: self.mean(metric) for metric in metrics},
            "between": [
                {"prediction": first, "truth": second, **one.to_dict()} for (first, second), one in self.between.items()
            ],
            "agreement": {metric: self.agreement(metric) for metric in metrics},
        }


def score_annotators(subject: Path, truths: Sequence[Path], settings: ScoreSettings) -> AnnotatorScores:
    """Score a list of scenes, or a folder of them, against each truth, and each truth as a prediction against each
    other truth. A truth is the labels of one annotator, a file or a folder as for `score`; the threshold of the
    settings is for the prediction only. Raises BasslError where a file cannot be read, or a truth is named twice."""
    names = [str(truth) for truth in truths]
    if len(set(names)) < max(2, len(names)):
        raise BasslError(f"{names[-1]}: name two truths or more, each once")
    scores = {name: score_lists(subject, Path(name), settings) for name in names}
    # A list of scenes ends scenes where it says so.
    listed = ScoreSettings(**{**vars(settings), "threshold": None})
    between = {(one, other): score_lists(Path(one), Path(other), listed) for one, other in permutations(names, 2)}
    return AnnotatorScores(scores, between)


def annotator_table(result: AnnotatorScores, labels: Mapping[str, str]) -> TextTable:
    """A row a metric of ``labels``: against each truth, their mean, and the annotators against each other."""
    rows = [
        (
            label,
            *(_cell(_value(one, metric)) for one in result.scores.values()),
            _cell(result.mean(metric)),
            _cell(result.agreement(metric)),
        )
        for metric, label in labels.items()
        if result.mean(metric) is not None
    ]
    return TextTable(("metric", *result.scores, "mean", "annotators among themselves"), tuple(rows))


def _mean(results: Any, metric: str) -> float | None:
    values = [_value(one, metric) for one in results]
    return None if None in values else fmean(value for value in values if value is not None)


def _value(result: ScoreResult, metric: str) -> float | None:
    return result.measures[metric].value if metric in result.measures else None


def _cell(value: float | None) -> str:
    return NOTHING if value is None else percent(value)
