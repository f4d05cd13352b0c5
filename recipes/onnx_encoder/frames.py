"""Frames to calibrate on: nothing that anyone has rights in, and each drawn anew from a seed.

A third are frames of generated videos, a third crops of two photographs that come with scikit-learn, half of both in
other colors, and a third are drawn shapes and noise with the spectrum of natural images. None is of a video that the
encoder is measured on.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count, islice

import cv2
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from sklearn.datasets import load_sample_images

from pipelines.datasets.synthetic import SyntheticVideoSettings, plan_video, render_keyframes
from pipelines.video.images import resize_to_square
from recipes.onnx_encoder.network import SIZE

Frame = NDArray[np.uint8]

DESCRIPTION = (
    "{count} frames: generated videos (bassl's synthetic videos from seed 500), crops of the photographs china.jpg and "
    "flower.jpg of scikit-learn, shapes that hide each other (dead leaves), noise with a natural spectrum"
)


def calibration_frames(number: int, seed: int = 0) -> Frame:
    """Return (number, SIZE, SIZE, 3) uint8."""
    rng = np.random.default_rng(seed)
    videos, photographs = _video_frames(), load_sample_images().images

    def twelve() -> Iterator[Frame]:
        yield from islice(videos, 2)
        for _ in range(2):
            yield _cropped(_recolored(next(videos), rng), rng)
        for photograph in photographs:
            yield _cropped(photograph, rng)
        for photograph in photographs:
            yield _cropped(_recolored(photograph, rng), rng)
        for _ in range(2):
            yield _leaves(rng)
        for _ in range(2):
            yield _shown(rng.uniform(60, 190, 3) + _noise(rng) * rng.uniform(20, 70))

    frames = (resize_to_square(frame, SIZE) for _ in count() for frame in twelve())
    return np.stack(list(islice(frames, number)))


def _video_frames() -> Iterator[Frame]:
    for seed in count(500):
        settings = SyntheticVideoSettings(seed=seed, scenes=6, shots_per_scene=(2, 3), width=426, height=240)
        yield from render_keyframes(plan_video(settings), 1)[:, 0]


def _cropped(frame: Frame, rng: Generator) -> Frame:
    share = rng.uniform(0.35, 1.0)
    height, width = (int(side * share) for side in frame.shape[:2])
    y, x = (int(rng.integers(side - part + 1)) for side, part in zip(frame.shape, (height, width), strict=False))
    return np.ascontiguousarray(frame[y : y + height, x : x + width])


def _recolored(frame: Frame, rng: Generator) -> Frame:
    """Return another hue, saturation, contrast and sharpness."""
    hsv = cv2.cvtColor(frame, cv2.COLOR_RGB2HSV).astype(np.float32)
    hsv[..., 0] = (hsv[..., 0] + rng.uniform(0, 180)) % 180
    hsv[..., 1] *= rng.uniform(0.2, 1.6)
    other = cv2.cvtColor(_shown(hsv), cv2.COLOR_HSV2RGB).astype(np.float32) / 255
    other = 255 * other ** rng.uniform(0.6, 1.7) * rng.uniform(0.6, 1.0) + rng.uniform(0, 20)
    return _shown(cv2.GaussianBlur(other, (0, 0), rng.uniform(0.3, 2.0)))


def _leaves(rng: Generator) -> Frame:
    """Return shapes of all sizes in a few colors, each hiding what is behind it, with shading and texture."""
    frame = np.zeros((SIZE, SIZE, 3), np.float32)
    colors = rng.uniform(0, 255, (6, 3))
    ramp = np.linspace(-1, 1, SIZE)
    for _ in range(int(rng.integers(100, 400))):
        radius = min(90.0, 3.6 / (rng.random() ** 0.8 + 1e-3))
        center = rng.uniform(0, SIZE, 2)
        mask = np.zeros((SIZE, SIZE), np.uint8)
        if rng.random() < 0.6:
            axes = max(1, int(radius)), max(1, int(radius * rng.uniform(0.2, 1.0)))
            cv2.ellipse(mask, (int(center[0]), int(center[1])), axes, rng.uniform(0, 180), 0, 360, 1, -1)
        else:
            cv2.fillPoly(mask, [(center + rng.normal(0, radius, (4, 2))).astype(np.int32)], 1)
        shade = np.add.outer(ramp * rng.normal(0, 30), ramp * rng.normal(0, 30))[:, :, None]
        color = colors[rng.integers(6)] + rng.normal(0, 25, 3)
        frame = np.where(mask[:, :, None] > 0, color + shade, frame)
    return _shown(cv2.GaussianBlur(frame + _noise(rng) * rng.uniform(0, 25), (0, 0), rng.uniform(0.4, 1.2)))


def _noise(rng: Generator) -> NDArray[np.float64]:
    """Return (SIZE, SIZE, 3) with a standard deviation of 1; its amplitudes fall with a power of the frequency."""
    frequency = np.hypot(*np.meshgrid(np.fft.fftfreq(SIZE), np.fft.fftfreq(SIZE)))
    frequency[0, 0] = 1.0
    falling = frequency ** -rng.uniform(0.8, 1.6)
    planes = [np.fft.ifft2(np.fft.fft2(rng.normal(size=(SIZE, SIZE))) * falling).real for _ in range(3)]
    mixed = np.stack(planes, axis=-1) @ (np.eye(3) * rng.uniform(0.1, 1.0) + rng.uniform(0.3, 1.0))
    centered: NDArray[np.float64] = mixed - mixed.mean(axis=(0, 1))
    return np.asarray(centered / centered.std())


def _shown(values: NDArray[np.floating]) -> Frame:
    return np.asarray(np.clip(values, 0, 255), np.uint8)
