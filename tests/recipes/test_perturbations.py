"""Perturbations of videos keep their scenes."""

from itertools import pairwise

import numpy as np
import pytest

from pipelines.training.relational_fit import LabeledVideo
from recipes.default_model.perturbations import PERTURBATIONS, merge_shots, remove_shots, split_shots


def video(N: int = 60, D: int = 32, signed: bool = False, seed: int = 0) -> LabeledVideo:
    """Scenes of 1 to 6 shots; the first feature is the scene's number."""
    rng = np.random.default_rng(seed)
    scene = np.repeat(np.arange(N), rng.integers(1, 7, size=N))[:N]
    features = rng.normal(size=(N, D)) if signed else rng.random((N, D))
    features[:, 0] = scene
    ends = np.append(scene[1:] != scene[:-1], False)
    return LabeledVideo(features.astype(np.float32), rng.integers(10, 200, size=N), ends.astype(np.uint8))


@pytest.mark.parametrize("name", PERTURBATIONS)
def test_a_perturbation_returns_a_new_video_and_keeps_the_input(name: str) -> None:
    for given in (video(), video(signed=True), video(N=1), video(N=2, D=1)):
        before = given.features.copy(), np.array(given.durations), given.scene_end.copy()
        instance = PERTURBATIONS[name](given, np.random.default_rng(1))
        N = len(instance.features)
        assert instance.features.dtype == np.float32
        assert instance.features.ndim == 2
        assert instance.durations.shape == instance.scene_end.shape == (N,)
        assert np.isfinite(instance.features).all()
        assert (instance.durations > 0).all()
        if (given.features >= 0).all():
            assert (instance.features >= 0).all()
        for was, now in zip(before, (given.features, given.durations, given.scene_end), strict=True):
            np.testing.assert_array_equal(was, now)


@pytest.mark.parametrize("seed", range(5))
def test_merged_split_and_removed_shots_keep_their_scenes(seed: int) -> None:
    given = video(seed=seed)
    scenes = set(given.features[:, 0].tolist())
    for perturbation in (merge_shots, split_shots, remove_shots):
        instance = perturbation(given, np.random.default_rng(seed))
        if perturbation is split_shots:
            assert len(instance.features) > len(given.features)
            # The halves of a shot carry noise; all others still tell their scene.
            kept = np.isin(instance.features[:, 0], given.features[:, 0])
            scene = (np.cumsum(instance.scene_end) - instance.scene_end)[kept]
        else:
            assert len(instance.features) < len(given.features)
            scene = np.cumsum(instance.scene_end) - instance.scene_end
            kept = np.ones(len(instance.features), dtype=bool)
        names = instance.features[kept, 0]
        for (one, a), (other, b) in pairwise(zip(scene, names, strict=True)):
            assert (one == other) == (a == b)
        if perturbation is merge_shots:
            assert set(names.tolist()) == scenes
        if perturbation is not remove_shots:
            assert instance.durations.sum() == pytest.approx(given.durations.sum())
            assert instance.scene_end.sum() == given.scene_end.sum()
