"""A predicted list of scenes and the truth, on the same shots.

Two lists that share their shots are compared as they are. Otherwise there are shots of the prediction, or of the truth
where the prediction has none, or else the true scenes stand for shots; and scene ends that are not on these shots are
put on them: each goes to the nearest end of a shot within the tolerance, one to one. An end that finds none cuts the
shot that it lies in. So no end gets lost: a true one is a miss, a predicted one a false alarm.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from pipelines.datasets.annotations import DOUBTFUL, INSIDE, VideoAnnotation, fault
from pipelines.datasets.matching import Clock, MatchReport, assign_scene_ends, frame_clock, labelled_ends
from pipelines.evaluation.metrics import FilmScores

How = Literal["same shots", "shots of the prediction", "shots of the truth", "true scenes as shots"]


@dataclass(frozen=True)
class Alignment:
    """A film that can be scored, and how it came about.

    Attributes:
        film: labels, scores and decisions on one list of shots.
        how: whose shots these are.
        truth: how well the truth's scene ends fell on them, in seconds; None where they are its own.
        prediction: the same of the predicted ones.
        lengths: seconds that prediction and truth last; None for the same shots.
    """

    film: FilmScores
    how: How
    truth: MatchReport | None = None
    prediction: MatchReport | None = None
    lengths: tuple[float, float] | None = None


def align(
    prediction: VideoAnnotation,
    truth: VideoAnnotation,
    tolerance: float,
    threshold: float | None = None,
    frame_rate: float | None = None,
    doubtful: Literal["end", "ignore"] = "end",
) -> Alignment:
    """Bring prediction and truth together.

    Times of a source that gives frames only are those of the other source, where that says both; else they follow from
    the frame rate that the source, or else the other, or else the caller gives.

    Args:
        prediction: shots with scene ends, and scores where it has them; or scenes on the time line.
        truth: likewise.
        tolerance: in seconds.
        threshold: a shot with at least this score is a predicted scene end; None: the scene ends that it lists.
        frame_rate: of sources that give frames only and say nothing of it.
        doubtful: whether a doubtful end of the truth counts, or is left out.

    Raises:
        DatasetError: one line, where a source has no scenes, or its frames cannot be told in seconds, or a threshold is
            given and the prediction has no scores.
    """
    if truth.scene_end is None and truth.scenes_frames is None and truth.scenes_seconds is None:
        raise fault(truth.source, f"has no scenes of {truth.video_id} to compare with")
    if threshold is not None:
        if prediction.scores is None:
            raise fault(prediction.source, "has no scores that a threshold could be laid on; leave out --threshold")
        above = (prediction.scores >= threshold).astype(np.int8)
        above[-1] = INSIDE
        prediction = replace(prediction, scene_end=above, scenes_frames=None, scenes_seconds=None)
    if _same_shots(prediction, truth):
        return Alignment(_on_same_shots(prediction, truth, frame_rate, doubtful), "same shots")

    how: How
    if prediction.shots is not None and prediction.scene_end is not None:
        how, owner, other = "shots of the prediction", prediction, truth
    else:
        how, owner, other = "shots of the truth", truth, prediction
    if owner.shots is not None and owner.scene_end is not None:
        seconds, own = _seconds(owner, other, frame_rate), owner.scene_end
    else:
        how = "true scenes as shots"
        seconds = _scene_seconds(owner, other, frame_rate)
        own = np.append(np.ones(len(seconds) - 1, np.int8), np.int8(INSIDE))
    nothing = np.zeros(len(seconds), np.int8)
    rows = _Rows(
        seconds,
        labels=own if owner is truth else nothing,
        predicted=own != INSIDE if owner is prediction else nothing != 0,
        scores=prediction.scores if owner is prediction else None,
    )
    spans, values = labelled_ends(other, _clock(other, owner, frame_rate))
    inner = _inner(spans, seconds, _length(other, owner, frame_rate), tolerance)
    rows, report = _with_ends(rows, spans[inner], values[inner], other is truth, tolerance)
    report = replace(report, at_film_end=int((~inner).sum()))
    film = FilmScores(
        labels=(rows.labels != INSIDE).astype(np.uint8),
        scores=np.full(len(rows.seconds), np.nan) if rows.scores is None else rows.scores,
        shots=rows.seconds,
        seconds=rows.seconds,
        known=rows.labels != DOUBTFUL if doubtful == "ignore" else None,
        predicted=rows.predicted,
        true_ends=spans[inner] if other is truth else None,
        predicted_ends=spans[inner] if other is prediction else _ends_of(rows.seconds, rows.predicted),
        film=truth.video_id,
    )
    if other is prediction:  # where it cut a shot of the truth, that is no true end
        film = replace(film, true_ends=_ends_of(seconds, own != INSIDE))
    lengths = (_length(prediction, truth, frame_rate), _length(truth, prediction, frame_rate))
    return Alignment(film, how, report if other is truth else None, report if other is prediction else None, lengths)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Shots with what is known and said of each."""

    seconds: NDArray[np.float64]
    labels: NDArray[np.int8]
    predicted: NDArray[np.bool_]
    scores: NDArray[np.float64] | None


