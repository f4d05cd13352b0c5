"""Matching of annotated scene ends to shot ends: labels of other shot lists or time lines on the shots detected here.

Each annotated scene end is assigned to the nearest shot end within a tolerance, at most one per shot and in order.
Scene ends without a shot end are reported.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipelines.datasets.annotations import INSIDE, SCENE_END, VideoAnnotation
from pipelines.datasets.parsing import fault
from pipelines.errors import DatasetError

_MOST_PAIRS = 2**25  # of scene ends and shots that are matched at once: half a gigabyte

Numbers = NDArray[np.float64]
Clock = Callable[[Numbers], Numbers]  # converts frame numbers of any shape to seconds


@dataclass(frozen=True)
class MatchReport:
    """Quality of a matching of scene ends to shot ends. Times and distances are in the unit of the matching."""

    scene_ends: int  # number of scene ends, without those at the end of the video
    matched: int  # number of them that have a shot
    unmatched: tuple[float, ...]  # positions of the others
    # number of further ones at the end of the last shot: the end of the video is not a scene end to predict
    at_video_end: int
    mean_distance: float  # mean distance between a matched scene end and the end of its shot; 0 if there is none
    max_distance: float  # largest such distance
    outside: int = 0  # number of further ones before the first shot or after the last, if these are a part of a video


def assign_scene_ends(shot_ends: ArrayLike, scene_ends: ArrayLike, tolerance: float) -> NDArray[np.int64]:
    """Assign scene ends to shots, one to one and in order: as many as possible, with minimum total distance. Of
    equally near shots the earlier is taken.

    Args:
        shot_ends: (N,), strictly increasing.
        scene_ends: (M,), in order and in the same unit; or (M, 2), the earliest and latest position of each end, for
            ends inside a gap. A shot end inside the gap is at distance 0.
        tolerance: largest distance, same unit; may be infinite.
    Returns: (M,) index of the shot, or -1.
    Raises ValueError: the arguments are not in order or not numbers. DatasetError: too many compete.
    """
    ends, spans = np.asarray(shot_ends, dtype=np.float64), np.asarray(scene_ends, dtype=np.float64)
    if spans.ndim == 1:
        spans = np.column_stack([spans, spans])
    if ends.ndim != 1 or not len(ends) or not np.isfinite(ends).all() or (np.diff(ends) <= 0).any():
        raise ValueError("shot_ends must be (N,) finite numbers in strictly increasing order, N >= 1")
    if spans.ndim != 2 or spans.shape[1] != 2 or not np.isfinite(spans).all():
        raise ValueError("scene_ends must be (M,) or (M, 2) finite numbers")
    if (spans[:, 1] < spans[:, 0]).any() or (np.diff(spans, axis=0) < 0).any():
        raise ValueError("scene_ends must be in order")
    if not tolerance >= 0:
        raise ValueError("tolerance must be 0 or more")
    assigned = np.full(len(spans), -1, dtype=np.int64)
    low = np.searchsorted(ends, spans[:, 0] - tolerance, "left")
    high = np.searchsorted(ends, spans[:, 1] + tolerance, "right")
    # Scene ends compete only if their candidates overlap: each run of overlapping candidates is solved separately.
    first = 0
    for m in range(1, len(spans) + 1):
        if m == len(spans) or low[m] >= high[m - 1]:
            run = _assign_run(ends[low[first] : high[m - 1]], spans[first:m], tolerance)
            assigned[first:m] = np.where(run >= 0, run + low[first], -1)
            first = m
    return assigned


def report_of(ends: Numbers, spans: Numbers, assigned: NDArray[np.int64], at_video_end: int) -> MatchReport:
    """The report of a matching of scene ends (M, 2) with the shot ends (N,) of `assign_scene_ends`."""
    matched = assigned >= 0
    distances = _distances(ends[assigned[matched]], spans[matched])
    return MatchReport(
        scene_ends=len(spans),
        matched=int(matched.sum()),
        unmatched=tuple(spans[~matched, 0].tolist()),
        at_video_end=at_video_end,
        mean_distance=float(distances.mean()) if len(distances) else 0.0,
        max_distance=float(distances.max(initial=0.0)),
    )


def match_annotation(
    annotation: VideoAnnotation, shots: NDArray[np.int64], shots_seconds: Numbers, tolerance: float = 1.0
) -> tuple[NDArray[np.int8], MatchReport]:
    """Label shots from an annotation of the video, on the time line in seconds.

    Uses the first of these that the annotation has: scenes in seconds, scenes in frames, labeled shots in seconds,
    labeled shots in frames. Frames are converted by the times of `shots`, also with a variable frame rate; the
    annotation's frames must refer to the same file. If there is a gap after a scene or shot of the annotation, its
    end may be anywhere in the gap. Labels keep their value: a doubtful end stays doubtful.

    Two kinds of ends are counted in the report but not labeled: the end of the video, which is assigned to the last
    shot, whose label is 0 by convention; and ends outside the shots, if these are a part of the video.

    `shots`, `shots_seconds`: (N, 2) ranges of the shots to label, in frames and in seconds. `tolerance`: in seconds.
    Returns: (N,) int8 labels and the report, in seconds.
    Raises DatasetError: the source has no scenes and no labeled shots.
    """
    clock = frame_clock(shots, shots_seconds)
    scenes = in_seconds(annotation.scenes_frames, annotation.scenes_seconds, clock)
    if annotation.open_end and scenes is not None:
        scenes = close_last_scene(scenes, float(shots_seconds[-1, 1]))
    if scenes is None and (annotation.shots is None or annotation.scene_end is None):
        raise fault(annotation.source, f"has no scenes of {annotation.video_id} to match with shots")
    labelled_shots = in_seconds(annotation.shots, annotation.shots_seconds, clock)
    spans, labels = labelled_ends(scenes, labelled_shots, annotation.scene_end)
    ends = shots_seconds[:, 1]
    inside = (spans[:, 1] > shots_seconds[0, 0]) & (spans[:, 0] <= ends[-1] + tolerance)
    spans, labels = spans[inside], labels[inside]
    assigned = assign_scene_ends(ends, spans, tolerance)
    label = np.zeros(len(ends), dtype=np.int8)
    label[assigned[assigned >= 0]] = labels[assigned >= 0]
    label[-1] = INSIDE
    inner = assigned < len(ends) - 1
    report = report_of(ends, spans[inner], assigned[inner], at_video_end=int((~inner).sum()))
    return label, replace(report, outside=int((~inside).sum()))


def in_seconds(frames: NDArray[np.int64] | None, seconds: Numbers | None, clock: Clock) -> Numbers | None:
    """The ranges of a source in seconds, if it has them, else its frame ranges by the clock; None if it has neither."""
    return clock(frames.astype(np.float64)) if seconds is None and frames is not None else seconds


def close_last_scene(scenes: Numbers, end: float) -> Numbers:
    """Scenes (M, 2) in seconds, the last one up to the end of the video, for a source that has no end of it."""
    scenes = scenes.copy()
    scenes[-1, 1] = max(scenes[-1, 1], end)
    return scenes


def labelled_ends(
    scenes: Numbers | None, shots: Numbers | None, labels: NDArray[np.int8] | None
) -> tuple[Numbers, NDArray[np.int8]]:
    """Times of the ends of scenes (M, 2) or, without scenes, of the scene ends among labeled shots (N, 2), in order.

    Returns: (L, 2) the earliest and latest time of each end, which differ if there is a gap, and the label (L,).
    """
    ranges = shots if scenes is None else scenes
    assert ranges is not None
    spans = np.column_stack([ranges[:, 1], np.append(ranges[1:, 0], ranges[-1, 1])])
    if scenes is not None:
        return spans, np.full(len(spans), SCENE_END, np.int8)
    assert labels is not None
    last_shots = np.flatnonzero(labels != INSIDE)
    return spans[last_shots], labels[last_shots]


def frame_clock(shots: NDArray[np.int64], shots_seconds: Numbers) -> Clock:
    """Conversion of frames to seconds, from shots (N, 2) with both; also for a variable frame rate."""
    positions, seconds = shots.ravel().astype(np.float64), shots_seconds.ravel()
    rate = (seconds[-1] - seconds[0]) / (positions[-1] - positions[0])

    def clock(frames: Numbers) -> Numbers:
        # Outside the shots, np.interp would clip every frame to the video's edge; extrapolate instead.
        outside = np.minimum(frames - positions[0], 0) + np.maximum(frames - positions[-1], 0)
        return np.asarray(np.interp(frames, positions, seconds) + rate * outside)

    return clock


def _distances(ends: Numbers, spans: Numbers) -> Numbers:
    """Distance of each end to its span (..., 2); 0 inside."""
    return np.asarray(np.maximum(np.maximum(spans[..., 0] - ends, ends - spans[..., 1]), 0))


def _assign_run(ends: Numbers, spans: Numbers, tolerance: float) -> NDArray[np.int64]:
    """`assign_scene_ends` by dynamic programming over (scene ends so far, shots so far)."""
    assigned = np.full(len(spans), -1, dtype=np.int64)
    if not len(ends):
        return assigned
    if len(spans) * len(ends) > _MOST_PAIRS:
        raise DatasetError(f"{len(spans):,} scene ends are too many to match with {len(ends):,} shots near them")
    distance = _distances(ends[None, :], spans[:, None, :])  # (M, N)
    near = distance <= tolerance
    # Greater than any sum of distances, so that one more match is always better.
    unmatched = 1.0 + len(spans) * distance[near].max(initial=0.0)
    distance[~near] = np.inf

    # cost[m, n]: minimum cost of the first m scene ends on the first n shots, non-increasing in n.
    cost = np.zeros((len(spans) + 1, len(ends) + 1))
    for m in range(len(spans)):
        skip = cost[m] + unmatched
        take = np.append(np.inf, cost[m, :-1] + distance[m])
        cost[m + 1] = np.minimum.accumulate(np.minimum(skip, take))

    n = len(ends)
    for m in range(len(spans), 0, -1):
        n = int(np.argmax(cost[m] <= cost[m, n]))  # the fewest shots with the same cost: the earlier of equals
        if n > 0 and cost[m - 1, n - 1] + distance[m - 1, n - 1] == cost[m, n]:
            n -= 1
            assigned[m - 1] = n
    return assigned
