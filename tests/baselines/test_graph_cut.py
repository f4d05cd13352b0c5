"""Recursive normalized cuts: against the literal definition and every contiguous cut."""

import numpy as np
import pytest
from numpy.typing import NDArray

from pipelines.baselines import similarities
from pipelines.baselines.graphs import GraphCutSettings, graph_cut, shot_graph
from tests.baselines import clear_video, random_video
from tests.models.bands import table_of


def literal_cut(weights: NDArray[np.float64], first: list[int], second: list[int]) -> float:
    """The definition, edge by edge."""
    cut = sum(weights[i, j] for i in first for j in second)
    whole = [*first, *second]
    return cut / sum(weights[i, j] for i in first for j in whole) + cut / sum(
        weights[i, j] for i in second for j in whole
    )


def literal_ends(weights: NDArray[np.float64], shots: list[int], threshold: float) -> list[int]:
    """Try every cut of a part, take the best, continue in both halves."""
    if len(shots) < 2:
        return []
    cuts = {position: literal_cut(weights, shots[:position], shots[position:]) for position in range(1, len(shots))}
    best = min(cuts, key=lambda position: cuts[position])
    if cuts[best] > threshold:
        return []
    return [
        *literal_ends(weights, shots[:best], threshold),
        shots[best - 1],
        *literal_ends(weights, shots[best:], threshold),
    ]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("threshold", [0.1, 0.9])
def test_cuts_equal_those_of_the_literal_recursion(seed: int, threshold: float) -> None:
    features, times = random_video(seed, 11)
    settings = GraphCutSettings(threshold=threshold)
    weights = table_of(shot_graph(features, times, settings.decay))
    result = graph_cut(features, times, settings)
    assert result.ends.tolist() == literal_ends(weights, list(range(11)), threshold)


def test_the_graph_has_the_weights_of_the_paper() -> None:
    features, times = random_video(0, 7)
    weights = table_of(shot_graph(features, times, 20.0))
    centered = features - features.mean(axis=0)
    sigma = (times[:, 1] - times[:, 0]).std()
    for i in range(7):
        for j in range(7):
            cosine = centered[i] @ centered[j] / np.linalg.norm(centered[i]) / np.linalg.norm(centered[j])
            apart = (times[i].mean() - times[j].mean()) / sigma
            assert weights[i, j] == pytest.approx(max(cosine, 0.0) * np.exp(-(apart**2) / 20))


def test_edges_that_are_left_out_have_no_weight() -> None:
    features, times = random_video(0, 400)
    times[200:] += 5.0 * np.arange(200)[:, None]  # farther apart, after a part with many shots in the same time
    weights = table_of(shot_graph(features, times, 20.0))
    middle, unit = times.mean(axis=1), np.diff(times)[:, 0].std()
    falling = np.exp(-(((middle[:, None] - middle) / unit) ** 2) / 20.0)
    assert 0 < (weights == 0).mean() < 1
    np.testing.assert_allclose(weights, similarities(features) * falling, atol=1e-15)


def test_scenes_at_any_threshold_follow_from_the_scores() -> None:
    features, times = random_video(3, 40)
    score = graph_cut(features, times).score
    for threshold in (0.05, 0.2, 0.5, 0.8, 1.2):
        ends = graph_cut(features, times, GraphCutSettings(threshold=threshold)).ends
        np.testing.assert_array_equal(ends, np.flatnonzero(score[:-1] >= -threshold))


def test_clear_scenes_are_found_where_all_shots_have_equal_length() -> None:
    features, _, ends = clear_video()
    position = 4.0 * np.arange(len(features) + 1)
    assert graph_cut(features, np.stack([position[:-1], position[1:]], axis=1)).ends.tolist() == ends.tolist()
