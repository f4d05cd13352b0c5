"""Scenes as a notebook shows them: a table of HTML with small images of the shots."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from html import escape

import cv2
import numpy as np
from numpy.typing import NDArray

from pipelines.scenes import SceneData
from pipelines.video.images import to_jpeg

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
