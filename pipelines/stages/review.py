"""Review of results in the browser: their pages, served until they are done, which save and export in place."""

from __future__ import annotations

import getpass
import os
import shlex
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Unpack

from pipelines.datasets.scenes_json import parse_scene_list, read_scene_list
from pipelines.errors import BasslError, DatasetError, count
from pipelines.files import STDIO, cache_folder, is_file, keep_newest, new_files, os_reason
from pipelines.options import resolve_settings
from pipelines.outputs.images import cached_images
from pipelines.outputs.page import page_text
from pipelines.outputs.server import ReviewServer
from pipelines.processes import Child
from pipelines.progress import ReportProgress, no_progress
from pipelines.results.finding import existing_result
from pipelines.results.opening import open_scenes
from pipelines.results.replacing import check_version, note_on_page, replace_result, result_version
from pipelines.scenes import SceneData
from pipelines.stages.export import export
from pipelines.stages.settings import ReviewSettings
from pipelines.video.inputs import fingerprint

PROXY_BYTES = 8 * 10**9  # of all copies for browsers together; an hour of video has about a quarter of a gigabyte

if TYPE_CHECKING:  # types of options for editors and mypy
    from pipelines.stages.option_types import ReviewOptions


@dataclass(frozen=True)
class ReviewResult:
    """What a review left on disk."""

    result: Path  # the ``scenes.json``
    saved: bool  # whether the page saved it
    exported: tuple[Path, ...]
    notes: tuple[str, ...]  # lines on files that show the scenes before


def review(
    source: Path | str,
    settings: ReviewSettings | None = None,
    progress: ReportProgress | None = None,
    notify: Callable[[str], None] = print,
    **options: Unpack[ReviewOptions],
) -> ReviewResult:
    """Review a video's scenes in the browser: serve their page on this machine until "Done" is pressed there. It saves
    in place and exports. ``source``: a ``scenes.json``, or a video with a result; ``progress`` is called with the
    seconds of the video that are read; ``notify`` with lines on what was saved. Raises BasslError as `report`."""
    session = ReviewSession(source, resolve_settings(ReviewSettings, settings, options), progress, notify)
    try:
        with ReviewServer() as server:
            server.show(session)
            server.open_browser()
            notify(f"{server.address}#review")
            server.wait()
    finally:
        result = session.finish()
    return result


class ReviewSession:
    """The review of one result, for `ReviewServer`; ``warnings``: of its page; ``turn``: as for `page_text`."""

    def __init__(
        self,
        source: Path | str,
        settings: ReviewSettings | None = None,
        progress: ReportProgress | None = None,
        notify: Callable[[str], None] = print,
        turn: tuple[int, int, str] = (1, 1, ""),
    ) -> None:
        if Path(source) == STDIO:
            raise BasslError("-: scenes from stdin cannot be saved in place; name their scenes.json")
        self._source, self._notify, self._turn = source, notify, turn
        self._settings = resolve_settings(ReviewSettings, settings, {})
        self._lock = Lock()
        self._saved, self._exported = False, list[Path]()
        self._proxy: ProxyMaker | None = None
        self._open(progress)

    def _open(self, progress: ReportProgress | None = None) -> None:
        result = existing_result(Path(self._source))
        version = result_version(result)
        opened = open_scenes(self._source, self._settings.selection.video)
        reading = partial(progress or no_progress, "reading")
        images, self.warnings = cached_images(opened.scenes, opened.video, reading)
        self.result, self.video, self._images = result, opened.video, images
        self._version, self._opened = version, opened

    @property
    def version(self) -> str:
        """Return the version of the result as it is now."""
        return result_version(self.result)

    def check(self, version: str) -> None:
        check_version(self.result, version)

    def current(self) -> dict[str, Any]:
        fits = False
        with suppress(DatasetError):
            ends = {shot.end_frame for shot in read_scene_list(self.result).shots}
            fits = {shot.end_frame for shot in self._opened.scenes.shots} <= ends
        return {"version": self.version, "fit": fits}

    def page(self) -> str:
        with self._lock:
            if self.version != self._version:
                self._open()
            return page_text(self._opened.scenes, self._images, self.video, self.result, self._version, self._turn)

    def save(self, content: bytes, version: str) -> str:
        scenes, video = parse_scene_list(content, self.result), self._opened.scenes.video
        if (scenes.video.fingerprint, scenes.video.frames) != (video.fingerprint, video.frames):
            raise BasslError(f"{self.result}: the page shows another video")
        scenes = replace(scenes, video=video)  # nothing else about the video comes from the page
        with self._lock:
            replace_result(self.result, scenes, version)
            self._saved = True
            self._notify(f"saved {self.result}: {count(len(scenes.scenes), 'scene')}")
            return self.version

    def export(self, name: str, version: str) -> dict[str, Any]:
        with self._lock:
            check_version(self.result, version)
            written = export(self.result, to=(name,), video=self._settings.selection.video)
        (path,) = written.paths
        self._exported.append(path)
        self._notify(f"wrote {path}")
        return {"files": [path.name], "warnings": written.warnings}

    def proxy(self) -> tuple[Path | None, float]:
        with self._lock:
            if self._proxy is None:
                self._proxy = ProxyMaker(self._opened.existing_video(), self._opened.scenes, self._notify)
            try:
                return self._proxy.state()
            except BasslError:
                self._proxy = None  # the page says why, and tries again when it is reloaded
                raise

    def finish(self) -> ReviewResult:
        """Stop what is being made, and return what the review left on disk."""
        if self._proxy is not None:
            self._proxy.stop()
        notes = note_on_page(self.result) if self._saved else ()
        return ReviewResult(self.result, self._saved, tuple(dict.fromkeys(self._exported)), notes)


