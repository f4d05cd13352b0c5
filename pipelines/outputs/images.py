"""Small images of shots: thumbnails of a page within a budget of bytes, storyboards of a video, and sheets of keyframes
for a program that names scenes."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from pipelines.errors import BasslError, count, first_line
from pipelines.files import write_atomically
from pipelines.outputs.names import one_line
from pipelines.outputs.results import command_digest, needs_name
from pipelines.processes import UserPrograms, cores
from pipelines.scenes import Scene, SceneData

S = TypeVar("S", bound=SceneData)

TYPE = "image/webp"
BUDGET = 20 * 10**6  # bytes of all images of a page in base64: with 3,000 shots 6.6 kB each

# Width and WebP quality, best first. On a page an image is 100 to 250 pixels wide, twice as many on a high-density
# screen.
_SIZES = ((320, 76), (256, 74), (224, 70), (192, 66), (160, 60), (128, 50), (96, 40))
_SAMPLE = 48

# Shots with more than one image: of more seconds, or whose first and last keyframe differ by more. In Big Buck Bunny
# these are a third of all; characters come and go in most of them.
_LONG_SHOT, _MUCH_CHANGE = 8.0, 20.0

# Of a storyboard, in pixels.
_COLUMNS = 8
_MAX_ROWS = 3
_THUMBNAIL_WIDTH = 168
_GAP = 6
_CAPTION = 30
_PAPER, _BAND, _INK, _FAINT = "#f7f6f3", "#ffffff", "#22262b", "#7a828c"
_ACCENTS = ("#3b6ea5", "#b5651d", "#4f8a5b", "#8a4f7d", "#a03c3c", "#5b6b7a")

# Of a name by a program.
_MOST_SECONDS = 120  # for one scene
_LONGEST = 200  # characters of a name, as on the page


@dataclass(frozen=True)
class PageImages:
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
        middle = [b64encode(image).decode() for image in self]
        sides = {shot: [b64encode(image).decode() for image in pair] for shot, pair in self.sides.items()}
        return json.dumps({"middle": middle, "sides": sides}).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Self:
        """Inverse of `to_bytes`. Raises ValueError, KeyError or TypeError for other content."""
        images, stored = cls(), json.loads(content)
        images.extend(b64decode(image, validate=True) for image in stored["middle"])
        for shot, (first, last) in stored["sides"].items():
            images.sides[int(shot)] = b64decode(first), b64decode(last)
        return images


def _difference(image: Image.Image, other: Image.Image) -> float:
    """Return the mean difference of two images' colors, 0 to 255, without regard to details."""
    small = [np.asarray(one.convert("RGB").resize((16, 9), Image.Resampling.BOX), np.float32) for one in (image, other)]
    return float(np.abs(small[0] - small[1]).mean())


def encode_thumbnail(image: NDArray[np.uint8]) -> bytes:
    """Encode a keyframe (H, W, 3) as WebP of the largest size that pages use, to keep in memory until the number of
    shots of the video is known."""
    return _encode_webp(Image.fromarray(image), *_SIZES[0])


def page_images(thumbnails: Sequence[bytes], budget: int = BUDGET) -> PageImages:
    """Encode the images of a video, WebP by :func:`encode_thumbnail` or JPEG from a keyframe store, at the largest size
    at which all fit into a budget of bytes in base64. At the smallest size (some 2 kB per shot) they may exceed it."""
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


def _height(width: int, height: int, shown_width: int) -> int:
    # At most twice as high as wide.
    return max(1, min(round(height * shown_width / width), 2 * shown_width))


