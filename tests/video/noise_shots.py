"""Shots of smooth noise, and transitions between them, as arrays (N, H, W, 3) uint8."""

import cv2
import numpy as np
from numpy.typing import NDArray

Video = NDArray[np.uint8]

WIDTH, HEIGHT = 112, 64


def image(seed: int, width: int = WIDTH, height: int = HEIGHT) -> NDArray[np.float32]:
    """Return an image with large and small shapes, different for every seed."""
    rng = np.random.default_rng(seed)
    layers = (
        cv2.GaussianBlur(rng.normal(0, 1, (height, width, 3)).astype(np.float32), (0, 0), s) * s for s in (12, 4, 1)
    )
    shapes = sum(weight * layer for weight, layer in zip((55, 40, 30), layers, strict=True))
    return np.clip(shapes + rng.uniform(70, 180, 3), 0, 255).astype(np.float32)


def still(seed: int, frames: int) -> Video:
    return np.repeat(image(seed)[None], frames, 0).astype(np.uint8)


def pan(seed: int, frames: int, pixels: float = 0.3) -> Video:
    wide = image(seed, WIDTH + int(pixels * frames) + 2)
    return np.stack(
        [cv2.getRectSubPix(wide, (WIDTH, HEIGHT), (WIDTH / 2 + pixels * i, HEIGHT / 2)) for i in range(frames)]
    ).astype(np.uint8)


def zoom(seed: int, frames: int, by: float = 1.6) -> Video:
    large = image(seed, 2 * WIDTH, 2 * HEIGHT)
    zoomed = []
    for share in by ** -np.linspace(0, 1, frames):
        window = cv2.getRectSubPix(large, (round(2 * WIDTH * share), round(2 * HEIGHT * share)), (WIDTH, HEIGHT))
        zoomed.append(cv2.resize(window, (WIDTH, HEIGHT), interpolation=cv2.INTER_AREA))
    return np.stack(zoomed).astype(np.uint8)


def mixed(before: Video, after: Video, frames: int) -> Video:
    """Return two videos with a dissolve of so many frames from the end of the first to the beginning of the second."""
    a = (np.arange(1, frames + 1) / (frames + 1))[:, None, None, None]
    both = (1 - a) * before[-frames:] + a * after[:frames]
    return np.concatenate([before[:-frames], both.astype(np.uint8), after[frames:]])


def plain(color: tuple[int, int, int], frames: int) -> Video:
    return np.broadcast_to(np.uint8(color), (frames, HEIGHT, WIDTH, 3)).copy()


def wiped(before: Video, after: Video, frames: int, axis: int = 1, reverse: bool = False) -> Video:
    """Return two videos with a wipe of so many frames, along an axis (0: down, 1: right) or the other way."""
    line = np.linspace(0, 1, (HEIGHT, WIDTH)[axis]).reshape((-1, 1, 1) if axis == 0 else (1, -1, 1))
    line = 1 - line if reverse else line
    weight = np.arange(1, frames + 1) / (frames + 1)
    both = [np.where(line < w, b, a) for w, a, b in zip(weight, before[-frames:], after[:frames], strict=True)]
    return np.concatenate([before[:-frames], np.stack(both), after[frames:]])
