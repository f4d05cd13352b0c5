"""Alignment of a predicted and a true scene list onto common shots, so that they can be scored.

Lists with equal shots are compared directly. Otherwise the shots are those of the prediction, or of the truth if the
prediction has none, or else the true scenes count as shots. Scene ends of the other list are assigned one to one to
the nearest shot end within the tolerance; an unassigned end splits the shot that contains it. So no end is lost: an
unmatched true end is a miss, an unmatched predicted end a false alarm.

Where only a part of the video was read, both lists are cut to it first. The borders of the part are not scene ends.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pipelines.datasets.annotations import DOUBTFUL, INSIDE, VideoAnnotation
from pipelines.datasets.matching import (
    Clock,
    MatchReport,
    assign_scene_ends,
    close_last_scene,
    frame_clock,
    labelled_ends,
    report_of,
)
from pipelines.datasets.parsing import fault
from pipelines.datasets.scene_files import TIME_ROUNDING
from pipelines.evaluation.metrics import VideoScores
from pipelines.scenes import timecode

How = Literal["same shots", "shots of the prediction", "shots of the truth", "true scenes as shots"]


@dataclass(frozen=True)
class Alignment:
    """A video that can be scored, and how its shots were chosen."""

    video: VideoScores  # labels, scores and decisions on one list of shots
    how: How  # where the shots come from
    # how the true scene ends were matched to them, in seconds; None if the shots are the truth's own
    truth: MatchReport | None = None
    prediction: MatchReport | None = None  # the same for the predicted scene ends
    # length of prediction and truth in seconds; None for equal shots, or where only a part is scored
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

    Frames of a source without times are converted to seconds by the other source if that has both; else by the frame
    rate of the source, of the other source, or of the caller, in this order.

    Args:
        prediction, truth: shots with scene ends and optional scores; or scenes on the time line.
        tolerance: in seconds.
        threshold: shots with at least this score are the predicted scene ends; None: those that the prediction lists.
        frame_rate: for sources that give only frames and no frame rate.
        doubtful: whether a doubtful end of the truth counts as an end or is ignored.
    Raises DatasetError: a source has no scenes, or none in the part of the video that the other covers, its frames
        cannot be converted to seconds, or a threshold is given and the prediction has no scores.
    """
    if truth.scene_end is None and truth.scenes_frames is None and truth.scenes_seconds is None:
        raise fault(truth.source, f"has no scenes of {truth.video_id} to compare with")
    if threshold is not None:
        if prediction.scores is None:
            raise fault(prediction.source, "has no scores to apply a threshold to; leave out --threshold")
        above = (prediction.scores >= threshold).astype(np.int8)
        above[-1] = INSIDE
        prediction = replace(prediction, scene_end=above, scenes_frames=None, scenes_seconds=None)
    for one in (truth, prediction):
        if one.shots is None and one.scenes_frames is None and one.scenes_seconds is None:
            raise fault(one.source, f"labels the shots of {one.video_id}, but no shot list says where they are; add it")
    if truth.open_end:
        truth = close_last_scene(truth, _length(prediction, truth, frame_rate))
    if prediction.open_end:
        prediction = close_last_scene(prediction, _length(truth, prediction, frame_rate))
    part = _part(prediction, truth, frame_rate)
    if (video := _on_same_shots(prediction, truth, frame_rate, doubtful)) is not None:
        return Alignment(video, "same shots", part=part)
    lengths = (_length(prediction, truth, frame_rate), _length(truth, prediction, frame_rate))
    if part is not None:
        pairs = ((prediction, truth), (truth, prediction))
        prediction, truth = (_cut_to(part, *pair, frame_rate) for pair in pairs)

    how: How
    if prediction.shots is not None and prediction.scene_end is not None:
        how, owner, other = "shots of the prediction", prediction, truth
    else:
        how, owner, other = "shots of the truth", truth, prediction
    if owner.shots is not None and owner.scene_end is not None:
        seconds, own = _seconds(owner, other, frame_rate), owner.scene_end
    else:
        how = "true scenes as shots"
        seconds = _seconds(owner, other, frame_rate, scenes=True)
        own = np.append(np.ones(len(seconds) - 1, np.int8), np.int8(INSIDE))
    spans, values = labelled_ends(other, _clock(other, owner, frame_rate))
    inner = _inner(spans, seconds, lengths[1 if other is truth else 0], tolerance, part)
    seconds, origin, marks, report = _with_ends(seconds, spans[inner], values[inner], tolerance)
    report = replace(report, at_video_end=int((~inner).sum()))
    new = origin < 0
    own = np.where(new, INSIDE, own[origin])
    labels, decided = (marks, own) if other is truth else (own, marks)
    scores = np.full(len(seconds), np.nan)
    if owner is prediction and prediction.scores is not None:  # where the prediction has no shot end, the lowest score
        scores = np.where(new, 0.0, prediction.scores[origin])
    no_end = (INSIDE, DOUBTFUL) if doubtful == "ignore" else (INSIDE,)
    known = (labels != DOUBTFUL) | (doubtful == "end")
    predicted_ends = None
    if other is prediction:  # without those that were matched to doubtful ends
        unknown = seconds[(decided != INSIDE) & ~known, 1]
        apart = np.abs(spans.mean(axis=1)[:, None] - unknown).min(axis=1, initial=np.inf)
        predicted_ends = spans[inner & (apart > tolerance)]
    video = VideoScores(
        labels=(labels != INSIDE).astype(np.uint8),
        scores=scores,
        shots=seconds,
        seconds=seconds,
        known=known if doubtful == "ignore" else None,
        predicted=decided != INSIDE,
        true_ends=spans[inner & ~np.isin(values, no_end)] if other is truth else None,
        predicted_ends=predicted_ends,
        pieces=how == "true scenes as shots",
        video=truth.video_id,
    )
    return Alignment(
        video,
        how,
        truth=report if other is truth else None,
        prediction=report if other is prediction else None,
        lengths=lengths if part is None else None,
        part=part,
    )


