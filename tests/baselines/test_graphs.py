"""GraphCut against recursive cuts; SCSA's alignment against its textbook form, its clustering on clear clusters."""

import numpy as np
import pytest
from numpy.typing import NDArray

from pipelines.baselines import similarities
from pipelines.baselines.graphs import (
    GraphCutSettings,
    SCSASettings,
    alignment_scores,
    fast_global_kmeans,
    graph_cut,
    low_points,
    shot_clusters,
    shot_graph,
    substitutions,
)
from tests.baselines import clear_video, random_video
from tests.models.bands import costs_by_recursion, table_of

# --- GraphCut ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
def test_scenes_are_those_of_recursive_cuts_at_the_threshold(seed: int) -> None:
    features, times = random_video(seed, 11)
    costs = np.array(costs_by_recursion(table_of(shot_graph(features, times, 20.0))))
    for threshold in (0.1, 0.4, 0.9):
        result = graph_cut(features, times, GraphCutSettings(threshold=threshold))
        np.testing.assert_allclose(-result.score[:-1], costs)
        assert result.ends.tolist() == np.flatnonzero(costs <= threshold).tolist()


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


def test_clear_scenes_are_found_where_all_shots_have_equal_length() -> None:
    features, _, ends = clear_video()
    position = 4.0 * np.arange(len(features) + 1)
    assert graph_cut(features, np.stack([position[:-1], position[1:]], axis=1)).ends.tolist() == ends.tolist()


# --- SCSA -------------------------------------------------------------------------------------------------------------


def needleman_wunsch(first: list[int], second: list[int], scores: NDArray[np.float64], gap: float) -> float:
    """The best global alignment, by its recursion on what is left of both sequences."""
    if not first or not second:
        return gap * (len(first) + len(second))
    return max(
        scores[first[0], second[0]] + needleman_wunsch(first[1:], second[1:], scores, gap),
        gap + needleman_wunsch(first[1:], second, scores, gap),
        gap + needleman_wunsch(first, second[1:], scores, gap),
    )


@pytest.mark.parametrize(("window", "gap"), [(1, -0.5), (3, -0.5), (4, -1.0), (4, -0.1)])
def test_alignment_equals_needleman_wunsch(window: int, gap: float) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 4, 11)
    scores = rng.uniform(-1, 1, (4, 4))
    result = alignment_scores(labels, scores, window, gap)
    for shot in range(10):
        left = labels[max(0, shot + 1 - window) : shot + 1].tolist()
        right = labels[shot + 1 : shot + 1 + window].tolist()
        expected = needleman_wunsch(left, right, scores, gap) / max(len(left), len(right))
        assert result[shot] == pytest.approx(expected)


def test_substitution_scores_are_means_over_pairs_of_shots() -> None:
    rng = np.random.default_rng(0)
    alike = rng.uniform(size=(7, 7))
    alike = (alike + alike.T) / 2
    labels = np.array([0, 1, 1, 2, 0, 2, 2])
    scores = substitutions(alike, labels)
    assert np.diagonal(scores).tolist() == [1.0, 1.0, 1.0]
    for a, b in ((0, 1), (0, 2), (1, 2)):
        pairs = [alike[i, j] for i in range(7) for j in range(7) if labels[i] == a and labels[j] == b]
        assert scores[a, b] == scores[b, a] == pytest.approx(np.mean(pairs) - 1)


def test_there_are_at_most_as_many_clusters_as_different_points() -> None:
    points = np.repeat(np.eye(3), 4, axis=0)
    assert len(set(fast_global_kmeans(points, 8))) == 3
    assert set(fast_global_kmeans(np.ones((5, 2)), 3)) == {0}


def test_eigenvalues_give_the_number_of_shot_groups() -> None:
    """Four cameras, two of which recur, are four groups."""
    rng = np.random.default_rng(0)
    camera = np.array([0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 0, 1, 0, 1])
    features = rng.normal(size=(4, 200))[camera] + 0.2 * rng.normal(size=(16, 200))
    labels = shot_clusters(similarities(features), SCSASettings(eigenvalue=0.5))
    assert len({(a, b) for a, b in zip(camera, labels, strict=True)}) == len(set(labels)) == 4


def test_low_points_are_local_minima_below_the_limit() -> None:
    scores = np.array([1.0, 0.2, 1.0, 0.9, 1.0, 0.3, 0.3, 1.0, 0.1])
    assert low_points(scores, 0.5).tolist() == [1, 5, 8]
    assert low_points(scores, 0.0).tolist() == [8]
    assert low_points(np.zeros(0), 0.5).tolist() == []
    assert low_points(np.ones(4), 0.5).tolist() == [0]
