"""Scoring lists of scenes against the truth."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from pipelines.datasets import VideoAnnotation
from pipelines.datasets.matching import describe_matches
from pipelines.datasets.sources import read_scenes_of_folder, read_scenes_of_video
from pipelines.errors import BasslError, count
from pipelines.evaluation.alignment import Alignment, align
from pipelines.evaluation.bootstrap import measure
from pipelines.scenes import timecode
from pipelines.stages.score import ScoreResult, ScoreSettings


def score_lists(subject: Path, truth: Path, settings: ScoreSettings) -> ScoreResult:
    """Score a list of scenes, or a folder of them, see :func:`pipelines.stages.score.score`."""
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
    """Return pairs of predictions and truths with the same name (of the video, or else of the file), and a line for
    each file without a counterpart."""
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
