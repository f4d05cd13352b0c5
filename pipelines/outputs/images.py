"""Shots of a result, read from their video again: small images for a page, within a budget of bytes, or for a program
that names scenes, in a sheet; and encodings for an export."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from html import escape
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple, Self, TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

import pipelines
from pipelines.errors import BasslError, VideoError, count, first_line
from pipelines.files import cache_folder, keep_newest, write_atomically
from pipelines.processes import cores, run_program
from pipelines.results.finding import one_line
from pipelines.results.replacing import command_digest, needs_name
from pipelines.scenes import NO_VIDEO, SceneData
from pipelines.video.images import to_jpeg
from pipelines.video.inputs import fingerprint, unchanged
from pipelines.video.shots import KeyframedShot, ReaderSettings, VideoProcess

S = TypeVar("S", bound=SceneData)
Progress = Callable[[float, float | None], None]

CACHE_BYTES = 10**9
"""Of all images of shots in the user's folder for caches together; a film has about 20 MB."""

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

    def add(self, shot: KeyframedShot) -> None:
        """Add the next shot."""
        keyframes = [Image.fromarray(keyframe) for keyframe in shot.keyframes]
        first, last = keyframes[0], keyframes[-1]
        is_long = shot.end - shot.start > _LONG_SHOT
        if len(keyframes) > 1 and (is_long or _difference(first, last) > _MUCH_CHANGE):
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


def images_from_video(scenes: SceneData, video: Path | None, progress: Progress) -> tuple[ShotImages, tuple[str, ...]]:
    """Read small images of each shot from the video; return them and the reader's warnings. Without the video there are
    none, and a warning. ``progress`` is called with the seconds read and in all. Raises VideoError for another
    video."""
    images, warnings = ShotImages(), list[str]()
    if video is None:
        return images, (f"{scenes.video.path}: {NO_VIDEO}; a page without images",)
    for shot in read_shots(scenes, video, ReaderSettings(), progress, warnings):
        images.add(shot)
    return images, tuple(warnings)


def cached_images(scenes: SceneData, video: Path | None, progress: Progress) -> tuple[ShotImages, tuple[str, ...]]:
    """Return the images of `images_from_video`, from the user's folder for caches if they were read before."""
    file = None if video is None else _cache_file(scenes, video)
    with suppress(OSError, ValueError):  # it is not there, or damaged
        if file is not None:
            return ShotImages.from_bytes(file.read_bytes()), ()
    images, warnings = images_from_video(scenes, video, progress)
    if video is not None:
        keep_images(scenes, video, images)
    return images, warnings


def keep_images(scenes: SceneData, video: Path, images: ShotImages) -> None:
    """Keep the images of the shots for `cached_images`, if the user's folder for caches can be written."""
    if (file := _cache_file(scenes, video)) is not None:
        with suppress(BasslError):
            write_atomically(file, images.to_bytes())
            keep_newest(file.parent, CACHE_BYTES)


def _cache_file(scenes: SceneData, video: Path) -> Path | None:
    folder, shots = cache_folder("images"), [(shot.start_frame, shot.end_frame) for shot in scenes.shots]
    name = sha256(repr((fingerprint(video), shots, pipelines.__version__)).encode()).hexdigest()
    return None if folder is None else folder / name


