"""Thumbnails of a page, one per shot, within a budget of bytes for all."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from pipelines.processes import cores

TYPE = "image/webp"
BUDGET = 20 * 10**6  # bytes of all images of a page in base64: with 3,000 shots 6.6 kB each

# Width and WebP quality, best first. On a page an image is 100 to 250 pixels wide, twice as many on a high-density
# screen.
_SIZES = ((320, 76), (256, 74), (224, 70), (192, 66), (160, 60), (128, 50), (96, 40))
_SAMPLE = 48


@dataclass(frozen=True)
class PageImages:
    """The images that a page embeds: WebP in base64, all of one size in pixels."""

    width: int
    height: int
    encoded: tuple[str, ...]


def encode_thumbnail(image: NDArray[np.uint8]) -> bytes:
    """A keyframe (H, W, 3) as WebP of the largest size that pages use, to keep in memory until the number of shots of
    the video is known."""
    return _encode_webp(Image.fromarray(image), *_SIZES[0])


def page_images(thumbnails: Sequence[bytes], budget: int = BUDGET) -> PageImages:
    """The images of a video, WebP by :func:`encode_thumbnail` or JPEG from a keyframe store, at the largest size at
    which all fit into a budget of bytes in base64. At the smallest size (some 2 kB per shot) they may exceed it."""
    if not thumbnails:
        return PageImages(0, 0, ())
    count = len(thumbnails)
    sample = {*np.linspace(0, count - 1, _SAMPLE).round().astype(int).tolist()}
    others = [i for i in range(count) if i not in sample]
    for size in _SIZES:
        encoded = dict(zip(sample, _encode_all([thumbnails[i] for i in sample], *size), strict=True))
        # The sample only rules sizes out; the sum over all images decides.
        if sum(map(len, encoded.values())) / len(sample) * count > budget and size != _SIZES[-1]:
            continue
        encoded |= zip(others, _encode_all([thumbnails[i] for i in others], *size), strict=True)
        if sum(map(len, encoded.values())) <= budget or size == _SIZES[-1]:
            break
    width, height = Image.open(BytesIO(thumbnails[0])).size
    shown = min(width, size[0])
    return PageImages(shown, _height(width, height, shown), tuple(encoded[i] for i in range(count)))


def _encode_all(images: Sequence[bytes], width: int, quality: int) -> list[str]:
    def encode(content: bytes) -> str:
        image = Image.open(BytesIO(content))
        is_done = image.format == "WEBP" and (width, quality) == _SIZES[0]  # by `encode_thumbnail`
        return b64encode(content if is_done else _encode_webp(image, width, quality)).decode()

    # Pillow releases the interpreter's lock.
    with ThreadPoolExecutor(cores()) as pool:
        return list(pool.map(encode, images))


def _encode_webp(image: Image.Image, width: int, quality: int) -> bytes:
    buffer = BytesIO()
    if image.width > width:
        image.draft("RGB", (2 * width, 2 * image.height))  # decode a JPEG at half the size if that is enough
        image = image.resize((width, _height(image.width, image.height, width)), Image.Resampling.HAMMING)
    # Method 2 is twice as fast as the default, and the file a twentieth larger.
    image.convert("RGB").save(buffer, "WEBP", quality=quality, method=2)
    return buffer.getvalue()


def resize(content: bytes, width: int) -> bytes:
    """An image of a page, at most this wide, for the page of many videos."""
    return _encode_webp(Image.open(BytesIO(content)), width, 60)


def _height(width: int, height: int, shown_width: int) -> int:
    # At most twice as high as wide.
    return max(1, min(round(height * shown_width / width), 2 * shown_width))
