"""DP, Grouping and Story Graph: the best division by their criteria, written out, over every division."""

from itertools import pairwise
from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from pipelines.baselines import similarities
from pipelines.baselines.divisions import (
    DPSettings,
    GroupingSettings,
    StoryGraphSettings,
    closeness,
    divide,
    dp,
    estimated_scenes,
    grouping,
    least_ratio,
    scene_costs,
    story_graph,
    threads,
)
from tests.baselines import divisions, margin, random_video, scenes_of

# --- DP ---------------------------------------------------------------------------------------------------------------


def test_a_division_into_one_scene_is_scored_as_one_into_two() -> None:
    worth = np.random.default_rng(0).normal(size=(6, 6))
    one, two = divide(worth, 1), divide(worth, 2)
    assert not len(one.ends)
    np.testing.assert_array_equal(one.score, two.score)
    assert one.score[:-1].argmax() == two.ends[0]


def literal_criterion(
    alike: NDArray[np.float64], left: tuple[int, int], right: tuple[int, int], settings: DPSettings
) -> float:
    """The three parts of the criterion, pair by pair."""

    def links(first: range, second: range) -> float:
        return sum(alike[i, j] * settings.fading ** abs(i - j) for i in first for j in second if i != j)

    def share(cut: float, within: float) -> float:
        return cut / (cut + within) if cut + within > 0 else 1.0

    before, after, memory = range(*left), range(*right), range(left[0])
    cut = links(before, after)
    recalled = share(links(memory, after), links(after, after)) if memory else 0.0
    closest = max(alike[i, j] for i in before for j in after)
    return (
        share(cut, links(before, before))
        + share(cut, links(after, after))
        + settings.memory * recalled
        + settings.closest * closest
    )


def literal_values(features: NDArray[np.float64], settings: DPSettings) -> dict[tuple[int, ...], float]:
    alike, shots = similarities(features), len(features)
    values = {}
    for ends in divisions(shots):
        scenes = scenes_of(ends, shots)
        if max(end - start for start, end in scenes) > settings.longest:
            continue
        values[ends] = sum(
            settings.reward - literal_criterion(alike, one, other, settings) for one, other in pairwise(scenes)
        )
    return values


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(
    "settings",
    [DPSettings(), DPSettings(reward=1.5), DPSettings(reward=1.0, memory=0.0, closest=0.0), DPSettings(1.2, longest=3)],
    ids=["defaults", "rewarded", "cuts only", "short scenes"],
)
def test_no_division_by_dp_has_a_higher_worth_and_scores_equal_brute_force(seed: int, settings: DPSettings) -> None:
    features, times = random_video(seed, 8)
    values = literal_values(features, settings)
    result = dp(features, times, settings)
    assert values[tuple(result.ends)] == pytest.approx(max(values.values()), abs=1e-6)
    expected = [margin(values, shot) for shot in range(7)]
    np.testing.assert_allclose(result.score[:-1], expected, atol=1e-6)


# --- Grouping ---------------------------------------------------------------------------------------------------------


def cosine_distances(features: NDArray[np.float64]) -> NDArray[np.float64]:
    unit = features / np.linalg.norm(features, axis=1, keepdims=True)
    return np.array([[0.0 if i == j else 1 - a @ b for j, b in enumerate(unit)] for i, a in enumerate(unit)])


def literal_sums(distances: NDArray[np.float64], ends: tuple[int, ...]) -> tuple[float, float]:
    """Sum of the distances within scenes, and the number of pairs that it runs over."""
    parts = scenes_of(ends, len(distances))
    cost = sum(distances[i, j] for a, b in parts for i in range(a, b) for j in range(a, b))
    return float(cost), float(sum((b - a) ** 2 for a, b in parts))


@pytest.mark.parametrize("seed", [1, 3])  # of which the ratio of the second in two scenes is found in three steps
@pytest.mark.parametrize("scenes", [2, 6])
@pytest.mark.parametrize("kind", ["additive", "normalized"])
def test_no_division_has_a_lower_cost(seed: int, scenes: int, kind: Literal["additive", "normalized"]) -> None:
    features, times = random_video(seed, 10)
    distances = cosine_distances(features)
    distances /= distances.mean()
    sums = {ends: literal_sums(distances, ends) for ends in divisions(10, scenes)}
    least = 0.0
    if kind == "normalized":
        least = min(cost / pairs for cost, pairs in sums.values())
        areas = np.arange(1.0, 11)[:, None] ** 2
        assert least_ratio(scene_costs(distances), areas, scenes) == pytest.approx(least)
    values = {ends: least * pairs - cost for ends, (cost, pairs) in sums.items()}
    result = grouping([features], times, GroupingSettings(kind, scenes))
    assert values[tuple(result.ends)] == pytest.approx(max(values.values()))
    np.testing.assert_allclose(result.score[:-1], [margin(values, shot) for shot in range(9)], atol=1e-9)