def save_storyboard(path: Path, result: SceneData, images: Sequence[bytes]) -> None:
    """Draw the scenes as a PNG. ``images``: one per shot, by `encode_thumbnail`; of scenes with many shots an even
    selection is drawn. Raises BasslError if the path cannot be written."""
    if len(images) != len(result.shots):
        raise BasslError(f"{len(images)} images for {len(result.shots)} shots")
    width, height = Image.open(BytesIO(images[0])).size
    cell_height = max(1, min(round(height * _THUMBNAIL_WIDTH / width), 2 * _THUMBNAIL_WIDTH))
    bands = [_shots_to_draw(scene) for scene in result.scenes]
    rows = [-(-len(shots) // _COLUMNS) for shots in bands]
    width = _COLUMNS * (_THUMBNAIL_WIDTH + _GAP) + 3 * _GAP
    heights = [_CAPTION + n * (cell_height + _GAP) + _GAP for n in rows]
    canvas = Image.new("RGB", (width, sum(heights) + _GAP * (len(heights) + 1)), _PAPER)
    draw = ImageDraw.Draw(canvas)
    y = _GAP
    for scene, shots, height in zip(result.scenes, bands, heights, strict=True):
        accent = _ACCENTS[scene.index % len(_ACCENTS)]
        draw.rectangle((_GAP, y, width - _GAP, y + height), fill=_BAND)
        draw.rectangle((_GAP, y, _GAP + 3, y + height), fill=accent)
        _caption(draw, scene, len(shots), (3 * _GAP, y + 7), accent)
        for position, shot in enumerate(shots):
            row, column = divmod(position, _COLUMNS)
            corner = (3 * _GAP + column * (_THUMBNAIL_WIDTH + _GAP), y + _CAPTION + row * (cell_height + _GAP))
            canvas.paste(Image.open(BytesIO(images[shot])).resize((_THUMBNAIL_WIDTH, cell_height)), corner)
        y += height + _GAP
    buffer = BytesIO()
    canvas.save(buffer, "PNG")
    write_atomically(path, buffer.getvalue())


def _shots_to_draw(scene: Scene) -> list[int]:
    shots = scene.end_shot - scene.start_shot
    selection = np.linspace(0, shots - 1, min(shots, _COLUMNS * _MAX_ROWS))
    return [scene.start_shot + int(shot) for shot in selection.round()]


def _caption(draw: ImageDraw.ImageDraw, scene: Scene, shown: int, corner: tuple[int, int], accent: str) -> None:
    bold, plain = ImageFont.load_default(16), ImageFont.load_default(14)
    title = f"Scene {scene.index + 1}"
    draw.text(corner, title, fill=accent, font=bold)
    shots = scene.end_shot - scene.start_shot
    facts = (
        f"{scene.start_timecode} - {scene.end_timecode}     {scene.end - scene.start:.1f} s     "
        f"{count(shots, 'shot')}"
        + (f" ({shown} shown)" if shown < shots else "")
        + f"     confidence {scene.confidence:.2f}"
    )
    draw.text((corner[0] + 96, corner[1] + 2), facts, fill=_INK if scene.confidence >= 0.5 else _FAINT, font=plain)


def described(scenes: S, images: Sequence[bytes], command: str) -> S:
    """Name each scene without a name by people or this program, by the first line that the program prints for it.

    The program is run without a shell, once for each scene, see `UserPrograms`, with JSON on stdin: ``image`` (path of
    a sheet with its keyframes), ``text``, ``index``, ``start``, ``end`` and ``video``. A scene for which it prints
    nothing, fails, or takes more than two minutes keeps its name; one warning tells of failures. ``images``: one per
    shot, as for `save_storyboard`."""
    named, failures = [], []
    arguments = shlex.split(command, posix=os.name == "posix")
    with TemporaryDirectory() as folder, UserPrograms() as programs:
        sheet = Path(folder) / "keyframes.png"
        for scene in scenes.scenes:
            if needs_name(scenes, scene, command):
                save_storyboard(sheet, replace(scenes, scenes=(scene,)), images)
                facts: dict[str, Any] = {
                    "image": str(sheet),
                    "text": " ".join(line.text for line in scenes.lines_of(scene)),
                    "index": scene.index,
                    "start": scene.start,
                    "end": scene.end,
                    "video": scenes.video.path,
                }
                try:
                    line = programs.first_line(arguments, json.dumps(facts).encode(), _MOST_SECONDS)
                except (OSError, subprocess.SubprocessError) as error:
                    failures.append(f"scene {scene.index + 1}: {first_line(error)}")
                else:
                    if name := one_line(line)[:_LONGEST]:
                        scene = replace(scene, name=name, named_by="program")
            named.append(scene)
    told = scenes.warnings
    if failures:
        told += (f"{command}: failed for {count(len(failures), 'scene')}, which keep their names ({failures[0]})",)
    settings = {**scenes.settings, "described_by": command_digest(command)}
    return replace(scenes, settings=settings, scenes=tuple(named), warnings=told)
