"""kNN precision against loops, NMI where the result is known, and edge cases of both."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import normalized_mutual_info_score

from pipelines.evaluation.metrics import NEIGHBORS, knn_precision, scene_ids, scene_nmi

Library = tuple[NDArray[np.float32], NDArray[np.int64], NDArray[np.int64]]


def library(seed: int, videos: int = 4, noise: float = 1.0, scenes: int = 8, longest: int = 30, D: int = 16) -> Library:
    """Features, scene and video of each shot: every scene has a direction of its own, and its shots lie about it."""
    rng = np.random.default_rng(seed)
    features, ends, of = [], [], []
    for video in range(videos):
        for _ in range(scenes):
            shots = int(rng.integers(1, longest + 1))
            features.append(rng.normal(size=D) + noise * rng.normal(size=(shots, D)))
            ends += [0] * (shots - 1) + [1]
            of += [video] * shots
    return np.concatenate(features).astype(np.float32), scene_ids(ends, of), np.array(of)


def looped(
    features: NDArray[np.float32], scenes: NDArray[np.int64], videos: NDArray[np.int64], k: int
) -> list[list[float]]:
    """The definition, shot by shot: for each video the precision at k of each shot that counts."""
    found = []
    for video in np.unique(videos):
        x, scene = features[videos == video].astype(np.float64), scenes[videos == video]
        precisions = []
        for i in range(len(x)):
            others = [j for j in range(len(x)) if j != i]
            if len(others) < k or (scene == scene[i]).sum() < k:
                continue
            cosine = {j: x[i] @ x[j] / (np.linalg.norm(x[i]) * np.linalg.norm(x[j])) for j in others}
            nearest = sorted(others, key=lambda j: -cosine[j])[:k]
            precisions.append(sum(scene[j] == scene[i] for j in nearest) / k)
        if precisions:
            found.append(precisions)
    return found


@pytest.mark.parametrize("seed", range(2))
def test_knn_precision_equals_its_definition_within_each_video(seed: int) -> None:
    data = library(seed, scenes=5)
    result = knn_precision(*data)
    assert tuple(result.pooled) == NEIGHBORS
    for k in NEIGHBORS:
        expected = looped(*data, k)
        everyone = [p for video in expected for p in video]
        assert result.pooled[k] == pytest.approx(np.mean(everyone), abs=1e-12)
        assert result.by_video[k] == pytest.approx(np.mean([np.mean(video) for video in expected]), abs=1e-12)


def test_shots_without_enough_neighbors_are_left_out() -> None:
    result = knn_precision(np.eye(6), [0, 0, 0, 1, 2, 2], [0, 0, 0, 1, 2, 2], (1, 3))
    assert result.pooled[1] == 1.0  # a video of one shot has no neighbor, one of three no third
    assert math.isnan(result.pooled[3])
    assert math.isnan(result.by_video[3])


def test_scene_numbers_continue_over_all_videos() -> None:
    assert scene_ids([0, 1, 0, 0, 0, 1, 1], ["a", "a", "a", "b", "b", "b", "b"]).tolist() == [0, 0, 1, 2, 2, 2, 3]


def test_nmi_is_one_where_scenes_are_clusters() -> None:
    data = library(12, videos=6, noise=1e-3, scenes=10, longest=20)
    result = scene_nmi(*data[:2], length=8)
    assert result.nmi == 1.0
    assert result.trials == (1.0,) * 5
    assert result.scenes == (np.bincount(data[1]) >= 8).sum()


def test_nmi_falls_as_scenes_become_more_similar_down_to_chance() -> None:
    values = [scene_nmi(*library(13, noise=noise)[:2], length=8, restarts=1).nmi for noise in (0.5, 2.0, 8.0)]
    assert values == sorted(values, reverse=True)
    features, scenes, _ = library(13, noise=0.5)
    rng = np.random.default_rng(0)
    shuffled = scene_nmi(rng.permutation(features), scenes, length=8, restarts=1)
    true, guesses = np.arange(shuffled.scenes).repeat(8), rng.integers(0, shuffled.scenes, (20, 8 * shuffled.scenes))
    chance = np.mean([normalized_mutual_info_score(true, guess) for guess in guesses])
    assert shuffled.nmi == pytest.approx(chance, abs=0.06)


def test_nmi_samples_at_most_the_existing_scenes_and_reports_the_number() -> None:
    data = library(14, videos=6)
    long_enough = int((np.bincount(data[1]) >= 16).sum())
    assert 10 < long_enough < 48
    assert scene_nmi(*data[:2], length=16, restarts=1).scenes == long_enough
    assert scene_nmi(*data[:2], length=16, sampled=10, restarts=1).scenes == 10
    none = scene_nmi(*data[:2], length=32)
    assert (none.scenes, none.trials) == (0, ())
    assert math.isnan(none.nmi)


def test_nmi_samples_consecutive_shots_anywhere_in_a_scene(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checked by the input of k-means: each feature vector identifies its row."""
    _, scenes, _ = library(15)
    seen = []

    class Spy:
        def __init__(self, clusters: int, **_: object) -> None:
            self.clusters = clusters

        def fit_predict(self, features: NDArray[np.float32]) -> NDArray[np.int64]:
            seen.append(features[:, 0].astype(int).reshape(self.clusters, -1))
            return np.arange(len(features))

    monkeypatch.setattr("sklearn.cluster.KMeans", Spy)
    scene_nmi(np.arange(len(scenes))[:, None], scenes, length=8, sampled=9)
    rows = np.array(seen)  # (trials, scenes, shots)
    assert rows.shape == (5, 9, 8)
    assert (np.diff(rows) == 1).all()
    assert (scenes[rows] == scenes[rows[..., :1]]).all()
    assert not np.array_equal(rows[0], rows[1])
    before = rows[..., 0] - np.searchsorted(scenes, scenes[rows[..., 0]])
    after = np.bincount(scenes)[scenes[rows[..., 0]]] - before - 8
    assert before.min() == 0 or after.min() == 0
    assert before.max() > 0  # not always a scene's first shots, nor its last
    assert after.max() > 0


def test_nmi_depends_only_on_the_seed() -> None:
    data = library(16, noise=2.0)
    one, two, other = (scene_nmi(*data[:2], length=8, sampled=12, restarts=1, seed=seed) for seed in (1, 1, 2))
    assert one == two
    assert one.trials != other.trials
