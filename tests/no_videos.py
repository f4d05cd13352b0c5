"""Files that are not videos: how they are made, and the reason that a message about them gives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from tests import videos

TEXT = b"this is no video\n" * 200
NOISE = np.random.default_rng(0).integers(0, 256, 50_000).astype(np.uint8).tobytes()


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def made_folder(path: Path) -> Path:
    path.mkdir()
    return path


def without_index(path: Path) -> Path:
    return videos.truncated(videos.write_video(path, videos.images(48)), path, 0.6)


def of_unknown_codec(path: Path) -> Path:
    videos.write_video(path, videos.images(10))
    path.write_bytes(path.read_bytes().replace(b"avc1", b"zzzz"))
    return path


def png_as_mp4(path: Path) -> Path:
    path.write_bytes(videos.write_still(path.with_suffix(".png")).read_bytes())
    return path


NO_VIDEOS: dict[str, tuple[str, Callable[[Path], Path], str]] = {
    "missing": ("gone.mp4", lambda path: path, "no such file"),
    "missing with a long name": ("x" * 300 + ".mp4", lambda path: path, "name too long"),
    "inside a file": ("gone.mp4", lambda path: written(path, TEXT) / "video.mp4", "not a directory"),
    "folder": ("folder.mp4", made_folder, "is a folder"),
    "empty": ("empty.mp4", lambda path: written(path, b""), "is empty"),
    "text": ("text.txt", lambda path: written(path, TEXT), "plain text"),
    "text renamed": ("text.mp4", lambda path: written(path, TEXT), "not a video"),
    "noise": ("noise.mp4", lambda path: written(path, NOISE), "not a video"),
    "MP4 without its index": ("cut.mp4", without_index, "not a video that can be read"),
    "unknown codec": ("unknown.mp4", of_unknown_codec, "codec"),
    "sound": ("sound.m4a", videos.write_sound, "no video stream"),
    "sound with a cover": ("song.mp3", videos.write_sound_with_cover, "no video stream"),
    "PNG": ("still.png", videos.write_still, "still image"),
    "JPEG": ("still.jpg", videos.write_still, "still image"),
    "WebP": ("still.webp", videos.write_still, "still image"),
    "PNG renamed": ("still.mp4", png_as_mp4, "still image"),
}
