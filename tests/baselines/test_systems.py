"""All systems: the interface, extreme videos, and better than chance on real ones."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from pipelines.baselines import (
    SYSTEMS,
    Labeled,
    Segmentation,
    segmentation,
    similarities,
)
from pipelines.baselines.divisions import FixedLengthSettings, fixed_length
from pipelines.baselines.learned import train_lgss, train_siamese
from pipelines.stages.reproduce import ROWS
from tests.baselines import clear_video, random_video, times_of

LARGE = pytest.param("lgss-movienet", marks=pytest.mark.slow)  # of MovieNet's sizes: seconds for each video
SMALL = [name for name in SYSTEMS if name not in ("lgss-movienet", "fixed-length")]
NAMES = [*SMALL, "fixed-length", LARGE]


def run(name: str, features: NDArray[np.floating], times: NDArray[np.float64]) -> Segmentation:
    shots = np.random.default_rng(0).normal(size=(20, features.shape[1]))
    settings = SYSTEMS[name].default_settings([Labeled([shots], (np.arange(20) % 5 == 4).astype(np.uint8))])
    return SYSTEMS[name].segment([features], times, settings)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shots", [1, 2, 3, 30])
def test_any_number_of_shots_is_segmented(name: str, shots: int) -> None:
    features, times = random_video(0, shots)
    kept = features.copy(), times.copy()
    result = run(name, features, times)
    assert result.score.shape == (shots,)
    assert result.score.dtype == np.float64
    assert np.isfinite(result.score).all()
    assert result.score[-1] == result.score.min()
    assert result.ends.dtype == np.int64
    assert (np.diff(result.ends) > 0).all()
    assert ((result.ends >= 0) & (result.ends < shots - 1)).all()
    assert np.flatnonzero(result.labels).tolist() == result.ends.tolist()
    np.testing.assert_array_equal(features, kept[0])
    np.testing.assert_array_equal(times, kept[1])


@pytest.mark.parametrize("name", ["scsa", "dp", "story-graph"])
def test_clear_scenes_are_found_with_default_settings(name: str) -> None:
    features, times, ends = clear_video()
    assert run(name, features, times).ends.tolist() == ends.tolist()


EQUAL_SHOTS = np.ones((9, 4)), times_of(np.ones(9))
ODD_VIDEOS = {
    "zero features": (0 * EQUAL_SHOTS[0], EQUAL_SHOTS[1]),
    "equal features": EQUAL_SHOTS,
    "no length": (random_video(0, 9)[0], np.zeros((9, 2))),
}


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("video", ODD_VIDEOS)
def test_videos_of_equal_shots_and_shots_without_length_get_finite_scores(name: str, video: str) -> None:
    assert np.isfinite(run(name, *ODD_VIDEOS[video]).score).all()


@pytest.mark.parametrize("name", SMALL)
def test_the_scale_of_features_changes_nothing(name: str) -> None:
    features, times, _ = clear_video()
    small, expected, large = (run(name, features * scale, times).ends.tolist() for scale in (1e-20, 1, 1e20))
    assert small == expected == large


@pytest.mark.parametrize("train", [partial(train_lgss, width=8, epochs=2), train_siamese])
def test_the_same_seed_gives_the_same_network_and_leaves_the_global_generator_alone(train: Callable[..., Any]) -> None:
    video = Labeled([random_video(0, 30)[0]], (np.arange(30) % 6 == 5).astype(np.uint8))
    before = torch.get_rng_state()
    one, same, other = (next(train([video], seed=seed).parameters()) for seed in (0, 0, 1))
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(one, same)
    assert not torch.equal(one, other)


@pytest.mark.parametrize("name", ["lgss", "siamese"])
def test_training_data_without_scene_ends_are_refused(name: str) -> None:
    for videos in ([], [Labeled([random_video(0, 6)[0]], np.zeros(6, np.uint8))]):
        with pytest.raises(ValueError, match=r"^training needs videos with "):
            SYSTEMS[name].default_settings(videos)


def test_every_system_has_a_row_in_the_papers_table() -> None:
    measured = [row.cells["AP"][0].baseline for row in ROWS["table1"]]
    assert sorted(name for name in measured if name is not None) == sorted(SMALL)


def test_similarity_is_the_cosine_after_subtracting_the_videos_mean() -> None:
    features = random_video(0, 8)[0]
    moved = 3 * features + 11
    np.testing.assert_allclose(similarities(features), similarities(moved), atol=1e-12)
    centered = features - features.mean(axis=0)
    unit = centered / np.linalg.norm(centered, axis=1, keepdims=True)
    expected = np.maximum(unit @ unit.T, 0.0)
    np.testing.assert_allclose(similarities(features), expected, atol=1e-12)
    np.testing.assert_array_equal(similarities(np.ones((3, 2))), np.eye(3))


def test_infinite_scores_are_placed_just_beyond_the_finite_ones() -> None:
    result = segmentation(np.array([2, 0]), np.array([np.inf, 1.0, -np.inf, 3.0, 9.0]))
    assert result.score.tolist() == [4.0, 1.0, 0.0, 3.0, 0.0]
    assert result.ends.tolist() == [0, 2]


def test_scenes_of_fixed_length_end_when_the_length_has_passed() -> None:
    times = times_of(np.array([4.0, 5.0, 3.0, 20.0, 2.0, 6.0])) + 100
    result = fixed_length(np.ones((6, 1)), times, FixedLengthSettings(10.0))
    assert result.ends.tolist() == [2, 3]  # at 12 s, and at 32 s; 40 s is the end of the video
