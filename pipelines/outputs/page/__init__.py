"""A page to review and correct the scenes of a video, and the page of many videos: self-contained HTML.

Images, style and script are embedded, and the content security policy forbids the network; only the video is a separate
file. A page that `bassl review` serves may also ask its server. ``scene_ends.js`` groups shots as
:mod:`pipelines.models.scenes` does; the other scripts share the page's state (``state.js``)."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
from markupsafe import Markup

import pipelines
from pipelines.errors import VideoError, count
from pipelines.files import is_file, real, relative, write_atomically
from pipelines.outputs.exports import FORMATS
from pipelines.outputs.images import TYPE, ShotImages, page_images
from pipelines.progress import VideoResult
from pipelines.results.finding import one_line, video_name
from pipelines.scenes import SEGMENTS, SceneData, credit_cuts, timecode
from pipelines.video.decoding import first_frame_time

_FOLDER = Path(__file__).parent
_RULES = ("scene_ends", "review")
_PARTS = ("state", "storage", "saving", "review_mode", "list", "video", "timeline", "page")


def save_page(
    path: Path, result: SceneData, images: Sequence[bytes] = (), video: Path | None = None, save_as: str = "scenes.json"
) -> None:
    """Write the page, see `page_text`, which saves the file ``save_as``. Raises BasslError if it cannot be written."""
    write_atomically(path, page_text(result, images, video, path.with_name(save_as)).encode())


def page_text(
    result: SceneData,
    images: Sequence[bytes],
    video: Path | None,
    file: Path,
    version: str | None = None,
    turn: tuple[int, int, str] = (1, 1, ""),
) -> str:
    """Return the page. ``images``: none, or one per shot, and further ones of `ShotImages`; ``video``: played beside
    the scenes; ``file``: what the page saves, in its folder; ``version``: of this file, if `pipelines.outputs.server`
    serves the page; ``turn``: the video's number among several, how many there are, and the next one's name."""
    first = 0.0  # time of the video's first frame on its own clock
    if video is not None and is_file(video):
        with suppress(VideoError):
            first = first_frame_time(video)
    sides = images.sides if isinstance(images, ShotImages) else {}
    thumbnails = page_images([*images, *(image for pair in sides.values() for image in pair)])
    rules, parts = (
        "".join((_FOLDER / f"{name}.js").read_text("utf-8") for name in names) for names in (_RULES, _PARTS)
    )
    # Of a file, changes in the browser belong to its content; of a served page to the result, whose content changes.
    identity = json.dumps(result.to_dict()) if version is None else str(real(file))
    address = None if video is None else "video" if version is not None else _address(video, file.parent)
    data = {
        "file": result.to_dict(file.parent),
        "id": sha256(identity.encode(errors="surrogateescape")).hexdigest(),
        "version": version,
        "save_as": one_line(file.name),
        "video": {"name": video_name(result), "source": address, "first": first},
        "images": {"type": TYPE, "width": thumbnails.width, "height": thumbnails.height, "sides": [*sides]}
        if thumbnails.encoded
        else None,
        "segment_names": SEGMENTS,
        "credit_cuts": [
            (result.shots[i].end_frame, is_end) for i, is_end in credit_cuts(result.shots, result.segments).items()
        ],
        "next": one_line(turn[2]),
    }
    return _render(
        "page.html",
        f"{rules}\n{{\n{parts}}}\n",  # a block, so that the page's names are not global
        served=version is not None,
        digest=_digest(result),
        data=data,
        formats=FORMATS,
        facts=_facts(result),
        images=Markup("\n".join(thumbnails.encoded)),  # base64 needs no escaping
        result=result,
        turn=turn,
        settings=[
            (one_line(name.replace("_", " ")), one_line(value if isinstance(value, str) else json.dumps(value)))
            for name, value in result.settings.items()
            if value is not None
        ],
        title=video_name(result) or "video",
    )


def _render(template: str, script: str = "", served: bool = False, **values: Any) -> str:
    """Return a page from a template of this folder; values are escaped. The content security policy allows only the
    page's script and style, embedded images and the video, and to a served page requests to its server."""
    style = (_FOLDER / "page.css").read_text("utf-8")
    hashes = [f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in (style, script)]
    sources = f"style-src {hashes[0]}; script-src {hashes[1]}; media-src 'self'"
    sources += "; connect-src 'self'" if served else " file:"
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "separators": (",", ":")}
    return environment.get_template(template).render(
        count=count,
        sources=sources,
        served=served,
        timecode=timecode,
        version=pipelines.__version__,
        style=Markup(style),
        script=Markup(script),
        **values,
    )


def _address(file: Path, folder: Path) -> str:
    """Return a file's URL relative to the folder of a page, so that both can be moved together."""
    place = relative(file.resolve(), folder.resolve())
    # "./", because a name with a colon could be read as a URL scheme.
    return place.as_uri() if place.is_absolute() else "./" + quote(os.fsencode(place.as_posix()))


def _facts(result: SceneData) -> list[tuple[str, str]]:
    video, first, last = result.video, result.shots[0], result.shots[-1]
    is_part = first.start > 0 or result.settings.get("end")
    part = [("part", f"{timecode(first.start)} – {timecode(last.end)}")] if is_part else []
    return [
        ("video", one_line(video.path)),
        *part,
        ("length", timecode(last.end - first.start)),
        ("frame size", f"{video.width} × {video.height}"),
        ("frame rate", f"{round(video.frame_rate, 3):g} /s"),
        ("frames", f"{last.end_frame - first.start_frame:,}"),
        ("shots", f"{len(result.shots):,}"),
    ]


def save_index(path: Path, results: Sequence[tuple[Path, VideoResult]]) -> None:
    """Write the page of several videos: links to their pages, below failures. Raises BasslError if that fails."""
    videos = [
        {**vars(result), "name": one_line(page.stem.removesuffix(".scenes")), "address": _address(page, path.parent)}
        for page, result in results
        if result.status != "failed"
    ]
    failures = [one_line(result.error) for _, result in results if result.status == "failed"]
    write_atomically(path, _render("videos.html", videos=videos, failures=failures).encode())


def shows(page: Path, scenes: SceneData) -> bool:
    """Return whether there is such a page, by :func:`save_page`, and it shows these scenes."""
    try:
        with page.open("rb") as file:
            return _digest(scenes).encode() in file.read(2048)
    except OSError:
        return False


def _digest(scenes: SceneData) -> str:
    """Return a digest of what a page shows of a result, wherever its video is."""
    content = {part: value for part, value in scenes.to_dict().items() if part != "video"}
    return sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
