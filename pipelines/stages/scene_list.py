"""A video's scenes for programs: the data, with methods that call the stages."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, overload

from pipelines.errors import count, explain_missing_extra
from pipelines.scenes import Scene, SceneData

if TYPE_CHECKING:  # optional dependency
    import pandas as pd


@dataclass(frozen=True, repr=False)
class SceneList(SceneData):
    """The scenes of a video, with its shots, settings and facts.

    A sequence of scenes: ``len(result)``, ``result[0]``, ``for scene in result``. A notebook shows them as a table.
    """

    thumbnails: tuple[bytes, ...] = field(default=(), compare=False)
    """A small JPEG of each shot, if `predict` made this result; not part of the file."""

    def __len__(self) -> int:
        return len(self.scenes)

    def __iter__(self) -> Iterator[Scene]:
        return iter(self.scenes)

    @overload
    def __getitem__(self, index: int) -> Scene: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Scene, ...]: ...
    def __getitem__(self, index: int | slice) -> Scene | tuple[Scene, ...]:
        return self.scenes[index]

    def __repr__(self) -> str:
        minutes, seconds = divmod(round(self.video.duration), 60)
        length = f"{minutes // 60}:{minutes % 60:02d}:{seconds:02d}"
        counts = f"{count(len(self.scenes), 'scene')}, {count(len(self.shots), 'shot')}"
        return f"{type(self).__name__}({Path(self.video.path).name!r}, {counts}, {length})"

    def _repr_html_(self) -> str:
        from pipelines.outputs.notebook import scene_table  # start-up time: OpenCV

        return scene_table(self, self.thumbnails)

    def to_dataframe(self, *, shots: bool = False) -> pd.DataFrame:
        """A row for each scene, or shot, with its fields and ``duration`` in seconds; the index is its number, from 0.
        Raises BasslError if pandas is not installed."""
        with explain_missing_extra("to_dataframe"):
            import pandas as pd  # optional dependency

        rows = [vars(item) | {"duration": item.end - item.start} for item in (self.shots if shots else self.scenes)]
        for row in rows if shots else ():
            row["transition"] = row["transition"] and row["transition"].kind
        return pd.DataFrame(rows).set_index("index")