def _part(prediction: VideoAnnotation, truth: VideoAnnotation, frame_rate: float | None) -> tuple[float, float] | None:
    """The part of the video that both cover, in seconds; None where neither was made of a part."""
    pairs = ((prediction, truth), (truth, prediction))
    shots = [_seconds(one, other, frame_rate) for one, other in pairs if one.part]
    if not shots:
        return None
    start, end = max(float(own[0, 0]) for own in shots), min(float(own[-1, 1]) for own in shots)
    if end <= start:
        raise fault(prediction.source, f"has no part of the video in common with {truth.source}")
    return start, end


def _cut_to(
    part: tuple[float, float], one: VideoAnnotation, other: VideoAnnotation, frame_rate: float | None
) -> VideoAnnotation:
    """A source within a part of the video: what lies across a border ends there."""

    def inside(ranges: NDArray[np.float64]) -> NDArray[np.bool_]:
        kept: NDArray[np.bool_] = (ranges[:, 1] > part[0] + TIME_ROUNDING) & (ranges[:, 0] < part[1] - TIME_ROUNDING)
        if not kept.any():
            raise fault(one.source, f"has no scenes between {timecode(part[0])} and {timecode(part[1])}")
        return kept

    cut = one
    if one.scenes_seconds is not None or one.scenes_frames is not None:
        scenes = _seconds(one, other, frame_rate, scenes=True)
        cut = replace(cut, scenes_frames=None, scenes_seconds=np.clip(scenes[inside(scenes)], *part))
    if one.shots is None or one.scene_end is None:
        return cut
    seconds = _seconds(one, other, frame_rate)
    kept = inside(seconds)
    scene_end = one.scene_end[kept]
    scene_end[-1] = INSIDE
    return replace(
        cut,
        shots=one.shots[kept],
        shots_seconds=np.clip(seconds[kept], *part),
        scene_end=scene_end,
        keyframes=None,
        scores=None if one.scores is None else one.scores[kept],
    )


