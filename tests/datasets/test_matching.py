import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from pipelines.datasets import VideoAnnotation
from pipelines.datasets.matching import MatchReport, assign_scene_ends, match_annotation
from pipelines.errors import DatasetError

ASSIGNMENTS: dict[str, list[tuple[list[float], list[Any], float, list[int]]]] = {
    "to the nearest shot end": [([10, 20, 30, 40], [11, 28, 40], 3, [0, 2, 3])],
    "within the tolerance, inclusive": [
        ([10, 20, 30], [13, 24], 3, [0, -1]),
        # Though all three could have a shot if the one at 10.4 went to that at 11.5.
        ([10.2, 11.5, 12.1], [10, 10.4, 11.2], 1, [0, -1, 1]),
    ],
    "never two to one shot": [
        ([10, 20, 30], [19, 20], 10, [0, 1]),
        ([10, 20, 30], [20, 21], 10, [1, 2]),
        ([20], [18, 19, 23], 10, [-1, 0, -1]),
    ],
    "of equally near shots to the earlier": [([10, 20], [15], 5, [0])],
    "in a gap to any shot end in the gap": [([10, 48, 80], [[20, 50]], 1, [1]), ([10, 30, 48, 80], [[20, 50]], 1, [1])],
    "none": [([10, 20], [], 1, []), ([10, 20], [100, 200], 1, [-1, -1])],
}


@pytest.mark.parametrize("rule", ASSIGNMENTS)
def test_scene_ends_are_assigned(rule: str) -> None:
    for shot_ends, scene_ends, tolerance, expected in ASSIGNMENTS[rule]:
        assert assign_scene_ends(shot_ends, scene_ends, tolerance).tolist() == expected


def best_by_trying_all(ends: list[float], scenes: list[float], tolerance: float) -> tuple[int, float]:
    best = (0, 0.0)
    for count in range(len(scenes) + 1):
        for chosen in itertools.combinations(range(len(scenes)), count):
            for shots in itertools.combinations(range(len(ends)), count):
                distances = [abs(scenes[m] - ends[n]) for m, n in zip(chosen, shots, strict=True)]
                if all(distance <= tolerance for distance in distances):
                    best = min(best, (-count, sum(distances)))
    return -best[0], best[1]


def test_assignments_are_as_good_as_the_best_of_all() -> None:
    random = np.random.default_rng(0)
    for trial in range(150):
        ends = np.cumsum(random.integers(1, (12, 4)[trial % 2], random.integers(1, 7))).astype(float)
        scenes = np.sort(random.integers(0, int(ends[-1]) + 10, random.integers(0, 5))).astype(float)
        tolerance = [0.0, 1.0, 4.0, 15.0, math.inf][trial % 5]
        assigned = assign_scene_ends(ends, scenes, tolerance)
        taken = assigned[assigned >= 0]
        assert (np.diff(taken) > 0).all()
        distances = np.abs(ends[taken] - scenes[assigned >= 0])
        assert (distances <= tolerance).all()
        assert (len(taken), distances.sum()) == best_by_trying_all(ends.tolist(), scenes.tolist(), tolerance)


def annotation(**values: object) -> VideoAnnotation:
    return VideoAnnotation("video", Path("video.txt"), **values)  # type: ignore[arg-type]


def matched(ends: ArrayLike, scene_ends: ArrayLike, tolerance: float) -> tuple[NDArray[np.int8], MatchReport]:
    """Shots and scenes without gaps, from 0, with these ends in seconds."""
    shots, scenes = (np.column_stack([np.append(0.0, each)[:-1], each]) for each in (ends, scene_ends))
    frames = np.arange(len(shots))[:, None] + np.arange(2)
    return match_annotation(annotation(scenes_seconds=scenes), frames, shots, tolerance)


def test_a_video_of_many_shots_is_matched_quickly() -> None:
    random = np.random.default_rng(1)
    ends = np.cumsum(random.integers(20, 200, 20_000))
    chosen = np.sort(random.choice(len(ends) - 1, 2_000, replace=False))
    labels, report = matched(ends, ends[chosen] + random.integers(-5, 6, len(chosen)), tolerance=24)
    assert np.flatnonzero(labels).tolist() == chosen.tolist()
    assert report.unmatched == ()


