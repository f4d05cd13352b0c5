"""A page to review and correct the scenes of a video: one self-contained HTML file, without a server.

Images, style and script are embedded, and the content security policy forbids the network; only the video is a separate
file. ``scene_ends.js`` groups shots as :mod:`pipelines.models.scene_ends` does, ``exports.js`` writes the same files as
:mod:`pipelines.outputs.exports`; the other scripts share the page's state (``state.js``) and are joined in order.
"""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import quote

import jinja2
from markupsafe import Markup

import pipelines
from pipelines.errors import BasslError, VideoError, count
from pipelines.files import is_file, write_atomically
from pipelines.outputs.exports.editing import FASTEST_EDL, edl_channels
from pipelines.outputs.exports.segments import one_line, video_name
from pipelines.outputs.exports.timecode import timecode_base
from pipelines.outputs.exports.timeline import timeline_frames, timeline_of
from pipelines.outputs.page.thumbnails import TYPE, page_images
from pipelines.scenes import SceneList, timecode
from pipelines.video.decoding import first_time

FOLDER = Path(__file__).parent
_RULES = ("scene_ends", "exports")
_PARTS = ("state", "list", "video", "timeline", "page")


@dataclass(frozen=True)
class TrueEnds:
    """True scene ends on the shots of a result."""

    shots: tuple[int, ...]  # indices of the shots that end true scenes, without the video's last shot
    # seconds of the true ends without a shot end within the tolerance, which are always misses
    elsewhere: tuple[float, ...]
    tolerance: float  # in seconds
    source: str


def save_page(
    path: Path,
    result: SceneList,
    images: Sequence[bytes] = (),
    video: Path | None = None,
    truth: TrueEnds | None = None,
    save_as: str = "scenes.json",
) -> None:
    """Write the page. ``images``: none, or one per shot by :func:`pipelines.outputs.page.thumbnails.encode_thumbnail`;
    ``video``: played beside the scenes; ``truth``: marks hits and misses; ``save_as``: name of the file that the page
    saves. Raises BasslError if the path cannot be written, or there are more or fewer images than shots."""
    if images and len(images) != len(result.shots):
        raise BasslError(f"{len(images)} images for {len(result.shots)} shots")
    first = 0.0  # time of the video's first frame on its own clock
    if video is not None and is_file(video):  # a pipe can be read only once
        with suppress(VideoError):
            first = float(first_time(video, ""))
    thumbnails = page_images(images)
    style = (FOLDER / "page.css").read_text("utf-8")
    rules, parts = ("".join((FOLDER / f"{name}.js").read_text("utf-8") for name in names) for names in (_RULES, _PARTS))
    script = f"{rules}\n{{\n{parts}}}\n"  # a block, so that the page's names are not global
    data = {
        "file": result.to_dict(path.parent),
        "id": sha256(json.dumps(result.to_dict()).encode()).hexdigest(),
        "save_as": one_line(save_as),
        "timeline": _timeline(result),
        "video": {"name": video_name(result), "source": address(video, path), "first": first},
        "images": {"type": TYPE, "width": thumbnails.width, "height": thumbnails.height}
        if thumbnails.encoded
        else None,
        "truth": None if truth is None else vars(truth),
    }
    settings = {name: value for name, value in result.settings.items() if value is not None}
    text = template("page.html").render(
        brief=_brief(result),
        count=count,
        data=_script_json(data),
        facts=_facts(result),
        images=Markup("\n".join(thumbnails.encoded)),  # base64 needs no escaping
        policy=content_policy(style, script),
        result=result,
        save_as=one_line(save_as),
        scenes=[{**vars(scene), "name": scene.name and one_line(scene.name)} for scene in result.scenes],
        script=Markup(script),  # from the package, like the style
        settings=[(one_line(name.replace("_", " ")), _as_text(value)) for name, value in settings.items()],
        style=Markup(style),
        title=video_name(result) or "video",
        version=pipelines.__version__,
    )
    write_atomically(path, text.encode())


def _timeline(result: SceneList) -> dict[str, Any] | None:
    """Facts for an edit decision list, without its cuts; None if the file is not a video, or its path is invalid."""
    try:
        timeline = timeline_of(result, fastest=FASTEST_EDL)
    except (VideoError, ValueError):
        return None
    places = timeline_frames(result, timeline.rate)
    return {
        "title": timeline.name,
        "clip": timeline.file,
        "rate": float(timeline.rate),
        "base": timecode_base(timeline.rate),
        "drop": timeline.drop,
        "start": timeline.source_start,
        "channels": edl_channels(timeline),
        "steady": all(frame == place for frame, place in places.items()),
    }


def template(name: str) -> jinja2.Template:
    """A template of this folder; values are escaped, undefined names are an error."""
    loader = jinja2.FileSystemLoader(FOLDER)
    return jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined).get_template(name)


def content_policy(style: str, script: str | None = None) -> str:
    """A content security policy that allows only this script and style, embedded images and the video."""

    def hash_of(text: str) -> str:
        return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"

    scripts = "" if script is None else f"script-src {hash_of(script)}; media-src 'self' file: blob:; "
    return (
        f"default-src 'none'; style-src {hash_of(style)}; {scripts}img-src data:; base-uri 'none'; form-action 'none'"
    )


def _script_json(content: Any) -> Markup:
    """JSON that is safe in a script element: ASCII without ``<``, ``>`` and ``&``."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)


def address(video: Path | None, page_path: Path) -> str | None:
    """The video's URL relative to the page, so that both can be moved together."""
    if video is None:
        return None
    target, folder = video.resolve(), page_path.resolve().parent
    try:
        relative = os.path.relpath(target, folder)
    except ValueError:  # another drive
        return target.as_uri()
    # "./", because a name with a colon could be read as a URL scheme.
    return "./" + quote(os.fsencode(Path(relative).as_posix()))


def _brief(result: SceneList) -> list[str]:
    """Facts in the header: size and rate of the video, detector, encoder and model."""
    video, settings = result.video, result.settings
    names = [settings.get(name) for name in ("detector", "encoder", "model")]
    return [
        f"{video.width} × {video.height}",
        f"{round(video.frame_rate, 3):g} frames/s",
        *(one_line(name) for name in names if isinstance(name, str)),
    ]


def _facts(result: SceneList) -> list[tuple[str, str]]:
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


def _as_text(value: Any) -> str:
    return one_line(value if isinstance(value, str) else json.dumps(value))
