"""Key-frames for a page: one a shot, together small enough that the page of a feature film opens like any other."""

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
BUDGET = 20 * 10**6
"""Bytes that all pictures of a page may take together, in base64: with 3,000 shots 6.6 kB each."""

# Width and WebP quality, from the finest. On a page a picture is 100 to 250 pixels wide, and twice as many on a screen
# with dense pixels.
_SIZES = ((320, 76), (256, 74), (224, 70), (192, 66), (160, 60), (128, 50), (96, 40))
_SAMPLE = 48


@dataclass(frozen=True)
class PagePictures:
    """Pictures as a page holds them: base64 of WebP, all of one size in pixels; empty for a page without."""

    width: int
    height: int
    encoded: tuple[str, ...]


def kept(picture: NDArray[np.uint8]) -> bytes:
    """A key-frame (H, W, 3) as a JPEG no wider than any page shows it, so that thousands fit in memory while a film is
    read and nobody knows yet how many there will be."""
    return _encoded(Image.fromarray(picture), _SIZES[0][0], "JPEG", 92)


def page_pictures(kept_pictures: Sequence[bytes], budget: int = BUDGET) -> PagePictures:
    """Choose the largest size at which all pictures stay within a budget, and bring them to it.

    Args:
        kept_pictures: JPEGs of one film, from :func:`kept` or a key-frame store.
        budget: bytes in base64. Beyond what the smallest size needs (some 2 kB a shot) it is exceeded.
    """
    if not kept_pictures:
        return PagePictures(0, 0, ())
    sample = [
        kept_pictures[i]
        for i in sorted({*np.linspace(0, len(kept_pictures) - 1, _SAMPLE).round().astype(int).tolist()})
    ]
    for size in _SIZES:
        some = _all_of(sample, *size)
        # A sample may be a little off; all of them decide.
        if sum(map(len, some)) / len(some) * len(kept_pictures) > budget and size != _SIZES[-1]:
            continue
        encoded = _all_of(kept_pictures, *size)
        if sum(map(len, encoded)) <= budget or size == _SIZES[-1]:
            break
    width, height = Image.open(BytesIO(kept_pictures[0])).size
    shown = min(width, size[0])
    return PagePictures(shown, _height(width, height, shown), tuple(encoded))


def _all_of(pictures: Sequence[bytes], width: int, quality: int) -> list[str]:
    def encoded(picture: bytes) -> str:
        return b64encode(_encoded(Image.open(BytesIO(picture)), width, "WEBP", quality)).decode()

    # Pillow works without Python's lock.
    with ThreadPoolExecutor(cores()) as pool:
        return list(pool.map(encoded, pictures))


def _encoded(picture: Image.Image, width: int, kind: str, quality: int) -> bytes:
    # Method 2 makes WebP twice as fast as the default and a twentieth larger; JPEG takes no notice of it.
    buffer = BytesIO()
    if picture.width > width:
        picture.draft("RGB", (2 * width, 2 * picture.height))  # a JPEG is decoded at half the size where that is enough
        picture = picture.resize((width, _height(picture.width, picture.height, width)), Image.Resampling.LANCZOS)
    picture.convert("RGB").save(buffer, kind, quality=quality, method=2)
    return buffer.getvalue()


def _height(width: int, height: int, shown_width: int) -> int:
    # A film twice as high as wide is shown as wide as others, and no higher than that.
    return max(1, min(round(height * shown_width / width), 2 * shown_width))