class ProxyMaker(Thread):
    """Makes the copy of a video that browsers play, in the user's folder for caches. ``error``: why it failed."""

    def __init__(self, video: Path, scenes: SceneData, notify: Callable[[str], None]) -> None:
        super().__init__(daemon=True)
        folder = cache_folder("proxies")
        if folder is None:
            raise BasslError(f"{video}: a copy that browsers play has no folder; set HOME or XDG_CACHE_HOME")
        end = scenes.shots[-1].end
        part = "" if scenes.settings.get("end") is None else f"-{end:g}"
        self._path = folder / f"{fingerprint(video)}{part}.mp4"
        self._video, self._scenes, self._notify, self._end = video, scenes, notify, end
        self._child: Child | None = None
        self._seconds, self.error = 0.0, ""
        if is_file(self._path):
            os.utime(self._path)  # the oldest are removed first
        else:
            self.start()

    def run(self) -> None:
        """Make the copy."""
        folder = self._path.parent
        try:
            self._notify(f"browsers cannot show {self._video}; making a copy that they can show in {folder}")
            with new_files(folder, folder, {self._path.name: ""}, (self._video,), overwrite=True) as (_, (partial,), _):
                self._child = Child("pipelines.video.encoding:send_proxy", (self._video, self._scenes, partial))
                for kind, seconds, _ in self._child.messages_on(self._video):
                    if kind == "end":
                        break
                    self._seconds = seconds
            keep_newest(folder, PROXY_BYTES)
        except (BasslError, OSError) as error:
            self.error = f"{folder}: {os_reason(error)}" if isinstance(error, OSError) else str(error)
        finally:
            if self._child is not None:
                self._child.kill()

    def state(self) -> tuple[Path | None, float]:
        """Return the copy, or None and the share that is done. Raises BasslError if it could not be made."""
        if self.error:
            raise BasslError(self.error)
        return (None if self.is_alive() else self._path), min(self._seconds / self._end, 1.0)

    def stop(self) -> None:
        """End the work, and remove what is not complete."""
        if self._child is not None:
            self._child.process.kill()
        if self.is_alive():
            self.join(10)


def ssh_command(port: int) -> str | None:
    """Return the command that makes the address work where the user came from by SSH, or None without SSH."""
    words = os.environ.get("SSH_CONNECTION", "").split()
    if len(words) != 4:
        return None
    _, _, host, ssh_port = words
    options = [] if ssh_port == "22" else ["-p", ssh_port]
    return shlex.join(["ssh", "-N", "-L", f"{port}:127.0.0.1:{port}", *options, f"{getpass.getuser()}@{host}"])
