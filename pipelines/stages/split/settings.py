"""Settings of cutting a film into its scenes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SplitSettings:
    """How a film is cut."""

    folder: Path | None = None
    """Folder of the files. Unless given: FILM-scenes in the current folder."""
    exact: bool = False
    """Cut to the frame by encoding again (H.264 and AAC), instead of copying from the key frame before each cut."""
    overwrite: bool = False
    """Replace existing files."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", None if self.folder is None else Path(self.folder))
