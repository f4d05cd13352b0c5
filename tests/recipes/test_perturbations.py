"""Perturbations of videos keep their scenes."""

import numpy as np
import pytest

from pipelines.training.relational_fit import LabeledVideo
from recipes.default_model.perturbations import PERTURBATIONS, Perturbation, merge_shots, remove_shots, split_shots


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
        made = PERTURBATIONS[name](given, np.random.default_rng(1))
        assert made.features.dtype == np.float32
        assert made.durations.shape == made.scene_end.shape == made.features.shape[:1]
        assert np.isfinite(made.features).all()
        assert (made.durations > 0).all()
        assert (made.features >= 0).all() or (given.features < 0).any()
        for was, now in zip(before, (given.features, given.durations, given.scene_end), strict=True):
            np.testing.assert_array_equal(was, now)


@pytest.mark.parametrize("perturbation", [merge_shots, split_shots, remove_shots])
def test_merged_split_and_removed_shots_keep_their_scenes(perturbation: Perturbation) -> None:
    given = video()
    made = perturbation(given, np.random.default_rng(0))
    # The halves of a split shot carry noise; all others still tell their scene.
    kept = np.isin(made.features[:, 0], given.features[:, 0])
    assert np.sign(len(made.features) - len(given.features)) == (1 if perturbation is split_shots else -1)
    scenes, names = (np.cumsum(made.scene_end) - made.scene_end)[kept], made.features[kept, 0]
    np.testing.assert_array_equal(np.diff(scenes) != 0, np.diff(names) != 0)
    if perturbation is not remove_shots:
        assert made.durations.sum() == pytest.approx(given.durations.sum())
        assert made.scene_end.sum() == given.scene_end.sum()
    if perturbation is merge_shots:
        assert kept.all()
        assert set(names) == set(given.features[:, 0])
