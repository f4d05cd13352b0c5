"""The colour descriptor, against hues computed another way."""

from __future__ import annotations

import colorsys

import numpy as np
import pytest

from pipelines.models.shot_encoder import HUES, hue_histogram, shot_colour


def test_a_histogram_counts_the_hues_of_all_pixels_in_steps_of_two_degrees() -> None:
    """Against the standard library, which rounds otherwise: each pixel within a bin."""
    image = np.random.default_rng(0).integers(0, 256, size=(9, 8, 3), dtype=np.uint8)
    pixels = image.reshape(-1, 3).tolist()
    hues = [round(180 * colorsys.rgb_to_hsv(*(value / 255 for value in pixel))[0]) for pixel in pixels]
    for pixel, hue in zip(image.reshape(-1, 1, 3), hues, strict=True):
        found = hue_histogram(pixel[:, None])
        assert found.sum() == 1
        assert (int(found.argmax()) - hue + 1) % HUES <= 2
    singles = [hue_histogram(pixel[:, None]) for pixel in image.reshape(-1, 1, 3)]
    np.testing.assert_allclose(hue_histogram(image), np.mean(singles, axis=0), atol=1e-6)


@pytest.mark.parametrize(
    ("rgb", "bin"), [((255, 0, 0), 0), ((0, 255, 0), 60), ((0, 0, 255), 120), ((0, 255, 255), 90), ((77, 77, 77), 0)]
)
def test_primary_colours_have_their_hue_and_grey_counts_as_red(rgb: tuple[int, int, int], bin: int) -> None:
    histogram = hue_histogram(np.full((4, 6, 3), rgb, np.uint8))
    assert histogram.shape == (HUES,)
    assert histogram.dtype == np.float32
    assert histogram[bin] == 1


@pytest.mark.parametrize(("keyframes", "middle"), [(1, 0), (2, 1), (3, 1)])
def test_the_histogram_is_of_the_middle_keyframe(keyframes: int, middle: int) -> None:
    images = [np.full((2, 2, 3), np.eye(3)[i] * 255, np.uint8) for i in range(keyframes)]
    np.testing.assert_array_equal(shot_colour(images), hue_histogram(images[middle]))