def test_the_number_of_scenes_is_at_the_elbow_of_the_greater_half_of_the_singular_values() -> None:
    noise = np.random.default_rng(0).normal(size=(30, 30))
    distances = noise + noise.T
    logs = np.log(np.linalg.svd(distances, compute_uv=False)[:15])
    below = [logs[0] + (logs[-1] - logs[0]) * i / 14 - logs[i] for i in range(15)]
    assert estimated_scenes(distances) == int(np.argmax(below)) + 1


@pytest.mark.parametrize("sizes", [(12, 12, 12, 12), (9, 15, 10, 14, 12)], ids=["even", "uneven"])
def test_the_number_of_clear_scenes_is_estimated_from_the_singular_values(sizes: tuple[int, ...]) -> None:
    scene = np.repeat(np.arange(len(sizes)), sizes)
    noise = np.random.default_rng(0).uniform(0, 0.01, (len(scene), len(scene)))
    distances = (scene[:, None] != scene) + noise + noise.T
    np.fill_diagonal(distances, 0.0)
    assert abs(estimated_scenes(distances) - len(sizes)) <= 1


def test_several_feature_sets_find_more_scenes_than_each_alone() -> None:
    """Images show the first border, sound the second."""
    rng = np.random.default_rng(0)
    scene = np.repeat([0, 1, 2], 10)
    picture = rng.normal(size=(2, 30))[np.minimum(scene, 1)] + 0.3 * rng.normal(size=(30, 30))
    sound = 100 * (rng.normal(size=(2, 8))[np.maximum(scene, 1) - 1] + 0.3 * rng.normal(size=(30, 8)))
    times = np.stack([np.arange(30.0), np.arange(1.0, 31)], axis=1)
    three = GroupingSettings(scenes=3)
    assert grouping([picture, sound], times, three).ends.tolist() == [9, 19]
    assert grouping([picture], times, three).ends.tolist() != [9, 19]
    assert grouping([sound], times, three).ends.tolist() != [9, 19]


def test_the_number_of_scenes_is_limited_to_the_number_of_shots() -> None:
    features, times = random_video(0, 5)
    assert grouping([features], times, GroupingSettings(scenes=9)).ends.tolist() == [0, 1, 2, 3]


# --- Story Graph ------------------------------------------------------------------------------------------------------


def story_value(
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
def test_no_story_graph_has_a_higher_worth_and_scores_equal_brute_force(seed: int, scenes: int, longest: int) -> None:
    features, times = random_video(seed, 9)
    settings = StoryGraphSettings(longest=longest, thread=0.6, lookahead=4, scenes=scenes)
    near, thread = closeness(features), threads(similarities(features), 4, 0.6)
    count = max(scenes, -(-9 // longest))
    values = {}
    for ends in divisions(9, count):
        parts = scenes_of(ends, 9)
        if max(end - start for start, end in parts) <= longest:
            values[ends] = story_value(near, thread, parts, longest)
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
        return max(story_value(near, thread, scenes_of(ends, 12), 100) for ends in divisions(12, scenes))

    expected = next((k for k in range(1, 4) if best(k + 1) - best(k) < 0.2), 4)
    assert len(story_graph(features, times, StoryGraphSettings(gain=0.2)).ends) + 1 == expected


def test_threads_connect_similar_shots_near_in_time() -> None:
    alike = np.eye(6)
    for i, j in ((0, 2), (2, 4), (1, 5)):
        alike[i, j] = alike[j, i] = 0.9
    assert threads(alike, 3, 0.9).tolist() == [0, 1, 0, 2, 0, 3]  # 1 and 5 are four apart
    assert threads(alike, 4, 0.9).tolist() == [0, 1, 0, 2, 0, 1]
    assert len(set(threads(alike, 4, 0.95))) == 6
