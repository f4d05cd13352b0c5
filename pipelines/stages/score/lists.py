"""Scoring lists of scenes against the truth."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from pipelines.datasets.annotations import VideoAnnotation
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
    if subject.is_dir():
        problems = [*problems, *unread, *unmatched]
        if not pairs:
            raise BasslError(f"{subject} and {truth}: no list of scenes in one has the name of one in the other")
    elif not truth.is_dir():  # two files belong together, whatever their names
        pairs = list(zip(guesses.values(), truths.values(), strict=True))
    elif not pairs:
        why = f" ({unread[0]})" if unread else "; pass the file with the labels of this video"
        raise BasslError(f"{truth}: has no labels of {next(iter(guesses))}{why}")
    alignments, matching = dict[str, Alignment](), settings.matching
    for guess, true in pairs:
        try:
            alignments[true.video_id] = align(
                guess,
                true,
                matching.tolerance,
                settings.grouping.threshold,
                frame_rate=matching.frame_rate,
                doubtful=matching.doubtful,
            )
        except BasslError as error:
            if not subject.is_dir():
                raise
            problems.append(str(error))
    if not alignments:
        raise BasslError(problems[-1])
    videos = tuple(one.video for one in alignments.values())
    return ScoreResult(
        name=str(subject),
        videos=videos,
        measures=measure(videos, **settings.measuring),
        threshold=settings.grouping.threshold,
        settings=settings,
        alignments=alignments,
        problems=tuple(problems),
        notes=_list_notes(alignments),
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


def _list_notes(alignments: Mapping[str, Alignment]) -> tuple[str, ...]:
    """Explain how the boundaries of prediction and truth were matched, and which videos differ in length."""
    notes = []
    for basis in dict.fromkeys(one.basis for one in alignments.values()):
        some = [one for one in alignments.values() if one.basis == basis]
        videos = f"{count(len(some), 'video')}: "
        if basis == "same shots":
            notes.append(f"{videos}prediction and truth have the same shots; compared shot by shot")
            continue
        whose = "true" if some[0].truth is not None else "predicted"
        reports = [report for one in some if (report := one.truth or one.prediction)]
        ends, matched = sum(report.scene_ends for report in reports), sum(report.matched for report in reports)
        mean = sum(report.mean_distance * report.matched for report in reports) / max(1, matched)
        most = max(report.max_distance for report in reports)
        notes.append(
            f"{videos}{matched} of {ends} {whose} scene ends matched to {_MATCHED_TO[basis]}, {mean:.2f} s away on "
            f"average, {most:.2f} s at most"
            + (f"; {ends - matched} had no match within the tolerance and split their shot" * (matched < ends))
        )
    for name, one in alignments.items():
        if one.part is not None:
            start, end = map(timecode, one.part)
            notes.append(f"{name}: only the part from {start} to {end} is scored, as only that was read")
        if one.lengths is not None and abs(one.lengths[0] - one.lengths[1]) > max(5.0, 0.02 * max(one.lengths)):
            notes.append(
                f"{name}: the prediction lasts {one.lengths[0]:.1f} s and the truth {one.lengths[1]:.1f} s; are they "
                "of the same video?"
            )
    if any(one.video.predicted is not None and np.isnan(one.video.scores).all() for one in alignments.values()):
        notes.append("a list of scenes without scores has no AP, no AUC-ROC and no Sum")
    return tuple(notes)


_MATCHED_TO = {
    "shots of the prediction": "ends of the prediction's shots",
    "shots of the truth": "ends of the truth's shots",
    "true scenes as shots": "ends of true scenes (neither has shots)",
}
