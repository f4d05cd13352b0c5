"""Alignment of a predicted and a true scene list onto common shots, so that they can be scored.

Lists with equal shots are compared directly. Otherwise the prediction's shots are used, or the truth's if the
prediction has none, or else the true scenes count as shots. Scene ends of the other list are assigned one to one to
the nearest shot end within the tolerance; an unassigned end splits the shot that contains it, so that no end is lost.
If only a part of the video was read, both lists are cut to it first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pipelines.datasets import DOUBTFUL, INSIDE, NOT_PINNED, SCENE_END, VideoAnnotation, fault
from pipelines.datasets.matching import MatchReport, Numbers, TimedScenes, in_seconds, match_scene_ends
from pipelines.datasets.scenes_json import TIME_ROUNDING
from pipelines.evaluation.metrics import VideoScores
from pipelines.scenes import timecode

_MOST_PAIRS = 2**24  # of scenes that are compared, each with each: 128 MB a table

Basis = Literal["same shots", "shots of the prediction", "shots of the truth", "true scenes as shots"]


@dataclass(frozen=True)
class Alignment:
    """A video that can be scored, and how its shots were chosen."""

    video: VideoScores  # labels, scores and decisions on one list of shots
    basis: Basis  # where the shots come from
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
    *,
    frame_rate: float | None = None,
    doubtful: Literal["end", "ignore"] = "end",
) -> Alignment:
    """Align a prediction with the truth.

    Args:
        tolerance: in seconds.
        threshold: shots with at least this score are the predicted scene ends, except as pinned; None: the
            prediction's own scene ends.
        frame_rate: for sources that have only frames and no frame rate, see `in_seconds`.
        doubtful: whether a doubtful end of the truth counts as an end or is ignored.
    Raises DatasetError: a source has no scenes, or none in the common part of the video, its frames cannot be converted
        to seconds, there is a threshold but the prediction has no scores, or there are too many.
    """
    if threshold is not None:
        prediction = _with_threshold(prediction, threshold)
    true_count, predicted_count = _number_of_scenes(truth), _number_of_scenes(prediction)
    if true_count * predicted_count > _MOST_PAIRS:
        raise fault(prediction.source, f"{predicted_count:,} scenes are too many to compare with {true_count:,}")
    video = _on_same_shots(prediction, truth, frame_rate, doubtful)
    if video is not None and not (prediction.part or truth.part):
        return Alignment(video, "same shots")
    predicted, true = in_seconds(prediction, truth, frame_rate), in_seconds(truth, prediction, frame_rate)
    part = _common_part(prediction, predicted, truth, true)
    if video is not None:
        return Alignment(video, "same shots", part=part)
    if part is None:
        alignment = _align_ends(predicted, true, tolerance, None, doubtful)
        alignment = replace(alignment, lengths=(predicted.length, true.length))
    else:
        alignment = _align_ends(_cut_to(part, predicted), _cut_to(part, true), tolerance, part, doubtful)
    return replace(alignment, video=replace(alignment.video, video=truth.video_id), part=part)


def _align_ends(
    predicted: TimedScenes, true: TimedScenes, tolerance: float, part: tuple[float, float] | None, doubtful: str
) -> Alignment:
    """Choose the list that the shots come from, and assign the scene ends of the other list to them."""
    by_prediction = predicted.shots is not None and predicted.labels is not None
    basis: Basis = "shots of the prediction" if by_prediction else "shots of the truth"
    base, other = (predicted, true) if by_prediction else (true, predicted)
    if base.shots is None or base.labels is None:
        assert base.scenes is not None
        basis, scene_labels = "true scenes as shots", np.full(len(base.scenes), SCENE_END, np.int8)
        scene_labels[-1] = INSIDE
        base = replace(base, shots=base.scenes, labels=scene_labels)
    assert base.shots is not None
    assert base.labels is not None
    spans, span_labels = other.scene_ends()
    is_inner = _is_inner(spans, base.shots, other.length, tolerance, part)
    spans, span_labels = spans[is_inner], span_labels[is_inner]
    assigned, shot_labels, report = match_scene_ends(spans, span_labels, base.shots, tolerance)
    report = replace(report, at_video_end=int((~is_inner).sum()))
    shots, origin = cut_shots(base.shots, spans[assigned < 0, 0])

    def carry(values: NDArray[Any], new: float) -> NDArray[Any]:  # from the shots before cutting
        return np.where(origin < 0, new, values[origin])

    base_labels, other_labels = carry(base.labels, INSIDE), carry(shot_labels, INSIDE)
    other_labels[np.searchsorted(shots[:, 1], spans[assigned < 0, 0])] = span_labels[assigned < 0]
    labels, decisions = (other_labels, base_labels) if by_prediction else (base_labels, other_labels)
    is_labeled = (labels != DOUBTFUL) | (doubtful == "end")
    scores, ends = np.full(len(shots), np.nan), spans
    if not by_prediction:  # leave out the predicted ends that are matched to ignored true ends
        ignored = shots[(decisions != INSIDE) & ~is_labeled, 1]
        ends = spans[np.abs(spans.mean(axis=1)[:, None] - ignored).min(axis=1, initial=np.inf) > tolerance]
    elif doubtful == "ignore":
        ends = spans[span_labels != DOUBTFUL]
    if by_prediction and predicted.scores is not None:  # an end without a predicted shot end has the lowest score
        scores = carry(predicted.scores, 0.0)
    video = VideoScores(
        labels=(labels != INSIDE).astype(np.uint8),
        scores=scores,
        shots=shots,
        seconds=shots,
        known=is_labeled if doubtful == "ignore" else None,
        predicted=decisions != INSIDE,
        true_ends=ends if by_prediction else None,
        predicted_ends=None if by_prediction else ends,
        pieces=basis == "true scenes as shots",
    )
    return Alignment(
        video, basis, truth=report if by_prediction else None, prediction=None if by_prediction else report
    )


def _with_threshold(prediction: VideoAnnotation, threshold: float) -> VideoAnnotation:
    if prediction.scores is None:
        raise fault(prediction.source, "has no scores to apply a threshold to; leave out `threshold`")
    scene_end = (prediction.scores >= threshold).astype(np.int8)
    if prediction.pins is not None:
        scene_end = np.where(prediction.pins == NOT_PINNED, scene_end, prediction.pins)
    scene_end[-1] = INSIDE
    return replace(prediction, scene_end=scene_end, scenes_frames=None, scenes_seconds=None)


def _number_of_scenes(source: VideoAnnotation) -> int:
    scenes = source.scenes_frames if source.scenes_seconds is None else source.scenes_seconds
    if scenes is not None:
        return len(scenes)
    name = source.video_id
    if source.scene_end is None:
        raise fault(source.source, f"has no scenes of {name} to compare with")
    if source.shots is None:
        raise fault(source.source, f"labels the shots of {name}, but no shot list says where they are; add it")
    return int(np.count_nonzero(source.scene_end))


def _common_part(
    prediction: VideoAnnotation, predicted: TimedScenes, truth: VideoAnnotation, true: TimedScenes
) -> tuple[float, float] | None:
    """Return the part of the video that both cover, in seconds, or None if both cover all of it."""
    both = (prediction, predicted), (truth, true)
    shots = [timed.shots for source, timed in both if source.part and timed.shots is not None]
    if not shots:
        return None
    start, end = max(float(part[0, 0]) for part in shots), min(float(part[-1, 1]) for part in shots)
    if end <= start:
        raise fault(prediction.source, f"has no part of the video in common with {truth.source}")
    return start, end


def _cut_to(part: tuple[float, float], timed: TimedScenes) -> TimedScenes:
    """Cut a source to a part of the video."""

    def inside(ranges: Numbers) -> NDArray[np.bool_]:
        kept: NDArray[np.bool_] = (ranges[:, 1] > part[0] + TIME_ROUNDING) & (ranges[:, 0] < part[1] - TIME_ROUNDING)
        if not kept.any():
            raise fault(timed.source, f"has no scenes between {timecode(part[0])} and {timecode(part[1])}")
        return kept

    if timed.scenes is not None:
        timed = replace(timed, scenes=np.clip(timed.scenes[inside(timed.scenes)], *part))
    if timed.shots is None or timed.labels is None:
        return timed
    kept = inside(timed.shots)
    labels = timed.labels[kept]
    labels[-1] = INSIDE
    scores = None if timed.scores is None else timed.scores[kept]
    return replace(timed, shots=np.clip(timed.shots[kept], *part), labels=labels, scores=scores)


def cut_shots(shots: Numbers, places: Numbers) -> tuple[Numbers, NDArray[np.int64]]:
    """Split shots (N, 2) so that one ends at each place (U,), all in seconds; in a gap, a place adds a shot that fills
    it. Return the shots (N + cuts, 2) and the index of the shot that ends with each, -1 for new ones."""
    ends = np.union1d(shots[:, 1], places)
    after = np.searchsorted(shots[:, 1], ends).clip(max=len(shots) - 1)  # the shot that ends there or next
    start, end = shots[after].T
    before = np.append(0.0, ends[:-1])
    starts = np.where((start < ends) & (ends <= end), np.maximum(start, before), before)
    return np.column_stack([starts, ends]), np.where(ends == end, after, -1)


def _is_inner(
    spans: Numbers, shots: Numbers, length: float, tolerance: float, part: tuple[float, float] | None
) -> NDArray[np.bool_]:
    """Return (M,) whether scene ends (M, 2) are to find: the end of the video and the borders of a part are not.

    The end of the video is an end at the end of the shots (N, 2), or the last one of a list of scenes of this length,
    unless the video continues and a shot ends there, too. Where a list ends elsewhere, and at the borders of a part, it
    is also an end within the tolerance that is nearer to that place than to the end of a shot.
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
    """Return the video of two sources with equal, labeled shots, or None."""
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
