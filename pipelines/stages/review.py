"""Review of results in the browser: their pages, served until they are done, which save and export in place."""

from __future__ import annotations

import getpass
import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

from pipelines.datasets.scenes_json import parse_scene_list
from pipelines.errors import BasslError, count
from pipelines.files import STDIO
from pipelines.options import with_options
from pipelines.outputs.exports import FORMATS
from pipelines.outputs.opening import open_scenes
from pipelines.outputs.page import Serving, page_text
from pipelines.outputs.results import check_version, existing_result, note_on_views, replace_result, result_version
from pipelines.outputs.server import ReviewServer
from pipelines.progress import ReportProgress
from pipelines.stages.export import export
from pipelines.stages.report import page_contents
from pipelines.stages.settings import ReviewSettings


@dataclass(frozen=True)
class ReviewResult:
    """What a review left on disk."""

    result: Path  # the ``scenes.json``
    scenes: int  # in it now
    saved: bool  # whether the page saved it
    exported: tuple[Path, ...]
    notes: tuple[str, ...]  # lines on files that show the scenes before


def review(
    source: Path | str,
    settings: ReviewSettings = ReviewSettings(),
    progress: ReportProgress | None = None,
    notify: Callable[[str], None] = print,
    **options: Any,
) -> ReviewResult:
    """Review a video's scenes in the browser: serve their page on this machine until «Done» is pressed there.

    The page saves in place and exports. ``source``: a ``scenes.json``, or a video with a result; ``progress`` is called
    with the seconds of the video that are read; ``notify`` with lines on the page's address and what was saved;
    ``options`` by name override ``settings``. Raises BasslError as `report`."""
    session = ReviewSession(source, with_options(settings, **options), progress, notify)
    with ReviewServer() as server:
        server.show(session)
        server.open_browser()
        notify(server.address)
        server.wait()
    return session.finish()


class ReviewSession:
    """The review of one result, for `ReviewServer`. ``warnings`` and ``notes`` are those of its page."""

    def __init__(
        self,
        source: Path | str,
        settings: ReviewSettings = ReviewSettings(),
        progress: ReportProgress | None = None,
        notify: Callable[[str], None] = print,
    ) -> None:
        if Path(source) == STDIO:
            raise BasslError("-: scenes from stdin cannot be saved in place; name their scenes.json")
        self._source, self._settings, self._notify = source, settings, notify
        self._lock = Lock()
        self._saved, self._exported = False, list[Path]()
        self._open(progress)

    def _open(self, progress: ReportProgress | None = None) -> None:
        result = existing_result(Path(self._source))
        version = result_version(result)
        opened = open_scenes(self._source, self._settings.selection.video)
        self.result, self._version, self._opened, self.video = result, version, opened, opened.video
        self._contents = page_contents(opened, self._settings, progress)
        self.warnings, self.notes = self._contents.warnings, self._contents.notes

    @property
    def version(self) -> str:
        """Return the version of the result as it is now."""
        return result_version(self.result)

    def page(self) -> str:
        with self._lock:
            if self.version != self._version:
                self._open()
            return page_text(
                self._opened.scenes,
                self._contents.images,
                self.video,
                self._contents.truth,
                self.result.name,
                folder=self.result.parent,
                source=None if self.video is None else "video",
                serving=Serving(self.result, self._version),
            )

    def save(self, content: bytes, version: str) -> str:
        scenes, shown = parse_scene_list(content, self.result), self._opened.scenes.video
        if (scenes.video.fingerprint, scenes.video.frames) != (shown.fingerprint, shown.frames):
            raise BasslError(f"{self.result}: the page shows another video")
        with self._lock:
            replace_result(self.result, scenes, version)
            self._saved = True
            self._notify(f"saved {self.result}: {count(len(scenes.scenes), 'scene')}")
            return self.version

    def export(self, name: str, version: str) -> dict[str, Any]:
        if name not in FORMATS:
            raise BasslError(f"unknown format {name!r}")
        with self._lock:
            check_version(self.result, version)
            written = export(self.result, to=(name,), video=self._settings.selection.video)
        self._exported += written.paths
        for path in written.paths:
            self._notify(f"wrote {path}")
        return {"files": [path.name for path in written.paths], "warnings": written.warnings}

    def proxy(self) -> tuple[Path | None, float]:
        raise BasslError(f"{self.video}: no copy")

    def finish(self) -> ReviewResult:
        """Return what the review left on disk."""
        scenes = open_scenes(self.result).scenes
        exported = tuple(dict.fromkeys(self._exported))
        notes = note_on_views(self.result) if self._saved else ()
        return ReviewResult(self.result, len(scenes.scenes), self._saved, exported, notes)


def ssh_command(port: int) -> str | None:
    """Return the command that makes the page's address work on the computer from which the user came by SSH, or None
    without SSH."""
    words = os.environ.get("SSH_CONNECTION", "").split()
    if len(words) != 4:
        return None
    _, _, host, ssh_port = words
    options = [] if ssh_port == "22" else ["-p", ssh_port]
    return shlex.join(["ssh", "-N", "-L", f"{port}:127.0.0.1:{port}", *options, f"{getpass.getuser()}@{host}"])
