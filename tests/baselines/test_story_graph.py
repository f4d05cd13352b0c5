"""Story Graph's scenes: against its sum written out shot by shot, and every division."""

import numpy as np
import pytest
from numpy.typing import NDArray

from pipelines.baselines import similarities
from pipelines.baselines.divisions import StoryGraphSettings, closeness, story_graph, threads
from tests.baselines import divisions, margin, random_video, scenes_of


def literal_value(
    near: NDArray[np.float64], thread: NDArray[np.int64], scenes: list[tuple[int, int]], longest: int
) -> float:
    """Shot by shot: its similarity to the scene that it joins, or its dissimilarity to the previous scene."""

    def alpha(n: int) -> float:
        return 1 - 0.5 * (n / longest) ** 2

    def like(shot: int, others: range) -> float:
        return float(1 / (1 + np.exp(-np.mean([near[shot, other] for other in others]))))

    total = 0.0
    for number, (start, end) in enumerate(scenes):
        for shot in range(start + 1, end):
            mates = sum(thread[other] == thread[shot] for other in range(start, shot))
            total += alpha(shot - start + 1) * (like(shot, range(start, shot)) + mates)
        if number:
            last = range(*scenes[number - 1])
            threaded = any(thread[other] == thread[start] for other in last)
            total += alpha(longest - len(last) + 1) * max(0.0, 1 - like(start, last) - threaded)
    return total


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("scenes", [1, 2, 4])
@pytest.mark.parametrize("longest", [5, 100])
def test_no_division_has_a_higher_worth_and_scores_equal_brute_force(seed: int, scenes: int, longest: int) -> None:
    features, times = random_video(seed, 9)
    settings = StoryGraphSettings(longest=longest, thread=0.6, lookahead=4, scenes=scenes)
    near, thread = closeness(features), threads(similarities(features), 4, 0.6)
    count = max(scenes, -(-9 // longest))
    values = {}
    for ends in divisions(9, count):
        parts = scenes_of(ends, 9)
        if max(end - start for start, end in parts) <= longest:
            values[ends] = literal_value(near, thread, parts, longest)
    result = story_graph(features, times, settings)
    assert values[tuple(result.ends)] == pytest.approx(max(values.values()))
    if count > 1:
        expected = np.array([margin(values, shot) for shot in range(8)])
        finite = np.isfinite(expected)
        np.testing.assert_allclose(result.score[:-1][finite], expected[finite], atol=1e-9)


@pytest.mark.parametrize("seed", [0, 1])
def test_scenes_are_added_while_the_worth_grows(seed: int) -> None:
    features, times = random_video(seed, 12)
    near, thread = closeness(features), threads(similarities(features), 24, 0.9)

    def best(scenes: int) -> float:
        return max(literal_value(near, thread, scenes_of(ends, 12), 100) for ends in divisions(12, scenes))

    expected = next((k for k in range(1, 4) if best(k + 1) - best(k) < 0.2), 4)
    assert len(story_graph(features, times, StoryGraphSettings(gain=0.2)).ends) + 1 == expected


def test_threads_connect_similar_shots_near_in_time() -> None:
    alike = np.eye(6)
    for i, j in ((0, 2), (2, 4), (1, 5)):
        alike[i, j] = alike[j, i] = 0.9
    assert threads(alike, 3, 0.9).tolist() == [0, 1, 0, 2, 0, 3]  # 1 and 5 are four apart
    assert threads(alike, 4, 0.9).tolist() == [0, 1, 0, 2, 0, 1]
    assert len(set(threads(alike, 4, 0.95))) == 6
