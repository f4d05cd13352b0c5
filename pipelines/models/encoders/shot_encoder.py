"""Shot encoders f_ENC: the keyframes of a shot to one vector, the mean over its keyframes (paper, appendix A).

An encoder has an id, under which its features are stored: its name and a digest of all that they depend on, the
weights, the preparation of images and the number of keyframes.
"""

from __future__ import annotations

import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

from pipelines.errors import BasslError
from pipelines.models.encoders import Preparation
from pipelines.video.images import resize_and_crop, resize_to_square

Item = TypeVar("Item")
Color = tuple[float, float, float]

KEYFRAMES = 3  # default of N_k, keyframes per shot (paper, appendix A)

# Six to eight images at a time: more would leave the caches of a CPU and gain nothing. A GPU needs many.
_IMAGES_AT_A_TIME = {"cpu": 6, "cuda": 192}

# Part of every encoder's id: change a text only with its function.
_RESIZE: dict[Preparation, str] = {
    "squeeze": "whole picture to a square: linear, or area beyond twice the size",
    "center": "shorter side to 8/7 of the size, bicubic; centre square",
}


@dataclass(frozen=True, eq=False, kw_only=True)
class ShotEncoder(ABC):
    """A frozen image network with the preparation that its weights expect."""

    name: str  # as on the command line; the name of the architecture for a pre-trained encoder
    id: str  # name and digest of weights and preparation; a valid file name
    width: int  # D_e
    size: int  # side of its square input in pixels
    mean: Color  # mean, std: per channel of the input, on the scale of 0 to 255
    std: Color
    device: str = "cpu"  # cpu, cuda:0, ...
    precision: str = "float32"  # float32, bfloat16, ...
    keyframes: int = KEYFRAMES  # N_k, keyframes per shot; part of the id
    preparation: Preparation = "squeeze"  # part of the id

    @abstractmethod
    def features(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Map prepared images (B, size, size, 3) RGB to features (B, D_e), not yet averaged; thread-safe."""

    def one_thread_each(self) -> AbstractContextManager[None]:
        """Return a context in which each call of `features` runs in one thread."""
        return nullcontext()

    @property
    def on_gpu(self) -> bool:
        """Return whether it runs on a GPU."""
        return self.device.startswith("cuda")

    @property
    def shots_at_a_time(self) -> int:
        """Return the size of the groups in which shots are always encoded, from the first shot of a video on: the
        number of images in a batch determines how a convolution is computed, and so the last bits of a feature."""
        return max(1, self._images_at_a_time // self.keyframes)

    def groups(self, shots: Iterable[Item]) -> Iterator[tuple[Item, ...]]:
        """Divide shots into groups of `shots_at_a_time`, for `encode_groups`."""
        rest = iter(shots)
        return iter(lambda: tuple(islice(rest, self.shots_at_a_time)), ())  # `batched` of Python 3.12

    @property
    def _images_at_a_time(self) -> int:
        return _IMAGES_AT_A_TIME.get(self.device.partition(":")[0], 6)

    def prepare(self, image: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Return an image (H, W, 3) at the network's input size (size, size, 3), by `preparation`."""
        return (resize_and_crop if self.preparation == "center" else resize_to_square)(image, self.size)

    def encode(self, shots: Sequence[Sequence[NDArray[np.uint8]]]) -> NDArray[np.float32]:
        """Encode shots, for each its N_k prepared keyframes, (size, size, 3) uint8 RGB, to the mean over these,
        (len(shots), D_e). Raises BasslError if a feature is not finite."""
        images = np.stack([image for shot in shots for image in shot])
        at_a_time = self._images_at_a_time
        features = np.concatenate(
            [self.features(images[first : first + at_a_time]) for first in range(0, len(images), at_a_time)]
        )
        if not np.isfinite(features).all():
            raise BasslError(f"the encoder {self.name} returns features that are not finite; use another one")
        ends = np.cumsum([len(shot) for shot in shots])
        return np.stack([part.mean(axis=0) for part in np.split(features, ends[:-1])])


def encode_groups(
    encoder: ShotEncoder,
    groups: Iterable[Item],
    images_of: Callable[[Item], Iterable[Sequence[NDArray[np.uint8]]]],
    threads: int,
) -> Generator[tuple[Item, NDArray[np.float32], NDArray[np.float32]], None, None]:
    """Encode groups of at most ``encoder.shots_at_a_time`` shots by threads: yields each group, in their order, its
    features (B, D_e) and its hue histograms (B, HUES).

    Each thread loads a group by ``images_of``, its shots' keyframes (H, W, 3) uint8 RGB, and encodes it on one core:
    several small batches in parallel are faster than one batch whose layers are parallelized.
    """

    def encode(group: Item) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        prepared, color = [], []
        for keyframes in images_of(group):
            prepared.append([encoder.prepare(image) for image in keyframes])
            color.append(shot_color(keyframes))
        return encoder.encode(prepared), np.stack(color)

    running: deque[tuple[Item, Future[tuple[NDArray[np.float32], NDArray[np.float32]]]]] = deque()
    with encoder.one_thread_each(), ThreadPoolExecutor(threads) as pool:
        try:
            for group in groups:
                running.append((group, pool.submit(encode, group)))
                while running and (len(running) > 2 * threads or running[0][1].done()):
                    first_group, encoded = running.popleft()
                    yield first_group, *encoded.result()
            for first_group, encoded in running:
                yield first_group, *encoded.result()
        except BaseException:  # also of who reads the groups
            pool.shutdown(cancel_futures=True)
            raise


def scale_color(color: Sequence[float]) -> Color:
    """Return red, green and blue on the scale of 0 to 1, on the scale of 0 to 255."""
    red, green, blue = (round(255.0 * float(value), 6) for value in color)  # 255 * 0.485 is 123.67499999999998
    return red, green, blue


def preparation_facts(
    size: int,
    mean: Sequence[float],
    std: Sequence[float],
    keyframes: int = KEYFRAMES,
    preparation: Preparation = "squeeze",
) -> dict[str, Any]:
    """Return the preparation of keyframes as plain JSON values, for `encoder_id`."""
    return {"size": size, "mean": list(mean), "std": list(std), "resize": _RESIZE[preparation], "keyframes": keyframes}


def encoder_id(name: str, weights: Iterable[bytes], preprocessing: Mapping[str, Any]) -> str:
    """Return the id of an encoder, such as ``resnet50-3f2a91c07d1e``: its name, made a valid file name, and 12 digits
    of a SHA-256 of bytes that determine its weights and of its `preparation_facts`."""
    digest = hashlib.sha256(json.dumps(dict(preprocessing), sort_keys=True).encode())
    for part in weights:
        digest.update(part)
    return f"{re.sub(r'[^A-Za-z0-9_.]+', '-', name)}-{digest.hexdigest()[:12]}"


HUES = 180  # bins: OpenCV's hue of 8-bit images counts in steps of two degrees


def hue_histogram(image: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Return the share of the pixels of an image (H, W, 3), RGB, at each hue, (HUES,); gray has the hue 0."""
    counts = cv2.calcHist([cv2.cvtColor(image, cv2.COLOR_RGB2HSV)], [0], None, [HUES], [0, HUES])
    return np.asarray(counts.ravel() / (image.shape[0] * image.shape[1]), dtype=np.float32)


def shot_color(keyframes: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
    """Return the hue histogram (HUES,) of the middle keyframe of a shot; if there are two, of the later one."""
    return hue_histogram(keyframes[len(keyframes) // 2])
