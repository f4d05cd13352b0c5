"""Metrics of scene detection: of a model on the videos of an index, or of lists of scenes against the truth."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from pipelines.datasets import VideoAnnotation
from pipelines.datasets.matching import describe_matches
from pipelines.datasets.sources import read_scenes_of_folder, read_scenes_of_video
from pipelines.errors import BasslError, count, explain_missing_extra
from pipelines.evaluation.alignment import Alignment, align
from pipelines.evaluation.bootstrap import AT_SOFTMAX, CONFIDENCE, JSON_KEYS, METRICS, Measure, flatten, measure
from pipelines.evaluation.metrics import KnnPrecision, SceneClustering, VideoScores
from pipelines.files import write_atomically
from pipelines.options import resolve_settings
from pipelines.outputs.tables import NOTHING, WRITERS, TextTable, mean_and_deviation, percent, percent_with_deviation
from pipelines.progress import ReportProgress, no_progress
from pipelines.scenes import timecode
from pipelines.stages.settings import ScoreSettings

if TYPE_CHECKING:  # types of options for editors and mypy
    from pipelines.stages.option_types import ScoreOptions

SCHEMA, SCHEMA_VERSION = "bassl.score", 1
_INTERVAL = f"{CONFIDENCE:.0%} interval".replace("%", " %")


@dataclass(frozen=True)
class Representation:
    """How well the features of the videos group by scene, see `pipelines.evaluation.metrics`."""

    encoder: str
    knn: KnnPrecision
    nmi: tuple[SceneClustering, ...]


def values_of_seeds(measures: Mapping[int, Mapping[str, Measure]]) -> dict[str, dict[int, float]]:
    """Return the values of each metric by seed, as far as they are defined."""
    values: dict[str, dict[int, float]] = {}
    for seed, of_seed in measures.items():
        for name, one in of_seed.items():
            if one.value is not None:
                values.setdefault(name, {})[seed] = one.value
    return values


@dataclass(frozen=True, repr=False)
class ScoreResult:
    """The metrics of one prediction."""

    name: str
    videos: tuple[VideoScores, ...]  # labels and scores of each video
    measures: Mapping[str, Measure]  # by name in `METRICS`, with the setting `at` also in `AT_SOFTMAX`
    threshold: float | None  # of the scores; None if the prediction lists scene ends itself
    settings: ScoreSettings  # of the scoring
    seeds: Mapping[str, Mapping[int, float]] = field(default_factory=dict)  # by metric, for a run of several seeds
    representation: Representation | None = None  # if it was requested
    alignments: Mapping[str, Alignment] = field(default_factory=dict)  # by video, for lists of scenes
    problems: tuple[str, ...] = ()  # a line for each file or video that could not be scored
    notes: tuple[str, ...] = ()  # lines that explain the numbers

    def __repr__(self) -> str:
        facts = [repr(self.name), count(len(self.videos), "video"), count(self.shots, "shot")]
        values = {
            METRICS[name]: self.measures[name].value for name in ("ap", "miou", "auc", "f1") if name in self.measures
        }
        facts += [f"{name} {100 * value:.1f}" for name, value in values.items() if value is not None]
        return f"ScoreResult({', '.join(facts)})"

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
        seeds = {}
        for name, values in self.seeds.items():
            mean, deviation = mean_and_deviation(values.values())
            seeds[JSON_KEYS.get(name, name)] = {"mean": mean, "std": deviation, "values": values}
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
            "seeds": seeds,
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
        text = json.dumps(content, default=asdict)
        plain: dict[str, Any] = json.loads(text, parse_constant=lambda not_a_number: None)
        return plain


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
    predictions by name. Raises BasslError for anything that cannot be read or does not fit; in folders a damaged
    prediction, or one without its truth, is left out and named among the result's problems."""
    settings = resolve_settings(ScoreSettings, settings, options)
    if truth is None:
        from pipelines.stages.score.model import score_model  # start-up time: OpenCV

        return score_model(subject, settings, progress or no_progress)
    if settings.representation or settings.at is not None:
        raise BasslError("`representation` and `at` are of a model, not of a list of scenes; leave them out")
    return _score_lists(Path(subject), Path(truth), settings)


def _score_lists(subject: Path, truth: Path, settings: ScoreSettings) -> ScoreResult:
    """Score a list of scenes, or a folder of them, see `score`."""
    guesses, problems = _read(subject, settings)
    truths, unread = _read(truth, settings)
    pairs, unmatched = _matched_by_name(guesses, truths)
    if not (subject.is_dir() or truth.is_dir()):  # two files belong together, whatever their names
        pairs = list(zip(guesses.values(), truths.values(), strict=True))
    elif not pairs:
        raise BasslError(f"{truth}: has no labels with the name of {subject}{f' ({unread[0]})' if unread else ''}")
    if subject.is_dir():
        problems = [*problems, *unread, *unmatched]
    alignments, threshold = dict[str, Alignment](), settings.grouping.threshold
    tolerance, rate, doubtful = settings.matching.tolerance, settings.matching.frame_rate, settings.matching.doubtful
    for guess, true in pairs:
        try:
            alignments[true.video_id] = align(guess, true, tolerance, threshold, frame_rate=rate, doubtful=doubtful)
        except BasslError as error:
            problems.append(str(error))
    if not alignments:
        raise BasslError(problems[-1])
    videos = tuple(one.video for one in alignments.values())
    return ScoreResult(
        name=str(subject),
        videos=videos,
        measures=measure(videos, **settings.measuring),
        threshold=threshold,
        settings=settings,
        alignments=alignments,
        problems=tuple(problems),
        notes=tuple(_notes(alignments)),
    )


