"""Descriptors of frames, and the properties by which a window of them is a dissolve, a wipe or half a fade."""

from collections.abc import Callable

import cv2
import numpy as np
import pytest
from hypothesis import given, strategies as st
from numpy.typing import NDArray

from pipelines.video import mixtures
from pipelines.video.mixtures import Candidates, Samples, frame_descriptors
from tests.video.noise_shots import Video, image, mixed, pan, plain, still, wiped


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (16, 16), (30, 200), (108, 60)])
def test_an_image_of_any_size_has_a_descriptor(size: tuple[int, int]) -> None:
    video = np.random.default_rng(0).integers(0, 256, (3, *size, 3)).astype(np.uint8)
    descriptors = frame_descriptors(video)
    assert descriptors.shape == (3, 8 * 16 * 3 + 16 + 1)
    assert np.isfinite(descriptors).all()


@pytest.mark.parametrize("size", [(8, 16), (31, 56), (54, 95), (95, 40)])
def test_a_descriptor_has_the_mean_colors_of_the_cells_and_the_mean_squared_gradients_of_the_blocks(
    size: tuple[int, int],
) -> None:
    video = np.random.default_rng(1).integers(0, 256, (3, *size, 3)).astype(np.uint8)
    for frame, descriptor in zip(video, frame_descriptors(video), strict=True):
        cells = cv2.resize(frame.astype(np.float64), (16, 8), interpolation=cv2.INTER_AREA)
        assert np.abs(descriptor[:384].reshape(8, 16, 3) + 128 - cells).max() <= 0.5001  # whole numbers
        green = frame[..., 1].astype(np.float64)
        gradients = np.diff(green[:-1], axis=1) ** 2 + np.diff(green[:, :-1], axis=0) ** 2
        blocks = cv2.resize(gradients, (4, 4), interpolation=cv2.INTER_AREA)
        np.testing.assert_allclose(descriptor[384:400].reshape(4, 4), blocks, rtol=1e-5)


# --- properties of windows ------------------------------------------------------------------------------------------

BLACK = (0, 0, 0)
BETWEEN = np.array([[3, 6, 9, 12, 15, 18, 21]])
WINDOW = Candidates(np.array([0]), np.array([24]), BETWEEN, (BETWEEN / 24).astype(np.float32))


def lit(video: Video, first: float, last: float) -> Video:
    return (video * np.linspace(first, last, len(video))[:, None, None, None]).astype(np.uint8)


def with_object(video: Video) -> Video:
    """Return a video in whose left half something appears."""
    changed = video.copy()
    changed[12:, :, :40] = image(9)[:, :40]
    return changed


# Each of 25 frames; a transition takes all but the first and the last.
DISSOLVE = mixed(still(1, 24), still(2, 24), 23)
FADE = mixed(still(1, 24), plain(BLACK, 24), 23)
WIPE = wiped(still(1, 24), still(2, 24), 23)
CUT = np.concatenate([still(1, 20), still(2, 5)])
STILL, PAN, DIM = still(1, 25), pan(1, 25, 3.0), lit(still(1, 25), 1.0, 0.3)

PROPERTIES: dict[str, tuple[Callable[[Samples, Candidates], NDArray[np.bool_]], list[Video], list[Video]]] = {
    "an end has one color": (mixtures.is_fade, [FADE, FADE[::-1], plain(BLACK, 25)], [DISSOLVE, DIM]),
    "the ends differ": (mixtures.ends_differ, [DISSOLVE, CUT, FADE, FADE[::-1]], [STILL, plain(BLACK, 25)]),
    "the middle is mixed": (mixtures.middle_is_mixed, [DISSOLVE, FADE, WIPE, DIM], [CUT, PAN]),
    "the ends are one image in two lights": (
        lambda samples, window: mixtures.likeness(samples, window) > mixtures._CORRELATION,
        [DIM, STILL],
        [DISSOLVE, FADE, CUT],
    ),
    "all of the image changes": (mixtures.changes_everywhere, [DISSOLVE, CUT, WIPE], [STILL, with_object(STILL)]),
}


def samples_of(video: Video) -> Samples:
    return Samples.of(frame_descriptors(video))


@pytest.mark.parametrize("name", PROPERTIES)
def test_a_property_tells_windows_apart(name: str) -> None:
    has, videos_with, videos_without = PROPERTIES[name]
    assert [has(samples_of(video), WINDOW).item() for video in videos_with] == [True] * len(videos_with)
    assert [has(samples_of(video), WINDOW).item() for video in videos_without] == [False] * len(videos_without)


COSTS = {
    "a dissolve": (DISSOLVE, True, False),
    "half a fade": (FADE, True, False),
    "a wipe": (WIPE, False, True),
    "a cut": (CUT, False, False),
    "a pan": (PAN, False, False),
    "changing light": (DIM, False, False),
}


@pytest.mark.parametrize("name", COSTS)
def test_a_mixture_and_a_wipe_have_a_low_cost_as_such_only(name: str) -> None:
    video, is_mixture, is_wipe = COSTS[name]
    samples = samples_of(video)
    weight, off = mixtures.weights(samples, WINDOW, WINDOW.between)
    assert (mixtures.mixture_cost(samples, WINDOW, weight, off).item() < 1) == is_mixture
    assert (mixtures.wipe_cost(samples, WINDOW, weight, off).item() < 1) == is_wipe


@given(st.integers(0, 10_000), st.floats(0, 1), st.floats(0, 50))
def test_the_mixing_weight_of_a_frame_is_the_least_squares_solution(seed: int, share: float, noise: float) -> None:
    rng = np.random.default_rng(seed)
    start, end = rng.normal(0, 60, (2, 384))
    frame = (1 - share) * start + share * end + rng.normal(0, noise, 384)
    frames = np.stack([start, frame, end]).astype(np.float32)
    samples = Samples.of(np.hstack([frames, np.ones((3, 17), np.float32)]))
    window = Candidates(np.array([0]), np.array([2]), np.array([[1]]), np.array([[0.5]], np.float32))
    weight, off = mixtures.weights(samples, window, window.between)
    line = (frames[2] - frames[0])[:, None]
    (expected,), (residual,), *_ = np.linalg.lstsq(line, frames[1] - frames[0], rcond=None)
    assert weight.item() == pytest.approx(expected, abs=1e-3)
    assert off.item() == pytest.approx(residual / (line * line).sum(), abs=1e-3)


@given(st.integers(0, 10_000), st.floats(-0.5, 1))
def test_the_correlation_of_layers_follows_from_the_energy_of_their_mixtures(seed: int, rho: float) -> None:
    rng = np.random.default_rng(seed)
    before = rng.normal(0, 1, (4, 5000))
    after = (rho * before + np.sqrt(1 - rho * rho) * rng.normal(0, 1, (4, 5000))) * rng.uniform(0.3, 3)
    shares = np.linspace(0, 1, 25)
    energy = np.stack([(((1 - a) * before + a * after) ** 2).mean(1) for a in shares]).astype(np.float32)
    assert mixtures.correlation(energy, WINDOW, WINDOW.pace) == pytest.approx(np.full((1, 4), rho), abs=0.15)