def encodings_from_video(
    scenes: SceneData, video: Path, progress: Progress
) -> tuple[NDArray[np.float32], tuple[str, ...]]:
    """Return each shot's encoding by the default encoder, (N, D_e), otherwise as `images_from_video`."""
    # Start-up time: OpenCV, ONNX Runtime.
    from pipelines.models.encoder_loading import load_encoder
    from pipelines.models.encoders.shot_encoder import encode_groups

    encoder = load_encoder()
    warnings: list[str] = []
    shots = read_shots(scenes, video, ReaderSettings(keyframes=encoder.keyframes), progress, warnings)
    groups = encoder.groups(shots)
    threads = 1 if encoder.on_gpu else max(1, cores() // 2)  # reading has the other half of the cores
    with closing(encode_groups(encoder, groups, lambda group: (s.keyframes for s in group), threads)) as encoded:
        features = [values for _, values, _ in encoded]
    return np.concatenate(features), tuple(warnings)


def read_shots(
    scenes: SceneData, video: Path, reader: ReaderSettings, progress: Progress, warnings: list[str]
) -> Iterator[KeyframedShot]:
    """Read the shots of scenes from their video again, with the reader's other settings; its warnings are added to
    ``warnings`` at the end. Raises VideoError for another video."""
    ranges = []
    first, *others = scenes.shots
    end = None if scenes.settings.get("end") is None else scenes.shots[-1].end
    cuts = tuple(shot.start_frame for shot in others)
    reader = replace(reader, shots=cuts, start=first.start or None, end=end)
    with unchanged(video), VideoProcess(video, reader, progress) as reading:
        for shot in reading:
            ranges.append((shot.start_frame, shot.end_frame))
            yield shot
    if ranges != [(shot.start_frame, shot.end_frame) for shot in scenes.shots]:
        facts = f"{reading.facts.frames} frames and other shots than these scenes with {scenes.video.frames} frames"
        raise VideoError(f"{video}: has {facts}; it is another video, or was changed")
    warnings += reading.warnings


def page_images(thumbnails: Sequence[bytes], budget: int = BUDGET) -> PageImages:
    """Encode the images of a video, as in `ShotImages`, at the largest size at which all fit into a budget of bytes in
    base64. At the smallest size (some 2 kB per shot) they may exceed it."""
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
    is_done = size == _SIZES[0]  # by `ShotImages`
    return b64encode(content if is_done else _encode_webp(Image.open(BytesIO(content)), *size)).decode()


def _encode_webp(image: Image.Image, width: int, quality: int) -> bytes:
    buffer = BytesIO()
    if image.width > width:
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
    described_scenes, failures = [], []
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
            described_scenes.append(scene)
    warnings = scenes.warnings
    if failures:
        warnings += (f"{command}: failed for {count(len(failures), 'scene')}, which keep their names ({failures[0]})",)
    settings = {**scenes.settings, "described_by": command_digest(command)}
    return replace(scenes, settings=settings, scenes=tuple(described_scenes), warnings=warnings)


_LINES = 96
_QUALITY = 70
_IMAGES = 300
"""About how many images a table shows: with 3 kB each it has a megabyte."""


def thumbnail(image: NDArray[np.uint8]) -> bytes:
    """Encode a keyframe (H, W, 3) as a JPEG of at most 96 lines."""
    height, width = image.shape[:2]
    if height > _LINES:
        size = max(1, round(width * _LINES / height)), _LINES
        image = np.asarray(cv2.resize(image, size, interpolation=cv2.INTER_AREA), np.uint8)
    return to_jpeg(image, _QUALITY)


def scene_table(scenes: SceneData, thumbnails: Sequence[bytes]) -> str:
    """Return a table of the scenes as HTML. ``thumbnails``: a JPEG of each shot, or none; each scene shows an even
    selection of one to five."""
    most = min(5, max(1, _IMAGES // len(scenes.scenes)))
    has_names = any(scene.name for scene in scenes.scenes)
    names = ("scene", *["name"] * has_names, "start", "end", "length", "shots", "confidence")
    header = "".join(f"<th>{name}</th>" for name in (*names, *["images"] * bool(thumbnails)))
    rows = []
    for scene in scenes.scenes:
        cells = [str(scene.index + 1), *[escape(scene.name or "")] * has_names, scene.start_timecode]
        cells += [scene.end_timecode, f"{scene.end - scene.start:.1f} s", str(scene.end_shot - scene.start_shot)]
        cells.append(f"{scene.confidence:.2f}")
        if thumbnails:
            cells.append(" ".join(_image(thumbnails[shot], shot) for shot in scene.spread_shots(most)))
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return f"<table><thead><tr>{header}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _image(jpeg: bytes, shot: int) -> str:
    source = f"data:image/jpeg;base64,{b64encode(jpeg).decode()}"
    return f'<img src="{source}" alt="shot {shot + 1}" style="display: inline; height: 4em">'