def _read(path: Path, settings: ScoreSettings) -> tuple[dict[str, VideoAnnotation], list[str]]:
    """Return the scenes of a file or a folder by video, and a line for each file that cannot be read."""
    if path.is_dir():
        return read_scenes_of_folder(path, settings.matching.annotator, settings.matching.frame_rate)
    record = read_scenes_of_video(path, settings.matching.frame_rate)
    return {record.video_id: record}, []


def _matched_by_name(
    guesses: Mapping[str, VideoAnnotation], truths: Mapping[str, VideoAnnotation]
) -> tuple[list[tuple[VideoAnnotation, VideoAnnotation]], list[str]]:
    """Return pairs with one name, the video's or else the file's, and a line for each file without another."""
    pairs, lines, left = [], [], dict(truths)
    ids = {_file_name(true): video for video, true in truths.items()} | {video: video for video in truths}
    for video, guess in sorted(guesses.items(), key=lambda item: item[0] not in truths):  # equal ids first
        name = next((ids[name] for name in (video, _file_name(guess)) if ids.get(name) in left), None)
        if name is None:
            lines.append(f"{guess.source}: no truth of this name ({video}); left out")
        else:
            pairs.append((guess, left.pop(name)))
    lines += [f"{true.source}: no prediction of this name ({true.video_id}); left out" for true in left.values()]
    return sorted(pairs, key=lambda pair: pair[1].video_id), lines


def _file_name(record: VideoAnnotation) -> str:
    """Return the file's stem, without what `bassl predict` and PySceneDetect add to a video's name."""
    return re.sub(r"(?i)[-_.]scenes$", "", record.source.stem)


def _notes(alignments: Mapping[str, Alignment]) -> Iterator[str]:
    """Yield how the boundaries of prediction and truth were matched, and which videos differ in length."""
    for basis in dict.fromkeys(one.basis for one in alignments.values()):
        some = [one for one in alignments.values() if one.basis == basis]
        note = f"{count(len(some), 'video')} compared on {basis}"
        if reports := [report for one in some if (report := one.truth or one.prediction)]:
            ends = "true scene ends" if some[0].truth else "predicted scene ends"
            note += f": {describe_matches(reports, ends)}"
            note += "; the others split a shot" * any(report.unmatched for report in reports)
        yield note
    for name, one in alignments.items():
        if one.part is not None:
            start, end = map(timecode, one.part)
            yield f"{name}: only the part from {start} to {end} is scored, as only that was read"
        if one.lengths is not None and abs(one.lengths[0] - one.lengths[1]) > max(5.0, 0.02 * max(one.lengths)):
            lengths = "the prediction lasts {:.1f} s and the truth {:.1f} s".format(*one.lengths)
            yield f"{name}: {lengths}; are they of the same video?"
    if any(one.video.predicted is not None and np.isnan(one.video.scores).all() for one in alignments.values()):
        yield "a list of scenes without scores has no AP, no AUC-ROC and no Sum"


def table_of(result: ScoreResult) -> TextTable:
    """Return a row for each defined metric: over all shots, as a mean over videos, and over several seeds."""
    labels, at = dict(METRICS), result.settings.at
    if at is not None:
        labels |= {metric: f"{METRICS[metric]}, calibrated" for metric in AT_SOFTMAX.values()}
        labels |= {name: f"{METRICS[metric]} at softmax {at:g}" for name, metric in AT_SOFTMAX.items()}
    measures = {labels[name]: result.measures[name] for name in labels if name in result.measures}
    seeds = {
        labels[name]: percent_with_deviation(*mean_and_deviation(values.values()))
        for name, values in result.seeds.items()
    }
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
        header.append(f"mean of {count(max(map(len, result.seeds.values())), 'seed')}")
        rows = [[*row, seeds.get(row[0], NOTHING)] for row in rows]
    return TextTable(tuple(header), tuple(map(tuple, rows)))


def _range(interval: tuple[float, float] | None) -> str:
    return NOTHING if interval is None else " to ".join(map(percent, interval))


def save_table(path: Path, result: ScoreResult) -> None:
    """Write the numbers in the format of the extension, .json as `--json`. Raises BasslError if that fails."""
    kind = path.suffix.lower()
    if kind == ".json":
        text = json.dumps(result.to_dict(), indent=1, allow_nan=False) + "\n"
    else:
        text = WRITERS[kind](table_of(result))
    write_atomically(path, text.encode())
