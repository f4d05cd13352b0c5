"""Matching of annotated scene ends to shot ends: each to the nearest within a tolerance, one per shot and in order."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipelines.datasets import INSIDE, SCENE_END, VideoAnnotation, fault
from pipelines.errors import DatasetError

_MOST_PAIRS = 2**25  # of scene ends and shots that are matched at once: half a gigabyte

Numbers = NDArray[np.float64]


@dataclass(frozen=True)
class MatchReport:
    """Quality of a matching of scene ends to shot ends, in seconds."""

    scene_ends: int  # number of scene ends, without those at the end of the video
    matched: int  # number of them that have a shot
    unmatched: tuple[float, ...]  # positions of the others
    at_video_end: int  # number of further ones at the end of the video, which is not a scene end to predict
    mean_distance: float  # mean distance between a matched scene end and the end of its shot; 0 if there is none
    outside: int = 0  # number of further ones before the first shot or after the last, if these are a part of a video


def describe_matches(reports: Collection[MatchReport], what: str = "scene ends") -> str:
    """Return in words how many scene ends of several videos were matched, and how far away they are."""
    ends, matched = sum(one.scene_ends for one in reports), sum(one.matched for one in reports)
    mean = sum(one.mean_distance * one.matched for one in reports) / max(1, matched)
    return f"{matched} of {ends} {what} matched, {mean:.2f} s away on average"


def assign_scene_ends(shot_ends: ArrayLike, scene_ends: ArrayLike, tolerance: float) -> NDArray[np.int64]:
    """Assign scene ends to shots, one to one and in order: as many as possible, with minimum total distance.

    Shot ends (N,) are strictly increasing, scene ends (M,) in order and in the same unit; or (M, 2), the earliest and
    latest position of each end. Returns (M,) the index of the shot, or -1 if none is within the tolerance. Raises
    DatasetError: too many compete.
    """
    ends, spans = np.asarray(shot_ends, dtype=np.float64), np.asarray(scene_ends, dtype=np.float64)
    if spans.ndim == 1:
        spans = np.column_stack([spans, spans])
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


@dataclass(frozen=True)
class TimedScenes:
    """A source in seconds: N shots, M scenes, or both."""

    source: Path
    shots: Numbers | None  # (N, 2)
    labels: NDArray[np.int8] | None  # (N,) of the shots
    scores: Numbers | None  # (N,) of the shots
    scenes: Numbers | None  # (M, 2)
    length: float  # end of the last shot, or else of the last scene

    def scene_ends(self) -> tuple[Numbers, NDArray[np.int8]]:
        """Return (L, 2) the earliest and latest time of each scene end, which differ if a gap follows, and its label
        (L,), from the scenes or, without them, the labeled shots."""
        ranges = self.shots if self.scenes is None else self.scenes
        assert ranges is not None
        spans = np.column_stack([ranges[:, 1], np.append(ranges[1:, 0], ranges[-1, 1])])
        if self.scenes is not None:
            return spans, np.full(len(spans), SCENE_END, np.int8)
        assert self.labels is not None
        last_shots = np.flatnonzero(self.labels != INSIDE)
        return spans[last_shots], self.labels[last_shots]


def in_seconds(source: VideoAnnotation, other: VideoAnnotation, frame_rate: float | None = None) -> TimedScenes:
    """Return a source with its own times or, without them, its frames as seconds: by the first of the two sources with
    both, else by the frame rate of the source, of the other, or of the caller. A last scene without an end ends with
    the other source. Raises DatasetError: there is no frame rate."""

    def clock(frames: Numbers) -> Numbers:
        for one in (source, other):
            for frame_ranges, times in ((one.shots, one.shots_seconds), (one.scenes_frames, one.scenes_seconds)):
                if frame_ranges is not None and times is not None:
                    positions, seconds = frame_ranges.ravel().astype(np.float64), times.ravel()
                    mean = (seconds[-1] - seconds[0]) / (positions[-1] - positions[0])
                    # Outside the ranges np.interp would clip every frame to their edge; extrapolate instead.
                    outside = np.minimum(frames - positions[0], 0) + np.maximum(frames - positions[-1], 0)
                    return np.asarray(np.interp(frames, positions, seconds) + mean * outside)
        rate = source.frame_rate or other.frame_rate or frame_rate
        if rate is None:
            raise fault(source.source, "has frames but no frame rate; give it with `frame_rate`")
        return frames / rate

    def convert(frames: NDArray[np.int64] | None, seconds: Numbers | None) -> Numbers | None:
        return clock(frames.astype(np.float64)) if seconds is None and frames is not None else seconds

    shots = convert(source.shots, source.shots_seconds)
    scenes = convert(source.scenes_frames, source.scenes_seconds)
    if source.open_end and scenes is not None:
        scenes = scenes.copy()
        scenes[-1, 1] = max(scenes[-1, 1], in_seconds(replace(other, open_end=False), source, frame_rate).length)
    last = scenes if shots is None else shots
    assert last is not None
    return TimedScenes(source.source, shots, source.scene_end, source.scores, scenes, length=float(last[-1, 1]))


def match_scene_ends(
    spans: Numbers, labels: NDArray[np.int8], shots: Numbers, tolerance: float, *, with_last_shot: bool = False
) -> tuple[NDArray[np.int64], NDArray[np.int8], MatchReport]:
    """Assign scene ends (M, 2) with labels (M,) to shots (N, 2), all in seconds; ``with_last_shot`` also to the last
    one, the end of the video, which is counted in the report and not labeled.
    Returns: (M,) index of the shot or -1, (N,) labels of the shots, and the report.
    """
    shot_ends = shots[:, 1] if with_last_shot else shots[:-1, 1]
    assigned = assign_scene_ends(shot_ends, spans, tolerance)
    is_inner = assigned < len(shots) - 1
    matched = is_inner & (assigned >= 0)
    shot_labels = np.full(len(shots), INSIDE, np.int8)
    shot_labels[assigned[matched]] = labels[matched]
    distances = _distances(shot_ends[assigned[matched]], spans[matched])
    report = MatchReport(
        scene_ends=int(is_inner.sum()),
        matched=int(matched.sum()),
        unmatched=tuple(spans[assigned < 0, 0].tolist()),
        at_video_end=int((~is_inner).sum()),
        mean_distance=float(distances.mean()) if len(distances) else 0.0,
    )
    return assigned, shot_labels, report


def match_annotation(
    annotation: VideoAnnotation, shots: NDArray[np.int64], shots_seconds: Numbers, tolerance: float = 1.0
) -> tuple[NDArray[np.int8], MatchReport]:
    """Label the shots of a video, (N, 2) in frames and in seconds, from an annotation whose frames refer to the same
    file: by its scenes or, without them, its labeled shots, within ``tolerance`` seconds. The end of the video and ends
    outside the shots, if these are a part of the video, are counted in the report but not labeled.
    Returns: (N,) int8 labels and the report. Raises DatasetError: the source has no scenes and no labeled shots.
    """
    has_labels = annotation.shots is not None and annotation.scene_end is not None
    if annotation.scenes_frames is None and annotation.scenes_seconds is None and not has_labels:
        raise fault(annotation.source, f"has no scenes of {annotation.video_id} to match with shots")
    video = VideoAnnotation(annotation.video_id, annotation.source, shots, shots_seconds)
    spans, labels = in_seconds(annotation, video).scene_ends()
    inside = (spans[:, 1] > shots_seconds[0, 0]) & (spans[:, 0] <= shots_seconds[-1, 1] + tolerance)
    _, shot_labels, report = match_scene_ends(
        spans[inside], labels[inside], shots_seconds, tolerance, with_last_shot=True
    )
    return shot_labels, replace(report, outside=int((~inside).sum()))


def _distances(ends: Numbers, spans: Numbers) -> Numbers:
    """Return the distance of each end to its span (..., 2); 0 inside."""
    return np.asarray(np.maximum(np.maximum(spans[..., 0] - ends, ends - spans[..., 1]), 0))


def _assign_run(ends: Numbers, spans: Numbers, tolerance: float) -> NDArray[np.int64]:
    """Solve `assign_scene_ends` by dynamic programming over (scene ends so far, shots so far)."""
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
