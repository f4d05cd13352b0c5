import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from pipelines.datasets import VideoAnnotation
from pipelines.datasets.matching import assign_scene_ends, match_annotation
from pipelines.errors import DatasetError
from tests.small_stores import refusal


@pytest.mark.parametrize(
    ("shot_ends", "scene_ends", "tolerance", "expected"),
    [
        # Though all three could have a shot if the one at 10.4 went to the one at 11.5.
        ([10.2, 11.5, 12.1], [10, 10.4, 11.2], 1, [0, -1, 1]),
        ([20], [18, 19, 23], 10, [-1, 0, -1]),
        ([10, 20], [15], 5, [0]),
        ([10, 30, 48, 80], [[20, 50]], 1, [1]),
    ],
    ids=["nearest", "never two to one", "of equally near the earlier", "anywhere in a gap, the earlier"],
)
def test_scene_ends_are_assigned(
    shot_ends: list[float], scene_ends: list[Any], tolerance: float, expected: list[int]
) -> None:
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


def test_a_video_of_many_shots_is_matched_quickly() -> None:
    random = np.random.default_rng(1)
    ends = np.cumsum(random.integers(20, 200, 20_000))
    chosen = np.sort(random.choice(len(ends) - 1, 2_000, replace=False))
    assert assign_scene_ends(ends, ends[chosen] + random.integers(-5, 6, len(chosen)), 24).tolist() == chosen.tolist()


def test_more_competing_scene_ends_than_fit_into_memory_are_refused() -> None:
    ends = np.arange(10_000.0)
    assert assign_scene_ends(ends, ends, 0.4).tolist() == list(range(10_000))
    words = "10,000 scene ends are too many to match with 10,000 shots near them"
    refusal(lambda: assign_scene_ends(ends, ends, 1.0), words, error=DatasetError)


OUR_SHOTS = np.array([[0, 100], [100, 200], [200, 300], [300, 400]])
OUR_TIMES = OUR_SHOTS / 25.0


LATE = np.add(OUR_TIMES, [[0, 0], [0, 5], [5, 5], [5, 5]])
"""The second half is late: a variable frame rate."""


def ends(*labels: int) -> NDArray[np.int8]:
    return np.array(labels, np.int8)


@pytest.mark.parametrize(
    ("source", "times", "tolerance", "labels", "report"),
    [
        (
            {"scenes_seconds": [[0, 4.5], [4.5, 7], [7, 11], [11, 16.2]]},
            *(OUR_TIMES, 0.8, [1, 0, 0, 0], {"scene_ends": 3, "matched": 1, "at_video_end": 1, "mean_distance": 0.5}),
        ),
        ({"scenes_seconds": [[0, 6], [6, 9]]}, OUR_TIMES, 0.5, [0, 0, 0, 0], {"matched": 0, "mean_distance": 0.0}),
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
            *(OUR_TIMES, 0.0, [1, 0, 1, 0], {"scene_ends": 2, "matched": 2}),
        ),
    ],
    ids=[
        "seconds",
        "none",
        "frames by times",
        "after the end",
        "open end",
        "other shots, doubtful",
        "in a gap",
        "same shots",
    ],
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
    source = annotation(shots=OUR_SHOTS)
    refusal(lambda: match_annotation(source, OUR_SHOTS, OUR_TIMES), "video.txt: has no scenes", error=DatasetError)
