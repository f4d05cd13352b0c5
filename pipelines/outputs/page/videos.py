"""The page of many videos: each with its scenes as a strip, linked to the video's own page."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

import pipelines
from pipelines.errors import BasslError, count
from pipelines.files import write_atomically
from pipelines.outputs.exports.segments import one_line
from pipelines.outputs.page import FOLDER, address, content_policy, template
from pipelines.outputs.page.thumbnails import TYPE, resize
from pipelines.scenes import timecode

# Of a strip, in its own units; narrower scenes than the last have no image.
_WIDTH, _HEIGHT, _IMAGE_WIDTH, _LEAST_WIDTH = 1200, 64, 114, 8


def save_index(path: Path, pages: Sequence[Path]) -> None:
    """Write the page of several videos from their pages, by :func:`pipelines.outputs.page.save_page`.

    Raises:
        BasslError: one line, for a file that is not such a page, or a path that cannot be written.
    """
    style = (FOLDER / "page.css").read_text("utf-8")
    text = template("videos.html").render(
        count=count,
        videos=[_video(page, path) for page in pages],
        height=_HEIGHT,
        image_width=_IMAGE_WIDTH,
        policy=content_policy(style),
        style=Markup(style),  # from the package
        timecode=timecode,
        type=TYPE,
        version=pipelines.__version__,
        width=_WIDTH,
    )
    write_atomically(path, text.encode())


def _video(page: Path, index: Path) -> dict[str, Any]:
    try:
        text = page.read_text("utf-8")
        match = re.search(
            r'id="data">(.*?)</script>\s*<script type="text/plain" id="images">(.*?)</script>', text, re.S
        )
        assert match is not None
        data, images = json.loads(match[1]), match[2].split("\n") if match[2] else []
        shots = data["file"]["shots"]
        beginning = float(shots[0]["start"])
        duration = float(shots[-1]["end"]) - beginning
        scenes = []
        for number, scene in enumerate(data["file"]["scenes"], start=1):
            name = f"{number}. {one_line(scene['name'])}" if "name" in scene else f"Scene {number}"
            start, end = float(scene["start"]), float(scene["end"])
            width = _WIDTH * (end - start) / duration
            # Its longest shot, as in the page's compact view.
            cover = max(
                range(scene["start_shot"], scene["end_shot"]), key=lambda i: shots[i]["end"] - shots[i]["start"]
            )
            image = images and width >= _LEAST_WIDTH and resize(b64decode(images[cover]), 2 * _IMAGE_WIDTH)
            scenes.append({
                "title": f"{name}, {timecode(start)} – {timecode(end)}",
                "x": round(_WIDTH * (start - beginning) / duration, 2),
                "width": round(max(width - 1.5, 0.3), 2),
                "image": image and b64encode(image).decode(),
            })  # fmt: skip
        return {
            "name": data["video"]["name"] or page.stem,
            "address": address(page, index),
            "duration": duration,
            "scenes": scenes,
            "scenes_count": len(scenes),
            "shots_count": len(shots),
        }
    except (OSError, AssertionError, ValueError, KeyError, IndexError, TypeError) as error:
        raise BasslError(f"{page}: is not a page by bassl; --overwrite writes a new one") from error
