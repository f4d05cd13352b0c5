"""Videos whose scenes are known, for the tests of the baselines."""

from collections.abc import Iterator
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray


def divisions(shots: int, scenes: int | None = None) -> Iterator[tuple[int, ...]]:
    """Every division of some shots into scenes, as the last shots of all scenes but the video's last."""
    for count in range(shots) if scenes is None else [scenes - 1]:
        yield from combinations(range(shots - 1), count)


def scenes_of(ends: tuple[int, ...], shots: int) -> list[tuple[int, int]]:
    """Half-open ranges of shots."""
    borders = [0, *(end + 1 for end in ends), shots]
    return list(pairwise(borders))


def margin(values: dict[tuple[int, ...], float], shot: int) -> float:
    """The greatest value of a division with an end at the shot, less the greatest without."""
    with_end = max((value for ends, value in values.items() if shot in ends), default=-np.inf)
    without = max((value for ends, value in values.items() if shot not in ends), default=-np.inf)
    return -np.inf if with_end == -np.inf else with_end - without


def random_video(seed: int, shots: int, width: int = 6) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Features and times of shots that are neither all alike nor all different."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(3, width))[rng.integers(0, 3, shots)] + 0.7 * rng.normal(size=(shots, width))
    return features, times_of(rng.uniform(1, 6, shots))


def times_of(lengths: NDArray[np.float64]) -> NDArray[np.float64]:
    ends = np.cumsum(lengths)
    return np.stack([ends - lengths, ends], axis=1)


Video = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]


def clear_video(scenes: tuple[int, ...] = (9, 12, 8, 10, 11), seed: int = 0) -> Video:
    """Features, times and ends of a video of scenes with two cameras each, which alternate; no setting recurs."""
    rng = np.random.default_rng(seed)
    rows = []
    for length in scenes:
        place = 2 * rng.normal(size=40)
        cameras = place + rng.normal(size=(2, 40))
        rows.append(cameras[np.arange(length) % 2] + 0.2 * rng.normal(size=(length, 40)))
    return np.concatenate(rows), times_of(rng.uniform(0.5, 8, sum(scenes))), np.cumsum(scenes)[:-1] - 1


def marks_of(video: Video) -> NDArray[np.uint8]:
    """1 at the shots that end scenes."""
    marks = np.zeros(len(video[0]), np.uint8)
    marks[video[2]] = 1
    return marks
