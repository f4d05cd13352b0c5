"""One film whose keyframes are extracted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from pipelines.stages.extract_keyframes.settings import ExtractSettings, FilmResult


@dataclass(frozen=True)
class FilmTask:
    """One film to cut into shots."""

    film: Path
    video_id: str
    settings: ExtractSettings
    threads: int  # that decode

    @property
    def store(self) -> Path:
        """The keyframe store to write."""
        return self.settings.output / f"{self.video_id}.h5"

    @property
    def store_settings(self) -> dict[str, Any]:
        """The settings that decide the content of the store, which are recorded in it."""
        return {key: getattr(self.settings, key) for key in ("detector", "keyframes", "lines", "quality")}

    def to_json(self) -> dict[str, Any]:
        """The task as plain JSON values."""
        settings = asdict(self.settings) | {"output": str(self.settings.output)}
        return {"film": str(self.film), "video_id": self.video_id, "settings": settings, "threads": self.threads}

    @classmethod
    def from_json(cls, task: Mapping[str, Any]) -> FilmTask:
        """The task of plain JSON values."""
        return cls(Path(task["film"]), task["video_id"], ExtractSettings(**task["settings"]), task["threads"])

    def finished(
        self, status: Literal["done", "kept"], shots: int, frames: int, duration: float, warnings: Sequence[str] = ()
    ) -> FilmResult:
        """The result where there is a store."""
        return FilmResult(self.video_id, self.film, self.store, status, shots, frames, duration, tuple(warnings))

    def failed(self, error: str) -> FilmResult:
        """The result where there is none."""
        return FilmResult(self.video_id, self.film, self.store, "failed", error=error)
