"""The images of a storyboard and a page, collected while a video is read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pipelines.outputs.results import beside

if TYPE_CHECKING:  # start-up time: numpy
    from pipelines.scenes import SceneData
    from pipelines.video.shots import KeyframedShot


class ShotImages:
    """Keeps a small image of each shot until the scenes are known, then writes the storyboard (PNG) and page (HTML)."""

    def __init__(self, board: Path | None, page: Path | None) -> None:
        self._board = board
        self._page = page
        self._thumbnails: list[bytes] = []

    def add(self, shot: KeyframedShot) -> None:
        """Add the middle keyframe of the next shot."""
        if self._board is not None or self._page is not None:
            from pipelines.outputs.page.thumbnails import encode_thumbnail  # start-up time: Pillow

            self._thumbnails.append(encode_thumbnail(shot.keyframes[len(shot.keyframes) // 2]))

    def save(self, result: SceneData, video: Path, output: Path) -> None:
        """Write the storyboard and the page, if they have a path. The page plays ``video``, and saves corrected scenes
        under the name of ``output``, the ``scenes.json``. Raises BasslError if one cannot be written."""
        if self._board is not None:
            from pipelines.outputs.storyboard import save_storyboard  # start-up time: Pillow

            save_storyboard(self._board, result, self._thumbnails)
        if self._page is not None:
            from pipelines.outputs.page import save_page  # start-up time: Jinja

            save_page(self._page, result, self._thumbnails, video, save_as=beside(output, ".json").name)
