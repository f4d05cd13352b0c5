"""Small images of shots: thumbnails of a page within a budget of bytes, and sheets of them for a program that names
scenes."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, Self, TypeVar

import numpy as np
from PIL import Image

from pipelines.errors import count, first_line
from pipelines.processes import cores, run_program
from pipelines.results.names import one_line
from pipelines.results.replacing import command_digest, needs_name
from pipelines.scenes import SceneData

S = TypeVar("S", bound=SceneData)

TYPE = "image/webp"
BUDGET = 20 * 10**6  # bytes of all images of a page in base64: with 3,000 shots 6.6 kB each

# Width and WebP quality, best first. A page shows images with 100 to 250 pixels, on some screens with twice as many.
_SIZES = ((320, 76), (256, 74), (224, 70), (192, 66), (160, 60), (128, 50), (96, 40))
_SAMPLE = 48

# Shots with more than one image: of more seconds, or whose first and last keyframe differ by more.
_LONG_SHOT, _MUCH_CHANGE = 8.0, 20.0

# Of a name by a program, and the sheet of keyframes that it looks at.
_COLUMNS, _MOST_SHOTS = 8, 24
_SHEET_WIDTH = 168  # pixels of an image
_MOST_SECONDS = 120  # for one scene
_LONGEST = 200  # characters of a name, as on the page


class PageImages(NamedTuple):
    """The images that a page embeds: WebP in base64, all of one size in pixels."""

    width: int
    height: int
    encoded: tuple[str, ...]


class ShotImages(list[bytes]):
    """A small image of each shot, of its middle keyframe. ``sides``: those of the first and last keyframe, by the index
    of the shot, if it is so long, or changes so much, that one image may not show what happens in it."""

    def __init__(self) -> None:
        super().__init__()
        self.sides: dict[int, tuple[bytes, bytes]] = {}

    def add(self, keyframes: Sequence[Image.Image], seconds: float) -> None:
        """Add the next shot, of so many seconds."""
        first, *_, last = (*keyframes, keyframes[-1])
        if len(keyframes) > 1 and (seconds > _LONG_SHOT or _difference(first, last) > _MUCH_CHANGE):
            self.sides[len(self)] = _encode_webp(first, *_SIZES[0]), _encode_webp(last, *_SIZES[0])
        self.append(_encode_webp(keyframes[len(keyframes) // 2], *_SIZES[0]))

    def to_bytes(self) -> bytes:
        """Return all images in one file's content."""
        shots = [(image, *self.sides.get(index, ())) for index, image in enumerate(self)]
        return json.dumps([[b64encode(image).decode() for image in shot] for shot in shots]).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Inverse of `to_bytes`. Raises ValueError for other content."""
        images = cls()
        for shot in json.loads(content):
            middle, *sides = map(b64decode, shot)
            if sides:
                images.sides[len(images)] = sides[0], sides[1]
            images.append(middle)
        return images


def _difference(image: Image.Image, other: Image.Image) -> float:
    """Return the mean difference of two images' colors, 0 to 255, without regard to details."""
    small = [np.asarray(one.convert("RGB").resize((16, 9), Image.Resampling.BOX), np.float32) for one in (image, other)]
    return float(np.abs(small[0] - small[1]).mean())


def page_images(thumbnails: Sequence[bytes], budget: int = BUDGET) -> PageImages:
    """Encode the images of a video, as in `ShotImages` or JPEG, at the largest size at which all fit into a budget of
    bytes in base64. At the smallest size (some 2 kB per shot) they may exceed it."""
    if not thumbnails:
        return PageImages(0, 0, ())
    sample = {*np.linspace(0, len(thumbnails) - 1, _SAMPLE).round().astype(int).tolist()}
    with ThreadPoolExecutor(cores()) as pool:  # Pillow releases the interpreter's lock
        for size in _SIZES:
            encode = partial(_encode_base64, size=size)
            lengths = [len(text) for text in pool.map(encode, [thumbnails[index] for index in sample])]
            # The sample only rules sizes out; the sum over all images decides.
            if sum(lengths) / len(lengths) * len(thumbnails) <= budget or size == _SIZES[-1]:
                encoded = tuple(pool.map(encode, thumbnails))
                if sum(map(len, encoded)) <= budget:
                    break
    width, height = Image.open(BytesIO(b64decode(encoded[0]))).size
    return PageImages(width, _height(width, height, width), encoded)


def _encode_base64(content: bytes, size: tuple[int, int]) -> str:
    image = Image.open(BytesIO(content))
    is_done = image.format == "WEBP" and size == _SIZES[0]  # by `ShotImages`
    return b64encode(content if is_done else _encode_webp(image, *size)).decode()


def _encode_webp(image: Image.Image, width: int, quality: int) -> bytes:
    buffer = BytesIO()
    if image.width > width:
        image.draft("RGB", (2 * width, 2 * image.height))  # decode a JPEG at half the size if that is enough
        image = image.resize((width, _height(image.width, image.height, width)), Image.Resampling.HAMMING)
    # Method 2 is twice as fast as the default, and the file a twentieth larger.
    image.convert("RGB").save(buffer, "WEBP", quality=quality, method=2)
    return buffer.getvalue()


def _height(width: int, height: int, shown_width: int) -> int:
    # At most twice as high as wide.
    return max(1, min(round(height * shown_width / width), 2 * shown_width))


def _save_sheet(path: Path, images: Sequence[bytes]) -> None:
    """Draw images of one size in rows of eight, as a PNG."""
    width, height = _SHEET_WIDTH, _height(*Image.open(BytesIO(images[0])).size, _SHEET_WIDTH)
    sheet = Image.new("RGB", (min(len(images), _COLUMNS) * width, -(-len(images) // _COLUMNS) * height))
    for number, image in enumerate(images):
        row, column = divmod(number, _COLUMNS)
        sheet.paste(Image.open(BytesIO(image)).resize((width, height)), (column * width, row * height))
    sheet.save(path)


def described(scenes: S, images: Sequence[bytes], command: str) -> S:
    """Name each scene without a name by people or this program, by the first line that the program prints if its stdin
    is JSON with ``image`` (path of a sheet with the keyframes), ``text`` and more. A scene for which it prints nothing,
    fails, or takes more than two minutes keeps its name; one warning tells of failures. ``images``: one per shot, as in
    `ShotImages`."""
    named, failures = [], []
    arguments = shlex.split(command, posix=os.name == "posix")
    with TemporaryDirectory() as folder:
        sheet = Path(folder) / "keyframes.png"
        for scene in scenes.scenes:
            if needs_name(scenes, scene, command):
                _save_sheet(sheet, [images[shot] for shot in scene.spread_shots(_MOST_SHOTS)])
                text = " ".join(line.text for line in scenes.lines_of(scene))
                facts = {"image": str(sheet), "text": text, "index": scene.index}
                facts |= {"start": scene.start, "end": scene.end, "video": scenes.video.path}
                try:
                    if name := one_line(run_program(arguments, json.dumps(facts).encode(), _MOST_SECONDS)):
                        scene = replace(scene, name=name[:_LONGEST], named_by="program")
                except (OSError, subprocess.SubprocessError) as error:
                    failures.append(f"scene {scene.index + 1}: {first_line(error)}")
            named.append(scene)
    warnings = scenes.warnings
    if failures:
        warnings += (f"{command}: failed for {count(len(failures), 'scene')}, which keep their names ({failures[0]})",)
    settings = {**scenes.settings, "described_by": command_digest(command)}
    return replace(scenes, settings=settings, scenes=tuple(named), warnings=warnings)
