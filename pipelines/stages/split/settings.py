"""Settings of cutting a film into its scenes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from pipelines.outputs.names import check_template

Preset = Literal["ultrafast", "superfast", "veryfast", "faster", "fast", "medium", "slow", "slower", "veryslow"]
_NAMES = ("VIDEO_NAME", "SCENE_NUMBER", "SCENE_NAME", "START_TIME", "END_TIME")


@dataclass(frozen=True)
class SplitSettings:
    """How a film is cut."""

    folder: Path | None = None
    """Folder of the files. Unless given: FILM-scenes in the current folder."""
    exact: bool = False
    """Cut to the frame by encoding again (H.264 and AAC), instead of copying from the key frame before each cut."""
    crf: int | None = None
    """With exact: quality, 0 (lossless) to 51. Unless given: 18."""
    preset: Preset | None = None
    """With exact: speed of libx264. Unless given: fast."""
    filename: str = "$VIDEO_NAME-scene-$SCENE_NUMBER"
    """Name of each file, without ending, from $VIDEO_NAME, $SCENE_NUMBER, $SCENE_NAME, $START_TIME and $END_TIME."""
    overwrite: bool = False
    """Replace existing files."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", None if self.folder is None else Path(self.folder))
        if not self.exact and (self.crf is not None or self.preset is not None):
            raise ValueError("crf and preset are of encoding; add --exact, or leave them out to copy")
        if self.crf is not None and not 0 <= self.crf <= 51:
            raise ValueError(f"the crf must lie between 0 and 51, not {self.crf}")
        if self.preset not in (None, *get_args(Preset)):
            raise ValueError(f"no preset is called {self.preset!r}; there are {', '.join(get_args(Preset))}")
        check_template(self.filename, _NAMES)