def test_the_match_report_counts_matched_and_unmatched_ends() -> None:
    labels, report = matched([10.0, 20.0, 30.0, 40.0], [10.5, 25.0, 29.0, 40.2], tolerance=1.0)
    assert labels.dtype == np.int8
    assert labels.tolist() == [1, 0, 1, 0]
    assert (report.scene_ends, report.matched, report.unmatched) == (3, 2, (25.0,))
    assert report.at_video_end == 1  # no label, and no part of the figures
    assert report.mean_distance == pytest.approx(0.75)


def test_the_match_report_is_defined_without_a_match() -> None:
    labels, report = matched([10, 20], [15], tolerance=1)
    assert labels.tolist() == [0, 0]
    assert (report.matched, report.mean_distance) == (0, 0.0)


def test_more_competing_scene_ends_than_fit_into_memory_are_refused() -> None:
    ends = np.arange(10_000.0)
    assert assign_scene_ends(ends, ends, 0.4).tolist() == list(range(10_000))
    with pytest.raises(DatasetError, match="10,000 scene ends are too many to match with 10,000 shots near them"):
        assign_scene_ends(ends, ends, 1.0)


OUR_SHOTS = np.array([[0, 100], [100, 200], [200, 300], [300, 400]])
OUR_TIMES = OUR_SHOTS / 25.0


LATE = np.add(OUR_TIMES, [[0, 0], [0, 5], [5, 5], [5, 5]])
"""The second half is late: a variable frame rate."""


def ends(*labels: int) -> NDArray[np.int8]:
    return np.array(labels, np.int8)


@pytest.mark.parametrize(
    ("source", "times", "tolerance", "labels", "report"),
    [
        ({"scenes_seconds": [[0, 4.5], [4.5, 16.0]]}, OUR_TIMES, 1.0, [1, 0, 0, 0], {"at_video_end": 1}),
        ({"scenes_frames": [[0, 290], [290, 400]]}, LATE, 1.0, [0, 0, 1, 0], {"mean_distance": 0.4}),
        ({"scenes_frames": [[0, 200], [200, 900]]}, OUR_TIMES, 1.0, [0, 1, 0, 0], {"at_video_end": 0, "outside": 1}),
        (
            {"scenes_seconds": [[0.0, 8.0], [8.0, 9.0]], "open_end": True},
            *(OUR_TIMES, 3.0, [0, 1, 0, 0], {"scene_ends": 1, "at_video_end": 1}),
        ),
        (
            {"shots": [[0, 50], [50, 101], [130, 210], [210, 400]], "scene_end": ends(0, 1, -1, 0)},
            *(OUR_TIMES, 0.5, [1, -1, 0, 0], {"matched": 2}),
        ),
        (
            {"shots": [[0, 60], [150, 400]], "scene_end": ends(1, 0), "frame_rate": 25.0},
            *(OUR_TIMES, 0.1, [1, 0, 0, 0], {"mean_distance": 0.0}),
        ),
        (
            {"shots": OUR_SHOTS, "scene_end": ends(1, 0, 1, 0)},
            OUR_TIMES,
            0.0,
            [1, 0, 1, 0],
            {"scene_ends": 2, "matched": 2},
        ),
    ],
    ids=["seconds", "frames by times", "after the end", "open end", "other shots, doubtful", "in a gap", "same shots"],
)
def test_annotations_of_each_kind_label_our_shots(
    source: dict[str, Any], times: NDArray[np.float64], tolerance: float, labels: list[int], report: dict[str, Any]
) -> None:
    theirs = {name: np.array(value) if isinstance(value, list) else value for name, value in source.items()}
    matched_labels, result = match_annotation(annotation(**theirs), OUR_SHOTS, times, tolerance)
    assert matched_labels.tolist() == labels
    assert {name: getattr(result, name) for name in report} == pytest.approx(report)


def test_ends_outside_the_shots_of_a_part_are_only_counted() -> None:
    scenes = annotation(scenes_seconds=np.array([[0.0, 5.0], [5.0, 12.0], [12.0, 16.0], [16.0, 30.0]]))
    labels, report = match_annotation(scenes, OUR_SHOTS[2:], OUR_TIMES[2:], tolerance=0.5)  # 8 to 16 seconds
    assert labels.tolist() == [1, 0]
    assert (report.scene_ends, report.matched, report.at_video_end, report.outside) == (1, 1, 1, 2)


def test_a_source_without_scenes_is_refused() -> None:
    with pytest.raises(DatasetError, match=r"video.txt: has no scenes of video"):
        match_annotation(annotation(shots=OUR_SHOTS), OUR_SHOTS, OUR_TIMES)
