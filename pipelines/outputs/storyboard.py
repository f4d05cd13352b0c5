"""A storyboard of a video: one band per scene, with the middle keyframes of its shots."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from pipelines.errors import BasslError, count
from pipelines.files import write_atomically
from pipelines.scenes import Scene, SceneData

_COLUMNS = 8
_MAX_ROWS = 3
_THUMBNAIL_WIDTH = 168
_GAP = 6
_CAPTION = 30
_PAPER, _BAND, _INK, _FAINT = "#f7f6f3", "#ffffff", "#22262b", "#7a828c"
_ACCENTS = ("#3b6ea5", "#b5651d", "#4f8a5b", "#8a4f7d", "#a03c3c", "#5b6b7a")


def save_storyboard(path: Path, result: SceneData, images: Sequence[bytes]) -> None:
    """Draw the scenes as a PNG. ``images``: one per shot, by
    :func:`pipelines.outputs.page.thumbnails.encode_thumbnail`; of scenes with many shots an even selection is shown.
    Raises BasslError if the path cannot be written."""
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