def _with_ends(
    rows: _Rows, spans: NDArray[np.float64], values: NDArray[np.int8], true: bool, tolerance: float
) -> tuple[_Rows, MatchReport]:
    """The shots with true (else predicted) scene ends put on them, and how well they fell."""
    ends = rows.seconds[:-1, 1]
    assigned = assign_scene_ends(ends, spans, tolerance) if len(ends) else np.full(len(spans), -1)
    found = assigned >= 0
    taken = ends[assigned[found]]
    apart = np.maximum(np.maximum(spans[found, 0] - taken, taken - spans[found, 1]), 0)
    report = MatchReport(
        scene_ends=len(spans),
        matched=int(found.sum()),
        unmatched=tuple(float(place) for place in spans[~found, 0]),
        at_film_end=0,
        mean_distance=float(apart.mean()) if len(apart) else 0.0,
        max_distance=float(apart.max(initial=0.0)),
    )
    seconds, origin = cut_shots(rows.seconds, spans[~found, 0])
    new = origin < 0
    on_shots = np.zeros(len(rows.seconds), np.int8)
    on_shots[assigned[found]] = values[found]
    marks = np.where(new, 0, on_shots[origin])
    for place, value in zip(spans[~found, 0], values[~found], strict=True):
        marks[seconds[:, 1] == place] = value
    labels = np.where(new, 0, rows.labels[origin])
    predicted = np.where(new, False, rows.predicted[origin])
    # Where the prediction has no shot that could end a scene, no score is lower.
    scores = None if rows.scores is None else np.where(new, 0.0, rows.scores[origin])
    if true:
        return _Rows(seconds, marks.astype(np.int8), predicted, scores), report
    return _Rows(seconds, labels.astype(np.int8), marks != 0, scores), report


def _ends_of(seconds: NDArray[np.float64], marked: NDArray[np.bool_]) -> NDArray[np.float64]:
    """(M, 2) when the marked shots end; the last is the film's end."""
    ends = seconds[:-1, 1][marked[:-1]]
    return np.column_stack([ends, ends])


def cut_shots(
    seconds: NDArray[np.float64], places: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Cut shots so that one ends at each of some times.

    Args:
        seconds: (N, 2) the shots.
        places: (U,) the times. One inside a shot cuts it in two, one between or after shots makes a shot of what is
            before it; one at the end of a shot does nothing.

    Returns:
        (N + cuts, 2) the shots, and for each which shot it ends, -1 for those that are new.
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
    spans: NDArray[np.float64], shots: NDArray[np.float64], length: float, tolerance: float
) -> NDArray[np.bool_]:
    """Which scene ends (M, 2) are not the film's end, which is none to find.

    That is one at the end of the shots (N, 2); or the last of a list of scenes of this length, as it ends where the
    list ends, unless the film goes on and a shot ends there, too.
    """
    film_end = shots[-1, 1]
    starts, ends = spans[:, 0], spans[:, 1]
    inner = (ends > 0) & ((starts < film_end - tolerance) | (starts > film_end + tolerance))
    at_list_end = starts >= length - 1e-9
    near = (np.abs(shots[None, :-1, 1] - starts[:, None]) <= tolerance).any(axis=1)
    counted: NDArray[np.bool_] = inner & (~at_list_end | near)
    return counted


def _same_shots(prediction: VideoAnnotation, truth: VideoAnnotation) -> bool:
    own = (prediction.shots, truth.shots, prediction.scene_end, truth.scene_end)
    return all(part is not None for part in own) and np.array_equal(own[0], own[1])  # type: ignore[arg-type]


def _on_same_shots(
    prediction: VideoAnnotation, truth: VideoAnnotation, frame_rate: float | None, doubtful: str
) -> FilmScores:
    assert prediction.shots is not None
    assert prediction.scene_end is not None
    assert truth.scene_end is not None
    rate = truth.frame_rate or prediction.frame_rate or frame_rate
    seconds = next((one.shots_seconds for one in (prediction, truth) if one.shots_seconds is not None), None)
    if seconds is None and rate is not None:
        seconds = prediction.shots / rate
    return FilmScores(
        labels=(truth.scene_end != INSIDE).astype(np.uint8),
        scores=np.full(len(prediction.shots), np.nan) if prediction.scores is None else prediction.scores,
        shots=prediction.shots,
        seconds=seconds,
        known=truth.scene_end != DOUBTFUL if doubtful == "ignore" else None,
        predicted=prediction.scene_end != INSIDE,
        film=truth.video_id,
    )


def _clock(one: VideoAnnotation, other: VideoAnnotation, frame_rate: float | None) -> Clock:
    """What the frames of a source are in seconds."""
    for source in (one, other):
        for frames, seconds in (
            (source.shots, source.shots_seconds),
            (source.scenes_frames, source.scenes_seconds),
        ):
            if frames is not None and seconds is not None:
                return frame_clock(frames, seconds)
    rate = one.frame_rate or other.frame_rate or frame_rate

    def clock(frames: NDArray[np.float64]) -> NDArray[np.float64]:
        if rate is None:
            raise fault(one.source, "gives frames and no frame rate; name it with --frame-rate")
        return frames / rate

    return clock


def _seconds(one: VideoAnnotation, other: VideoAnnotation, frame_rate: float | None) -> NDArray[np.float64]:
    """Times of the shots of a source, (N, 2)."""
    assert one.shots is not None
    if one.shots_seconds is not None:
        return one.shots_seconds
    return _clock(one, other, frame_rate)(one.shots.astype(np.float64))


def _scene_seconds(one: VideoAnnotation, other: VideoAnnotation, frame_rate: float | None) -> NDArray[np.float64]:
    """Times of the scenes of a source that has no shots, (M, 2)."""
    if one.scenes_seconds is not None:
        return one.scenes_seconds
    assert one.scenes_frames is not None
    return _clock(one, other, frame_rate)(one.scenes_frames.astype(np.float64))


def _length(one: VideoAnnotation, other: VideoAnnotation, frame_rate: float | None) -> float:
    """When a source's last shot or scene ends."""
    if one.shots is not None:
        return float(_seconds(one, other, frame_rate)[-1, 1])
    return float(_scene_seconds(one, other, frame_rate)[-1, 1])
