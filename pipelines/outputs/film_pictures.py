"""What is drawn of a film while it is read: a storyboard, a page, both or none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipelines.scenes import SceneList
    from pipelines.video.shots import FilmedShot


class PicturedScenes:
    """Keeps a small picture of each shot, and draws with them when the scenes are known.

    Args:
        board: the PNG to draw, see :func:`pipelines.outputs.storyboard.save_storyboard`.
        page: the HTML to write, see :func:`pipelines.outputs.page.save_page`.
    """

    def __init__(self, board: Path | None, page: Path | None) -> None:
        self._board = board
        self._page = page
        self._thumbnails: list[bytes] = []
        self._kept: list[bytes] = []

    def add(self, shot: FilmedShot) -> None:
        """Take the middle key-frame of the next shot."""
        picture = shot.keyframes[len(shot.keyframes) // 2]
        if self._board is not None:
            from pipelines.outputs.storyboard import thumbnail

            self._thumbnails.append(thumbnail(picture))
        if self._page is not None:
            from pipelines.outputs.page.thumbnails import kept

            self._kept.append(kept(picture))

    def save(self, result: SceneList, film: Path, output: Path) -> None:
        """Write what was asked for.

        Args:
            result: the scenes.
            film: the film, to be played on the page.
            output: the ``scenes.json``, after which the page names what it saves.

        Raises:
            BasslError: where one cannot be written.
        """
        if self._board is not None:
            from pipelines.outputs.storyboard import save_storyboard

            save_storyboard(self._board, result, self._thumbnails)
        if self._page is not None:
            from pipelines.outputs.page import save_page

            save_page(self._page, result, self._kept, film, save_as=f"{output.stem}.json")
