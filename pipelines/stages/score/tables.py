"""Metrics of a score as a table: for the terminal, Markdown, LaTeX, CSV or JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from pipelines.errors import BasslError, count
from pipelines.evaluation.bootstrap import AT_SOFTMAX, CONFIDENCE, METRICS, Measure
from pipelines.files import check_output, write_atomically
from pipelines.outputs.tables import NOTHING, WRITERS, TextTable, percent, percent_with_deviation
from pipelines.stages.score import Comparison, ScoreResult

_INTERVAL = f"{CONFIDENCE:.0%} interval".replace("%", " %")


def table_of(result: ScoreResult | Comparison) -> TextTable:
    """Return a row for each metric that is defined: pooled over the videos and as a mean over them, with intervals, and
    over several seeds; for a comparison both, their difference and its interval."""
    if isinstance(result, Comparison):
        return _comparison_table(result)
    labels, at = dict(METRICS), result.settings.at
    if at is not None:
        labels |= {metric: f"{METRICS[metric]}, calibrated" for metric in AT_SOFTMAX.values()}
        labels |= {name: f"{METRICS[metric]} at softmax {at:g}" for name, metric in AT_SOFTMAX.items()}
    measures = {labels[name]: result.measures[name] for name in labels if name in result.measures}
    seeds = {labels[name]: percent_with_deviation(one.mean, one.deviation) for name, one in result.seeds.items()}
    if result.representation is not None:
        knn, nmi = result.representation.knn, result.representation.nmi
        measures |= {f"kNN precision at {k}": Measure(x, None, knn.by_video[k], None) for k, x in knn.pooled.items()}
        names = [f"NMI, {count(trials.scenes, 'scene')} of {trials.length} shots" for trials in nmi]
        measures |= {name: Measure(trials.nmi, None, None, None) for name, trials in zip(names, nmi, strict=True)}
    header = ["metric", "pooled", _INTERVAL, "mean of videos", _INTERVAL]
    rows = [
        [label, percent(one.pooled), _range(one.interval), percent(one.videos), _range(one.videos_interval)]
        for label, one in measures.items()
        if one.value is not None
    ]
    if not any(one.interval or one.videos_interval for one in measures.values()):
        header, *rows = ([row[0], row[1], row[3]] for row in (header, *rows))
    if result.seeds:
        header.append(f"mean of {count(max(len(one.values) for one in result.seeds.values()), 'seed')}")
        rows = [[*row, seeds.get(row[0], NOTHING)] for row in rows]
    return TextTable(tuple(header), tuple(map(tuple, rows)))


def _comparison_table(result: Comparison) -> TextTable:
    rows = [
        (
            METRICS[name] + (", mean of videos" if one.pooled is None else ""),
            percent(result.first.measures[name].value),
            percent(result.second.measures[name].value),
            f"{100 * one.value:+.1f}",
            _range(one.videos_interval if one.pooled is None else one.interval, signed=True),
        )
        for name, one in result.difference.items()
        if one.value is not None
    ]
    return TextTable(("metric", result.first.name, result.second.name, "difference", _INTERVAL), tuple(rows))


def _range(interval: tuple[float, float] | None, signed: bool = False) -> str:
    if interval is None:
        return NOTHING
    low, high = (f"{100 * value:{'+' if signed else ''}.1f}" for value in interval)
    return f"{low} to {high}"


def check_table(path: Path, read: Iterable[Path | None]) -> None:
    """Check, before any work, that a table can be written, as `check_output`, and has one of the formats. Raises
    BasslError."""
    if path.suffix.lower() not in (*WRITERS, ".json"):
        raise BasslError(f"{path}: unsupported format of a table; use {', '.join(WRITERS)} or .json")
    check_output(path, read)


def save_table(path: Path, result: ScoreResult | Comparison) -> None:
    """Write the numbers in the format that the file's name ends in, after `check_table`; .json has all of them, as
    `--json`. Raises BasslError if the file cannot be written."""
    kind = path.suffix.lower()
    if kind == ".json":
        text = json.dumps(result.to_dict(), indent=1, allow_nan=False) + "\n"
    else:
        text = WRITERS[kind](table_of(result))
    write_atomically(path, text.encode())
