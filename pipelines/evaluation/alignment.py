"""Alignment of a predicted and a true scene list onto common shots, so that they can be scored.

Lists with equal shots are compared directly. Otherwise the prediction's shots are used, or the truth's if the
prediction has none, or else the true scenes count as shots. Scene ends of the other list are assigned one to one to
the nearest shot end within the tolerance; an unassigned end splits the shot that contains it. So no end is lost: an
unmatched true end is a miss, an unmatched predicted end a false alarm.

If only a part of the video was read, both lists are cut to it first. The borders of the part are not scene ends.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pipelines.datasets.annotations import DOUBTFUL, INSIDE, NOT_PINNED, SCENE_END, VideoAnnotation
from pipelines.datasets.matching import (
    Clock,
    MatchReport,
    assign_scene_ends,
    close_last_scene,
    frame_clock,
    in_seconds,
    labelled_ends,
    report_of,
)
from pipelines.datasets.parsing import fault
from pipelines.datasets.scene_files import TIME_ROUNDING
from pipelines.evaluation.metrics import VideoScores
from pipelines.scenes import timecode

_MOST_PAIRS = 2**24  # of scenes that are compared, each with each: 128 MB a table

How = Literal["same shots", "shots of the prediction", "shots of the truth", "true scenes as shots"]
Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class Alignment:
    """A video that can be scored, and how its shots were chosen."""

    video: VideoScores  # labels, scores and decisions on one list of shots
    how: How  # where the shots come from
    # how the true scene ends were matched to them, in seconds; None if the shots are the truth's own
    truth: MatchReport | None = None
    prediction: MatchReport | None = None  # the same for the predicted scene ends
    # length of prediction and truth in seconds; None for equal shots
    lengths: tuple[float, float] | None = None
    part: tuple[float, float] | None = None  # of the video that both cover, in seconds; None: the whole video


def align(
    prediction: VideoAnnotation,
    truth: VideoAnnotation,
    tolerance: float,
    threshold: float | None = None,
    frame_rate: float | None = None,
    doubtful: Literal["end", "ignore"] = "end",
) -> Alignment:
    """Align a prediction with the truth.

    Frames of a source without times are converted to seconds by the other source if it has both; else by the frame
    rate of the source, of the other source, or of the caller, in this order.

    Args:
        prediction, truth: shots with scene ends and optional scores; or scenes on the time line.
        tolerance: in seconds.
        threshold: shots with at least this score are the predicted scene ends, except as pinned; None: the
            prediction's own scene ends.
        frame_rate: for sources that have only frames and no frame rate.
        doubtful: whether a doubtful end of the truth counts as an end or is ignored.
    Raises DatasetError: a source has no scenes, or none in the part of the video that the other covers, its frames
        cannot be converted to seconds, there is a threshold but the prediction has no scores, or there are too many.
    """
    if threshold is not None:
        if prediction.scores is None:
            raise fault(prediction.source, "has no scores to apply a threshold to; leave out `threshold`")
        above = (prediction.scores >= threshold).astype(np.int8)
        if prediction.pins is not None:
            above = np.where(prediction.pins == NOT_PINNED, above, prediction.pins)
        above[-1] = INSIDE
        prediction = replace(prediction, scene_end=above, scenes_frames=None, scenes_seconds=None)
    counts = []
    for source in (truth, prediction):
        scenes = source.scenes_frames if source.scenes_seconds is None else source.scenes_seconds
        if scenes is None:
            name = source.video_id
            if source.scene_end is None:
                raise fault(source.source, f"has no scenes of {name} to compare with")
            if source.shots is None:
                raise fault(source.source, f"labels the shots of {name}, but no shot list says where they are; add it")
            scenes = np.flatnonzero(source.scene_end)
        counts.append(len(scenes))
    if counts[0] * counts[1] > _MOST_PAIRS:
        raise fault(prediction.source, f"{counts[1]:,} scenes are too many to compare with {counts[0]:,}")
    video = _on_same_shots(prediction, truth, frame_rate, doubtful)
    if video is not None and not (prediction.part or truth.part):
        return Alignment(video, "same shots")
    predicted, true = _in_seconds(prediction, truth, frame_rate), _in_seconds(truth, prediction, frame_rate)
    if video is not None:
        return Alignment(video, "same shots", part=_common_part(predicted, true))
    true = _closed(true, predicted.length)
    predicted = _closed(predicted, true.length)
    lengths = predicted.length, true.length
    part = _common_part(predicted, true)
    if part is not None:
        predicted, true = _cut_to(part, predicted), _cut_to(part, true)

    scores = None
    if predicted.shots is not None and predicted.labels is not None:
        how: How = "shots of the prediction"
        matching = _match(true, predicted.shots, tolerance, part)
        labels, decisions = matching.labels, matching.carry(predicted.labels, INSIDE)
        if predicted.scores is not None:  # the lowest score at ends without a predicted shot end
            scores = matching.carry(predicted.scores, 0.0)
    else:
        if true.shots is not None and true.labels is not None:
            how, shots, shot_labels = "shots of the truth", true.shots, true.labels
        else:
            assert true.scenes is not None
            how, shots = "true scenes as shots", true.scenes
            shot_labels = np.append(np.full(len(shots) - 1, SCENE_END, np.int8), np.int8(INSIDE))
        matching = _match(predicted, shots, tolerance, part)
        labels, decisions = matching.carry(shot_labels, INSIDE), matching.labels

    is_known = (labels != DOUBTFUL) | (doubtful == "end")
    true_ends = predicted_ends = truth_report = prediction_report = None
    if how == "shots of the prediction":
        truth_report = matching.report
        true_ends = matching.ends[(matching.end_labels != DOUBTFUL) | (doubtful == "end")]
    else:
        prediction_report = matching.report
        ignored = matching.shots[(decisions != INSIDE) & ~is_known, 1]
        apart = np.abs(matching.ends.mean(axis=1)[:, None] - ignored).min(axis=1, initial=np.inf)
        predicted_ends = matching.ends[apart > tolerance]  # without the ends matched to ignored ones
    video = VideoScores(
        labels=(labels != INSIDE).astype(np.uint8),
        scores=np.full(len(matching.shots), np.nan) if scores is None else scores,
        shots=matching.shots,
        seconds=matching.shots,
        known=is_known if doubtful == "ignore" else None,
        predicted=decisions != INSIDE,
        true_ends=true_ends,
        predicted_ends=predicted_ends,
        pieces=how == "true scenes as shots",
        video=truth.video_id,
    )
    return Alignment(video, how, truth_report, prediction_report, lengths if part is None else None, part)


@dataclass(frozen=True)
class _SceneTimes:
    """A source in seconds: N shots, M scenes, or both."""

    annotation: VideoAnnotation
    shots: Numbers | None  # (N, 2)
    labels: NDArray[np.int8] | None  # (N,) of the shots
    scores: Numbers | None  # (N,)
    scenes: Numbers | None  # (M, 2)
    length: float  # end of the last shot, or else of the last scene


def _in_seconds(source: VideoAnnotation, other: VideoAnnotation, frame_rate: float | None) -> _SceneTimes:
    clock = _clock(source, other, frame_rate)
    shots = in_seconds(source.shots, source.shots_seconds, clock)
    scenes = in_seconds(source.scenes_frames, source.scenes_seconds, clock)
    last = scenes if shots is None else shots
    assert last is not None
    return _SceneTimes(source, shots, source.scene_end, source.scores, scenes, length=float(last[-1, 1]))


def _closed(source: _SceneTimes, other_length: float) -> _SceneTimes:
    """Let the last scene end with the video if the source does not say where it ends."""
    if not source.annotation.open_end or source.scenes is None:
        return source
    scenes = close_last_scene(source.scenes, other_length)
    return replace(source, scenes=scenes, length=float(scenes[-1, 1]))


def _common_part(prediction: _SceneTimes, truth: _SceneTimes) -> tuple[float, float] | None:
    """The part of the video that both cover, in seconds; None if both cover all of it."""
    shots = [source.shots for source in (prediction, truth) if source.annotation.part and source.shots is not None]
    if not shots:
        return None
    start, end = max(float(part[0, 0]) for part in shots), min(float(part[-1, 1]) for part in shots)
    if end <= start:
        raise fault(prediction.annotation.source, f"has no part of the video in common with {truth.annotation.source}")
    return start, end


def _cut_to(part: tuple[float, float], source: _SceneTimes) -> _SceneTimes:
    """A source within a part of the video: what lies across a border ends there."""

    def inside(ranges: Numbers) -> NDArray[np.bool_]:
        kept: NDArray[np.bool_] = (ranges[:, 1] > part[0] + TIME_ROUNDING) & (ranges[:, 0] < part[1] - TIME_ROUNDING)
        if not kept.any():
            raise fault(source.annotation.source, f"has no scenes between {timecode(part[0])} and {timecode(part[1])}")
        return kept

    if source.scenes is not None:
        source = replace(source, scenes=np.clip(source.scenes[inside(source.scenes)], *part))
    if source.shots is None or source.labels is None:
        return source
    kept = inside(source.shots)
    labels = source.labels[kept]
    labels[-1] = INSIDE
    scores = None if source.scores is None else source.scores[kept]
    return replace(source, shots=np.clip(source.shots[kept], *part), labels=labels, scores=scores)


@dataclass(frozen=True)
class _Matching:
    """Scene ends on shots, which are split at each end that no shot end is near."""

    shots: Numbers  # (N, 2)
    origin: NDArray[np.int64]  # (N,) index of the shot before splitting that ends here, -1 for new ends
    labels: NDArray[np.int8]  # (N,) label of the scene end at each shot's end
    ends: Numbers  # (M, 2) earliest and latest time of each scene end, without the end of the video
    end_labels: NDArray[np.int8]  # (M,)
    report: MatchReport

    def carry(self, values: NDArray[Any], new: float) -> NDArray[Any]:
        """Values of the shots before splitting, for the shots after it."""
        return np.where(self.origin < 0, new, values[self.origin])


def _match(source: _SceneTimes, shots: Numbers, tolerance: float, part: tuple[float, float] | None) -> _Matching:
    """Assign the scene ends of a source to shots (N, 2) of the other source."""
    ends, labels = labelled_ends(source.scenes, source.shots, source.labels)
    inner = _inner(ends, shots, source.length, tolerance, part)
    at_video_end = int((~inner).sum())
    ends, labels = ends[inner], labels[inner]
    shot_ends = shots[:-1, 1]
    assigned = assign_scene_ends(shot_ends, ends, tolerance) if len(shot_ends) else np.full(len(ends), -1)
    is_matched = assigned >= 0
    report = report_of(shot_ends, ends, assigned, at_video_end)
    matched_labels = np.full(len(shots), INSIDE, np.int8)
    matched_labels[assigned[is_matched]] = labels[is_matched]
    cut, origin = cut_shots(shots, ends[~is_matched, 0])
    cut_labels = np.where(origin < 0, INSIDE, matched_labels[origin]).astype(np.int8)
    for time, label in zip(ends[~is_matched, 0], labels[~is_matched], strict=True):
        cut_labels[cut[:, 1] == time] = label
    return _Matching(cut, origin, cut_labels, ends, labels, report)


def cut_shots(seconds: Numbers, places: Numbers) -> tuple[Numbers, NDArray[np.int64]]:
    """Split shots so that one ends at each of the given times.

    A time inside a shot splits it; a time between or after shots adds a shot that fills the gap before it; a time at
    the end of a shot changes nothing. From shots (N, 2) and times (U,), returns the shots (N + cuts, 2) and the index
    of the shot that ends with each, -1 for new ones.
    """
    shots = [(float(start), float(end), i) for i, (start, end) in enumerate(seconds)]
    for place in np.unique(places).tolist():
        after = bisect_left(shots, place, key=itemgetter(1))
        before = shots[after - 1][1] if after else 0.0
        if after == len(shots) or place <= shots[after][0]:
            shots.insert(after, (before, place, -1))
        elif place < shots[after][1]:
            start, end, origin = shots[after]
            shots[after : after + 1] = [(start, place, -1), (place, end, origin)]
    return np.array([shot[:2] for shot in shots]), np.array([shot[2] for shot in shots], np.int64)


def _inner(
    spans: Numbers, shots: Numbers, length: float, tolerance: float, part: tuple[float, float] | None
) -> NDArray[np.bool_]:
    """Which scene ends (M, 2) are not the end of the video, nor a border of its part, which are not scene ends to find.

    The end of the video is an end at the end of the shots (N, 2), or the last one of a list of scenes of this length,
    unless the video continues and a shot ends there, too. Where a list ends elsewhere, it is also an end within the
    tolerance that is nearer to it than to the end of a shot. Of a part, an end within the tolerance of a border is that
    border, unless the end of a shot is nearer.
    """
    video_end = shots[-1, 1]
    starts, ends = spans[:, 0], spans[:, 1]
    shot_ends = np.concatenate([[-np.inf], shots[:-1, 1], [np.inf]])
    after = np.clip(np.searchsorted(shot_ends, starts), 1, len(shot_ends) - 1)
    to_shot = np.minimum(np.abs(shot_ends[after] - starts), np.abs(shot_ends[after - 1] - starts))
    at_list_end = starts >= length - 1e-9
    if part is None:
        others = 0.0 if abs(length - video_end) <= tolerance else np.minimum(to_shot, tolerance)
        nearest = np.where(at_list_end, tolerance, others)
        inner = (ends > 0) & (np.abs(starts - video_end) > nearest)
    else:
        inner = np.minimum(starts - part[0], part[1] - ends) > np.minimum(to_shot, tolerance)
    counted: NDArray[np.bool_] = inner & (~at_list_end | (to_shot <= tolerance))
    return counted


def _on_same_shots(
    prediction: VideoAnnotation, truth: VideoAnnotation, frame_rate: float | None, doubtful: str
) -> VideoScores | None:
    """The video of two sources with equal, labelled shots; None for others."""
    if prediction.shots is None or truth.shots is None or prediction.scene_end is None or truth.scene_end is None:
        return None
    if not np.array_equal(prediction.shots, truth.shots):
        return None
    rate = truth.frame_rate or prediction.frame_rate or frame_rate
    seconds = truth.shots_seconds if prediction.shots_seconds is None else prediction.shots_seconds
    if seconds is None and rate is not None:
        seconds = prediction.shots / rate
    return VideoScores(
        labels=(truth.scene_end != INSIDE).astype(np.uint8),
        scores=np.full(len(prediction.shots), np.nan) if prediction.scores is None else prediction.scores,
        shots=prediction.shots,
        seconds=seconds,
        known=truth.scene_end != DOUBTFUL if doubtful == "ignore" else None,
        predicted=prediction.scene_end != INSIDE,
        video=truth.video_id,
    )


def _clock(one: VideoAnnotation, other: VideoAnnotation, frame_rate: float | None) -> Clock:
    """The conversion of a source's frames to seconds."""
    for source in (one, other):
        for frames, seconds in ((source.shots, source.shots_seconds), (source.scenes_frames, source.scenes_seconds)):
            if frames is not None and seconds is not None:
                return frame_clock(frames, seconds)
    rate = one.frame_rate or other.frame_rate or frame_rate

    def clock(frames: Numbers) -> Numbers:
        if rate is None:
            raise fault(one.source, "has frames but no frame rate; give it with `frame_rate`")
        return frames / rate

    return clock