def _with_ends(
    seconds: NDArray[np.float64], spans: NDArray[np.float64], values: NDArray[np.int8], tolerance: float
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int8], MatchReport]:
    """Assign scene ends (M, 2) with their labels (M,) to shots, and split a shot at each that has none. Returns the
    shots and the index of each before, as `cut_shots`, their labels, and the report of the matching."""
    ends = seconds[:-1, 1]
    assigned = assign_scene_ends(ends, spans, tolerance) if len(ends) else np.full(len(spans), -1)
    found = assigned >= 0
    report = report_of(ends, spans, assigned, at_video_end=0)
    on_shots = np.zeros(len(seconds), np.int8)
    on_shots[assigned[found]] = values[found]
    cut, origin = cut_shots(seconds, spans[~found, 0])
    marks = np.where(origin < 0, INSIDE, on_shots[origin]).astype(np.int8)
    for place, value in zip(spans[~found, 0], values[~found], strict=True):
        marks[cut[:, 1] == place] = value
    return cut, origin, marks, report


def cut_shots(
    seconds: NDArray[np.float64], places: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Split shots so that one ends at each of the given times.

    Args:
        seconds: (N, 2) the shots.
        places: (U,) the times. A time inside a shot splits it; a time between or after shots adds a shot that fills the
            gap before it; a time at the end of a shot changes nothing.
    Returns: (N + cuts, 2) the shots, and the index of the shot that ends with each, -1 for new ones.
    """
    shots = [(float(start), float(end), i) for i, (start, end) in enumerate(seconds)]
    for place in np.unique(places).tolist():
        after = next((i for i, (_, end, _) in enumerate(shots) if end >= place), len(shots))
        before = shots[after - 1][1] if after else 0.0
        if after == len(shots) or place <= shots[after][0]:
            shots.insert(after, (before, place, -1))
        elif place < shots[after][1]:
            start, end, origin = shots[after]
            shots[after : after + 1] = [(start, place, -1), (place, end, origin)]
    return np.array([shot[:2] for shot in shots]), np.array([shot[2] for shot in shots], np.int64)


def _inner(
    spans: NDArray[np.float64],
    shots: NDArray[np.float64],
    length: float,
    tolerance: float,
    part: tuple[float, float] | None,
) -> NDArray[np.bool_]:
    """Which scene ends (M, 2) are not the end of the video, nor a border of its part, which are not scene ends to find.

    The end of the video is an end at the end of the shots (N, 2), or the last one of a list of scenes of this length,
    unless the video continues and a shot ends there, too. Where a list ends elsewhere, it is also an end within the
    tolerance that is nearer to it than to the end of a shot. Of a part, an end within the tolerance of a border is that
    border, unless the end of a shot is nearer.
    """
    video_end = shots[-1, 1]
    starts, ends = spans[:, 0], spans[:, 1]
    to_shot = np.abs(shots[None, :-1, 1] - starts[:, None]).min(axis=1, initial=np.inf)
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
    seconds = next((one.shots_seconds for one in (prediction, truth) if one.shots_seconds is not None), None)
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

    def clock(frames: NDArray[np.float64]) -> NDArray[np.float64]:
        if rate is None:
            raise fault(one.source, "has frames but no frame rate; give it with --frame-rate")
        return frames / rate

    return clock


def _seconds(
    one: VideoAnnotation, other: VideoAnnotation, frame_rate: float | None, scenes: bool = False
) -> NDArray[np.float64]:
    """Times of the shots of a source, or of its scenes, (N, 2)."""
    frames, seconds = (one.scenes_frames, one.scenes_seconds) if scenes else (one.shots, one.shots_seconds)
    if seconds is not None:
        return seconds
    assert frames is not None
    return _clock(one, other, frame_rate)(frames.astype(np.float64))


def _length(one: VideoAnnotation, other: VideoAnnotation, frame_rate: float | None) -> float:
    """End of a source's last shot or scene, in seconds."""
    return float(_seconds(one, other, frame_rate, scenes=one.shots is None)[-1, 1])
