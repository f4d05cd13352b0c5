"""Settings of cutting a film into its scenes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pipelines.options import Seconds, accept_text
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
    expand: Seconds = 0.0
    """Time to add before and after each scene, as handles for an editor, in seconds or as a timecode."""
    filename: str = "$VIDEO_NAME-scene-$SCENE_NUMBER"
    """Name of each file, without ending, from $VIDEO_NAME, $SCENE_NUMBER, $SCENE_NAME, $START_TIME and $END_TIME."""
    overwrite: bool = False
    """Replace existing files."""

    def __post_init__(self) -> None:
        accept_text(self)
        if not 0 <= self.expand < math.inf:
            raise ValueError(f"--expand must be 0 seconds or more, not {self.expand:g}")
        if not self.exact and (self.crf is not None or self.preset is not None):
            raise ValueError("crf and preset apply only to encoding; add --exact, or leave them out to copy")
        if self.crf is not None and not 0 <= self.crf <= 51:
            raise ValueError(f"the crf must lie between 0 and 51, not {self.crf}")
        check_template(self.filename, _NAMES)
