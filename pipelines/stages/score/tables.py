"""Metrics of a score as a table: for the terminal, Markdown, LaTeX, CSV or JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from pipelines.errors import BasslError, count
from pipelines.evaluation.bootstrap import AT_SOFTMAX, CONFIDENCE, METRICS
from pipelines.files import write_atomically
from pipelines.outputs.tables import (
    NOTHING,
    TextTable,
    comma_separated,
    latex,
    markdown,
    percent,
    percent_with_deviation,
)
from pipelines.stages.score import AnnotatorScores, Comparison, ScoreResult

_INTERVAL = f"{CONFIDENCE:.0%} interval".replace("%", " %")


def table_of(result: ScoreResult | Comparison | AnnotatorScores) -> TextTable:
    """Return a row for each metric that is defined: pooled over the videos and as a mean over them, with intervals, and
    over several seeds; for a comparison both, their difference and its interval; for several annotators the prediction
    against each, the mean, and the annotators against each other."""
    if isinstance(result, AnnotatorScores):
        return _annotator_table(result)
    return _comparison_table(result) if isinstance(result, Comparison) else _score_table(result)


def _score_table(result: ScoreResult) -> TextTable:
    intervals = any(one.interval or one.videos_interval for one in result.measures.values())
    header = ["metric", "pooled", _INTERVAL, "mean of videos", _INTERVAL]
    if result.seeds:
        header.append(f"mean of {count(max(len(one.values) for one in result.seeds.values()), 'seed')}")
    labels, at = dict(METRICS), result.settings.at
    if at is not None:
        labels |= {metric: f"{METRICS[metric]}, calibrated" for metric in AT_SOFTMAX.values()}
        labels |= {name: f"{METRICS[metric]} at softmax {at:g}" for name, metric in AT_SOFTMAX.items()}
    rows = []
    for name, label in labels.items():
        one = result.measures.get(name)
        if one is None or one.value is None:
            continue
        row = [label, percent(one.pooled), _range(one.interval), percent(one.videos), _range(one.videos_interval)]
        if result.seeds:
            spread = result.seeds.get(name)
            row.append(NOTHING if spread is None else percent_with_deviation(spread.mean, spread.deviation))
        rows.append(row)
    if result.representation is not None:
        representation = result.representation
        for k, value in representation.knn.pooled.items():
            rows.append([f"kNN precision at {k}", percent(value), NOTHING, percent(representation.knn.by_video[k])])
        for trials in representation.nmi:
            rows.append([f"NMI, {count(trials.scenes, 'scene')} of {trials.length} shots", percent(trials.nmi)])
        rows = [row + [NOTHING] * (len(header) - len(row)) for row in rows]
    if not intervals:
        columns = [i for i, name in enumerate(header) if name != _INTERVAL]
        header, rows = [header[i] for i in columns], [[row[i] for i in columns] for row in rows]
    return TextTable(tuple(header), tuple(tuple(row) for row in rows))


def _comparison_table(result: Comparison) -> TextTable:
    names = (result.first.name, result.second.name)
    rows = []
    for name, label in METRICS.items():
        measures = [one.measures.get(name) for one in (result.first, result.second)]
        if any(one is None or one.value is None for one in measures):
            continue
        difference = result.difference[name]
        interval = difference.interval if difference.pooled is not None else difference.videos_interval
        rows.append(
            (
                label + (", mean of videos" if difference.pooled is None else ""),
                *(percent(one.value) for one in measures if one is not None),
                NOTHING if difference.value is None else f"{100 * difference.value:+.1f}",
                _range(interval, signed=True),
            )
        )
    return TextTable(("metric", *names, "difference", _INTERVAL), tuple(rows))


def _annotator_table(result: AnnotatorScores) -> TextTable:
    rows = []
    for name, label in METRICS.items():
        if (mean := result.mean(name)) is not None:
            values = [*(one.measures[name].value for one in result.parts), mean, result.agreement(name)]
            rows.append((label, *map(percent, values)))
    return TextTable(("metric", *result.scores, "mean", "annotators among themselves"), tuple(rows))


def _range(interval: tuple[float, float] | None, signed: bool = False) -> str:
    if interval is None:
        return NOTHING
    low, high = (f"{100 * value:{'+' if signed else ''}.1f}" for value in interval)
    return f"{low} to {high}"


_WRITERS: dict[str, Callable[[TextTable], str]] = {".md": markdown, ".tex": latex, ".csv": comma_separated}
FORMATS = (*_WRITERS, ".json")


def check_table(path: Path) -> None:
    """Check, before any work, that the name ends in one of `FORMATS`. Raises BasslError."""
    if path.suffix.lower() not in FORMATS:
        raise BasslError(f"{path}: a table is a {', '.join(FORMATS[:-1])} or {FORMATS[-1]} file; name one")


def save_table(path: Path, result: ScoreResult | Comparison | AnnotatorScores) -> None:
    """Write the numbers in the format that the file's name ends in, after `check_table`; .json has all of them, as
    `--json`. Raises BasslError if the file cannot be written."""
    kind = path.suffix.lower()
    if kind == ".json":
        text = json.dumps(result.to_dict(), indent=1, allow_nan=False) + "\n"
    else:
        text = _WRITERS[kind](table_of(result))
    write_atomically(path, text.encode())
