"""One film whose keyframes are extracted, and its child process: decodes it, cuts it into shots, writes the store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal

from pipelines.files import remove_partials
from pipelines.processes import Send
from pipelines.stages.extract_keyframes.settings import ExtractSettings, FilmResult
from pipelines.video.shots import ReaderSettings


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
        """The settings that decide the content of the store, which are recorded in it; without those not given."""
        names = ("detector", "detector_threshold", "min_shot", "keyframes", "lines", "quality")
        given = {name: getattr(self.settings, name) for name in names}
        given["start"], given["end"] = self.settings.part
        return {name: value for name, value in given.items() if value is not None}

    def to_json(self) -> dict[str, Any]:
        """The task as plain JSON values."""
        settings = asdict(self.settings) | {"output": str(self.settings.output)}
        return {"film": str(self.film), "video_id": self.video_id, "settings": settings, "threads": self.threads}

    @classmethod
    def from_json(cls, task: Mapping[str, Any]) -> FilmTask:
        """The task of plain JSON values."""
        return cls(Path(task["film"]), task["video_id"], ExtractSettings(**task["settings"]), task["threads"])

    def finished(self, fields: Mapping[str, Any], status: Literal["done", "kept"] = "done") -> FilmResult:
        """The result of a film whose store is written."""
        return FilmResult(self.video_id, self.film, self.store, status, **fields)

    def failed(self, error: str) -> FilmResult:
        """The result of a film that failed."""
        return FilmResult(self.video_id, self.film, self.store, "failed", error=error)

    def clean_up(self) -> None:
        """Remove a store that is not finished."""
        remove_partials(self.store)


def work(message: dict[str, Any], send: Send) -> None:
    """Read the film of a task, write its store; runs in the child process."""
    from pipelines.video.reader import FilmReader  # start-up time: av, which the parent process does without

    task = FilmTask.from_json(message)
    settings = task.settings
    reader = FilmReader(
        task.film,
        ReaderSettings(
            settings.detector,
            settings.detector_threshold,
            settings.min_shot,
            keyframes=settings.keyframes,
            lines=settings.lines,
            start=settings.part[0],
            end=settings.part[1],
            threads=task.threads,
        ),
        lambda done, total: send("progress", {"done": done, "total": total, "frames": reader.frames_read}),
    )
    shots = iter(reader)
    shots = chain([next(shots)], shots)  # starts the threads that decode
    from pipelines.stages.extract_keyframes import writing  # start-up time: h5py and PIL, while the threads decode

    try:
        writing.write_store(task, reader, shots)
    except writing.InexactError:
        work(replace(task, threads=1).to_json(), send)
    else:
        facts = reader.facts
        found = {"shots": reader.shots, "frames": facts.frames, "duration": facts.duration}
        send("end", found | {"warnings": reader.warnings})
